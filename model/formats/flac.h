/*
 * Checks of a FLAC file that libsndfile 1.2 does not make. That library stops at the number of
 * samples that the head promises, and looks at nothing after them; it also reads on after a frame
 * whose checksum is wrong. Any thread.
 */
#ifndef LINNET_MODEL_FLAC_H
#define LINNET_MODEL_FLAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the head's number of samples stands, in 36 bits whose first 4 share a byte. */
enum { LX_FLAC_COUNT_AT = 21, LX_FLAC_COUNT_BYTES = 5, LX_FLAC_COUNT_MASK = 0x0f };

/* The number of samples that the head promises; 0: unknown, or the head is cut. */
int64_t lx_flac_claims(const uint8_t *file, size_t bytes);

/* Whether only whole frames follow the head, up to the file's end. Zeros, and a tag ID3v1 of 128
   bytes, may follow the last frame. */
bool lx_flac_is_whole(const uint8_t *file, size_t bytes);

#endif
