/* Sixteen f32 lanes in four NEON registers. See v16_avx512.h. */
#ifndef LINNET_KERNELS_CPU_V16_H
#define LINNET_KERNELS_CPU_V16_H

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/isa.h"

/* The micro-kernels of `linear`. 32 registers of 4 lanes: up to 6 sums of four registers, and at
   least 2 to hide the latency of fma. */
#define BODY_ROWS 6
#define BODY_MAX_SUMS 6
#define BODY_WIDE(X) X(1, 4) X(2, 2)
#define BODY_NARROW(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1)

typedef struct v16 {
    float32x4_t q[4];
} v16;

typedef struct v16u {
    uint32x4_t q[4];
} v16u;

#define V16_FN static inline __attribute__((always_inline))

#define V16_EACH(expression)                                                                       \
    v16 r;                                                                                         \
    for (int i = 0; i < 4; i++)                                                                    \
        r.q[i] = (expression);                                                                     \
    return r
/* A function whose quarters are the expression. */
#define V16_DEFINE(function, expression)                                                           \
    V16_FN v16 function                                                                            \
    {                                                                                              \
        V16_EACH(expression);                                                                      \
    }

/* All ones for the lanes 4 i .. 4 i + 3 that are below n. */
V16_FN uint32x4_t v16_first(int n, int i)
{
    static const int32_t lanes[4] = {0, 1, 2, 3};
    return vcltq_s32(vld1q_s32(lanes), vdupq_n_s32(n - 4 * i));
}
V16_DEFINE(v16_set1(float f), vdupq_n_f32(f))
V16_DEFINE(v16_load(const float *p), vld1q_f32(p + 4 * i))
V16_FN void v16_store(float *p, v16 v)
{
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, v.q[i]);
}
V16_FN v16 v16_load_n(const float *p, int n, v16 fill)
{
    float lanes[16];
    v16_store(lanes, fill);
    memcpy(lanes, p, (size_t)n * sizeof *p);
    return v16_load(lanes);
}
V16_FN void v16_store_n(float *p, v16 v, int n)
{
    float lanes[16];
    v16_store(lanes, v);
    memcpy(p, lanes, (size_t)n * sizeof *p);
}
V16_FN float32x4_t v16_masked(float32x4_t v, uint32x4_t mask)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), mask));
}
V16_DEFINE(v16_keep_n(v16 v, int n), v16_masked(v.q[i], v16_first(n, i)))
V16_DEFINE(v16_add(v16 a, v16 b), vaddq_f32(a.q[i], b.q[i]))
V16_DEFINE(v16_sub(v16 a, v16 b), vsubq_f32(a.q[i], b.q[i]))
V16_DEFINE(v16_mul(v16 a, v16 b), vmulq_f32(a.q[i], b.q[i]))
V16_DEFINE(v16_div(v16 a, v16 b), vdivq_f32(a.q[i], b.q[i]))
V16_DEFINE(v16_fma(v16 a, v16 b, v16 c), vfmaq_f32(c.q[i], a.q[i], b.q[i]))
/* Not fmax and fmin, which give NaN where the other sets give b. */
V16_DEFINE(v16_max(v16 a, v16 b), vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]))
V16_DEFINE(v16_min(v16 a, v16 b), vbslq_f32(vcltq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]))
V16_DEFINE(v16_select_gt(v16 a, v16 b, v16 x, v16 y),
           vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), x.q[i], y.q[i]))
V16_DEFINE(v16_abs(v16 v), vabsq_f32(v.q[i]))
V16_FN float32x4_t v16_pow2_quarter(float32x4_t t)
{
    uint32x4_t n = vshlq_n_u32(vreinterpretq_u32_f32(t), 23);
    return vreinterpretq_f32_u32(vaddq_u32(n, vdupq_n_u32(0x3f800000u)));
}
V16_DEFINE(v16_pow2(v16 t), v16_pow2_quarter(t.q[i]))
/* The table is four registers of bytes: lane n takes bytes 4 n .. 4 n + 3. */
V16_FN float32x4_t v16_pick_quarter(uint8x16x4_t table, float32x4_t t)
{
    uint32x4_t n = vandq_u32(vreinterpretq_u32_f32(t), vdupq_n_u32(15));
    uint32x4_t bytes = vmlaq_u32(vdupq_n_u32(0x03020100u), n, vdupq_n_u32(0x04040404u));
    return vreinterpretq_f32_u8(vqtbl4q_u8(table, vreinterpretq_u8_u32(bytes)));
}
V16_FN v16 v16_pick(const float *table, v16 t)
{
    uint8x16x4_t bytes;
    for (int i = 0; i < 4; i++)
        bytes.val[i] = vreinterpretq_u8_f32(vld1q_f32(table + 4 * i));
    V16_EACH(v16_pick_quarter(bytes, t.q[i]));
}
V16_FN float v16_sum(v16 v)
{
    float32x4_t a = vaddq_f32(vaddq_f32(v.q[0], v.q[2]), vaddq_f32(v.q[1], v.q[3]));
    float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}
V16_FN float v16_most(v16 v)
{
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(v.q[0], v.q[2]), vmaxq_f32(v.q[1], v.q[3])));
}
V16_DEFINE(v16_load_bf16(const uint16_t *p),
           vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)))
V16_FN v16u v16_load_pairs(const uint32_t *p)
{
    v16u w;
    for (int i = 0; i < 4; i++)
        w.q[i] = vld1q_u32(p + 4 * i);
    return w;
}
V16_DEFINE(v16_pair_low(v16u w), vreinterpretq_f32_u32(vshlq_n_u32(w.q[i], 16)))
V16_DEFINE(v16_pair_high(v16u w),
           vreinterpretq_f32_u32(vandq_u32(w.q[i], vdupq_n_u32(0xffff0000u))))
V16_FN uint32x4_t v16_dot_bytes_quarter(uint32x4_t sum, uint32x4_t w, uint32_t x)
{
#ifdef V16_SIGNED_BYTES
    int8x16_t bytes = vreinterpretq_s8_u32(vdupq_n_u32(x));
    return vreinterpretq_u32_s32(
        vdotq_s32(vreinterpretq_s32_u32(sum), vreinterpretq_s8_u32(w), bytes));
#else
    /* no product of a signed and an unsigned byte leaves 16 bits */
    int16x8_t words = vreinterpretq_s16_u32(w);
    int16x8_t even = vshrq_n_s16(vshlq_n_s16(words, 8), 8), odd = vshrq_n_s16(words, 8);
    int16x8_t x_even = vreinterpretq_s16_u32(vdupq_n_u32(x & 0x00ff00ffu));
    int16x8_t x_odd = vreinterpretq_s16_u32(vdupq_n_u32(x >> 8 & 0x00ff00ffu));
    int32x4_t r = vpadalq_s16(vreinterpretq_s32_u32(sum), vmulq_s16(even, x_even));
    return vreinterpretq_u32_s32(vpadalq_s16(r, vmulq_s16(odd, x_odd)));
#endif
}
V16_FN v16u v16_dot_bytes(v16u sum, v16u w, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        sum.q[i] = v16_dot_bytes_quarter(sum.q[i], w.q[i], x);
    return sum;
}
V16_FN uint32x4_t v16_dot_codes_quarter(uint32x4_t sum, uint32x4_t w, uint32_t x)
{
#ifdef V16_SIGNED_BYTES
    return v16_dot_bytes_quarter(sum, veorq_u32(w, vdupq_n_u32(0x80808080u)), x);
#else
    /* no product of an unsigned and a signed byte leaves 16 bits */
    int16x8_t inputs = vreinterpretq_s16_u32(vdupq_n_u32(x));
    uint16x8_t words = vreinterpretq_u16_u32(w);
    int16x8_t even = vreinterpretq_s16_u16(vandq_u16(words, vdupq_n_u16(0xff)));
    int16x8_t odd = vreinterpretq_s16_u16(vshrq_n_u16(words, 8));
    int16x8_t x_even = vshrq_n_s16(vshlq_n_s16(inputs, 8), 8), x_odd = vshrq_n_s16(inputs, 8);
    int32x4_t r = vpadalq_s16(vreinterpretq_s32_u32(sum), vmulq_s16(even, x_even));
    return vreinterpretq_u32_s32(vpadalq_s16(r, vmulq_s16(odd, x_odd)));
#endif
}
V16_FN v16u v16_dot_codes(v16u sum, v16u w, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        sum.q[i] = v16_dot_codes_quarter(sum.q[i], w.q[i], x);
    return sum;
}
V16_FN v16u v16_dot_nibbles(v16u sum, v16u w, uint32_t x)
{
#ifdef V16_SIGNED_BYTES
    return v16_dot_bytes(sum, w, x);
#else
    return v16_dot_codes(sum, w, x);
#endif
}
/* Like V16_EACH. */
#define V16_EACH_WORD(expression)                                                                  \
    v16u r;                                                                                        \
    for (int i = 0; i < 4; i++)                                                                    \
        r.q[i] = (expression);                                                                     \
    return r
V16_FN v16u v16_words(uint32_t x)
{
    V16_EACH_WORD(vdupq_n_u32(x));
}
V16_FN v16u v16_low_nibbles(v16u w)
{
    V16_EACH_WORD(vandq_u32(w.q[i], vdupq_n_u32(0x0f0f0f0fu)));
}
V16_FN v16u v16_high_nibbles(v16u w)
{
    V16_EACH_WORD(vandq_u32(vshrq_n_u32(w.q[i], 4), vdupq_n_u32(0x0f0f0f0fu)));
}
V16_FN v16u v16_join_bits(v16u low, v16u high, const int left, const int mask)
{
    uint32x4_t bytes = vdupq_n_u32(0x01010101u * (uint32_t)mask);
    int32x4_t shift = vdupq_n_s32(left); /* to the right where it is negative */
    V16_EACH_WORD(vorrq_u32(low.q[i], vandq_u32(vshlq_u32(high.q[i], shift), bytes)));
}
V16_FN v16 v16_load_s8(const int8_t *p)
{
    int8x16_t bytes = vld1q_s8(p);
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return (v16){{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
                  vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
                  vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
                  vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}
V16_DEFINE(v16_load_f16(const uint16_t *p), vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))))
V16_DEFINE(v16_of_words(v16u w), vcvtq_f32_s32(vreinterpretq_s32_u32(w.q[i])))
V16_FN void v16_store_low_bytes(uint8_t *p, v16 v)
{
    uint16x4_t words[4];
    for (int i = 0; i < 4; i++)
        words[i] = vmovn_u32(vreinterpretq_u32_f32(v.q[i]));
    vst1q_u8(p, vcombine_u8(vmovn_u16(vcombine_u16(words[0], words[1])),
                            vmovn_u16(vcombine_u16(words[2], words[3]))));
}
V16_FN void v16_sum_bytes(int32_t *to, const uint8_t *p)
{
    for (int i = 0; i < 16; i++)
        to[i] = vaddlvq_s8(vreinterpretq_s8_u8(vld1q_u8(p + 16 * (2 * i % 16 + i / 8))));
}

#endif
