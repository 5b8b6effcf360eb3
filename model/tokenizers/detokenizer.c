/*
 * Ids to bytes, and bytes to whole characters. A detokenizer holds back at most three bytes: the
 * longest beginning of a character. The output does not depend on the cuts between the tokens.
 */
#include <string.h>

#include "model/tokenizers/internal.h"

/* --- tokens to bytes --- */

void lx_detokenizer_init(lx_detokenizer *d, const lx_tokenizer *t, unsigned flags)
{
    bool fresh = (flags & LX_DECODE_CONTINUES) == 0;
    *d = (lx_detokenizer){.t = t, .flags = flags, .started = !fresh, .strip = fresh ? t->strip : 0};
}

/* The bytes of the next token; *n is 0 for one that puts nothing out. */
static lx_status next_bytes(lx_detokenizer *d, int32_t id, const char **bytes, size_t *n,
                            lx_error *err)
{
    const lx_tokenizer *t = d->t;
    if (id < 0 || id >= t->pieces.n)
        return lx_fail(err, LX_ERR_INVALID, NULL, "token %d is not one of 0 to %d", id,
                       t->pieces.n - 1);
    *n = 0;
    bool shown = (d->flags & LX_DECODE_SPECIALS) != 0 || t->specials[id] == 0;
    *bytes = shown ? lx_texts_get(&t->pieces, id, n) : NULL;
    if (*bytes == NULL)
        return LX_OK;
    if (!d->started && t->family->first != NULL)
        *bytes = t->family->first(t, id, n);
    d->started = true;
    for (; d->strip > 0 && *n > 0 && **bytes == ' '; d->strip--) {
        (*bytes)++;
        (*n)--;
    }
    if (*n > 0)
        d->strip = 0;
    return LX_OK;
}

lx_status lx_tokenizer_decode(const lx_tokenizer *t, const int32_t *ids, size_t n, unsigned flags,
                              lx_buffer *out, lx_error *err)
{
    lx_detokenizer d;
    lx_detokenizer_init(&d, t, flags);
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes;
        const char *bytes;
        lx_status st = next_bytes(&d, ids[i], &bytes, &n_bytes, err);
        if (st != LX_OK)
            return st;
        lx_buffer_append(out, bytes, n_bytes);
    }
    if (out->status != LX_OK)
        return lx_fail(err, out->status, NULL, "the text of %zu tokens: %s", n,
                       lx_status_text(out->status));
    return LX_OK;
}

/* --- bytes to characters --- */

/* Bytes of a character by its first one, 0 for a byte that begins none. */
static size_t length_of(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Whether `byte` can come second after `first`: no overlong forms, surrogates, over U+10FFFF. */
static bool second_fits(unsigned char first, unsigned char byte)
{
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return byte >= low && byte <= high;
}

static void put(lx_buffer *out, const void *bytes, size_t n)
{
    if (out != NULL)
        lx_buffer_append(out, bytes, n);
}

static void put_replacement(lx_buffer *out)
{
    put(out, "\xef\xbf\xbd", 3);
}

static void put_byte(lx_detokenizer *d, unsigned char byte, lx_buffer *out)
{
    if (d->n_held > 0) {
        bool fits = d->n_held == 1 ? second_fits(d->held[0], byte) : (byte & 0xc0) == 0x80;
        if (fits) {
            d->held[d->n_held++] = byte;
            if (d->n_held == length_of(d->held[0])) {
                put(out, d->held, d->n_held);
                d->n_held = 0;
            }
            return;
        }
        put_replacement(out);
        d->n_held = 0;
    }
    size_t length = length_of(byte);
    if (length == 0)
        put_replacement(out);
    else if (length == 1)
        put(out, &byte, 1);
    else
        d->held[d->n_held++] = byte;
}

lx_status lx_detokenizer_push(lx_detokenizer *d, int32_t id, lx_buffer *out, lx_error *err)
{
    const char *bytes;
    size_t n;
    lx_status st = next_bytes(d, id, &bytes, &n, err);
    for (size_t i = 0; st == LX_OK && i < n; i++)
        put_byte(d, (unsigned char)bytes[i], out);
    return st;
}

void lx_detokenizer_resume(lx_detokenizer *d, const lx_tokenizer *t, unsigned flags,
                           const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    lx_detokenizer_init(d, t, flags | LX_DECODE_CONTINUES);
    for (size_t i = n > 3 ? n - 3 : 0; i < n; i++)
        put_byte(d, b[i], NULL);
}

void lx_detokenizer_finish(lx_detokenizer *d, lx_buffer *out)
{
    if (d->n_held > 0)
        put_replacement(out);
    d->n_held = 0;
}
