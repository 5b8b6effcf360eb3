/*
 * Sound files as one channel of samples: WAV, FLAC and Ogg (Vorbis, Opus) through libsndfile,
 * resampled by libsamplerate. A file's content decides its kind, not its name.
 *
 * The limits bound a file's cost, whatever it claims: it is decoded in blocks, and
 * the first block past the longest sound ends it. A high rate
 * is halved by a cheap filter (halve.h) before it is resampled, so that the highest costs little
 * more than a usual one. An Ogg file may hold up to 32 consecutive sounds, which are read as one;
 * sizes in a WAV file are judged by its data (wav.h). Two channels become their mean; samples
 * beyond full scale, which only files of floats have, are clipped as a loudspeaker would. Any
 * thread.
 */
#ifndef LINNET_MODEL_SOUND_H
#define LINNET_MODEL_SOUND_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum { LX_SOUND_MIN_RATE = 4000, LX_SOUND_MAX_RATE = 192000, LX_SOUND_MAX_CHANNELS = 2 };

typedef struct lx_sound_limits {
    int32_t rate; /* samples per second of the output, LX_SOUND_MIN_RATE .. LX_SOUND_MAX_RATE */
    int32_t n_samples; /* at most so many of them, from 1 */
} lx_sound_limits;

typedef struct lx_sound {
    int32_t n;      /* from 1 */
    float *samples; /* [n], -1 .. 1, owned */
} lx_sound;

/* Decodes a whole file. LX_ERR_INVALID with `param` and a text for a person if the file has another
   format, or is empty, damaged, cut or too long. Also if it has more than 2 channels or an
   unsupported rate. Memory: the longest sound, and a block. */
lx_status lx_sound_read(const void *data, size_t bytes, const lx_sound_limits *limits,
                        const char *param, lx_sound *out, lx_error *err) LX_MUST_USE;
void lx_sound_fini(lx_sound *s);

/* The most samples of all channels that lx_sound_read would decode, by the file's own claims:
   nothing is decoded. A file that does not say its length counts as the longest sound. The same
   errors, as far as they show before decoding. */
lx_status lx_sound_weigh(const void *data, size_t bytes, const lx_sound_limits *limits,
                         const char *param, int64_t *samples, lx_error *err) LX_MUST_USE;

#endif
