/* Hexadecimal digits. Thread: any. */
#ifndef LINNET_COMMON_HEX_H
#define LINNET_COMMON_HEX_H

/* The value of a digit in either case; -1 for any other character. */
static inline int lx_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

#endif
