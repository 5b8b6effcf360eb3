/*
 * RWKV World: at every byte the longest token that matches, by a trie. The file has a line per
 * token: ID LITERAL LENGTH. LITERAL is a literal of Python, of text ('\n\n', "it's") or of bytes
 * (b'\xe4\xb8'), LENGTH its bytes. Id 0 is not in the file: it ends a text. Every single byte must
 * be a token, so that any text can be written.
 */
#include <stdlib.h>
#include <string.h>

#include "common/hex.h"
#include "model/formats/file.h"
#include "model/tokenizers/internal.h"
#include "model/tokenizers/trie.h"
#include "model/utf8.h"

typedef struct world {
    lx_tokenizer base;
    lx_trie trie;
} world;

#define END_OF_TEXT "<|endoftext|>"

/* The line under the reader. */
typedef struct line {
    const char *label; /* the file */
    size_t number;     /* from 1 */
    const char *at, *end;
} line;

static lx_status encode(const lx_tokenizer *t, const char *text, const char *marks, size_t n,
                        unsigned flags, lx_token_list *out, lx_error *err)
{
    const world *w = (const world *)t;
    (void)flags, (void)marks, (void)err;
    for (size_t at = 0; at < n && out->status == LX_OK;) {
        size_t length = 1;
        lx_token_list_add(out, lx_trie_longest(&w->trie, text + at, n - at, &length));
        at += length;
    }
    return LX_OK;
}

static void fini(lx_tokenizer *t)
{
    lx_trie_fini(&((world *)t)->trie);
}

static const lx_tokenizer_family family = {
    .name = "world", .any_bytes = true, .encode = encode, .fini = fini};

/* --- reading a line --- */

static lx_status wrong(const line *l, const char *what, lx_error *err)
{
    return lx_fail(err, LX_ERR_FORMAT, NULL, "%s, line %zu: %s", l->label, l->number, what);
}

/* A number of 1 to `max`, or -1. */
static int32_t take_number(line *l, int32_t max)
{
    int32_t value = 0;
    const char *start = l->at;
    for (; l->at < l->end && *l->at >= '0' && *l->at <= '9' && value <= max; l->at++)
        value = 10 * value + (*l->at - '0');
    return l->at == start || value < 1 || value > max ? -1 : value;
}

/* The value of n hexadecimal digits, -1 when they are not. */
static int32_t take_hex(line *l, int n)
{
    int32_t value = 0;
    for (int i = 0; i < n; i++, l->at++) {
        int digit = l->at < l->end ? lx_hex_digit(*l->at) : -1;
        if (digit < 0 || value > 0x10ffff)
            return -1;
        value = 16 * value + digit;
    }
    return value;
}

/* Writes the character of an escape, after its backslash; returns its bytes, 0 when it is no
 * escape. */
static size_t take_escape(line *l, bool of_bytes, char *out)
{
    static const char letters[] = "ntr\\'\"0abfv", values[] = "\n\t\r\\'\"\0\a\b\f\v";
    char c = l->at < l->end ? *l->at++ : '\0';
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;
    if (letter != NULL) {
        *out = values[letter - letters];
        return 1;
    }
    int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0 || (of_bytes && c != 'x'))
        return 0;
    int32_t value = take_hex(l, digits);
    if (value < 0 || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    if (!of_bytes)
        return lx_utf8_put((uint32_t)value, out);
    *out = (char)value;
    return 1;
}

/* The inside of a literal of Python, up to `quote` or, where that is 0, to the end, into
   out[LX_TOKENIZER_MAX_TOKEN + 4]; its bytes, 0 for an error. */
static size_t take_inside(line *l, bool of_bytes, char quote, char *out)
{
    size_t n = 0;
    while (l->at < l->end && (quote == '\0' || *l->at != quote) && n < LX_TOKENIZER_MAX_TOKEN) {
        if (*l->at != '\\') {
            out[n++] = *l->at++;
            continue;
        }
        l->at++;
        size_t k = take_escape(l, of_bytes, out + n);
        if (k == 0)
            return 0;
        n += k;
    }
    return n;
}

/* A literal of Python, as take_inside. */
static size_t take_literal(line *l, char *out)
{
    bool of_bytes = l->at < l->end && *l->at == 'b';
    l->at += of_bytes;
    char quote = l->at < l->end ? *l->at++ : '\0';
    if (quote != '\'' && quote != '"')
        return 0;
    size_t n = take_inside(l, of_bytes, quote, out);
    return l->at < l->end && *l->at++ == quote ? n : 0;
}

static lx_status add_token(world *w, const line *l, int32_t id, const char *token, size_t n,
                           lx_error *err)
{
    size_t known;
    if (lx_texts_get(&w->base.pieces, id, &known) != NULL)
        return wrong(l, "the id was there before", err);
    if (lx_trie_add(&w->trie, token, n, id) >= 0)
        return wrong(l, "the token was there before", err);
    return lx_texts_set(&w->base.pieces, id, token, n, err);
}

static lx_status read_line(world *w, line *l, lx_error *err)
{
    char token[LX_TOKENIZER_MAX_TOKEN + 4];
    int32_t id = take_number(l, w->base.pieces.n - 1);
    if (id < 0 || l->at == l->end || *l->at++ != ' ')
        return wrong(l, "does not begin with an id from 1 and a blank", err);
    size_t n = take_literal(l, token);
    if (n == 0 || n > LX_TOKENIZER_MAX_TOKEN)
        return wrong(l, "holds no literal of 1 to 1,024 bytes as Python writes it", err);
    if (l->at == l->end || *l->at++ != ' ' ||
        take_number(l, LX_TOKENIZER_MAX_TOKEN) != (int32_t)n || l->at != l->end)
        return wrong(l, "does not end with the length of its literal in bytes", err);
    return add_token(w, l, id, token, n, err);
}

/* --- reading the file --- */

/* After the last token: every byte must be one, and token 0 ends a text. */
static lx_status finish(world *w, const char *label, lx_error *err)
{
    for (int byte = 0; byte < 256; byte++) {
        uint32_t node = w->trie.root[byte];
        if (node == 0 || w->trie.values[node] < 0)
            return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: the byte 0x%02x is no token", label,
                           (unsigned)byte);
    }
    w->base.specials[0] = 1;
    lx_status st = lx_texts_set(&w->base.pieces, 0, END_OF_TEXT, strlen(END_OF_TEXT), err);
    return st == LX_OK ? lx_texts_index(&w->base.pieces, err) : st;
}

static lx_status read_lines(world *w, const char *text, size_t n, const char *label, lx_error *err)
{
    const char *end = text + n;
    line l = {.label = label};
    for (const char *at = text; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        l.number++;
        l.at = at;
        l.end = newline != NULL ? newline : end;
        at = newline != NULL ? newline + 1 : end;
        if (l.end > l.at && l.end[-1] == '\r')
            l.end--;
        lx_status st = read_line(w, &l, err);
        if (st != LX_OK)
            return st;
    }
    return LX_OK;
}

/* The highest number that begins a line; over the limit as soon as one is. */
static int32_t highest_id(const char *text, size_t n, const char *label)
{
    int32_t highest = 0;
    line l = {.label = label, .at = text, .end = text + n};
    while (l.at < l.end && highest < LX_TOKENIZER_MAX_IDS) {
        int32_t id = take_number(&l, LX_TOKENIZER_MAX_IDS);
        const char *newline = memchr(l.at, '\n', (size_t)(l.end - l.at));
        l.at = newline != NULL ? newline + 1 : l.end;
        highest = id > highest ? id : highest;
    }
    return highest;
}

static lx_status parse(world *w, const char *text, size_t n, const char *label, lx_error *err)
{
    int32_t highest = highest_id(text, n, label);
    if (highest >= LX_TOKENIZER_MAX_IDS)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: an id is over %d", label,
                       LX_TOKENIZER_MAX_IDS - 1);
    lx_status st = lx_tokenizer_init(&w->base, &family, highest + 1, err);
    if (st == LX_OK)
        st = lx_trie_init(&w->trie, n, err);
    if (st == LX_OK)
        st = read_lines(w, text, n, label, err);
    return st == LX_OK ? finish(w, label, err) : st;
}

lx_status lx_world_load(const char *path, lx_tokenizer **out, lx_error *err)
{
    size_t n = 0;
    char *text = NULL;
    world *w = calloc(1, sizeof *w);
    if (w == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a tokenizer");
    w->base.family = &family;
    lx_status st = lx_file_read(path, LX_TOKENIZER_MAX_FILE, &text, &n, err);
    if (st == LX_OK)
        st = parse(w, text, n, lx_file_label(path), err);
    free(text);
    if (st != LX_OK) {
        lx_tokenizer_free(&w->base);
        return st;
    }
    *out = &w->base;
    return LX_OK;
}

static lx_status add_literals(world *w, int32_t n, lx_tokenizer_literal *literal,
                              const void *context, const char *label, lx_error *err)
{
    char token[LX_TOKENIZER_MAX_TOKEN + 4];
    lx_status st = LX_OK;
    for (int32_t id = 1; id < n && st == LX_OK; id++) {
        size_t n_literal = 0;
        const char *text = literal(context, id, &n_literal);
        if (text == NULL)
            continue;
        line l = {label, (size_t)id, text, text + n_literal};
        size_t n_token = take_inside(&l, true, '\0', token);
        if (n_token == 0 || n_token > LX_TOKENIZER_MAX_TOKEN || l.at != l.end)
            st = lx_fail(err, LX_ERR_FORMAT, NULL,
                         "%s: token %d is no text of 1 to 1,024 bytes as Python writes it", label,
                         id);
        else
            st = add_token(w, &l, id, token, n_token, err);
    }
    return st == LX_OK ? finish(w, label, err) : st;
}

lx_status lx_tokenizer_from_literals(int32_t n, lx_tokenizer_literal *literal, const void *context,
                                     const char *label, lx_tokenizer **out, lx_error *err)
{
    size_t n_bytes = 0;
    world *w = calloc(1, sizeof *w);
    if (w == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a tokenizer");
    for (int32_t id = 1; id < n; id++) {
        size_t n_literal = 0;
        n_bytes += literal(context, id, &n_literal) != NULL ? n_literal : 0;
    }
    lx_status st = lx_tokenizer_init(&w->base, &family, n, err);
    if (st == LX_OK)
        st = lx_trie_init(&w->trie, n_bytes, err);
    if (st == LX_OK)
        st = add_literals(w, n, literal, context, label, err);
    if (st != LX_OK) {
        lx_tokenizer_free(&w->base);
        return st;
    }
    *out = &w->base;
    return LX_OK;
}
