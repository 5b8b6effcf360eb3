/*
 * The types of stored values (lx_dtype): their sizes, their values as f32, and the rounding of
 * values to blocks. Each type's values are values of f32, so the way back is exact. All of it is
 * plain C in double with one order of operations, so each machine makes the same blocks.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/objects.h"

/* --- formats --- */

static const lx_format formats[] = {
    [LX_F32] = {"F32", 1, 4},
    [LX_BF16] = {"BF16", 1, 2},
    [LX_F16] = {"F16", 1, 2},
    [LX_Q8_0] = {"Q8_0", LX_BLOCK, 2 + LX_BLOCK},
    [LX_Q4_0] = {"Q4_0", LX_BLOCK, 2 + LX_BLOCK / 2},
    [LX_F32_OF_BLOCKS] = {"F32", 1, 4},
    [LX_Q4_K] = {"Q4_K", LX_K_BLOCK, 16 + LX_K_BLOCK / 2},
    [LX_Q5_K] = {"Q5_K", LX_K_BLOCK, 16 + LX_K_BLOCK / 8 * 5},
    [LX_Q6_K] = {"Q6_K", LX_K_BLOCK, 2 + LX_K_BLOCK / 16 + LX_K_BLOCK / 4 * 3},
};

const lx_format *lx_format_of(lx_dtype dtype)
{
    return (size_t)dtype < sizeof formats / sizeof *formats ? &formats[dtype] : NULL;
}

size_t lx_format_bytes(lx_dtype dtype, int64_t n)
{
    return (size_t)(n / formats[dtype].block) * (size_t)formats[dtype].n_bytes;
}

lx_status lx_host_tensor_check(const lx_host_tensor *t, const lx_row_reader *rows, const char *what,
                               lx_error *err)
{
    const lx_format *format = lx_format_of(t->dtype);
    if (format == NULL)
        return lx_fail(err, LX_ERR_UNSUPPORTED, NULL, "%s has unknown dtype %d", what,
                       (int)t->dtype);
    if ((t->data == NULL) != (rows != NULL) || t->rows < 1 || t->cols < 1 ||
        t->rows > LX_MAX_FLOATS / t->cols || t->rows > INT32_MAX || t->cols > INT32_MAX ||
        t->cols % format->block != 0)
        return lx_fail(err, LX_ERR_INVALID, NULL, "%s has shape [%lld, %lld]", what,
                       (long long)t->rows, (long long)t->cols);
    return LX_OK;
}

lx_status lx_host_tensor_read(const lx_host_tensor *t, const lx_row_reader *rows,
                              lx_host_tensor *out, void **memory, lx_error *err)
{
    *out = *t;
    *memory = NULL;
    if (rows == NULL)
        return LX_OK;
    size_t n_bytes = lx_format_bytes(t->dtype, t->rows * t->cols);
    *memory = malloc(n_bytes);
    if (*memory == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory to read %zu bytes of weights",
                       n_bytes);
    out->data = *memory;
    return rows->read(rows->context, 0, t->rows, *memory, err);
}

/* --- values as f32 --- */

static float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float lx_bf16_to_f32(uint16_t x)
{
    return float_of_bits((uint32_t)x << 16);
}

float lx_f16_to_f32(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16, exponent = (x >> 10) & 31u, mantissa = x & 1023u;
    if (exponent == 31)
        return float_of_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0)
        return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    float magnitude = (float)mantissa * 0x1p-24f; /* subnormal or zero */
    return sign != 0 ? -magnitude : magnitude;
}

/* To the nearest, ties to even; sizes of 65520 and more become infinite. */
static uint16_t f16_of(double x)
{
    double size = fabs(x);
    uint32_t sign = signbit(x) ? 0x8000u : 0u, half;
    if (size >= 65520) {
        half = 0x7c00u;
    } else if (size < 0x1p-14) {
        half = (uint32_t)nearbyint(size * 0x1p24);
    } else {
        int exponent;
        double mantissa = frexp(size, &exponent); /* 0.5 .. 1 */
        /* a mantissa that rounds to 2048 moves into the exponent by itself */
        half = ((uint32_t)(exponent + 14) << 10) + ((uint32_t)nearbyint(mantissa * 2048) - 1024);
    }
    return (uint16_t)(sign | half);
}

static float f16_at(const unsigned char *bytes)
{
    return lx_f16_to_f32((uint16_t)(bytes[0] | bytes[1] << 8));
}

void lx_q4_k_scale(const unsigned char *block, int part, int *scale, int *min)
{
    const unsigned char *s = block + 4;
    if (part < 4) {
        *scale = s[part] & 63;
        *min = s[part + 4] & 63;
    } else {
        *scale = (s[part + 4] & 15) | s[part - 4] >> 6 << 4;
        *min = s[part + 4] >> 4 | s[part] >> 6 << 4;
    }
}

/* The bytes of a Q4_K: d, e, twelve bytes of scales, and for each 64 values 32 bytes, of which the
   low halves are the first 32 values. A Q5_K has 32 bytes of fifth bits after the scales: bit i of
   byte k is of value 32 i + k. */
static void expand_q4_k(lx_dtype dtype, const unsigned char *block, int first, int n, float *to)
{
    const unsigned char *low = block + (dtype == LX_Q5_K ? 48 : 16);
    for (int i = first; i < first + n; i++) {
        int scale, min, q = low[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
        if (dtype == LX_Q5_K)
            q |= (block[16 + i % 32] >> (i / 32) & 1) << 4;
        lx_q4_k_scale(block, i / 32, &scale, &min);
        float factor = f16_at(block) * (float)scale, minus = f16_at(block + 2) * (float)min;
        *to++ = factor * (float)q - minus;
    }
}

/* The bytes of a Q6_K: low halves of q + 32, their two high bits, a scale for each 16 values, d.
   Each half has four parts of 32 values, of which two share a byte of low halves and four a byte of
   high bits. */
static void expand_q6_k(const unsigned char *block, int first, int n, float *to)
{
    for (int i = first; i < first + n; i++) {
        int half = i / 128, part = i % 128 / 32, k = i % 32;
        int q = block[half * 64 + part % 2 * 32 + k] >> (part / 2 * 4) & 15;
        q |= (block[128 + half * 32 + k] >> (2 * part) & 3) << 4;
        *to++ = f16_at(block + 208) * (float)(int8_t)block[192 + i / 16] * (float)(q - 32);
    }
}

/* Values first .. first + n - 1 of a block of 256. */
static void expand_k(lx_dtype dtype, const unsigned char *block, int first, int n, float *to)
{
    if (dtype == LX_Q6_K)
        expand_q6_k(block, first, n, to);
    else
        expand_q4_k(dtype, block, first, n, to);
}

static void take_block(lx_dtype dtype, const unsigned char *from, lx_block *out)
{
    out->scale = (uint16_t)(from[0] | from[1] << 8);
    for (int i = 0; i < LX_BLOCK; i++) {
        int half = i < LX_BLOCK / 2 ? from[2 + i % (LX_BLOCK / 2)] & 15
                                    : from[2 + i % (LX_BLOCK / 2)] >> 4;
        out->q[i] = dtype == LX_Q8_0 ? (int8_t)from[2 + i] : (int8_t)(half - 8);
    }
}

void lx_block_put(const lx_block *b, lx_dtype dtype, unsigned char *to)
{
    to[0] = (unsigned char)(b->scale & 255u);
    to[1] = (unsigned char)(b->scale >> 8);
    for (int i = 0; i < LX_BLOCK / 2; i++) {
        unsigned low = (uint8_t)b->q[i], high = (uint8_t)b->q[i + LX_BLOCK / 2];
        if (dtype == LX_Q4_0) {
            to[2 + i] = (unsigned char)(((low + 8) & 15) | (high + 8) << 4);
        } else {
            to[2 + i] = (unsigned char)low;
            to[2 + i + LX_BLOCK / 2] = (unsigned char)high;
        }
    }
}

static const unsigned char *block_at(const lx_host_tensor *t, int64_t i)
{
    return (const unsigned char *)t->data + lx_format_bytes(t->dtype, i);
}

float lx_host_tensor_at(const lx_host_tensor *t, int64_t i)
{
    const unsigned char *bytes = t->data;
    float f;
    uint16_t half;
    if (t->dtype == LX_F32 || t->dtype == LX_F32_OF_BLOCKS) {
        memcpy(&f, bytes + i * 4, sizeof f);
        return f;
    }
    if (t->dtype == LX_BF16 || t->dtype == LX_F16) {
        memcpy(&half, bytes + i * 2, sizeof half);
        return t->dtype == LX_BF16 ? lx_bf16_to_f32(half) : lx_f16_to_f32(half);
    }
    if (formats[t->dtype].block == LX_K_BLOCK) {
        int at = (int)(i % LX_K_BLOCK);
        expand_k(t->dtype, block_at(t, i - at), at, 1, &f);
        return f;
    }
    lx_block block;
    take_block(t->dtype, block_at(t, i), &block);
    return (float)block.q[i % LX_BLOCK] * lx_f16_to_f32(block.scale);
}

static void expand_k_blocks(const lx_host_tensor *t, int64_t first, int64_t n, float *to)
{
    unsigned char block[LX_K_BLOCK]; /* `to` may be where the block lies */
    for (int64_t i = 0; i < n;) {
        int at = (int)((first + i) % LX_K_BLOCK), most = LX_K_BLOCK - at;
        int some = n - i < most ? (int)(n - i) : most;
        memcpy(block, block_at(t, first + i - at), (size_t)formats[t->dtype].n_bytes);
        expand_k(t->dtype, block, at, some, to + i);
        i += some;
    }
}

void lx_host_tensor_expand(const lx_host_tensor *t, int64_t first, int64_t n, float *to)
{
    if (formats[t->dtype].block == 1) {
        for (int64_t i = 0; i < n; i++)
            to[i] = lx_host_tensor_at(t, first + i);
        return;
    }
    if (formats[t->dtype].block == LX_K_BLOCK) {
        expand_k_blocks(t, first, n, to);
        return;
    }
    for (int64_t i = 0; i < n;) {
        lx_block block;
        take_block(t->dtype, block_at(t, first + i), &block);
        float scale = lx_f16_to_f32(block.scale);
        for (int64_t j = (first + i) % LX_BLOCK; j < LX_BLOCK && i < n; j++, i++)
            to[i] = (float)block.q[j] * scale;
    }
}

/* --- blocks of values --- */

/* The numbers of values for a scale, within least .. most. Returns the sum of their squared errors.
   Adding 1.5 * 2^52 rounds to a whole number; a compiler makes vectors of that. */
static double round_block(const float *x, double scale, double least, double most, lx_block *out)
{
    const double magic = 0x1.8p52;
    double errors = 0, q[LX_BLOCK];
    out->scale = f16_of(scale);
    double d = (double)lx_f16_to_f32(out->scale), inverse = d != 0 ? 1 / d : 0;
    for (int i = 0; i < LX_BLOCK; i++) {
        double whole = (double)x[i] * inverse + magic - magic;
        whole = whole < least ? least : whole;
        q[i] = whole > most ? most : whole;
    }
    for (int i = 0; i < LX_BLOCK; i++) {
        double error = q[i] * d - (double)x[i];
        out->q[i] = (int8_t)q[i];
        errors += error * error;
    }
    return errors;
}

/* The scale of least squares for the numbers of a block. */
static double best_scale(const float *x, const lx_block *b)
{
    double above = 0, below = 0;
    for (int i = 0; i < LX_BLOCK; i++) {
        above += (double)x[i] * b->q[i];
        below += (double)b->q[i] * b->q[i];
    }
    return below > 0 ? above / below : 0;
}

void lx_block_of(const lx_host_tensor *t, int64_t row, int64_t col, lx_dtype to, lx_block *out)
{
    int64_t at = row * t->cols + col, n = t->cols - col < LX_BLOCK ? t->cols - col : LX_BLOCK;
    float x[LX_BLOCK] = {0}, most = 0;
    if (t->dtype == to) {
        take_block(to, block_at(t, at), out);
        return;
    }
    lx_host_tensor_expand(t, at, n, x);
    for (int i = 0; i < LX_BLOCK; i++)
        most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    if (to == LX_Q8_0) {
        (void)round_block(x, fabs((double)most) / 127, -127, 127, out);
        return;
    }
    double errors = round_block(x, (double)most / -8, -8, 7, out);
    lx_block again;
    if (round_block(x, best_scale(x, out), -8, 7, &again) < errors)
        *out = again;
}
