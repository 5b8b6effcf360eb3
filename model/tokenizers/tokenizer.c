/* The generic part: the checks that every family wants before it encodes, lists of ids. */
#include "model/tokenizers/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* --- life --- */

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

/* --- the tokens --- */

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
