/*
 * Half as many samples per second: a first, cheap step on the way from a high rate to a low one,
 * after which a resampler has little left to do. Meant for sounds of which only the lowest third of
 * the new band matters: there the error is below -85 dB.
 *
 *   y[n] = x[2n] / 2 + sum over j < 6 of w[j] / 2 (x[2n - 2j - 1] + x[2n + 2j + 1])
 *
 * with w the weights of Lagrange's interpolation in the middle of 12 points. Silence is assumed
 * before and after the sound.
 */
#ifndef LINNET_MODEL_HALVE_H
#define LINNET_MODEL_HALVE_H

#include <stdint.h>

enum { LX_HALVE_MOST = 4096, LX_HALVE_REACH = 11 };

/* One stream; zeros are a new one. */
typedef struct lx_halver {
    int64_t n; /* samples that wait in x */
    float x[LX_HALVE_MOST + 2 * LX_HALVE_REACH + 2];
} lx_halver;

/* The next n samples, at most LX_HALVE_MOST, whose halved samples so far replace them; returns
 * their number. x has room for LX_HALVE_REACH + 1. n 0: the end, the rest. */
int64_t lx_halve(lx_halver *h, float *x, int64_t n);

#endif
