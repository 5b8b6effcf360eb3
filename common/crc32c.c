/* Eight bytes at a time by eight tables ("slicing by 8"), which the first call makes. */
#include "common/crc32c.h"

#include <pthread.h>
#include <string.h>

static uint32_t tables[8][256];

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t x = i;
        for (int bit = 0; bit < 8; bit++)
            x = x >> 1 ^ ((x & 1) != 0 ? UINT32_C(0x82F63B78) : 0);
        tables[0][i] = x;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 255];
}

uint32_t lx_crc32c(uint32_t crc, const void *bytes, size_t n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const unsigned char *p = bytes;
    (void)pthread_once(&once, make_tables);
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t x;
        memcpy(&x, p, sizeof x); /* little-endian, as every machine this runs on */
        x ^= crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= tables[7 - k][x >> (8 * k) & 255];
    }
    for (; n > 0; n--, p++)
        crc = crc >> 8 ^ tables[0][(crc ^ *p) & 255];
    return ~crc;
}
