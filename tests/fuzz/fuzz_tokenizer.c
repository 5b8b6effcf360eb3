/*
 * Files of tokenizers, and text for an accepted one: the file up to the first NUL, then the text,
 * also as one whose parts are a client's and ours in turn.
 * Ids are in range, token by token gives the same characters as all at once, and every token has a
 * text or none.
 */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizers/tokenizer.h"
#include "tests/fuzz/subject.h"

enum { MAX_OUT = 1 << 24 };

static void check_decoding(const lx_tokenizer *t, const lx_token_list *ids)
{
    lx_buffer whole, streamed;
    lx_detokenizer d;
    lx_buffer_init(&whole, MAX_OUT);
    lx_buffer_init(&streamed, MAX_OUT);
    lx_detokenizer_init(&d, t, LX_DECODE_SPECIALS);
    MUST(lx_tokenizer_decode(t, ids->ids, ids->n, LX_DECODE_SPECIALS, &whole, NULL) == LX_OK);
    for (size_t i = 0; i < ids->n; i++) {
        MUST(ids->ids[i] >= 0 && ids->ids[i] < lx_tokenizer_size(t));
        MUST(lx_detokenizer_push(&d, ids->ids[i], &streamed, NULL) == LX_OK);
        MUST(d.n_held < sizeof d.held);
    }
    lx_detokenizer_finish(&d, &streamed);
    MUST(streamed.status == LX_OK && streamed.length <= 3 * whole.length);
    lx_buffer_fini(&whole);
    lx_buffer_fini(&streamed);
}

static void check_tokens(const lx_tokenizer *t)
{
    size_t n;
    int32_t size = lx_tokenizer_size(t);
    for (int32_t id = 0; id < size && id < 1000; id++)
        MUST(lx_tokenizer_token(t, id, &n) != NULL || n == 0);
    MUST(lx_tokenizer_token(t, size, &n) == NULL && lx_tokenizer_token(t, -1, &n) == NULL);
}

/* `marks`: NULL, or those of text[n]. */
static void check_text(const lx_tokenizer *t, const char *text, const char *marks, size_t n)
{
    lx_token_list ids;
    lx_error err = {0};
    lx_token_list_init(&ids, 1 << 20);
    lx_status st = lx_tokenizer_encode_marked(t, text, marks, n, LX_ENCODE_TEMPLATE, &ids, &err);
    if (st == LX_OK)
        check_decoding(t, &ids);
    else
        MUST(st == LX_ERR_INVALID || st == LX_ERR_TOO_LARGE);
    lx_token_list_fini(&ids);
}

static void check_marked_text(const lx_tokenizer *t, const char *text, size_t n)
{
    enum { PART = 5 };
    char *marks = malloc(n + 1);
    for (size_t i = 0; marks != NULL && i < n; i++)
        marks[i] = (char)(i / PART % 2);
    if (marks != NULL)
        check_text(t, text, marks, n);
    free(marks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    lx_tokenizer *t = NULL;
    lx_error err = {0};
    const uint8_t *nul = n > 0 ? memchr(data, 0, n) : NULL;
    size_t n_file = nul != NULL ? (size_t)(nul - data) : n;
    const uint8_t *text = nul != NULL ? nul + 1 : data;
    lx_status st = lx_tokenizer_load_file(subject_file(data, n_file), &t, &err);
    if (st != LX_OK) {
        subject_check_error(st, &err);
        return 0;
    }
    check_tokens(t);
    check_text(t, (const char *)text, NULL, (size_t)(data + n - text));
    check_marked_text(t, (const char *)text, (size_t)(data + n - text));
    lx_tokenizer_free(t);
    return 0;
}
