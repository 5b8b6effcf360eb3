/*
 * Pairs of bf16, and products of two rows by two outputs, with NEON; included after v16_neon.h.
 * mmla_plain.h has their exact arithmetic.
 */
#ifndef LINNET_KERNELS_CPU_V16_NEONBF16_H
#define LINNET_KERNELS_CPU_V16_NEONBF16_H

#define V16_PAIRS 1
#define V16_DOT 1
#define V16_MMLA 1

/* Two words of inputs of each of two rows. */
typedef uint32x4_t v16_rows;

/* Eight values of two registers. */
V16_FN uint32x4_t v16_round_pairs(float32x4_t low, float32x4_t high)
{
    return vreinterpretq_u32_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(low), high));
}
/* Rounds n values, 1 .. 32, to bf16 pairs and stores them, then zeros: 16 words. */
V16_FN void v16_store_pairs(uint32_t *to, const float *from, int n)
{
    v16 low = v16_set1(0.0f), high = low;
    if (n == 32) {
        low = v16_load(from);
        high = v16_load(from + 16);
    } else {
        low = v16_load_n(from, n < 16 ? n : 16, low);
        high = n > 16 ? v16_load_n(from + 16, n - 16, high) : high;
    }
    for (int i = 0; i < 2; i++) {
        vst1q_u32(to + 4 * i, v16_round_pairs(low.q[2 * i], low.q[2 * i + 1]));
        vst1q_u32(to + 8 + 4 * i, v16_round_pairs(high.q[2 * i], high.q[2 * i + 1]));
    }
}
V16_FN bfloat16x8_t v16_halves(uint32x4_t words)
{
    return vreinterpretq_bf16_u32(words);
}
/* sum + (w[2i] x[0] + w[2i + 1] x[1]) in every lane i, x a pair of bf16 */
V16_DEFINE(v16_dot(v16 sum, v16u w, uint32_t x),
           vbfdotq_f32(sum.q[i], v16_halves(w.q[i]), v16_halves(vdupq_n_u32(x))))
V16_FN v16_rows v16_two_rows(const uint32_t *a, const uint32_t *b)
{
    return vcombine_u32(vld1_u32(a), vld1_u32(b));
}
/* Words of eight lanes, the first (half 0) or the last, of a and b in turn. */
V16_FN v16u v16_zip(v16u a, v16u b, const int half)
{
    v16u r;
    for (int i = 0; i < 2; i++) {
        r.q[2 * i] = vzip1q_u32(a.q[2 * half + i], b.q[2 * half + i]);
        r.q[2 * i + 1] = vzip2q_u32(a.q[2 * half + i], b.q[2 * half + i]);
    }
    return r;
}
/* The low (half 0) or high halves of a, and those of b. */
V16_FN uint32x4_t v16_join(uint32x4_t a, uint32x4_t b, const int half)
{
    uint64x2_t x = vreinterpretq_u64_u32(a), y = vreinterpretq_u64_u32(b);
    return vreinterpretq_u32_u64(half == 0 ? vzip1q_u64(x, y) : vzip2q_u64(x, y));
}
/* Four squares of eight outputs, the first (half 0) or the last, from rows of sixteen lanes. */
V16_FN v16u v16_squares(v16u first, v16u second, const int half)
{
    v16u r;
    for (int i = 0; i < 4; i++)
        r.q[i] = v16_join(first.q[2 * half + i / 2], second.q[2 * half + i / 2], i % 2);
    return r;
}
/* The first (0) or second row of eight squares. */
V16_FN v16u v16_row(v16u a, v16u b, const int row)
{
    v16u r;
    for (int i = 0; i < 2; i++) {
        r.q[i] = v16_join(a.q[2 * i], a.q[2 * i + 1], row);
        r.q[2 + i] = v16_join(b.q[2 * i], b.q[2 * i + 1], row);
    }
    return r;
}
/* Adds x, two rows, times w, pairs of bf16 of two outputs a square, to four squares. */
V16_FN v16u v16_mmla_pairs(v16u sums, v16_rows x, v16u w)
{
    for (int i = 0; i < 4; i++)
        sums.q[i] = vreinterpretq_u32_f32(
            vbfmmlaq_f32(vreinterpretq_f32_u32(sums.q[i]), v16_halves(x), v16_halves(w.q[i])));
    return sums;
}
/* As v16_mmla_pairs, of signed bytes. */
V16_FN v16u v16_mmla_bytes(v16u sums, v16_rows x, v16u w)
{
    int8x16_t rows = vreinterpretq_s8_u32(x);
    for (int i = 0; i < 4; i++)
        sums.q[i] = vreinterpretq_u32_s32(
            vmmlaq_s32(vreinterpretq_s32_u32(sums.q[i]), rows, vreinterpretq_s8_u32(w.q[i])));
    return sums;
}

#endif
