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
static int with_fifth_bit(const unsigned char *high, const unsigned char *low, int j)
{
    int nibble = j < 16 ? low[j] & 15 : low[j - 16] >> 4;
    return nibble | (high[j / 8] >> (j % 8) & 1) << 4;
}

/* Q8_0 holds the numbers of Q5_0. */
static void repack_q5_0(const unsigned char *block, unsigned char *to)
{
    lx_block b = {.scale = half_bits(block)};
    for (int j = 0; j < 32; j++)
        b.q[j] = (int8_t)(with_fifth_bit(block + 2, block + 6, j) - 16);
    lx_block_put(&b, LX_Q8_0, to);
}

static void unpack_q5_1(const unsigned char *block, float *to)
{
    float d = half(block), m = half(block + 2);
    for (int j = 0; j < 32; j++)
        to[j] = (float)with_fifth_bit(block + 4, block + 8, j) * d + m;
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

/* Q6_K holds the numbers of Q3_K; expand_q6_k in kernels/formats.c has its bytes. */
static void repack_q3_k(const unsigned char *block, unsigned char *to)
{
    const unsigned char *high = block, *low = block + 32;
    memset(to, 0, 192);
    for (int j = 0; j < 256; j++) {
        int x = low[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3;
        int is_high = high[j % 32] >> (j / 32) & 1, code = x - (is_high ? 0 : 4) + 32;
        int part = j % 128 / 32, k = j % 32;
        to[j / 128 * 64 + part % 2 * 32 + k] |= (unsigned char)((code & 15) << (part / 2 * 4));
        to[128 + j / 128 * 32 + k] |= (unsigned char)(code >> 4 << (2 * part));
    }
    for (int i = 0; i < 16; i++)
        to[192 + i] = (unsigned char)q3_k_scale(block + 96, i);
    memcpy(to + 208, block + 108, 2);
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

/* Q8_0 holds the numbers of IQ4_NL. */
static void repack_iq4_nl(const unsigned char *block, unsigned char *to)
{
    lx_block b = {.scale = half_bits(block)};
    for (int j = 0; j < 16; j++) {
        b.q[j] = iq4_values[block[2 + j] & 15];
        b.q[j + 16] = iq4_values[block[2 + j] >> 4];
    }
    lx_block_put(&b, LX_Q8_0, to);
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

/* clang-format off: a row per type */
static const lx_gguf_type types[] = {
    {"F32", 0, 1, 4, LX_F32, 0, 0, NULL, NULL},
    {"F16", 1, 1, 2, LX_F16, 0, 0, NULL, NULL},
    {"BF16", 30, 1, 2, LX_BF16, 0, 0, NULL, NULL},
    {"Q4_0", 2, 32, 18, LX_Q4_0, 1, 0, NULL, NULL},
    {"Q4_1", 3, 32, 20, LX_F32_OF_BLOCKS, 2, 0, NULL, unpack_q4_1},
    {"Q5_0", 6, 32, 22, LX_Q8_0, 1, 0, repack_q5_0, NULL},
    {"Q5_1", 7, 32, 24, LX_F32_OF_BLOCKS, 2, 0, NULL, unpack_q5_1},
    {"Q8_0", 8, 32, 34, LX_Q8_0, 1, 0, NULL, NULL},
    {"Q2_K", 10, 256, 84, LX_F32_OF_BLOCKS, 2, 80, NULL, unpack_q2_k},
    {"Q3_K", 11, 256, 110, LX_Q6_K, 1, 108, repack_q3_k, NULL},
    {"Q4_K", 12, 256, 144, LX_Q4_K, 2, 0, NULL, NULL},
    {"Q5_K", 13, 256, 176, LX_Q5_K, 2, 0, NULL, NULL},
    {"Q6_K", 14, 256, 210, LX_Q6_K, 1, 208, NULL, NULL},
    {"IQ4_NL", 20, 32, 18, LX_Q8_0, 1, 0, repack_iq4_nl, NULL},
    {"IQ4_XS", 23, 256, 136, LX_F32_OF_BLOCKS, 1, 0, NULL, unpack_iq4_xs}};
/* clang-format on */

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

void lx_gguf_repack(const lx_gguf_type *t, const unsigned char *blocks, uint64_t n_bytes,
                    unsigned char *to)
{
    for (uint64_t at = 0; at < n_bytes; at += t->bytes, to += lx_format_of(t->dtype)->n_bytes)
        t->repack(blocks + at, to);
}

void lx_gguf_numbers(const lx_gguf_type *t, const unsigned char *blocks, uint64_t n_bytes,
                     float *to)
{
    const lx_host_tensor all = {t->dtype, 1, (int64_t)(n_bytes / t->bytes * t->block), blocks};
    unsigned char repacked[LX_GGUF_MAX_BLOCK];
    const lx_host_tensor one = {t->dtype, 1, t->block, repacked};
    if (t->repack == NULL && t->unpack == NULL)
        lx_host_tensor_expand(&all, 0, all.cols, to);
    for (uint64_t at = 0; t->unpack != NULL && at < n_bytes; at += t->bytes, to += t->block)
        t->unpack(blocks + at, to);
    for (uint64_t at = 0; t->repack != NULL && at < n_bytes; at += t->bytes, to += t->block) {
        t->repack(blocks + at, repacked);
        lx_host_tensor_expand(&one, 0, one.cols, to);
    }
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
