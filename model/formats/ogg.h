/*
 * Checks of an Ogg file before libsndfile 1.2 sees it, for two faults of that library:
 * - It looks for the first page whose checksum is right, wherever it lies. If one of a Vorbis
 *   stream's packets of identification, comments and setup is wrong, it never frees the packets
 *   before. So the first page must be whole, and libvorbis must take a Vorbis file's three packets.
 * - It takes the samples of an Opus stream's last page from the low 32 bits of the distance to the
 * page before, and allocates as many. If the last page's position is lower, these are gigabytes.
 */
#ifndef LINNET_MODEL_OGG_H
#define LINNET_MODEL_OGG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum lx_ogg_head {
    LX_OGG_DAMAGED,
    LX_OGG_OTHER, /* whole, and of a coding that is not read */
    LX_OGG_READ,  /* Opus or Vorbis */
} lx_ogg_head;

/* The file begins with "OggS". At most its first 1 MiB is looked at. Any thread. */
lx_ogg_head lx_ogg_head_of(const uint8_t *data, size_t bytes);

/* Bytes of the first of several streams that follow each other in a file (a chain); all of them
   where there is one. Each byte belongs to a whole page of its stream. 0: a page is damaged or cut,
   bytes are no page, streams lie side by side, or no packet of Opus ends in a page. Any thread. */
size_t lx_ogg_link(const uint8_t *data, size_t bytes);

/* Whether a page's position lies 2^31 samples or more in front of that of a page before it. Bytes
   with a right checksum are a page, also within another page. True as well for a file in which so
   many seem to begin that to sum them up would take more than 16 times its bytes. Any thread. */
bool lx_ogg_goes_back(const uint8_t *data, size_t bytes);

#endif
