/* Unicode's tables are libunistring's, which sorts a text's marks by merging. */
#include "model/tokenizers/unicode.h"

#include <stdlib.h>
#include <unictype.h>
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
