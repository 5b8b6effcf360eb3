/*
 * Unicode's tables, as tokenizers need them: normal forms and classes of characters. A build may
 * leave them out (LINNET_UNICODE); a tokenizer that needs them is then refused when it is read.
 * Thread: any.
 */
#ifndef LINNET_MODEL_TOKENIZERS_UNICODE_H
#define LINNET_MODEL_TOKENIZERS_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"

typedef enum lx_unicode_form {
    LX_UNICODE_NFC,
    LX_UNICODE_NFD,
    LX_UNICODE_NFKC,
    LX_UNICODE_NFKD,
} lx_unicode_form;

/* LX_OK, or LX_ERR_UNSUPPORTED in a build without the tables; `field` of the tokenizer needs them.
 */
lx_status lx_unicode_check(const char *field, lx_error *err) LX_MUST_USE;

/* Whether c is a character of a word, as the `tokenizers` library has it: a letter, mark, decimal
   digit, connector or joiner. */
bool lx_unicode_is_word(uint32_t c);
bool lx_unicode_is_space(uint32_t c);

/* Whether c is a mark (general category M). */
bool lx_unicode_is_mark(uint32_t c);

/* The lower case of c without its neighbours; 1 or 2 characters into out. */
int lx_unicode_lower(uint32_t c, uint32_t out[2]);

/* The end of the extended grapheme cluster that begins at text[at], at < n. The text is UTF-8. */
size_t lx_unicode_cluster_end(const char *text, size_t n, size_t at);

/* Appends text[n] in a normal form. Its time is bounded for any text. out->status says what went
   wrong. */
void lx_unicode_normalize(lx_unicode_form form, const char *text, size_t n, lx_buffer *out);

#endif
