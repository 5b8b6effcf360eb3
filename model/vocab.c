/*
 * The vocabulary. The file is kept as one block, its line ends turned into NULs, with an array of
 * entries by id and a sorted list of (code point, id). Specials are few and are looked up in order.
 */
#include "model/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "model/formats/file.h"
#include "model/utf8.h"

enum { MAX_ENTRIES = 1 << 20, MAX_SPECIALS = 256, MAX_SPECIAL = 31 };

typedef struct entry {
    const char *text;
    uint32_t codepoint; /* 0 for a special */
} entry;

typedef struct character {
    uint32_t codepoint;
    int32_t id;
} character;

struct lx_vocab {
    char *block;
    int32_t n, n_characters, n_specials;
    entry *entries;        /* [n] by id */
    character *characters; /* [n_characters] ascending by code point */
    int32_t specials[MAX_SPECIALS];
};

/* <name> of lower-case letters, digits and '_'. */
static int is_special_text(const char *line, size_t n)
{
    if (n < 3 || n > MAX_SPECIAL || line[0] != '<' || line[n - 1] != '>')
        return 0;
    return strspn(line + 1, "abcdefghijklmnopqrstuvwxyz0123456789_") == n - 2;
}

static lx_status add_entry(lx_vocab *v, const char *line, size_t n, const char *label,
                           lx_error *err)
{
    int32_t id = v->n;
    size_t pos = 0;
    uint32_t codepoint = 0;
    if (is_special_text(line, n)) {
        if (v->n_specials == MAX_SPECIALS)
            return lx_fail(err, LX_ERR_FORMAT, NULL, "%s, line %d: more than %d specials", label,
                           id + 1, MAX_SPECIALS);
        if (lx_vocab_special(v, line) >= 0)
            return lx_fail(err, LX_ERR_FORMAT, NULL, "%s, line %d: %s is there twice", label,
                           id + 1, line);
        v->specials[v->n_specials++] = id;
    } else {
        int32_t c = n > 0 ? lx_utf8_next(line, n, &pos) : -1;
        if (c < 0x20 || (c >= 0x7f && c < 0xa0) || pos != n)
            return lx_fail(err, LX_ERR_FORMAT, NULL,
                           "%s, line %d: neither one character in UTF-8 nor a <name>", label,
                           id + 1);
        codepoint = (uint32_t)c;
        v->characters[v->n_characters++] = (character){codepoint, id};
    }
    v->entries[v->n++] = (entry){line, codepoint};
    return LX_OK;
}

static int compare_characters(const void *a, const void *b)
{
    uint32_t x = ((const character *)a)->codepoint, y = ((const character *)b)->codepoint;
    return (x > y) - (x < y);
}

static lx_status sort_characters(lx_vocab *v, const char *label, lx_error *err)
{
    if (v->n_characters > 0)
        qsort(v->characters, (size_t)v->n_characters, sizeof *v->characters, compare_characters);
    for (int32_t i = 1; i < v->n_characters; i++) {
        const character *a = &v->characters[i - 1], *b = &v->characters[i];
        if (a->codepoint == b->codepoint)
            return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: lines %d and %d are the same character",
                           label, (a->id < b->id ? a->id : b->id) + 1,
                           (a->id < b->id ? b->id : a->id) + 1);
    }
    return LX_OK;
}

static lx_status parse(lx_vocab *v, size_t n_bytes, const char *label, lx_error *err)
{
    size_t n_lines = 0;
    if (v->block[n_bytes - 1] != '\n')
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: the last line has no end", label);
    for (size_t i = 0; i < n_bytes; i++)
        n_lines += v->block[i] == '\n';
    if (n_lines > MAX_ENTRIES)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: %zu entries, at most %d are allowed", label,
                       n_lines, MAX_ENTRIES);
    v->entries = calloc(n_lines, sizeof *v->entries);
    v->characters = calloc(n_lines, sizeof *v->characters);
    if (v->entries == NULL || v->characters == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for %zu entries", label,
                       n_lines);
    char *end = v->block + n_bytes;
    for (char *line = v->block; line < end;) {
        char *newline = memchr(line, '\n', (size_t)(end - line));
        *newline = '\0';
        lx_status st = add_entry(v, line, (size_t)(newline - line), label, err);
        if (st != LX_OK)
            return st;
        line = newline + 1;
    }
    return sort_characters(v, label, err);
}

lx_status lx_vocab_read(char *bytes, size_t n, const char *label, lx_vocab **out, lx_error *err)
{
    lx_vocab *v = calloc(1, sizeof *v);
    if (v == NULL) {
        free(bytes);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for a vocabulary", label);
    }
    v->block = bytes;
    lx_status st = parse(v, n, label, err);
    if (st != LX_OK) {
        lx_vocab_free(v);
        return st;
    }
    *out = v;
    return LX_OK;
}

lx_status lx_vocab_load(const char *path, lx_vocab **out, lx_error *err)
{
    char *bytes = NULL;
    size_t n = 0;
    lx_status st = lx_file_read(path, LX_VOCAB_MAX_FILE, &bytes, &n, err);
    return st == LX_OK ? lx_vocab_read(bytes, n, lx_file_label(path), out, err) : st;
}

void lx_vocab_free(lx_vocab *v)
{
    if (v == NULL)
        return;
    free(v->block);
    free(v->entries);
    free(v->characters);
    free(v);
}

int32_t lx_vocab_size(const lx_vocab *v)
{
    return v->n;
}

const char *lx_vocab_text(const lx_vocab *v, int32_t id)
{
    return v->entries[id].text;
}

int32_t lx_vocab_char(const lx_vocab *v, uint32_t codepoint)
{
    character key = {codepoint, 0};
    if (v->n_characters == 0)
        return -1;
    const character *found = bsearch(&key, v->characters, (size_t)v->n_characters,
                                     sizeof *v->characters, compare_characters);
    return found != NULL ? found->id : -1;
}

int32_t lx_vocab_special(const lx_vocab *v, const char *name)
{
    for (int32_t i = 0; i < v->n_specials; i++) {
        const char *text = v->entries[v->specials[i]].text;
        if (text != NULL && strcmp(text, name) == 0)
            return v->specials[i];
    }
    return -1;
}

int lx_vocab_is_special(const lx_vocab *v, int32_t id)
{
    return v->entries[id].codepoint == 0;
}

uint32_t lx_vocab_codepoint(const lx_vocab *v, int32_t id)
{
    return v->entries[id].codepoint;
}
