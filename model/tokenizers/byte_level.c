/*
 * Byte-level BPE: a word's symbols are its bytes. The file writes bytes as letters, those that can
 * be printed as themselves and the others as U+0100 and on; here they stay bytes, and a table leads
 * from a byte to its token.
 *
 * Source: Radford et al. 2019 (GPT-2).
 */
#include "model/tokenizers/hugging_face.h"
#include "model/utf8.h"

static bool is_itself(unsigned char byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

uint32_t lx_byte_letter(unsigned char byte)
{
    /* Bytes 0 .. 0x20, 0x7f .. 0xa0 and 0xad have the letters from U+0100, in this order. */
    if (is_itself(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    return byte == 0xad ? 0x143 : 0x121u + (byte - 0x7fu);
}

int lx_letter_byte(uint32_t c)
{
    if (c < 0x100)
        return is_itself((unsigned char)c) ? (int)c : -1;
    if (c <= 0x120)
        return (int)c - 0x100;
    if (c <= 0x142)
        return (int)c - 0x121 + 0x7f;
    return c == 0x143 ? 0xad : -1;
}

int32_t lx_byte_level_find(const lx_hugging_face *h, const char *text, size_t n)
{
    char letters[2 * LX_TOKENIZER_MAX_TOKEN];
    size_t k = 0;
    if (n > LX_TOKENIZER_MAX_TOKEN)
        return -1;
    for (size_t i = 0; i < n; i++)
        k += lx_utf8_put(lx_byte_letter((unsigned char)text[i]), letters + k);
    return lx_texts_find(&h->names, letters, k);
}

/* The reader has seen to it that every byte has a token. */
lx_status lx_byte_level_symbols(const lx_hugging_face *h, const char *text, size_t n, lx_word *w,
                                lx_error *err)
{
    (void)err;
    for (size_t i = 0; i < n; i++)
        lx_word_add(w, h->byte_ids[(unsigned char)text[i]]);
    return LX_OK;
}
