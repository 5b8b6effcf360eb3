/*
 * Letters for bytes (see letters.h). Printable bytes stand for themselves, and all others have
 * letters from U+0100 on. Source: Radford et al. 2019 (GPT-2).
 */
#include "model/tokenizers/letters.h"

#include <stdbool.h>

static bool is_itself(unsigned char byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

uint32_t lx_byte_letter(unsigned char byte)
{
    /* Bytes 0 .. 0x20, 0x7f .. 0xa0 and 0xad have the letters from U+0100, in this order. */
    if (is_itself(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    return byte == 0xad ? 0x143 : 0x121u + (byte - 0x7fu);
}

int lx_letter_byte(uint32_t c)
{
    if (c < 0x100)
        return is_itself((unsigned char)c) ? (int)c : -1;
    if (c <= 0x120)
        return (int)c - 0x100;
    if (c <= 0x142)
        return (int)c - 0x121 + 0x7f;
    return c == 0x143 ? 0xad : -1;
}
