/* Base64 (RFC 4648, section 4): the alphabet with + and /, padded. */
#ifndef LINNET_COMMON_BASE64_H
#define LINNET_COMMON_BASE64_H

#include <stdint.h>

#include "common/buffer.h"

/* Appends the text of n bytes. */
void lx_base64_append(const void *bytes, size_t n, lx_buffer *out);

/* Strict: no white space, the padding is there, the bits it leaves over are 0. *out is malloc'ed,
   also when it has 0 bytes. LX_ERR_INVALID with `param`. */
lx_status lx_base64_decode(const char *text, size_t n, const char *param, uint8_t **out,
                           size_t *bytes, lx_error *err) LX_MUST_USE;

#endif
