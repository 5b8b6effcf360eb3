/*
 * Sixteen f32 lanes in one AVX-512 register. The three v16_*.h files define the same functions with
 * the same result in every bit; body.h is written over them. Every product that feeds a sum must go
 * through v16_fma, so that no compiler can fuse (and round) differently on one of them.
 */
#ifndef LINNET_KERNELS_CPU_V16_H
#define LINNET_KERNELS_CPU_V16_H

/* The micro-kernels of `linear`, and tokens per pass. 32 registers of 16 lanes: up to 24 sums, and
   at least 8 to hide the latency of fma. */
#define BODY_ROWS 12
#define BODY_TOKENS 4
#define BODY_MAX_SUMS 24
#define BODY_WIDE(X) X(1, 8) X(2, 4) X(3, 8)
#define BODY_NARROW(X)                                                                             \
    X(1, 2)                                                                                        \
    X(2, 2)                                                                                        \
    X(3, 2) X(4, 2) X(5, 2) X(6, 2) X(7, 2) X(8, 2) X(9, 2) X(10, 2) X(11, 2) X(12, 2)

typedef __m512 v16;
typedef __m512i v16u; /* 16 words, each two bf16: element 2i low, 2i + 1 high */

#define V16_FN static inline __attribute__((always_inline))
#define V16_DEFINE(function, expression)                                                           \
    V16_FN function                                                                                \
    {                                                                                              \
        return expression;                                                                         \
    }

V16_DEFINE(__mmask16 v16_first(int n), (__mmask16)((1u << n) - 1u))
V16_DEFINE(v16 v16_set1(float f), _mm512_set1_ps(f))
V16_DEFINE(v16 v16_load(const float *p), _mm512_loadu_ps(p))
/* The first n lanes from p, n = 0 .. 16, other lanes from fill; reads only n floats. */
V16_DEFINE(v16 v16_load_n(const float *p, int n, v16 fill),
           _mm512_mask_loadu_ps(fill, v16_first(n), p))
V16_FN void v16_store(float *p, v16 v)
{
    _mm512_storeu_ps(p, v);
}
V16_FN void v16_store_n(float *p, v16 v, int n)
{
    _mm512_mask_storeu_ps(p, v16_first(n), v);
}
/* The first n lanes of v, the others 0. */
V16_DEFINE(v16 v16_keep_n(v16 v, int n), _mm512_maskz_mov_ps(v16_first(n), v))
V16_DEFINE(v16 v16_add(v16 a, v16 b), _mm512_add_ps(a, b))
V16_DEFINE(v16 v16_sub(v16 a, v16 b), _mm512_sub_ps(a, b))
V16_DEFINE(v16 v16_mul(v16 a, v16 b), _mm512_mul_ps(a, b))
V16_DEFINE(v16 v16_div(v16 a, v16 b), _mm512_div_ps(a, b))
/* a * b + c, rounded once */
V16_DEFINE(v16 v16_fma(v16 a, v16 b, v16 c), _mm512_fmadd_ps(a, b, c))
/* a > b ? a : b, so b when one is NaN */
V16_DEFINE(v16 v16_max(v16 a, v16 b), _mm512_max_ps(a, b))
/* a < b ? a : b, so b when one is NaN */
V16_DEFINE(v16 v16_min(v16 a, v16 b), _mm512_min_ps(a, b))
/* a > b ? x : y */
V16_DEFINE(v16 v16_select_gt(v16 a, v16 b, v16 x, v16 y),
           _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), y, x))
V16_DEFINE(v16 v16_abs(v16 v), _mm512_abs_ps(v))
/* 2^n for t = 1.5 * 2^23 + n, n a whole number in -126 .. 127: its low bits are n's. */
V16_FN v16 v16_pow2(v16 t)
{
    __m512i n = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(n, _mm512_set1_epi32(0x3f800000)));
}
/* table[n mod 16] for t = 1.5 * 2^23 + n */
V16_DEFINE(v16 v16_pick(const float *table, v16 t),
           _mm512_permutexvar_ps(_mm512_castps_si512(t), v16_load(table)))
/* Lanes i and i + 8 are added, then i and i + 4, i + 2, i + 1. */
V16_FN float v16_sum(v16 v)
{
    __m256 hi = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), hi);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
/* The greatest lane of v, which has no NaN. */
V16_FN float v16_most(v16 v)
{
    __m256 hi = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
    __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), hi);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
/* See ops/linear/cpu_rows.h. */
#define V16_MOST_OF_8 1
V16_FN v16 v16_most_of_8(const v16 *v)
{
    v16 four[4], two[2];
    for (int i = 0; i < 4; i++) /* quarters: two of v[i], two of v[i + 4] */
        four[i] = _mm512_max_ps(_mm512_shuffle_f32x4(v[i], v[i + 4], 0x44),
                                _mm512_shuffle_f32x4(v[i], v[i + 4], 0xee));
    for (int i = 0; i < 2; i++) /* one each of v[i], v[i + 2], v[i + 4], v[i + 6] */
        two[i] = _mm512_max_ps(_mm512_shuffle_f32x4(four[i], four[i + 2], 0x88),
                               _mm512_shuffle_f32x4(four[i], four[i + 2], 0xdd));
    /* then in each quarter two lanes of an even one and two of an odd one */
    v16 pairs =
        _mm512_max_ps(_mm512_unpacklo_ps(two[0], two[1]), _mm512_unpackhi_ps(two[0], two[1]));
    v16 most = _mm512_max_ps(pairs, _mm512_permute_ps(pairs, 0x4e));
    const __m512i order = _mm512_setr_epi32(0, 1, 8, 9, 4, 5, 12, 13, 0, 1, 8, 9, 4, 5, 12, 13);
    return _mm512_permutexvar_ps(order, most);
}
/* Sixteen bf16. */
V16_FN v16 v16_load_bf16(const uint16_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
/* Hides the weights from ThreadSanitizer, which ignores masked loads: its checks of each word would
   take half of a step's time. It still sees that they are freed. */
V16_FN v16u v16_load_pairs(const uint32_t *p)
{
#ifdef LX_SANITIZE_THREAD
    return _mm512_maskz_load_epi32(0xffff, p);
#else
    return _mm512_load_si512(p);
#endif
}
V16_DEFINE(v16 v16_pair_low(v16u w), _mm512_castsi512_ps(_mm512_slli_epi32(w, 16)))
V16_DEFINE(v16 v16_pair_high(v16u w),
           _mm512_castsi512_ps(_mm512_and_si512(w, _mm512_set1_epi32((int)0xffff0000u))))
/*
 * Products of whole numbers. In every word of w four signed bytes, in x four unsigned ones; their
 * products are added to the 32-bit sum, exactly.
 */
V16_FN v16u v16_dot_bytes(v16u sum, v16u w, uint32_t x)
{
#ifdef V16_VNNI
    /* Not the intrinsic: gcc 12 copies every sum to another register and back around it. */
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(_mm512_set1_epi32((int)x)), "v"(w));
    return sum;
#else
    __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8), odd = _mm512_srai_epi16(w, 8);
    __m512i x_even = _mm512_set1_epi32((int)(x & 0x00ff00ffu));
    __m512i x_odd = _mm512_set1_epi32((int)(x >> 8 & 0x00ff00ffu));
    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(even, x_even));
    return _mm512_add_epi32(sum, _mm512_madd_epi16(odd, x_odd));
#endif
}
/*
 * Products of codes, the stored numbers of blocks. In every word of w four unsigned bytes, in x
 * four signed ones; their products are added to the 32-bit sum, exactly.
 */
V16_FN v16u v16_dot_codes(v16u sum, v16u w, uint32_t x)
{
    v16u inputs = _mm512_set1_epi32((int)x);
#ifdef V16_VNNI
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(inputs));
    return sum;
#else
    __m512i even = _mm512_and_si512(w, _mm512_set1_epi16(0xff)), odd = _mm512_srli_epi16(w, 8);
    __m512i x_even = _mm512_srai_epi16(_mm512_slli_epi16(inputs, 8), 8);
    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(even, x_even));
    return _mm512_add_epi32(sum, _mm512_madd_epi16(odd, _mm512_srai_epi16(inputs, 8)));
#endif
}
/* v16_dot_codes of codes below 64: no sum of two products leaves 16 bits. */
V16_FN v16u v16_dot_nibbles(v16u sum, v16u w, uint32_t x)
{
#ifdef V16_VNNI
    return v16_dot_codes(sum, w, x);
#else
    __m512i pairs = _mm512_maddubs_epi16(w, _mm512_set1_epi32((int)x));
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#endif
}
#ifndef V16_VNNI
/* Sums of products with codes of four bits in 16 bits, two for a lane. */
#define V16_SHORTS 1
V16_FN v16u v16_dot_shorts(v16u sum, v16u w, uint32_t x)
{
    __m512i products = _mm512_maddubs_epi16(w, _mm512_set1_epi32((int)x));
    sum = _mm512_add_epi16(sum, products);
    __asm__("" : "+v"(sum)); /* keeps the order: a compiler's own needs memory for the products */
    return sum;
}
V16_FN v16u v16_add_shorts(v16u sum, v16u shorts)
{
    return _mm512_add_epi32(sum, _mm512_madd_epi16(shorts, _mm512_set1_epi16(1)));
}
#endif
V16_DEFINE(v16u v16_words(uint32_t x), _mm512_set1_epi32((int)x))
V16_DEFINE(v16u v16_low_nibbles(v16u w), _mm512_and_si512(w, _mm512_set1_epi8(15)))
V16_DEFINE(v16u v16_high_nibbles(v16u w), v16_low_nibbles(_mm512_srli_epi32(w, 4)))
/* Codes as signed bytes, less `zero`. */
V16_DEFINE(v16u v16_codes_less(v16u w, int zero), _mm512_sub_epi8(w, _mm512_set1_epi8((char)zero)))
/* Codes with the bits of `mask` of every byte of `high`, which is moved by `left` bits first, or to
   the right where that is negative. The operator takes a count that is known only after inlining.
 */
V16_FN v16u v16_join_bits(v16u low, v16u high, const int left, const int mask)
{
    __v16su words = (__v16su)high;
    words = left < 0 ? words >> (unsigned)-left : words << (unsigned)left;
    return _mm512_or_si512(low, _mm512_and_si512((__m512i)words, _mm512_set1_epi8((char)mask)));
}
/* Sixteen signed bytes to f32. */
V16_DEFINE(
    v16 v16_load_s8(const int8_t *p),
    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p))))
/* Sixteen finite f16. */
V16_DEFINE(v16 v16_load_f16(const uint16_t *p),
           _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)))
/* Signed words to f32. */
V16_DEFINE(v16 v16_of_words(v16u w), _mm512_cvtepi32_ps(w))
/* The lowest byte of the bits of every lane. */
V16_FN void v16_store_low_bytes(uint8_t *p, v16 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(_mm512_castps_si512(v)));
}
/* The sums of 256 signed bytes by sixteens: of the first, third, fifth .. sixteen, then of the
   second, fourth .. sixteen. */
V16_FN void v16_sum_bytes(int32_t *to, const uint8_t *p)
{
    __m512i eights[4]; /* sums of eight bytes plus 128 */
    for (int i = 0; i < 4; i++) {
        __m512i unsigned_bytes =
            _mm512_xor_si512(_mm512_loadu_si512(p + 64 * i), _mm512_set1_epi8((char)0x80));
        eights[i] = _mm512_sad_epu8(unsigned_bytes, _mm512_setzero_si512());
    }
    __m512i a = _mm512_or_si512(eights[0], _mm512_slli_epi64(eights[1], 32));
    __m512i b = _mm512_or_si512(eights[2], _mm512_slli_epi64(eights[3], 32));
    __m512i sums = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    const __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    sums = _mm512_sub_epi32(_mm512_permutexvar_epi32(order, sums), _mm512_set1_epi32(16 * 128));
    _mm512_storeu_si512(to, sums);
}

#endif
