/*
 * What an Ogg file begins with. libsndfile looks for the first page whose checksum is right,
 * wherever it lies, and libsndfile 1.2 keeps for ever what it had read of a Vorbis stream's packets
 * of identification, comments and setup when one is wrong. So it only sees files whose first page
 * is whole, and, if they are Vorbis, whose three packets libvorbis takes.
 */
#ifndef LINNET_MODEL_OGG_HEAD_H
#define LINNET_MODEL_OGG_HEAD_H

#include <stddef.h>
#include <stdint.h>

typedef enum lx_ogg_head {
    LX_OGG_DAMAGED,
    LX_OGG_OTHER, /* whole, and of a coding that is not read */
    LX_OGG_READ,  /* Opus or Vorbis */
} lx_ogg_head;

/* The file begins with "OggS". At most its first 1 MiB is looked at. Any thread. */
lx_ogg_head lx_ogg_head_of(const uint8_t *data, size_t bytes);

#endif
