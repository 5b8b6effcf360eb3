/*
 * Kinds of characters, as ranges of code points. The lists are short and written for Chinese lines,
 * not the Unicode database: punctuation may stand between or around words of a line, and Han is
 * every block of ideographs.
 */
#include "model/characters.h"

#include "model/utf8.h"

#include <stddef.h>
#include <stdlib.h>

typedef struct range {
    uint32_t first, last;
} range;

#define IN(ranges, c) in_ranges(ranges, sizeof(ranges) / sizeof *(ranges), c)

static bool in_ranges(const range *r, size_t n, uint32_t c)
{
    for (size_t i = 0; i < n; i++) {
        if (c >= r[i].first && c <= r[i].last)
            return true;
    }
    return false;
}

bool lx_char_is_space(uint32_t c)
{
    static const range spaces[] = {
        {0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
        {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
    };
    return IN(spaces, c);
}

bool lx_char_is_blank(uint32_t c)
{
    static const range breaks[] = {{0x0a, 0x0d}, {0x85, 0x85}, {0x2028, 0x2029}};
    return lx_char_is_space(c) && !IN(breaks, c);
}

bool lx_char_is_stripped(int32_t c)
{
    return (c >= 0x1c && c <= 0x1f) || (c >= 0 && lx_char_is_space((uint32_t)c));
}

const char *lx_char_strip(const char *text, size_t *n)
{
    size_t first = *n, last = 0; /* of other characters, and after it */
    for (size_t at = 0, begin = 0; at < *n; begin = at) {
        int32_t c = lx_utf8_next(text, *n, &at);
        at += c < 0; /* a malformed byte is passed */
        if (lx_char_is_stripped(c))
            continue;
        first = begin < first ? begin : first;
        last = at;
    }
    *n = last > first ? last - first : 0;
    return text + first;
}

bool lx_char_is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

bool lx_char_is_invisible(uint32_t c)
{
    static const range invisible[] = {
        {0xad, 0xad},     {0x034f, 0x034f}, {0x061c, 0x061c}, {0x115f, 0x1160}, {0x180b, 0x180f},
        {0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164}, {0xfe00, 0xfe0f},
        {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0xe000, 0xf8ff}, {0xe0000, 0x10ffff},
    };
    return IN(invisible, c);
}

bool lx_char_is_han(uint32_t c)
{
    static const range han[] = {
        {0x3005, 0x3005},   {0x3007, 0x3007}, /* 々 and 〇 */
        {0x3400, 0x4dbf},                     /* extension A */
        {0x4e00, 0x9fff},   {0xf900, 0xfaff}, /* the main block, compatibility */
        {0x20000, 0x2a6df},                   /* extension B */
        {0x2a700, 0x2ebef},                   /* extensions C to F */
        {0x2ebf0, 0x2ee5f},                   /* extension I */
        {0x2f800, 0x2fa1f},                   /* compatibility supplement */
        {0x30000, 0x323af},                   /* extensions G and H */
    };
    return IN(han, c);
}

bool lx_char_is_punctuation(uint32_t c)
{
    static const range marks[] = {
        {0x21, 0x2f},     {0x3a, 0x40},     {0x5b, 0x60},     {0x7b, 0x7e}, /* ASCII */
        {0xa1, 0xa1},     {0xa7, 0xa7},     {0xab, 0xab},     {0xb6, 0xb7},
        {0xbb, 0xbb},     {0xbf, 0xbf},     {0x2010, 0x2027}, {0x2030, 0x205e}, /* general */
        {0x2e3a, 0x2e3b},                                                       /* long dashes */
        {0x3001, 0x3004}, {0x3006, 0x3006}, {0x3008, 0x3020}, {0x3030, 0x3030},
        {0x303d, 0x303d}, {0x30fb, 0x30fb}, {0xfe10, 0xfe19}, {0xfe30, 0xfe6b}, /* CJK */
        {0xff01, 0xff0f}, {0xff1a, 0xff20}, {0xff3b, 0xff40}, {0xff5b, 0xff65}, /* full width */
    };
    return IN(marks, c);
}

uint32_t lx_char_widen(uint32_t c)
{
    bool wide = c == ',' || c == ';' || c == ':' || c == '?' || c == '!';
    return wide ? c + (0xff01 - '!') : c;
}

/* --- traditional characters --- */

typedef struct pair {
    uint32_t old, usual;
} pair;

static const pair traditional[] = {
#include "model/traditional.def"
};

/* Forms that simplified editions of poems have in spite of OpenCC's table. */
static const pair variants[] = {
#include "model/variants.def"
};

static int compare(const void *key, const void *entry)
{
    uint32_t c = *(const uint32_t *)key, old = ((const pair *)entry)->old;
    return (c > old) - (c < old);
}

static uint32_t usual_of(const pair *pairs, size_t n, uint32_t c)
{
    const pair *found = bsearch(&c, pairs, n, sizeof *pairs, compare);
    return found != NULL ? found->usual : c;
}

#define USUAL_OF(pairs, c) usual_of(pairs, sizeof(pairs) / sizeof *(pairs), c)

/* OpenCC's simplified form may be an old form: 悞 becomes 悮, which becomes 误. */
uint32_t lx_simplified(uint32_t codepoint)
{
    return USUAL_OF(variants, USUAL_OF(traditional, codepoint));
}
