/*
 * Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): random numbers
 * as a pure function of (key, counter).
 *
 * Key = the request's seed; counter = (step, sample, lane, 0). So a request's
 * numbers depend only on its seed, the index of the sample within the request and the step. Plain C
 * and CUDA compile the same lines.
 */
#ifndef LINNET_KERNELS_PHILOX_H
#define LINNET_KERNELS_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define LX_PHILOX_FN static inline __host__ __device__
#else
#define LX_PHILOX_FN static inline
#endif

typedef struct lx_philox_block {
    uint32_t v[4];
} lx_philox_block;

LX_PHILOX_FN lx_philox_block lx_philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2,
                                       uint32_t c3)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    lx_philox_block out = {{c0, c1, c2, c3}};
    return out;
}

/* Uniform in [0, 1), 24 bits, exact in f32. `lane` (0, 1, ...) tells draws of one step apart. */
LX_PHILOX_FN float lx_uniform(uint64_t seed, uint32_t sample, uint32_t step, uint32_t lane)
{
    return (float)(lx_philox(seed, step, sample, lane >> 2, 0).v[lane & 3] >> 8) * 0x1p-24f;
}

#endif
