/*
 * The generic part: which reader a file needs, the checks that every family wants before it
 * encodes, lists of ids.
 */
#include "model/tokenizers/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/formats/file.h"
#include "model/tokenizers/internal.h"
#include "model/utf8.h"

/* --- lists --- */

void lx_token_list_init(lx_token_list *list, size_t max)
{
    *list = (lx_token_list){.max = max};
}

static void grow(lx_token_list *list)
{
    size_t capacity = list->capacity < 64 ? 64 : 2 * list->capacity;
    int32_t *ids = realloc(list->ids, capacity * sizeof *ids);
    if (ids == NULL) {
        list->status = LX_ERR_NO_MEMORY;
        return;
    }
    list->ids = ids;
    list->capacity = capacity;
}

void lx_token_list_add(lx_token_list *list, int32_t id)
{
    if (list->status == LX_OK && list->n == list->max)
        list->status = LX_ERR_TOO_LARGE;
    if (list->status == LX_OK && list->n == list->capacity)
        grow(list);
    if (list->status == LX_OK)
        list->ids[list->n++] = id;
}

void lx_token_list_fini(lx_token_list *list)
{
    free(list->ids);
    lx_token_list_init(list, list->max);
}

/* --- loading --- */

lx_status lx_tokenizer_init(lx_tokenizer *t, const lx_tokenizer_family *family, int32_t n,
                            lx_error *err)
{
    t->family = family;
    t->specials = calloc((size_t)n + 1, sizeof *t->specials);
    if (t->specials == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d tokens", n);
    return lx_texts_init(&t->pieces, n, err);
}

void lx_tokenizer_free(lx_tokenizer *t)
{
    if (t == NULL)
        return;
    if (t->family != NULL && t->family->fini != NULL)
        t->family->fini(t);
    lx_texts_fini(&t->pieces);
    free(t->specials);
    free(t);
}

enum { HEAD_BYTES = 16 };

/* The first bytes that are not blank, as a string. */
static lx_status read_head(const char *path, char *head, lx_error *err)
{
    int fd = -1;
    size_t size = 0;
    char bytes[256];
    lx_status st = lx_file_open(path, LX_TOKENIZER_MAX_FILE, &fd, &size, err);
    if (st != LX_OK)
        return st;
    ssize_t n = read(fd, bytes, sizeof bytes - 1);
    (void)close(fd);
    if (n < 0)
        return lx_fail(err, LX_ERR_IO, NULL, "%s: cannot be read", lx_file_label(path));
    bytes[n] = '\0';
    (void)snprintf(head, HEAD_BYTES, "%s", bytes + strspn(bytes, " \t\r\n"));
    return LX_OK;
}

/* "1 '\x00' 1": a number, a blank, a literal of Python. */
static bool is_world(const char *head)
{
    size_t digits = strspn(head, "0123456789");
    const char *literal = head + digits + 1;
    if (digits == 0 || head[digits] != ' ')
        return false;
    literal += *literal == 'b';
    return *literal == '\'' || *literal == '"';
}

lx_status lx_tokenizer_load_file(const char *path, lx_tokenizer **out, lx_error *err)
{
    char head[HEAD_BYTES];
    lx_status st = read_head(path, head, err);
    if (st != LX_OK)
        return st;
    if (head[0] == '{')
        return lx_hugging_face_load(path, out, err);
    return (is_world(head) ? lx_world_load : lx_characters_load)(path, out, err);
}

lx_status lx_tokenizer_load(const char *folder, lx_tokenizer **out, lx_error *err)
{
    static const char *const names[] = {"tokenizer.json", "rwkv_vocab_v20230424.txt", "vocab.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4096];
        int n = snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (n < 0 || (size_t)n >= sizeof path)
            return lx_fail(err, LX_ERR_INVALID, NULL, "%s: the path is too long",
                           lx_file_label(folder));
        lx_status st = lx_tokenizer_load_file(path, out, err);
        if (st != LX_ERR_NOT_FOUND)
            return st;
    }
    return lx_fail(err, LX_ERR_NOT_FOUND, NULL,
                   "%s: no tokenizer.json, rwkv_vocab_v20230424.txt or vocab.txt",
                   lx_file_label(folder));
}

/* --- what it holds --- */

const char *lx_tokenizer_family_name(const lx_tokenizer *t)
{
    return t->family->name;
}

int32_t lx_tokenizer_size(const lx_tokenizer *t)
{
    return t->pieces.n;
}

const char *lx_tokenizer_token(const lx_tokenizer *t, int32_t id, size_t *n_bytes)
{
    *n_bytes = 0;
    return id >= 0 && id < t->pieces.n ? lx_texts_get(&t->pieces, id, n_bytes) : NULL;
}

bool lx_tokenizer_is_special(const lx_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->pieces.n && t->specials[id] != 0;
}

int32_t lx_tokenizer_find(const lx_tokenizer *t, const char *name)
{
    return t->family->find != NULL ? t->family->find(t, name)
                                   : lx_texts_find(&t->pieces, name, strlen(name));
}

/* --- encoding --- */

static lx_status check_utf8(const char *text, size_t n, lx_error *err)
{
    for (size_t at = 0; at < n;)
        if (lx_utf8_next(text, n, &at) < 0)
            return lx_fail(err, LX_ERR_INVALID, NULL, "the text is not UTF-8 at byte %zu", at);
    return LX_OK;
}

lx_status lx_tokenizer_encode(const lx_tokenizer *t, const char *text, size_t n, unsigned flags,
                              lx_token_list *out, lx_error *err)
{
    return lx_tokenizer_encode_marked(t, text, NULL, n, flags, out, err);
}

lx_status lx_tokenizer_encode_marked(const lx_tokenizer *t, const char *text, const char *marks,
                                     size_t n, unsigned flags, lx_token_list *out, lx_error *err)
{
    if (n > LX_TOKENIZER_MAX_TEXT)
        return lx_fail(err, LX_ERR_TOO_LARGE, NULL,
                       "the text has %zu bytes, at most %d are encoded at once", n,
                       LX_TOKENIZER_MAX_TEXT);
    lx_status st = t->family->any_bytes ? LX_OK : check_utf8(text, n, err);
    if (st == LX_OK)
        st = t->family->encode(t, text, marks, n, flags, out, err);
    if (st == LX_OK && out->status == LX_ERR_TOO_LARGE)
        return lx_fail(err, LX_ERR_TOO_LARGE, NULL, "the text has more than %zu tokens", out->max);
    if (st == LX_OK && out->status != LX_OK)
        return lx_fail(err, out->status, NULL, "no memory for %zu tokens", out->n);
    return st;
}
