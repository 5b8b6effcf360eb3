/*
 * Sixteen f32 lanes in plain C, for any processor. See v16_avx512.h.
 *
 * Where the compiler has no fast fmaf, it would call a library that may be very slow. The fused
 * multiply-add is then built from doubles, to the same bit. The product of two f32 is exact in
 * double. The sum's rounding error is found (Knuth's two-sum) and folded in by rounding to odd. A
 * value rounded to odd with two bits to spare rounds to f32 as if it had been exact (Boldo and
 * Melquiond 2008, "Emulation of FMA and correctly rounded sums").
 */
#ifndef LINNET_KERNELS_CPU_V16_H
#define LINNET_KERNELS_CPU_V16_H

#include <math.h>
#include <string.h>

#include "kernels/cpu/isa.h"

typedef struct v16 {
    float f[16];
} v16;

typedef struct v16u {
    uint32_t u[16];
} v16u;

/* Not always_inline: sixteen emulated lanes in every place would take a compiler minutes; checked
   by a sanitizer, they do even where the compiler may choose. */
#if defined(LX_SANITIZE_ADDRESS) || defined(LX_SANITIZE_THREAD)
#define V16_FN static __attribute__((noinline, unused))
/* For functions that use only their arguments: a sanitizer would check each lane alone. */
#define V16_LANES V16_FN __attribute__((no_sanitize("address", "thread")))
#else
#define V16_FN static inline
#define V16_LANES V16_FN
#endif

/* p + z, rounded to odd: then to f32 it rounds as if it had been exact. */
static inline __attribute__((always_inline)) double v16_add_odd(double p, double z)
{
    double s = p + z, back = s - p;
    double rest = (p - (s - back)) + (z - back); /* s + rest = p + z exactly; NaN unless finite */
    int64_t bits;
    memcpy(&bits, &s, sizeof bits);
    int64_t step = (rest > 0) - (rest < 0);
    step = s < 0 ? -step : step;
    bits += (bits & 1) != 0 ? 0 : step;
    memcpy(&s, &bits, sizeof s);
    return s;
}

V16_LANES float v16_one_fma(float a, float b, float c)
{
    return (float)v16_add_odd((double)a * (double)b, (double)c);
}

#define V16_EACH(expression)                                                                       \
    v16 r;                                                                                         \
    for (int i = 0; i < 16; i++)                                                                   \
        r.f[i] = (expression);                                                                     \
    return r
/* A function whose lanes are the expression; LANES: of its arguments alone. */
#define V16_DEFINE(function, expression)                                                           \
    V16_FN v16 function                                                                            \
    {                                                                                              \
        V16_EACH(expression);                                                                      \
    }
#define V16_DEFINE_LANES(function, expression)                                                     \
    V16_LANES v16 function                                                                         \
    {                                                                                              \
        V16_EACH(expression);                                                                      \
    }

V16_DEFINE_LANES(v16_set1(float f), f)
V16_DEFINE(v16_load(const float *p), p[i])
V16_DEFINE(v16_load_n(const float *p, int n, v16 fill), i < n ? p[i] : fill.f[i])
V16_FN void v16_store_n(float *p, v16 v, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = v.f[i];
}
V16_FN void v16_store(float *p, v16 v)
{
    v16_store_n(p, v, 16);
}
V16_DEFINE_LANES(v16_keep_n(v16 v, int n), i < n ? v.f[i] : 0.0f)
V16_DEFINE_LANES(v16_add(v16 a, v16 b), a.f[i] + b.f[i])
V16_DEFINE_LANES(v16_sub(v16 a, v16 b), a.f[i] - b.f[i])
V16_DEFINE_LANES(v16_mul(v16 a, v16 b), a.f[i] * b.f[i])
V16_DEFINE_LANES(v16_div(v16 a, v16 b), a.f[i] / b.f[i])
/* A sum in double rounds to f32 as if it had been exact, but where it is the midpoint of two f32.
   These end with a one and 28 zeros; those of denormal f32 in other ways, so that all such sums
   count. */
V16_LANES v16 v16_fma(v16 a, v16 b, v16 c)
{
#ifdef __FP_FAST_FMAF
    V16_EACH(__builtin_fmaf(a.f[i], b.f[i], c.f[i]));
#else
    v16 r;
    int again = 0;
    for (int i = 0; i < 16; i++) {
        double s = (double)a.f[i] * (double)b.f[i] + (double)c.f[i];
        uint64_t bits;
        memcpy(&bits, &s, sizeof bits);
        uint32_t high = (uint32_t)(bits >> 32) & 0x7fffffff;
        again |= ((uint32_t)bits & 0x1fffffff) == 0x10000000;
        again |= high - 1 < 0x380fffff; /* below 2^-126, and not 0 */
        r.f[i] = (float)s;
    }
    if (again) {
        for (int i = 0; i < 16; i++)
            r.f[i] = v16_one_fma(a.f[i], b.f[i], c.f[i]);
    }
    return r;
#endif
}
V16_DEFINE_LANES(v16_max(v16 a, v16 b), a.f[i] > b.f[i] ? a.f[i] : b.f[i])
V16_DEFINE_LANES(v16_min(v16 a, v16 b), a.f[i] < b.f[i] ? a.f[i] : b.f[i])
V16_DEFINE_LANES(v16_select_gt(v16 a, v16 b, v16 x, v16 y), a.f[i] > b.f[i] ? x.f[i] : y.f[i])
V16_DEFINE_LANES(v16_abs(v16 v), __builtin_fabsf(v.f[i]))
V16_LANES float v16_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
V16_LANES uint32_t v16_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
/* A float, or 0 of its sign for a denormal one. */
V16_LANES float v16_flushed(uint32_t bits)
{
    return v16_of_bits((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}
V16_DEFINE_LANES(v16_pow2(v16 t), v16_of_bits((v16_bits(t.f[i]) << 23) + 0x3f800000u))
V16_DEFINE(v16_pick(const float *table, v16 t), table[v16_bits(t.f[i]) & 15])
V16_LANES float v16_sum(v16 v)
{
    for (int half = 8; half >= 1; half /= 2) {
        for (int i = 0; i < half; i++)
            v.f[i] += v.f[i + half];
    }
    return v.f[0];
}
V16_LANES float v16_most(v16 v)
{
    for (int i = 1; i < 16; i++)
        v.f[0] = v.f[i] > v.f[0] ? v.f[i] : v.f[0];
    return v.f[0];
}
V16_DEFINE(v16_load_bf16(const uint16_t *p), v16_of_bits((uint32_t)p[i] << 16))
V16_FN v16u v16_load_pairs(const uint32_t *p)
{
    v16u w;
    memcpy(&w, p, sizeof w);
    return w;
}
V16_DEFINE_LANES(v16_pair_low(v16u w), v16_of_bits(w.u[i] << 16))
V16_DEFINE_LANES(v16_pair_high(v16u w), v16_of_bits(w.u[i] & 0xffff0000u))
/* A byte of an input; that of a weight is signed. */
#ifdef V16_SIGNED_BYTES
typedef int8_t v16_byte;
#else
typedef uint8_t v16_byte;
#endif
V16_LANES v16u v16_dot_bytes(v16u sum, v16u w, uint32_t x)
{
    for (int i = 0; i < 16; i++) {
        for (int byte = 0; byte < 32; byte += 8)
            sum.u[i] +=
                (uint32_t)((int32_t)(int8_t)(w.u[i] >> byte) * (int32_t)(v16_byte)(x >> byte));
    }
    return sum;
}
/* Unsigned bytes of weights less `zero`, times signed bytes. */
V16_LANES v16u v16_dot_unsigned(v16u sum, v16u w, uint32_t x, int32_t zero)
{
    for (int i = 0; i < 16; i++) {
        for (int byte = 0; byte < 32; byte += 8)
            sum.u[i] += (uint32_t)(((int32_t)(uint8_t)(w.u[i] >> byte) - zero) *
                                   (int32_t)(int8_t)(x >> byte));
    }
    return sum;
}
V16_LANES v16u v16_dot_codes(v16u sum, v16u w, uint32_t x)
{
#ifdef V16_SIGNED_BYTES
    return v16_dot_unsigned(sum, w, x, 128);
#else
    return v16_dot_unsigned(sum, w, x, 0);
#endif
}
V16_LANES v16u v16_dot_nibbles(v16u sum, v16u w, uint32_t x)
{
    return v16_dot_unsigned(sum, w, x, 0);
}
/* Like V16_EACH. */
#define V16_EACH_WORD(expression)                                                                  \
    v16u r;                                                                                        \
    for (int i = 0; i < 16; i++)                                                                   \
        r.u[i] = (expression);                                                                     \
    return r
V16_LANES v16u v16_words(uint32_t x)
{
    V16_EACH_WORD(x);
}
V16_LANES v16u v16_low_nibbles(v16u w)
{
    V16_EACH_WORD(w.u[i] & 0x0f0f0f0fu);
}
V16_LANES v16u v16_high_nibbles(v16u w)
{
    V16_EACH_WORD(w.u[i] >> 4 & 0x0f0f0f0fu);
}
V16_LANES v16u v16_codes_less(v16u w, int zero)
{
    v16u r = {0};
    for (int i = 0; i < 16; i++) {
        for (int byte = 0; byte < 32; byte += 8)
            r.u[i] |= (uint32_t)(uint8_t)((w.u[i] >> byte & 255u) - (uint32_t)zero) << byte;
    }
    return r;
}
V16_LANES v16u v16_join_bits(v16u low, v16u high, const int left, const int mask)
{
    uint32_t bytes = 0x01010101u * (uint32_t)mask;
    V16_EACH_WORD(low.u[i] | ((left < 0 ? high.u[i] >> -left : high.u[i] << left) & bytes));
}
V16_DEFINE(v16_load_s8(const int8_t *p), (float)p[i])
V16_DEFINE(v16_load_f16(const uint16_t *p), lx_f16_to_f32(p[i]))
V16_DEFINE_LANES(v16_of_words(v16u w), (float)(int32_t)w.u[i])
V16_FN void v16_store_low_bytes(uint8_t *p, v16 v)
{
    for (int i = 0; i < 16; i++)
        p[i] = (uint8_t)v16_bits(v.f[i]);
}
V16_FN void v16_sum_bytes(int32_t *to, const uint8_t *p)
{
    for (int i = 0; i < 16; i++) {
        to[i] = 0;
        for (int k = 0; k < 16; k++)
            to[i] += (int8_t)p[16 * (2 * i % 16 + i / 8) + k];
    }
}

#endif
