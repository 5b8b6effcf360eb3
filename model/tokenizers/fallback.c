/*
 * BPE over characters with a fallback: a word's symbols are its characters. One that is no token
 * becomes byte tokens <0xNN>, where the file says so and has them, otherwise the unknown token,
 * neighbours as one where the file says so. (Llama, Mistral: SentencePiece's BPE.)
 */
#include "model/tokenizers/hugging_face.h"
#include "model/utf8.h"

/* Whether all bytes of a character have a token of their own; adds them. */
static bool add_bytes(const lx_hugging_face *h, const char *text, size_t n, lx_word *w)
{
    for (size_t i = 0; i < n; i++)
        if (h->byte_ids[(unsigned char)text[i]] < 0)
            return false;
    for (size_t i = 0; i < n; i++)
        lx_word_add(w, h->byte_ids[(unsigned char)text[i]]);
    return true;
}

lx_status lx_fallback_symbols(const lx_hugging_face *h, const char *text, size_t n, lx_word *w,
                              lx_error *err)
{
    int n_unknown = 0; /* 1 while an unknown token waits, which the next known character ends */
    for (size_t at = 0, start = 0; at < n; start = at) {
        int32_t c = lx_utf8_next(text, n, &at);
        int32_t id = lx_texts_find(&h->names, text + start, at - start);
        if (id < 0 && h->byte_fallback && add_bytes(h, text + start, at - start, w))
            continue;
        if (id < 0 && h->unknown < 0)
            return lx_fail(err, LX_ERR_INVALID, NULL, "the vocabulary has no token for U+%04X",
                           (unsigned)c);
        if (n_unknown > 0 && (id >= 0 || !h->fuse_unknown)) {
            lx_word_add(w, h->unknown);
            n_unknown = 0;
        }
        if (id >= 0)
            lx_word_add(w, id);
        else
            n_unknown = 1;
    }
    if (n_unknown > 0)
        lx_word_add(w, h->unknown);
    return LX_OK;
}
