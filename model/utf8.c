/*
 * Strict UTF-8, one code point at a time. The first byte gives the length and the smallest value a
 * sequence of that length may stand for; the rest is checked once the bits are together.
 */
#include "model/utf8.h"

/* Length of a sequence by its first byte; 0 for a byte that cannot begin one. */
static size_t sequence_length(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef)
        return 3;
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

int32_t lx_utf8_next(const char *text, size_t n, size_t *pos)
{
    static const int32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)text + *pos;
    size_t length = sequence_length(bytes[0]);
    if (length == 0 || length > n - *pos)
        return -1;
    int32_t c = length == 1 ? bytes[0] : bytes[0] & (0x7f >> length);
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return -1;
        c = c << 6 | (bytes[i] & 0x3f);
    }
    if (c < smallest[length] || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
        return -1;
    *pos += length;
    return c;
}

size_t lx_utf8_put(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(lead[length] | c);
    return length;
}
