/*
 * What isa_amx.c computes, to the bit, in plain C for any processor.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/v16_plain.h"

#include "kernels/cpu/tiles_plain.h"

#define V16_PAIRS 1
#define V16_TILES 1

/* To the nearest, ties to even, as AVX512-BF16 does it: a denormal value becomes 0. */
static uint32_t to_bf16(float f)
{
    uint32_t bits = v16_bits(tile_float(v16_bits(f)));
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bits >> 16 | 64u;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

/* Rounds n values, 1 .. 32, to bf16 pairs and stores them, zeros behind the end: 16 words. */
V16_FN void v16_store_pairs(uint32_t *to, const float *from, int n)
{
    memset(to, 0, 16 * sizeof *to);
    for (int i = 0; i < n; i++)
        to[i / 2] |= to_bf16(from[i]) << (i % 2 * 16);
}

#define BODY_NAME "amxplain"
#define BODY_TABLE lx_cpu_amxplain
#define BODY_ROWS 4
#define BODY_MAX_SUMS 4
#define BODY_WIDE(X)
#define BODY_NARROW(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1)
#include "kernels/cpu/body.h"
