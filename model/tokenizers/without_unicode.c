/* In place of unicode.c where LINNET_UNICODE is off. No tokenizer that is read comes past the
 * check. */
#include "common/features.h"
#include "model/tokenizers/unicode.h"

lx_status lx_unicode_check(const char *field, lx_error *err)
{
    return lx_fail(err, LX_ERR_UNSUPPORTED, NULL,
                   "%s: " LX_WITHOUT("the tables of Unicode", "LINNET_UNICODE"), field);
}

bool lx_unicode_is_word(uint32_t c)
{
    (void)c;
    return false;
}

bool lx_unicode_is_space(uint32_t c)
{
    (void)c;
    return false;
}

bool lx_unicode_is_mark(uint32_t c)
{
    (void)c;
    return false;
}

int lx_unicode_lower(uint32_t c, uint32_t out[2])
{
    out[0] = c;
    return 1;
}

size_t lx_unicode_cluster_end(const char *text, size_t n, size_t at)
{
    (void)text;
    (void)at;
    return n;
}

void lx_unicode_normalize(lx_unicode_form form, const char *text, size_t n, lx_buffer *out)
{
    (void)form;
    (void)text;
    (void)n;
    out->status = LX_ERR_UNSUPPORTED;
}
