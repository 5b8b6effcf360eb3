/*
 * From sound to the rows that a model of speech sees: log energies of mel bands.
 *
 *     frame t      samples t hop .. t hop + frame - 1, times a Hann window
 *     e[t][b]      log(sum over k of filter[b][k] |FFT(frame t)[k]|^2 + 1e-6)
 *     z[t][b]      (e - mean of band b) / (deviation of band b + 0.01), over all frames
 *     row r        z of frames r stride - context .. r stride + context, in order; frames before
 * the first repeat it, and frames after the last repeat that
 *
 * The filters are triangles between 0 and 1. Their corners lie at equal distances of the mel scale,
 * 1127 log(1 + f / 700), from `lowest` to half the rate; the FFT has the power of two from `frame`.
 * Sums are in double and in one order; a spectrum is computed in float (kissfft).
 */
#ifndef LINNET_MODEL_MEL_H
#define LINNET_MODEL_MEL_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

typedef struct lx_mel lx_mel;

typedef struct lx_mel_config {
    int32_t rate;    /* samples per second, 4000 .. 192000 */
    int32_t frame;   /* samples, 16 .. 8192 */
    int32_t hop;     /* samples, 1 .. frame */
    int32_t n_bands; /* 1 .. 256 */
    int32_t lowest;  /* Hz, 0 .. below half the rate */
    int32_t stride;  /* frames from one row to the next, 1 .. 64 */
    int32_t context; /* frames to either side, 0 .. 64 */
} lx_mel_config;

/* A field by its name in config.json, and its range; frame and rate bound hop and
   lowest further. */
typedef struct lx_mel_field {
    const char *name;
    size_t offset; /* of an int32_t in lx_mel_config */
    int32_t min, max;
} lx_mel_field;
extern const lx_mel_field lx_mel_fields[]; /* name NULL after the last */

/* Floats of a row. */
static inline int32_t lx_mel_row_floats(const lx_mel_config *c)
{
    return c->n_bands * (2 * c->context + 1);
}

/* LX_ERR_INVALID with the field's name, also where a band would lie between two bins of the FFT.
   The object never changes; any thread. */
lx_status lx_mel_new(const lx_mel_config *c, lx_mel **out, lx_error *err) LX_MUST_USE;
/* NULL is allowed. */
void lx_mel_free(lx_mel *m);

/* Floats of a row. */
int32_t lx_mel_width(const lx_mel *m);
/* Rows of so many samples; 0: they are less than a frame. */
int32_t lx_mel_rows(const lx_mel *m, int32_t n_samples);
/* The middle of a row, in seconds from the first sample. */
double lx_mel_seconds(const lx_mel *m, int32_t row);

/* rows: [lx_mel_rows(m, n_samples), lx_mel_width(m)], from at least one; samples of -1 .. 1.
   LX_ERR_NO_MEMORY, of n_samples / hop * n_bands floats and a frame. Any thread. */
lx_status lx_mel_compute(const lx_mel *m, const float *samples, int32_t n_samples, float *rows,
                         lx_error *err) LX_MUST_USE;

#endif
