/* Hexadecimal digits. Thread: any. */
#ifndef LINNET_COMMON_HEX_H
#define LINNET_COMMON_HEX_H

/* 0 .. 15; -1: the character is no digit. */
static inline int lx_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

#endif
