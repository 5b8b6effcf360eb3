/*
 * The sizes in a WAV file, which are often wrong. Programs that record or send a stream do not know
 * its end, and write 0, the largest number or the size of the head. A file is judged by its data
 * chunk alone. With such a size, or with the true size, its samples are read. A size beyond the
 * file's end shows that the file was cut. Chunks of metadata, the last of which may be cut, and
 * zeros may follow the samples. Any thread.
 */
#ifndef LINNET_MODEL_WAV_H
#define LINNET_MODEL_WAV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lx_wav_sizes {
    bool cut;
    bool followed;       /* by a second sound, or by bytes that are no chunk */
    size_t data_at;      /* where the size of the data chunk stands; 0: there is no such chunk */
    uint32_t riff, data; /* the right values of the file's size (at byte 4) and of the chunk's */
} lx_wav_sizes;

/* Of a file that begins with RIFF, a size and WAVE. */
lx_wav_sizes lx_wav_measure(const uint8_t *file, size_t bytes);

#endif
