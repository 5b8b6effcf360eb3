/* Tones of Chinese characters (see tones.h). */
#include "model/tones.h"

#include "model/utf8.h"

enum { FIRST = 0x4e00, PER_WORD = 32 };

static const uint64_t words[] = {
#include "model/tones.def"
};

lx_tone lx_tone_of(uint32_t codepoint)
{
    if (codepoint < FIRST || codepoint - FIRST >= sizeof words / sizeof *words * PER_WORD)
        return LX_TONE_UNKNOWN;
    uint32_t i = codepoint - FIRST;
    return (lx_tone)(words[i / PER_WORD] >> (2 * (i % PER_WORD)) & 3);
}

void lx_tones_write(const char *text, size_t bytes, lx_buffer *out)
{
    static const char *const marks[] = {
        [LX_TONE_LEVEL] = "平", [LX_TONE_OBLIQUE] = "仄", [LX_TONE_BOTH] = "中"};
    for (size_t at = 0; at < bytes;) {
        size_t from = at;
        int32_t c = lx_utf8_next(text, bytes, &at);
        at += c < 0; /* a byte that is no UTF-8 stands for itself */
        lx_tone tone = c >= 0 ? lx_tone_of((uint32_t)c) : LX_TONE_UNKNOWN;
        if (tone == LX_TONE_UNKNOWN)
            lx_buffer_append(out, text + from, at - from);
        else
            lx_buffer_puts(out, marks[tone]);
    }
}
