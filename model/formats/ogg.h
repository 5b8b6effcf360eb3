/*
 * Checks of an Ogg file before libsndfile 1.2 sees it. That library looks for the first
 * page whose checksum is right, wherever it lies, and keeps for ever what it had read of a Vorbis
 * stream's packets of identification, comments and setup when one is wrong: so the first page must
 * be whole, and, if the file is Vorbis, libvorbis must take its three packets. How many samples the
 * last page of an Opus stream has it takes from the low 32 bits of how far that lies behind the
 * page before, and makes room for them: gigabytes, where it lies far in front.
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
   bytes are no page, or streams lie side by side. Any thread. */
size_t lx_ogg_link(const uint8_t *data, size_t bytes);

/* Whether a page's position lies 2^31 samples or more in front of that of a page before it. Bytes
   with a right checksum are a page, also within another page. True as well for a file in which so
   many seem to begin that to sum them up would take more than 16 times its bytes. Any thread. */
bool lx_ogg_goes_back(const uint8_t *data, size_t bytes);

#endif
