/* Sixteen f32 lanes in two AVX registers, with FMA. See v16_avx512.h. */
#ifndef LINNET_KERNELS_CPU_V16_H
#define LINNET_KERNELS_CPU_V16_H

typedef struct v16 {
    __m256 lo, hi;
} v16;

typedef struct v16u {
    __m256i lo, hi;
} v16u;

#define V16_FN static inline __attribute__((always_inline))
/* A function of the expressions of its halves. */
#define V16_DEFINE(function, lower, upper)                                                         \
    V16_FN v16 function                                                                            \
    {                                                                                              \
        return (v16){lower, upper};                                                                \
    }

/* Eight words: all ones for the lanes i of first .. first + 7 with i < n. */
V16_FN __m256i v16_first(int n, int first)
{
    static const int32_t ones[32] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                     -1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + 16 - n + first));
}
V16_DEFINE(v16_set1(float f), _mm256_set1_ps(f), _mm256_set1_ps(f))
V16_DEFINE(v16_load(const float *p), _mm256_loadu_ps(p), _mm256_loadu_ps(p + 8))
V16_FN v16 v16_load_n(const float *p, int n, v16 fill)
{
    __m256i lo = v16_first(n, 0), hi = v16_first(n, 8);
    /* p + 8 may lie beyond the array: maskload reads none of it then */
    __m256 a = _mm256_maskload_ps(p, lo), b = _mm256_maskload_ps(p + 8, hi);
    return (v16){_mm256_blendv_ps(fill.lo, a, _mm256_castsi256_ps(lo)),
                 _mm256_blendv_ps(fill.hi, b, _mm256_castsi256_ps(hi))};
}
V16_FN void v16_store(float *p, v16 v)
{
    _mm256_storeu_ps(p, v.lo);
    _mm256_storeu_ps(p + 8, v.hi);
}
V16_FN void v16_store_n(float *p, v16 v, int n)
{
    _mm256_maskstore_ps(p, v16_first(n, 0), v.lo);
    _mm256_maskstore_ps(p + 8, v16_first(n, 8), v.hi);
}
V16_DEFINE(v16_keep_n(v16 v, int n), _mm256_and_ps(v.lo, _mm256_castsi256_ps(v16_first(n, 0))),
           _mm256_and_ps(v.hi, _mm256_castsi256_ps(v16_first(n, 8))))
V16_DEFINE(v16_add(v16 a, v16 b), _mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi))
V16_DEFINE(v16_sub(v16 a, v16 b), _mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi))
V16_DEFINE(v16_mul(v16 a, v16 b), _mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi))
V16_DEFINE(v16_div(v16 a, v16 b), _mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi))
V16_DEFINE(v16_fma(v16 a, v16 b, v16 c), _mm256_fmadd_ps(a.lo, b.lo, c.lo),
           _mm256_fmadd_ps(a.hi, b.hi, c.hi))
V16_DEFINE(v16_max(v16 a, v16 b), _mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi))
V16_DEFINE(v16_min(v16 a, v16 b), _mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi))
V16_DEFINE(v16_select_gt(v16 a, v16 b, v16 x, v16 y),
           _mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ)),
           _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ)))
V16_FN v16 v16_abs(v16 v)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_andnot_ps(sign, v.lo), _mm256_andnot_ps(sign, v.hi)};
}
V16_FN __m256 v16_pow2_half(__m256 t)
{
    __m256i n = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(n, _mm256_set1_epi32(0x3f800000)));
}
V16_DEFINE(v16_pow2(v16 t), v16_pow2_half(t.lo), v16_pow2_half(t.hi))
V16_FN __m256 v16_pick_half(const float *table, __m256i n)
{
    __m256 first = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), n);
    __m256 second = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), n);
    return _mm256_blendv_ps(first, second, _mm256_castsi256_ps(_mm256_slli_epi32(n, 28)));
}
V16_DEFINE(v16_pick(const float *table, v16 t), v16_pick_half(table, _mm256_castps_si256(t.lo)),
           v16_pick_half(table, _mm256_castps_si256(t.hi)))
V16_FN float v16_sum(v16 v)
{
    __m256 a = _mm256_add_ps(v.lo, v.hi);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
V16_FN float v16_most(v16 v)
{
    __m256 a = _mm256_max_ps(v.lo, v.hi);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
V16_FN __m256 v16_load_8_bf16(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
V16_DEFINE(v16_load_bf16(const uint16_t *p), v16_load_8_bf16(p), v16_load_8_bf16(p + 8))
V16_FN v16u v16_load_pairs(const uint32_t *p)
{
    return (v16u){_mm256_load_si256((const __m256i *)(const void *)p),
                  _mm256_load_si256((const __m256i *)(const void *)(p + 8))};
}
V16_DEFINE(v16_pair_low(v16u w), _mm256_castsi256_ps(_mm256_slli_epi32(w.lo, 16)),
           _mm256_castsi256_ps(_mm256_slli_epi32(w.hi, 16)))
V16_FN v16 v16_pair_high(v16u w)
{
    __m256i high = _mm256_set1_epi32((int)0xffff0000u);
    return (v16){_mm256_castsi256_ps(_mm256_and_si256(w.lo, high)),
                 _mm256_castsi256_ps(_mm256_and_si256(w.hi, high))};
}
/* Keeps the order of additions. A compiler that adds whole numbers in another order computes all
   products of a block first, and keeps them in memory. */
V16_FN __m256i v16_in_order(__m256i sum)
{
    __asm__("" : "+x"(sum));
    return sum;
}
/* Signed bytes: an instruction multiplies unsigned bytes by signed ones, so the inputs get the
   signs of the weights. Two products of 128 and 127 fit 16 bits. */
V16_FN __m256i v16_dot_bytes_half(__m256i sum, __m256i w, uint32_t x)
{
    __m256i inputs = _mm256_sign_epi8(_mm256_set1_epi32((int)x), w);
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), inputs);
    return v16_in_order(_mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
}
V16_FN v16u v16_dot_bytes(v16u sum, v16u w, uint32_t x)
{
    return (v16u){v16_dot_bytes_half(sum.lo, w.lo, x), v16_dot_bytes_half(sum.hi, w.hi, x)};
}
V16_FN v16u v16_dot_codes(v16u sum, v16u w, uint32_t x)
{
    __m256i zero = _mm256_set1_epi8((char)0x80);
    return v16_dot_bytes(sum, (v16u){_mm256_xor_si256(w.lo, zero), _mm256_xor_si256(w.hi, zero)},
                         x);
}
V16_FN __m256i v16_dot_nibbles_half(__m256i sum, __m256i w, uint32_t x)
{
    __m256i pairs = _mm256_maddubs_epi16(w, _mm256_set1_epi32((int)x));
    return v16_in_order(_mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
}
V16_FN v16u v16_dot_nibbles(v16u sum, v16u w, uint32_t x)
{
    return (v16u){v16_dot_nibbles_half(sum.lo, w.lo, x), v16_dot_nibbles_half(sum.hi, w.hi, x)};
}
/* Sums of products with codes of four bits in 16 bits, two for a lane. */
#define V16_SHORTS 1
V16_FN v16u v16_dot_shorts(v16u sum, v16u w, uint32_t x)
{
    __m256i inputs = _mm256_set1_epi32((int)x);
    return (v16u){v16_in_order(_mm256_add_epi16(sum.lo, _mm256_maddubs_epi16(w.lo, inputs))),
                  v16_in_order(_mm256_add_epi16(sum.hi, _mm256_maddubs_epi16(w.hi, inputs)))};
}
V16_FN v16u v16_add_shorts(v16u sum, v16u shorts)
{
    __m256i ones = _mm256_set1_epi16(1);
    return (v16u){_mm256_add_epi32(sum.lo, _mm256_madd_epi16(shorts.lo, ones)),
                  _mm256_add_epi32(sum.hi, _mm256_madd_epi16(shorts.hi, ones))};
}
V16_FN v16u v16_words(uint32_t x)
{
    return (v16u){_mm256_set1_epi32((int)x), _mm256_set1_epi32((int)x)};
}
V16_FN v16u v16_low_nibbles(v16u w)
{
    __m256i low = _mm256_set1_epi8(15);
    return (v16u){_mm256_and_si256(w.lo, low), _mm256_and_si256(w.hi, low)};
}
V16_FN v16u v16_high_nibbles(v16u w)
{
    return v16_low_nibbles((v16u){_mm256_srli_epi32(w.lo, 4), _mm256_srli_epi32(w.hi, 4)});
}
V16_FN __m256i v16_join_bits_half(__m256i low, __m256i high, const int left, const int mask)
{
    __v8su words = (__v8su)high;
    words = left < 0 ? words >> (unsigned)-left : words << (unsigned)left;
    return _mm256_or_si256(low, _mm256_and_si256((__m256i)words, _mm256_set1_epi8((char)mask)));
}
V16_FN v16u v16_join_bits(v16u low, v16u high, const int left, const int mask)
{
    return (v16u){v16_join_bits_half(low.lo, high.lo, left, mask),
                  v16_join_bits_half(low.hi, high.hi, left, mask)};
}
V16_FN __m256 v16_load_8_s8(const int8_t *p)
{
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}
V16_DEFINE(v16_load_s8(const int8_t *p), v16_load_8_s8(p), v16_load_8_s8(p + 8))
/* Without F16C, which AVX2 does not imply: an f16's bits as those of an f32 of 2^-112 times the
   value, also of denormal ones. */
V16_FN __m256 v16_load_8_f16(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    __m256i size = _mm256_slli_epi32(_mm256_and_si256(wide, _mm256_set1_epi32(0x7fff)), 13);
    __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(wide, 15), 31);
    return _mm256_mul_ps(_mm256_castsi256_ps(_mm256_or_si256(size, sign)),
                         _mm256_set1_ps(0x1p112f));
}
V16_DEFINE(v16_load_f16(const uint16_t *p), v16_load_8_f16(p), v16_load_8_f16(p + 8))
V16_DEFINE(v16_of_words(v16u w), _mm256_cvtepi32_ps(w.lo), _mm256_cvtepi32_ps(w.hi))
V16_FN void v16_store_low_bytes(uint8_t *p, v16 v)
{
    __m256i low = _mm256_set1_epi32(0xff);
    __m256i a = _mm256_and_si256(_mm256_castps_si256(v.lo), low);
    __m256i b = _mm256_and_si256(_mm256_castps_si256(v.hi), low);
    __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
    __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    _mm_storeu_si128((__m128i *)(void *)p, bytes);
}
V16_FN void v16_sum_bytes(int32_t *to, const uint8_t *p)
{
    for (int i = 0; i < 16; i++) {
        __m128i bytes =
            _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * (2 * i % 16 + i / 8)));
        __m128i eights =
            _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8((char)0x80)), _mm_setzero_si128());
        to[i] = _mm_cvtsi128_si32(eights) + _mm_extract_epi32(eights, 2) - 16 * 128;
    }
}

#endif
