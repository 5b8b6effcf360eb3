/* Unicode's tables are libunistring's, which sorts a text's marks by merging. */
#include "model/tokenizers/unicode.h"

#include <stdlib.h>
#include <unicase.h>
#include <unictype.h>
#include <unigbrk.h>
#include <uninorm.h>

lx_status lx_unicode_check(const char *field, lx_error *err)
{
    (void)field;
    (void)err;
    return LX_OK;
}

bool lx_unicode_is_word(uint32_t c)
{
    const uint32_t categories = UC_CATEGORY_MASK_M | UC_CATEGORY_MASK_Nd | UC_CATEGORY_MASK_Pc;
    return uc_is_property_alphabetic(c) || uc_is_general_category_withtable(c, categories) ||
           uc_is_property_join_control(c);
}

bool lx_unicode_is_space(uint32_t c)
{
    return uc_is_property_white_space(c);
}

bool lx_unicode_is_mark(uint32_t c)
{
    return uc_is_general_category_withtable(c, UC_CATEGORY_MASK_M);
}

/* Of single characters only U+0130 has a lower case of two. */
int lx_unicode_lower(uint32_t c, uint32_t out[2])
{
    out[0] = c == 0x130 ? 'i' : uc_tolower(c);
    out[1] = 0x307;
    return c == 0x130 ? 2 : 1;
}

size_t lx_unicode_cluster_end(const char *text, size_t n, size_t at)
{
    const uint8_t *bytes = (const uint8_t *)text;
    /* A break stands before any ASCII character but the second one of "\r\n". */
    bool ascii = bytes[at] < 0x80 && (at + 1 == n || bytes[at + 1] < 0x80);
    if (ascii && bytes[at] != '\r')
        return at + 1;
    return (size_t)(u8_grapheme_next(bytes + at, bytes + n) - bytes);
}

void lx_unicode_normalize(lx_unicode_form form, const char *text, size_t n, lx_buffer *out)
{
    uninorm_t wanted = form == LX_UNICODE_NFC    ? UNINORM_NFC
                       : form == LX_UNICODE_NFD  ? UNINORM_NFD
                       : form == LX_UNICODE_NFKC ? UNINORM_NFKC
                                                 : UNINORM_NFKD;
    size_t n_done = 0;
    uint8_t *done = u8_normalize(wanted, (const uint8_t *)text, n, NULL, &n_done);
    if (done == NULL)
        out->status = LX_ERR_NO_MEMORY;
    else
        lx_buffer_append(out, done, n_done);
    free(done);
}
