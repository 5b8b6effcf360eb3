/* Strict UTF-8 (no overlong forms, surrogates or values above U+10FFFF). */
#ifndef LINNET_MODEL_UTF8_H
#define LINNET_MODEL_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decodes one code point at text[*pos], *pos < n, and moves *pos past it. -1 when malformed; then
 *pos stays, so a loop must move it or end. */
int32_t lx_utf8_next(const char *text, size_t n, size_t *pos);

/* Writes 1 to 4 bytes and returns how many; out has room for 4. No NUL is written. */
size_t lx_utf8_put(uint32_t codepoint, char *out);

#endif
