/* See values.h. Names in capitals are ggml's. */
#include "model/formats/gguf/values.h"

#include <string.h>

static uint16_t half_bits(const unsigned char *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static float half(const unsigned char *bytes)
{
    return lx_f16_to_f32(half_bits(bytes));
}

/* --- blocks of 32: nibble j is the low half of byte j, nibble j + 16 its high half --- */

static void unpack_q4_1(const unsigned char *block, float *to)
{
    float d = half(block), m = half(block + 2);
    for (int j = 0; j < 16; j++) {
        to[j] = (float)(block[4 + j] & 15) * d + m;
        to[j + 16] = (float)(block[4 + j] >> 4) * d + m;
    }
}

/* Number j of a block whose fifth bits come first. */
static int fifth_bits(const unsigned char *high, const unsigned char *low, int j)
{
    int nibble = j < 16 ? low[j] & 15 : low[j - 16] >> 4;
    return nibble | (high[j / 8] >> (j % 8) & 1) << 4;
}

static void unpack_q5_0(const unsigned char *block, float *to)
{
    float d = half(block);
    for (int j = 0; j < 32; j++)
        to[j] = (float)(fifth_bits(block + 2, block + 6, j) - 16) * d;
}

static void unpack_q5_1(const unsigned char *block, float *to)
{
    float d = half(block), m = half(block + 2);
    for (int j = 0; j < 32; j++)
        to[j] = (float)fifth_bits(block + 4, block + 8, j) * d + m;
}

/* --- K-quants: blocks of 256, with scales of their parts --- */

static void unpack_q2_k(const unsigned char *block, float *to)
{
    const unsigned char *scales = block, *q = block + 16;
    float d = half(block + 80), min = half(block + 82);
    for (int j = 0; j < 256; j++) {
        int scale = scales[j / 16];
        int x = q[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3;
        to[j] = d * (float)(scale & 15) * (float)x - min * (float)(scale >> 4);
    }
}

/* Scale i of sixteen six-bit ones, of which the upper two bits lie in the last four bytes. */
static int q3_k_scale(const unsigned char *scales, int i)
{
    int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
    return (low | (scales[8 + i % 4] >> (i / 4 * 2) & 3) << 4) - 32;
}

static void unpack_q3_k(const unsigned char *block, float *to)
{
    const unsigned char *high = block, *q = block + 32;
    float d = half(block + 108);
    for (int j = 0; j < 256; j++) {
        int x = q[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3;
        int is_high = high[j % 32] >> (j / 32) & 1;
        to[j] = d * (float)q3_k_scale(block + 96, j / 16) * (float)(x - (is_high ? 0 : 4));
    }
}

/* As Q4_K, with fifth bits (kernels/formats.c). */
static void unpack_q5_k(const unsigned char *block, float *to)
{
    const unsigned char *high = block + 16, *low = block + 48;
    float d = half(block), min = half(block + 2);
    for (int i = 0; i < 8; i++) {
        int scale, least;
        lx_q4_k_scale(block, i, &scale, &least);
        float factor = d * (float)scale, minus = min * (float)least;
        for (int j = 0; j < 32; j++) {
            int x = (low[i / 2 * 32 + j] >> (i % 2 * 4) & 15) | (high[j] >> i & 1) << 4;
            to[32 * i + j] = factor * (float)x - minus;
        }
    }
}

/* --- IQ4: nibbles choose from a table --- */

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

static void unpack_iq4(const unsigned char *low, float d, float *to)
{
    for (int j = 0; j < 16; j++) {
        to[j] = d * (float)iq4_values[low[j] & 15];
        to[j + 16] = d * (float)iq4_values[low[j] >> 4];
    }
}

static void unpack_iq4_nl(const unsigned char *block, float *to)
{
    unpack_iq4(block + 2, half(block), to);
}

static void unpack_iq4_xs(const unsigned char *block, float *to)
{
    int high = half_bits(block + 2);
    for (int i = 0; i < 8; i++) {
        int scale = (block[4 + i / 2] >> (i % 2 * 4) & 15) | (high >> (2 * i) & 3) << 4;
        unpack_iq4(block + 8 + 16 * i, half(block) * (float)(scale - 32), to + 32 * i);
    }
}

/* --- the table --- */

static const lx_gguf_type types[] = {
    {.name = "F32", .id = 0, .block = 1, .bytes = 4, .dtype = LX_F32},
    {.name = "F16", .id = 1, .block = 1, .bytes = 2, .dtype = LX_F16},
    {.name = "BF16", .id = 30, .block = 1, .bytes = 2, .dtype = LX_BF16},
    {.name = "Q4_0", .id = 2, .block = 32, .bytes = 18, .dtype = LX_Q4_0, .n_scales = 1},
    {.name = "Q8_0", .id = 8, .block = 32, .bytes = 34, .dtype = LX_Q8_0, .n_scales = 1},
    {.name = "Q4_K", .id = 12, .block = 256, .bytes = 144, .dtype = LX_Q4_K, .n_scales = 2},
    {.name = "Q6_K",
     .id = 14,
     .block = 256,
     .bytes = 210,
     .dtype = LX_Q6_K,
     .n_scales = 1,
     .scales_at = 208},
#define BLOCKS(NAME, ID, BLOCK, BYTES, SCALES, AT, UNPACK)                                         \
    {.name = (NAME),                                                                               \
     .id = (ID),                                                                                   \
     .block = (BLOCK),                                                                             \
     .bytes = (BYTES),                                                                             \
     .dtype = LX_F32_OF_BLOCKS,                                                                    \
     .n_scales = (SCALES),                                                                         \
     .scales_at = (AT),                                                                            \
     .unpack = (UNPACK)},
    BLOCKS("Q4_1", 3, 32, 20, 2, 0, unpack_q4_1) BLOCKS("Q5_0", 6, 32, 22, 1, 0, unpack_q5_0)
        BLOCKS("Q5_1", 7, 32, 24, 2, 0, unpack_q5_1) BLOCKS("Q2_K", 10, 256, 84, 2, 80, unpack_q2_k)
            BLOCKS("Q3_K", 11, 256, 110, 1, 108, unpack_q3_k)
                BLOCKS("Q5_K", 13, 256, 176, 2, 0, unpack_q5_k)
                    BLOCKS("IQ4_NL", 20, 32, 18, 1, 0, unpack_iq4_nl)
                        BLOCKS("IQ4_XS", 23, 256, 136, 1, 0, unpack_iq4_xs)};

const char lx_gguf_type_names[] =
    "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS";

const lx_gguf_type *lx_gguf_type_of(uint32_t id)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].id == id)
            return &types[i];
    }
    return NULL;
}

const char *lx_gguf_type_name(uint32_t id)
{
    static const char *const names[] = {
        [9] = "Q8_1",   [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS",
        [19] = "IQ1_S", [21] = "IQ3_S", [22] = "IQ2_S",   [24] = "I8",     [25] = "I16",
        [26] = "I32",   [27] = "I64",   [28] = "F64",     [29] = "IQ1_M",  [34] = "TQ1_0",
        [35] = "TQ2_0", [39] = "MXFP4", [40] = "NVFP4"};
    return id < sizeof names / sizeof *names ? names[id] : NULL;
}

void lx_gguf_numbers(const lx_gguf_type *t, const unsigned char *blocks, uint64_t n_bytes,
                     float *to)
{
    const lx_host_tensor all = {t->dtype, 1, (int64_t)(n_bytes / t->bytes * t->block), blocks};
    if (t->unpack == NULL)
        lx_host_tensor_expand(&all, 0, all.cols, to);
    for (uint64_t at = 0; t->unpack != NULL && at < n_bytes; at += t->bytes, to += t->block)
        t->unpack(blocks + at, to);
}

bool lx_gguf_scales_are_finite(const lx_gguf_type *t, const unsigned char *data, uint64_t n_bytes)
{
    bool finite = true;
    for (uint64_t at = t->scales_at; at < n_bytes; at += t->bytes) {
        for (uint32_t i = 0; i < t->n_scales; i++)
            finite &= (half_bits(data + at + 2 * i) & 0x7c00) != 0x7c00;
    }
    return finite;
}
