#include "common/visible.h"

#include <stdarg.h>

/* Bytes of the well-formed UTF-8 character at s, 0 when there is none. */
static size_t character_bytes(const unsigned char *s)
{
    static const unsigned char first_min[] = {0, 0x00, 0xc2, 0xe0, 0xf0, 0xf5};
    size_t n = 1;
    while (n < 5 && *s >= first_min[n + 1])
        n++;
    if (*s < 0x80)
        return 1;
    if (*s < 0xc2 || n > 4)
        return 0;
    bool overlong = (*s == 0xe0 && s[1] < 0xa0) || (*s == 0xf0 && s[1] < 0x90);
    bool beyond = (*s == 0xed && s[1] > 0x9f) || (*s == 0xf4 && s[1] > 0x8f);
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return overlong || beyond ? 0 : n;
}

/* Unicode's Bidi_Control, and the separators of lines and paragraphs, which some terminals obey. */
static bool directs(uint32_t code)
{
    return code == 0x61c || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

lx_character lx_character_at(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    static const unsigned char first_bits[] = {0xff, 0x7f, 0x1f, 0x0f, 0x07};
    lx_character c = {.bytes = character_bytes(s)};
    c.code = s[0] & first_bits[c.bytes];
    for (size_t i = 1; i < c.bytes; i++)
        c.code = c.code << 6 | (s[i] & 0x3f);
    c.visible =
        c.bytes > 0 && c.code >= 0x20 && (c.code < 0x7f || c.code > 0x9f) && !directs(c.code);
    return c;
}

size_t lx_visible_escape(lx_character c, char out[LX_VISIBLE_BYTES])
{
    const char *form = c.bytes <= 1 ? "\\x%02x" : "\\u%04x";
    return (size_t)snprintf(out, LX_VISIBLE_BYTES, form, (unsigned)(c.code & 0xffff));
}

void lx_visible_line(FILE *out, const char *fmt, ...)
{
    char text[8192];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    flockfile(out); /* another thread prints before or after the line */
    for (const char *s = text; n > 0 && *s != '\0';) {
        char escape[LX_VISIBLE_BYTES];
        lx_character c = lx_character_at(s);
        if (c.visible)
            (void)fwrite(s, 1, c.bytes, out);
        else
            (void)fwrite(escape, 1, lx_visible_escape(c, escape), out);
        s += c.bytes == 0 ? 1 : c.bytes;
    }
    (void)fputc('\n', out);
    funlockfile(out);
}
