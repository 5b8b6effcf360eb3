/*
 * Whether an Ogg Vorbis file begins as one must: with whole packets of identification, comments and
 * setup that libvorbis takes. libsndfile 1.2 keeps for ever what it had read of them when one is
 * wrong, so it only sees files whose beginning is right.
 */
#ifndef LINNET_MODEL_VORBIS_HEAD_H
#define LINNET_MODEL_VORBIS_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The file begins with "OggS". At most its first 1 MiB is looked at. Any thread. */
bool lx_vorbis_has_head(const uint8_t *data, size_t bytes);

#endif
