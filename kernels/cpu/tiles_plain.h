/*
 * The operations of ops/linear/cpu_tiles.h in plain C, with the bits of the instructions of
 * tiles_amx.h as Intel's manual defines them. So every machine can test the tile kernels, and
 * compute the bits of a processor that has them, slowly.
 *
 * A product of bf16 is exact in f32's range of exponents and below its precision. Every sum rounds
 * to the nearest, whatever the processor's mode, and takes denormals as 0. A rounded result below
 * the least normal number becomes 0.
 */
#ifndef LINNET_KERNELS_CPU_TILES_H
#define LINNET_KERNELS_CPU_TILES_H

#include "kernels/cpu/v16_plain.h"

enum { TILE_FILE_TILES = 8, TILE_FILE_ROWS = 16, TILE_FILE_WORDS = 16 };

typedef struct tile_file {
    int rows[TILE_FILE_TILES], row_bytes[TILE_FILE_TILES];
    uint32_t words[TILE_FILE_TILES][TILE_FILE_ROWS][TILE_FILE_WORDS];
} tile_file;

static void tile_load(tile_file *file, int n, const void *from, int64_t stride)
{
    for (int r = 0; r < file->rows[n]; r++)
        memcpy(file->words[n][r], (const char *)from + r * stride, (size_t)file->row_bytes[n]);
}

static void tile_store(const tile_file *file, int n, void *to, int64_t stride)
{
    for (int r = 0; r < file->rows[n]; r++)
        memcpy((char *)to + r * stride, file->words[n][r], (size_t)file->row_bytes[n]);
}

/* a b + c, where c is not denormal */
static float tile_fma(float a, float b, float c)
{
    double exact = v16_add_odd((double)a * (double)b, (double)c);
    return fabs(exact) < 0x1p-126 - 0x1p-151 ? copysignf(0.0f, (float)exact) : (float)exact;
}

/* sum + the products of a row by sixteen outputs, pairs of bf16 */
static void tile_add_pairs(uint32_t *sum, const uint32_t *x, uint32_t (*w)[TILE_FILE_WORDS])
{
    float even[TILE_FILE_WORDS] = {0}, odd[TILE_FILE_WORDS] = {0};
    for (int k = 0; k < TILE_FILE_ROWS; k++) {
        float x_even = v16_flushed(x[k] << 16), x_odd = v16_flushed(x[k] & 0xffff0000u);
        for (int n = 0; n < TILE_FILE_WORDS; n++) {
            even[n] = tile_fma(x_even, v16_flushed(w[k][n] << 16), even[n]);
            odd[n] = tile_fma(x_odd, v16_flushed(w[k][n] & 0xffff0000u), odd[n]);
        }
    }
    for (int n = 0; n < TILE_FILE_WORDS; n++)
        sum[n] = v16_bits(tile_fma(tile_fma(even[n], 1.0f, odd[n]), 1.0f, v16_flushed(sum[n])));
}

/* As tile_add_pairs, of fours of bytes, x unsigned, w signed. */
static void tile_add_bytes(uint32_t *sum, const uint32_t *x, uint32_t (*w)[TILE_FILE_WORDS])
{
    for (int k = 0; k < TILE_FILE_ROWS; k++) {
        for (int n = 0; n < TILE_FILE_WORDS; n++) {
            for (int byte = 0; byte < 32; byte += 8)
                sum[n] += (uint32_t)((int32_t)(uint8_t)(x[k] >> byte) * (int8_t)(w[k][n] >> byte));
        }
    }
}

/* As tile_add_pairs, of fours of signed bytes in `words` words of a row. */
static void tile_add_codes(uint32_t *sum, const uint32_t *x, uint32_t (*w)[TILE_FILE_WORDS],
                           int words)
{
    for (int k = 0; k < words; k++) {
        for (int n = 0; n < TILE_FILE_WORDS; n++) {
            for (int byte = 0; byte < 32; byte += 8)
                sum[n] += (uint32_t)((int32_t)(int8_t)(x[k] >> byte) * (int8_t)(w[k][n] >> byte));
        }
    }
}

static void tile_add(tile_file *file, bool bytes, int sums, int x, int w)
{
    for (int r = 0; r < file->rows[sums]; r++) {
        if (bytes)
            tile_add_bytes(file->words[sums][r], file->words[x][r], file->words[w]);
        else
            tile_add_pairs(file->words[sums][r], file->words[x][r], file->words[w]);
    }
}

#define TILE_CONFIGURE(file, shapes)                                                               \
    do {                                                                                           \
        for (int tile = 0; tile < TILE_FILE_TILES; tile++) {                                       \
            (file)->rows[tile] = (shapes)->rows[tile];                                             \
            (file)->row_bytes[tile] = (shapes)->row_bytes[tile];                                   \
        }                                                                                          \
    } while (0)
#define TILE_RELEASE(file) ((void)(file))
#define TILE_LOAD(file, n, from, stride) tile_load(file, n, from, stride)
#define TILE_STORE(file, n, to, stride) tile_store(file, n, to, stride)
#define TILE_CLEAR(file, n) memset((file)->words[n], 0, sizeof(file)->words[n])
#define TILE_ADD_CODES(file, sums, x, w)                                                           \
    do {                                                                                           \
        for (int row = 0; row < (file)->rows[sums]; row++)                                         \
            tile_add_codes((file)->words[sums][row], (file)->words[x][row], (file)->words[w],      \
                           (file)->rows[w]);                                                       \
    } while (0)
#define TILE_ADD(file, bytes, sums, x, w) tile_add(file, bytes, sums, x, w)

#endif
