/* The frames of a FLAC file by their checksum (see flac.h). */
#include "model/formats/flac.h"

#include <string.h>

/* POLYNOMIAL: of the CRC-16 that ends a frame (RFC 9639, section 9.3). */
enum { MAGIC = 4, BLOCK_HEAD = 4, LAST_BLOCK = 0x80, TAG = 128, POLYNOMIAL = 0x8005 };

int64_t lx_flac_claims(const uint8_t *file, size_t bytes)
{
    int64_t n = 0;
    if (bytes < LX_FLAC_COUNT_AT + LX_FLAC_COUNT_BYTES)
        return 0;
    for (int i = 0; i < LX_FLAC_COUNT_BYTES; i++)
        n = n << 8 | (file[LX_FLAC_COUNT_AT + i] & (i == 0 ? LX_FLAC_COUNT_MASK : 0xff));
    return n;
}

/* The position after the blocks of metadata; `bytes` where they are cut. */
static size_t first_frame(const uint8_t *file, size_t bytes)
{
    bool last = false;
    size_t at = MAGIC;
    while (!last && bytes - at > BLOCK_HEAD) {
        size_t size = (size_t)file[at + 1] << 16 | (size_t)file[at + 2] << 8 | file[at + 3];
        last = (file[at] & LAST_BLOCK) != 0;
        at += BLOCK_HEAD;
        at = size < bytes - at ? at + size : bytes;
    }
    return last ? at : bytes;
}

/* A frame together with its checksum has the checksum 0, and so has a row of frames. */
bool lx_flac_is_whole(const uint8_t *file, size_t bytes)
{
    uint16_t table[256];
    for (int i = 0; i < 256; i++) {
        unsigned sum = (unsigned)i << 8;
        for (int bit = 0; bit < 8; bit++)
            sum = sum << 1 ^ ((sum & 0x8000) != 0 ? POLYNOMIAL : 0);
        table[i] = (uint16_t)sum;
    }
    size_t at = first_frame(file, bytes);
    if (bytes - at > TAG && memcmp(file + bytes - TAG, "TAG", 3) == 0)
        bytes -= TAG;
    unsigned sum = 0;
    for (; at < bytes; at++)
        sum = (sum << 8 & 0xff00) ^ table[sum >> 8 ^ file[at]];
    return sum == 0;
}
