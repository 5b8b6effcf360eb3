/* Bytes as tokens: 256 ids, the id is the byte. There are no special tokens and no template. */
#include <stdlib.h>

#include "model/tokenizers/internal.h"

enum { N_BYTES = 256 };

static lx_status encode(const lx_tokenizer *t, const char *text, const char *marks, size_t n,
                        unsigned flags, lx_token_list *out, lx_error *err)
{
    (void)t, (void)flags, (void)marks, (void)err;
    for (size_t i = 0; i < n; i++)
        lx_token_list_add(out, (unsigned char)text[i]);
    return LX_OK;
}

static const lx_tokenizer_family family = {.name = "bytes", .any_bytes = true, .encode = encode};

lx_status lx_tokenizer_new_bytes(lx_tokenizer **out, lx_error *err)
{
    lx_tokenizer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a tokenizer");
    lx_status st = lx_tokenizer_init(t, &family, N_BYTES, err);
    for (int32_t id = 0; st == LX_OK && id < N_BYTES; id++) {
        char byte = (char)id;
        st = lx_texts_set(&t->pieces, id, &byte, 1, err);
    }
    if (st == LX_OK)
        st = lx_texts_index(&t->pieces, err);
    if (st != LX_OK) {
        lx_tokenizer_free(t);
        return st;
    }
    *out = t;
    return LX_OK;
}
