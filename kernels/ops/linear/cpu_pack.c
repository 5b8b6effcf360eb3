/*
 * Packs the weights of a `linear` once, at load, into the order of the inner loops (cpu_job.h).
 * bf16 and blocks keep their size in memory, because a single token takes the time to read all
 * weights. f16 becomes f32, which keeps its value. Precisions int8 and int4 round every type to
 * whole numbers with scales (lx_precision in kernels.h).
 *
 * Weights that are read in parts go from the file's cache to their place through memory that stays
 * in a thread's second-level cache. So the process never has a copy of a matrix.
 */
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pool.h"

enum { PIECE_BYTES = 2 << 20 };  /* of packed weights, a huge page: threads rarely share one */
enum { READ_BYTES = 256 << 10 }; /* at once, where that is a group and more */

/* The packers below get the rows of one group, as many as there are. */

typedef uint32_t words_4 __attribute__((vector_size(16)));

/* Four words of each of four rows become four words of four outputs. */
static void turn_4x4(const unsigned char *from, int64_t row_bytes, uint32_t *to)
{
    words_4 row[4];
    for (int i = 0; i < 4; i++)
        memcpy(&row[i], from + i * row_bytes, sizeof row[i]);
    words_4 low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
    words_4 low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
    words_4 high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
    words_4 high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
    const words_4 turned[] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                              __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                              __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                              __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
    for (int i = 0; i < 4; i++)
        memcpy(to + i * LX_CPU_GROUP, &turned[i], sizeof turned[i]);
}

/* n bytes of at most four rows. Zeros fill the last word of rows that end within it. */
static void pack_lanes(const unsigned char *from, int64_t row_bytes, int64_t rows, int64_t n,
                       uint32_t *to)
{
    int64_t i = 0;
    for (; rows == 4 && i + 16 <= n; i += 16)
        turn_4x4(from + i, row_bytes, to + i / 4 * LX_CPU_GROUP);
    for (; i < n; i += 4) {
        for (int64_t lane = 0; lane < rows; lane++) {
            uint32_t word = 0;
            memcpy(&word, from + lane * row_bytes + i, n - i < 4 ? (size_t)(n - i) : 4);
            to[i / 4 * LX_CPU_GROUP + lane] = word;
        }
    }
}

/* The words of rows as they are in the file: an f32 input, or two of bf16. A cache line of four
   rows at a time, because rows of whole pages compete for the same few lines of the cache. */
static void pack_words(const lx_host_tensor *t, lx_matrix *w, int64_t group)
{
    enum { LINE = 64 };
    uint32_t *to = (uint32_t *)w->data + group * w->group_words;
    const unsigned char *from = t->data;
    int64_t row_bytes = (int64_t)lx_format_bytes(t->dtype, t->cols);
    for (int64_t at = 0; at < row_bytes; at += LINE) {
        int64_t n = row_bytes - at < LINE ? row_bytes - at : LINE;
        for (int64_t lane = 0; lane < t->rows; lane += 4)
            pack_lanes(from + lane * row_bytes + at, row_bytes,
                       t->rows - lane < 4 ? t->rows - lane : 4, n,
                       to + at / 4 * LX_CPU_GROUP + lane);
    }
}

static void pack_f32(const lx_host_tensor *t, lx_matrix *w, int64_t group)
{
    float *to = (float *)w->data + group * w->group_words;
    if (t->dtype == LX_F32) {
        pack_words(t, w, group);
        return;
    }
    for (int64_t lane = 0; lane < t->rows; lane++) {
        for (int64_t k = 0; k < t->cols; k++)
            to[k * LX_CPU_GROUP + lane] = lx_host_tensor_at(t, lane * t->cols + k);
    }
}

/* The weights of an output as whole numbers, with its scale and the sums of its chunks. */
static void pack_int8_row(const lx_host_tensor *t, lx_matrix *w, int64_t group, int64_t lane)
{
    int64_t cols = t->cols, chunks = lx_cpu_chunks(cols), o = group * LX_CPU_GROUP + lane;
    uint32_t *to = (uint32_t *)w->data + group * w->group_words + lane;
    int32_t *starts = w->starts + group * chunks * LX_CPU_GROUP + lane;
    float most = 0;
    for (int64_t k = 0; k < cols; k++)
        most = fmaxf(most, fabsf(lx_host_tensor_at(t, lane * cols + k)));
    float inverse = most > LX_CPU_LEAST_INT8 ? 127.0f / most : 0.0f;
    w->scales[o] = most > LX_CPU_LEAST_INT8 ? most / 127.0f : 0.0f;
    for (int64_t k = 0; k < cols; k++) {
        double exact = (double)lx_host_tensor_at(t, lane * cols + k) * (double)inverse;
        int32_t p = (int32_t)nearbyint(exact);
        to[k / 4 * LX_CPU_GROUP] |= (uint32_t)(uint8_t)p << (k % 4 * 8);
        starts[k / LX_CPU_CHUNK * LX_CPU_GROUP] -= 128 * p;
    }
}

static void pack_int8(const lx_host_tensor *t, lx_matrix *w, int64_t group)
{
    for (int64_t lane = 0; lane < t->rows; lane++)
        pack_int8_row(t, w, group, lane);
}

/* The words of a block of one output; a code is its number plus `zero`. */
static void put_codes(const lx_block *b, lx_cpu_format format, uint32_t *to)
{
    bool four = format == LX_CPU_Q4;
    for (int i = 0; i < LX_BLOCK; i++) {
        int word = four ? i / 8 : i / 4, shift = four ? i % 4 * 8 + i / 4 % 2 * 4 : i % 4 * 8;
        to[word * LX_CPU_GROUP] |= (uint32_t)(b->q[i] + (four ? 8 : 128)) << shift;
    }
}

/* As put_codes, for a block in the order of files: bytes q, or for each byte two numbers that are
   16 apart. Returns its scale. */
static uint16_t put_stored(const unsigned char *from, lx_cpu_format format, uint32_t *to)
{
    const uint32_t low = 0x0f0f0f0f, sign = 0x80808080;
    uint32_t words[LX_BLOCK / 4];
    memcpy(words, from + 2, format == LX_CPU_Q4 ? LX_BLOCK / 2 : LX_BLOCK);
    for (int i = 0; format == LX_CPU_Q8 && i < LX_BLOCK / 4; i++)
        to[i * LX_CPU_GROUP] = words[i] ^ sign;
    for (int i = 0; format == LX_CPU_Q4 && i < 2; i++) {
        uint32_t first = words[2 * i], second = words[2 * i + 1];
        to[i * LX_CPU_GROUP] = (first & low) | (second & low) << 4;
        to[(i + 2) * LX_CPU_GROUP] = (first >> 4 & low) | (second & ~low);
    }
    return (uint16_t)(from[0] | from[1] << 8);
}

/* The block of 32 inputs from `col` on of a group's words. */
static uint32_t *k_block_at(uint32_t *words, lx_cpu_format format, int64_t col)
{
    return words + col / LX_K_BLOCK * LX_CPU_K_WORDS(format) + LX_CPU_K_HEAD_WORDS(format) +
           col % LX_K_BLOCK / LX_BLOCK * LX_CPU_BLOCK_WORDS(format);
}

/* The codes of output `lane` of a block of 32 inputs. */
static uint32_t *k_codes_at(uint32_t *words, lx_cpu_format format, int64_t lane)
{
    return words + lx_cpu_k_codes(format) + lane / 16 * lx_cpu_k_panel(format) + lane % 16;
}

/* Puts the low halves of 32 bytes, or their high halves, as an output's words. */
static void put_halves(const unsigned char *from, bool high, lx_cpu_format format, uint32_t *to)
{
    uint32_t words[LX_BLOCK / 4];
    memcpy(words, from, sizeof words);
    for (int i = 0; i < LX_BLOCK / 8; i++) {
        uint32_t first = words[2 * i] >> (high ? 4 : 0), second = words[2 * i + 1];
        second = high ? second & ~0x0f0f0f0fu : (second & 0x0f0f0f0fu) << 4;
        to[lx_cpu_k_halves(format, i)] = (first & 0x0f0f0f0fu) | second;
    }
}

static void put_f16(const unsigned char *from, uint32_t *words, int64_t lane)
{
    uint16_t scale = (uint16_t)(from[0] | from[1] << 8);
    memcpy((uint16_t *)(void *)words + lane, &scale, sizeof scale);
}

/* The word of bit `bit` of 32 bytes: of byte i, bit 8 (i % 4) + i / 4. */
static uint32_t gather_bits(const unsigned char *from, int bit)
{
    uint32_t words[LX_BLOCK / 4], all = 0;
    memcpy(words, from, sizeof words);
    for (int k = 0; k < LX_BLOCK / 4; k++)
        all |= (words[k] >> bit & 0x01010101u) << k;
    return all;
}

/* Of q4_k or q5_k; see expand_q4_k in kernels/formats.c. */
static void put_q4_k(const unsigned char *from, lx_cpu_format format, uint32_t *to, int64_t lane)
{
    const unsigned char *low = from + (format == LX_CPU_Q5_K ? 48 : 16);
    put_f16(from, to, lane);
    put_f16(from + 2, to + LX_CPU_GROUP / 2, lane);
    for (int i = 0; i < LX_K_BLOCK / LX_BLOCK; i++) {
        uint32_t *words = k_block_at(to, format, i * LX_BLOCK);
        uint8_t *scales = (uint8_t *)(words + lx_cpu_k_scales(format)) + lane;
        uint32_t *codes = k_codes_at(words, format, lane);
        int scale, min;
        lx_q4_k_scale(from, i, &scale, &min);
        scales[0] = (uint8_t)scale;
        scales[LX_CPU_GROUP] = (uint8_t)min;
        put_halves(low + i / 2 * LX_BLOCK, i % 2 != 0, format, codes);
        if (format == LX_CPU_Q5_K)
            codes[lx_cpu_k_high(0)] = gather_bits(from + 16, i);
    }
}

/* See expand_q6_k in kernels/formats.c. */
static void put_q6_k(const unsigned char *from, uint32_t *to, int64_t lane)
{
    const unsigned char *high = from + LX_K_BLOCK / 2, *scales = high + LX_K_BLOCK / 4;
    put_f16(scales + LX_K_BLOCK / 16, to, lane);
    for (int i = 0; i < LX_K_BLOCK / LX_BLOCK; i++) {
        uint32_t *words = k_block_at(to, LX_CPU_Q6_K, i * LX_BLOCK), bits[LX_BLOCK / 4];
        uint8_t *to_scales = (uint8_t *)(words + lx_cpu_k_scales(LX_CPU_Q6_K)) + lane;
        uint32_t *codes = k_codes_at(words, LX_CPU_Q6_K, lane);
        int half = i / 4, part = i % 4;
        put_halves(from + half * 64 + part % 2 * LX_BLOCK, part / 2 != 0, LX_CPU_Q6_K, codes);
        memcpy(bits, high + half * LX_BLOCK, sizeof bits);
        for (int k = 0; k < LX_BLOCK / 4; k++)
            codes[lx_cpu_k_high(k / 4)] |= (bits[k] >> (2 * part) & 0x03030303u) << (k % 4 * 2);
        to_scales[0] = scales[2 * i];
        to_scales[LX_CPU_GROUP] = scales[2 * i + 1];
    }
}

static void pack_k_blocks(const lx_host_tensor *t, lx_matrix *w, int64_t group)
{
    uint32_t *to = (uint32_t *)w->data + group * w->group_words;
    for (int64_t k = 0; k < t->cols; k += LX_K_BLOCK, to += LX_CPU_K_WORDS(w->format)) {
        for (int64_t lane = 0; lane < t->rows; lane++) {
            size_t at = lx_format_bytes(t->dtype, lane * t->cols + k);
            const unsigned char *from = (const unsigned char *)t->data + at;
            if (w->format == LX_CPU_Q6_K)
                put_q6_k(from, to, lane);
            else
                put_q4_k(from, w->format, to, lane);
        }
    }
}

/* The number of input i of a block of a K-quant, as it is stored. */
static int k_code_at(const uint32_t *codes, lx_cpu_format format, int i)
{
    int code = (int)(codes[lx_cpu_k_halves(format, i / 8)] >> (i % 4 * 8 + i / 4 % 2 * 4) & 15u);
    if (format == LX_CPU_Q5_K)
        code |= (int)(codes[lx_cpu_k_high(0)] >> (i % 4 * 8 + i / 4) & 1u) << 4;
    if (format == LX_CPU_Q6_K)
        code |= (int)(codes[lx_cpu_k_high(i / 16)] >> (i % 4 * 8 + i % 16 / 4 * 2) & 3u) << 4;
    return code;
}

static float f16_of_lane(const uint32_t *words, int64_t lane)
{
    return lx_f16_to_f32(((const uint16_t *)(const void *)words)[lane]);
}

/* As lx_cpu_block_values, in the order of lx_host_tensor_at. */
static void k_block_values(const lx_matrix *w, int64_t row, int64_t col, float *to)
{
    uint32_t *group = (uint32_t *)w->data + row / LX_CPU_GROUP * w->group_words;
    const uint32_t *head = group + col / LX_K_BLOCK * LX_CPU_K_WORDS(w->format);
    uint32_t *words = k_block_at(group, w->format, col);
    int64_t lane = row % LX_CPU_GROUP;
    const uint32_t *codes = k_codes_at(words, w->format, lane);
    const int8_t *scales = (const int8_t *)(words + lx_cpu_k_scales(w->format)) + lane;
    float d = f16_of_lane(head, lane);
    for (int i = 0; i < LX_BLOCK; i++) {
        int code = k_code_at(codes, w->format, i), part = i / 16;
        if (w->format == LX_CPU_Q6_K)
            to[i] = d * (float)scales[part * LX_CPU_GROUP] * (float)(code - 32);
        else
            to[i] = d * (float)scales[0] * (float)code -
                    f16_of_lane(head + LX_CPU_GROUP / 2, lane) * (float)scales[LX_CPU_GROUP];
    }
}

void lx_cpu_block_values(const lx_matrix *w, int64_t row, int64_t col, float *to)
{
    if (lx_cpu_in_k_blocks(w)) {
        k_block_values(w, row, col, to);
        return;
    }
    bool four = w->format == LX_CPU_Q4;
    const uint32_t *words = (const uint32_t *)w->data + row / LX_CPU_GROUP * w->group_words +
                            col / LX_BLOCK * LX_CPU_BLOCK_WORDS(w->format);
    const uint16_t *scales = (const uint16_t *)(const void *)(words + LX_CPU_CODE_WORDS(w->format));
    int64_t lane = row % LX_CPU_GROUP;
    float scale = lx_f16_to_f32(scales[lane]);
    for (int i = 0; i < LX_BLOCK; i++) {
        int word = four ? i / 8 : i / 4, shift = four ? i % 4 * 8 + i / 4 % 2 * 4 : i % 4 * 8;
        int code = (int)(words[word * LX_CPU_GROUP + lane] >> shift & (four ? 15u : 255u));
        to[i] = (float)(code - (four ? 8 : 128)) * scale;
    }
}

static void pack_blocks(const lx_host_tensor *t, lx_matrix *w, int64_t group)
{
    lx_dtype dtype = w->format == LX_CPU_Q4 ? LX_Q4_0 : LX_Q8_0;
    uint32_t *to = (uint32_t *)w->data + group * w->group_words;
    for (int64_t k = 0; k < t->cols; k += LX_BLOCK, to += LX_CPU_BLOCK_WORDS(w->format)) {
        uint16_t *scales = (uint16_t *)(void *)(to + LX_CPU_CODE_WORDS(w->format));
        for (int64_t lane = 0; lane < t->rows; lane++) {
            lx_block block;
            if (t->dtype == dtype) {
                size_t at = lx_format_bytes(dtype, lane * t->cols + k);
                scales[lane] =
                    put_stored((const unsigned char *)t->data + at, w->format, to + lane);
                continue;
            }
            lx_block_of(t, lane, k, dtype, &block);
            put_codes(&block, w->format, to + lane);
            scales[lane] = block.scale;
        }
    }
}

/* How a format packs a group: `words` for each unit of so many inputs. */
static const struct {
    int64_t inputs, words;
    void (*pack)(const lx_host_tensor *t, lx_matrix *w, int64_t group);
} packers[LX_CPU_FORMATS] = {
    [LX_CPU_F32] = {1, LX_CPU_GROUP, pack_f32},
    [LX_CPU_BF16] = {LX_CPU_TILE * 2, LX_CPU_TILE *LX_CPU_GROUP, pack_words},
    [LX_CPU_INT8] = {LX_CPU_TILE * 4, LX_CPU_TILE *LX_CPU_GROUP, pack_int8},
    [LX_CPU_Q8] = {LX_BLOCK, LX_CPU_BLOCK_WORDS(LX_CPU_Q8), pack_blocks},
    [LX_CPU_Q4] = {LX_BLOCK, LX_CPU_BLOCK_WORDS(LX_CPU_Q4), pack_blocks},
    [LX_CPU_Q4_K] = {LX_K_BLOCK, LX_CPU_K_WORDS(LX_CPU_Q4_K), pack_k_blocks},
    [LX_CPU_Q5_K] = {LX_K_BLOCK, LX_CPU_K_WORDS(LX_CPU_Q5_K), pack_k_blocks},
    [LX_CPU_Q6_K] = {LX_K_BLOCK, LX_CPU_K_WORDS(LX_CPU_Q6_K), pack_k_blocks},
};

static lx_cpu_format format_of(lx_precision precision, lx_dtype dtype)
{
    static const lx_cpu_format stored[] = {
        [LX_F32] = LX_CPU_F32,   [LX_BF16] = LX_CPU_BF16, [LX_F16] = LX_CPU_F32,
        [LX_Q8_0] = LX_CPU_Q8,   [LX_Q4_0] = LX_CPU_Q4,   [LX_F32_OF_BLOCKS] = LX_CPU_Q8,
        [LX_Q4_K] = LX_CPU_Q4_K, [LX_Q5_K] = LX_CPU_Q5_K, [LX_Q6_K] = LX_CPU_Q6_K};
    if (precision == LX_PRECISION_F32)
        return dtype == LX_BF16 ? LX_CPU_BF16 : LX_CPU_F32;
    return precision == LX_PRECISION_INT8   ? LX_CPU_INT8
           : precision == LX_PRECISION_INT4 ? LX_CPU_Q4
                                            : stored[dtype];
}

/* Whether no weight is above `most`. */
static bool is_held(const lx_host_tensor *t, float most)
{
    for (int64_t i = 0; i < t->rows * t->cols; i++) {
        if (!(fabsf(lx_host_tensor_at(t, i)) <= most))
            return false;
    }
    return true;
}

/* Rounding to whole numbers needs weights that its scales can hold. */
static lx_status check_weights(lx_precision precision, lx_cpu_format format,
                               const lx_host_tensor *t, lx_error *err)
{
    float most = format == LX_CPU_INT8 ? FLT_MAX : LX_BLOCK_MOST;
    bool rounds = format == LX_CPU_INT8 || (format == LX_CPU_Q8 && t->dtype != LX_Q8_0) ||
                  (format == LX_CPU_Q4 && t->dtype != LX_Q4_0);
    if (!rounds || is_held(t, most))
        return LX_OK;
    return lx_fail(err, LX_ERR_UNSUPPORTED, "precision",
                   "a weight is not finite or above %g: precision %s cannot hold it", (double)most,
                   lx_precision_name(precision));
}

static size_t starts_bytes(const lx_matrix *w)
{
    return (size_t)(w->groups * lx_cpu_chunks(w->shape.cols) * LX_CPU_GROUP) * sizeof(int32_t);
}

/* A matrix without its data. */
static lx_matrix shape_of(lx_precision precision, const lx_host_tensor *t)
{
    lx_matrix w = {.shape = {t->rows, t->cols},
                   .groups = (t->rows + LX_CPU_GROUP - 1) / LX_CPU_GROUP,
                   .format = format_of(precision, t->dtype)};
    int64_t inputs = packers[w.format].inputs;
    w.group_words = (t->cols + inputs - 1) / inputs * packers[w.format].words;
    w.n_bytes = (size_t)(w.groups * w.group_words) * 4;
    return w;
}

int64_t lx_cpu_matrix_bytes(const lx_backend *be, const lx_host_tensor *t)
{
    lx_matrix w = shape_of(be->precision, t);
    int64_t outputs = w.groups * LX_CPU_GROUP * (int64_t)sizeof(float);
    return (int64_t)w.n_bytes +
           (w.format == LX_CPU_INT8 ? 2 * outputs + (int64_t)starts_bytes(&w) : outputs);
}

static bool reserve(lx_cpu *c, lx_matrix *w)
{
    w->data = lx_cpu_weights_new(&c->weights, w->n_bytes);
    w->bias = calloc((size_t)(w->groups * LX_CPU_GROUP), sizeof(float));
    if (w->format == LX_CPU_INT8) {
        w->scales = calloc((size_t)(w->groups * LX_CPU_GROUP), sizeof(float));
        w->starts = lx_cpu_weights_new(&c->weights, starts_bytes(w));
        if (w->scales == NULL || w->starts == NULL)
            return false;
    }
    return w->data != NULL && w->bias != NULL;
}

/* Groups that threads take from, `piece` at a time. The first error of a thread is kept. */
typedef struct packing {
    const lx_host_tensor *t;
    const lx_row_reader *reader; /* NULL: the rows are at t->data */
    lx_matrix *w;
    lx_precision precision;
    int64_t piece, read; /* groups that are packed, and that are read, at once */
    _Atomic int64_t next;
    atomic_bool failed;
    lx_error error;
} packing;

/* Groups from .. to - 1, whose rows are at `data`. */
static lx_status pack_groups(const packing *p, int64_t from, int64_t to, const char *data,
                             lx_error *err)
{
    lx_host_tensor rows = {.dtype = p->t->dtype, .cols = p->t->cols};
    lx_status st = LX_OK;
    for (int64_t g = from; g < to && st == LX_OK; g++) {
        int64_t first = (g - from) * LX_CPU_GROUP, left = p->t->rows - g * LX_CPU_GROUP;
        rows.rows = left < LX_CPU_GROUP ? left : LX_CPU_GROUP;
        rows.data = data + lx_format_bytes(rows.dtype, first * rows.cols);
        st = check_weights(p->precision, p->w->format, &rows, err);
        if (st == LX_OK)
            packers[p->w->format].pack(&rows, p->w, g);
    }
    return st;
}

/* Reads and packs a piece, through `memory` of `read` groups. */
static lx_status pack_piece(const packing *p, int64_t from, int64_t to, char *memory, lx_error *err)
{
    lx_status st = LX_OK;
    const lx_host_tensor *t = p->t;
    if (p->reader == NULL)
        return pack_groups(
            p, from, to,
            (const char *)t->data + lx_format_bytes(t->dtype, from * LX_CPU_GROUP * t->cols), err);
    for (int64_t g = from; g < to && st == LX_OK; g += p->read) {
        int64_t end = to - g < p->read ? to : g + p->read;
        int64_t row = g * LX_CPU_GROUP, row1 = end * LX_CPU_GROUP;
        row1 = row1 < t->rows ? row1 : t->rows;
        st = p->reader->read(p->reader->context, row, row1 - row, memory, err);
        if (st == LX_OK)
            st = pack_groups(p, g, end, memory, err);
    }
    return st;
}

static void pack_pieces(void *context, int thread)
{
    packing *p = context;
    (void)thread;
    lx_error err;
    lx_status st = LX_OK;
    size_t n_bytes = lx_format_bytes(p->t->dtype, p->read * LX_CPU_GROUP * p->t->cols);
    char *memory = p->reader != NULL ? malloc(n_bytes) : NULL;
    if (p->reader != NULL && memory == NULL)
        st = lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory to read weights");
    while (st == LX_OK && !atomic_load(&p->failed)) {
        int64_t begin = atomic_fetch_add(&p->next, p->piece), left = p->w->groups - begin;
        if (left <= 0)
            break;
        st = pack_piece(p, begin, begin + (left < p->piece ? left : p->piece), memory, &err);
    }
    if (st != LX_OK && !atomic_exchange(&p->failed, true))
        p->error = err;
    free(memory);
}

/* Packs a large matrix on new threads, as the compute threads may run a step. The system clears new
   pages first, which takes half of the time. Without new threads this thread does it. */
static lx_status pack(const lx_cpu *c, const lx_host_tensor *t, const lx_row_reader *reader,
                      lx_matrix *w, lx_error *err)
{
    int64_t group_bytes = w->group_words * 4;
    int64_t row_bytes = (int64_t)lx_format_bytes(t->dtype, LX_CPU_GROUP * t->cols);
    packing p = {.t = t,
                 .reader = reader,
                 .w = w,
                 .precision = c->host.base.precision,
                 .piece = (PIECE_BYTES + group_bytes - 1) / group_bytes,
                 .read = row_bytes < READ_BYTES ? READ_BYTES / row_bytes : 1};
    int64_t pieces = (w->groups + p.piece - 1) / p.piece;
    lx_cpu_pool *pool = NULL;
    lx_error none;
    atomic_init(&p.next, 0);
    atomic_init(&p.failed, false);
    int threads = (int)(pieces < c->n_threads ? pieces : c->n_threads);
    if (threads > 1 && lx_cpu_pool_new(threads, &pool, &none) == LX_OK)
        lx_cpu_pool_run(pool, pack_pieces, &p);
    else
        pack_pieces(&p, 0);
    lx_cpu_pool_free(pool);
    if (!atomic_load(&p.failed))
        return LX_OK;
    if (err != NULL)
        *err = p.error;
    return p.error.status;
}

lx_status lx_cpu_matrix_new(lx_backend *be, const lx_host_tensor *t, const lx_row_reader *rows,
                            const float *bias, lx_matrix **out, lx_error *err)
{
    lx_status st = lx_host_tensor_check(t, rows, "a matrix", err);
    if (st != LX_OK)
        return st;
    lx_matrix *w = calloc(1, sizeof *w);
    if (w == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a matrix");
    *w = shape_of(be->precision, t);
    if (!reserve((lx_cpu *)be, w)) {
        lx_cpu_matrix_free(be, w);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a matrix [%lld, %lld]",
                       (long long)t->rows, (long long)t->cols);
    }
    st = pack((const lx_cpu *)be, t, rows, w, err);
    if (st != LX_OK) {
        lx_cpu_matrix_free(be, w);
        return st;
    }
    if (bias != NULL)
        memcpy(w->bias, bias, (size_t)t->rows * sizeof(float));
    *out = w;
    return LX_OK;
}

void lx_cpu_matrix_free(lx_backend *be, lx_matrix *w)
{
    lx_cpu *c = (lx_cpu *)be;
    atomic_fetch_add(&c->host.n_freed, 1);
    if (w == NULL)
        return;
    for (int32_t i = 0; i < w->n_parts; i++)
        lx_cpu_matrix_free(be, w->parts[i]);
    free(w->parts);
    lx_cpu_weights_free(&c->weights, w->data, w->n_bytes);
    if (w->starts != NULL)
        lx_cpu_weights_free(&c->weights, w->starts, starts_bytes(w));
    free(w->scales);
    free(w->bias);
    free(w);
}

_Static_assert(LX_JOINED_ROWS == LX_CPU_GROUP, "parts are whole groups");

lx_status lx_cpu_matrix_join(lx_backend *be, lx_matrix *const *parts, int32_t n, lx_matrix **out,
                             lx_error *err)
{
    lx_matrix *w = calloc(1, sizeof *w);
    if (w != NULL)
        w->parts = malloc((size_t)n * sizeof(lx_matrix *));
    if (w == NULL || w->parts == NULL) {
        for (int32_t i = 0; i < n; i++)
            lx_cpu_matrix_free(be, parts[i]);
        free(w);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a matrix");
    }
    w->n_parts = n;
    w->shape.cols = parts[0]->shape.cols;
    for (int32_t i = 0; i < n; i++) {
        w->parts[i] = parts[i];
        w->shape.rows += parts[i]->shape.rows;
        w->groups += parts[i]->groups;
    }
    *out = w;
    return LX_OK;
}

lx_status lx_cpu_table_of(lx_backend *be, const lx_matrix *w, lx_dtype dtype, lx_table **out,
                          lx_error *err)
{
    (void)be;
    /* the type whose values the matrix holds */
    static const lx_dtype held[LX_CPU_FORMATS] = {[LX_CPU_Q8] = LX_Q8_0,
                                                  [LX_CPU_Q4] = LX_Q4_0,
                                                  [LX_CPU_Q4_K] = LX_Q4_K,
                                                  [LX_CPU_Q5_K] = LX_Q5_K,
                                                  [LX_CPU_Q6_K] = LX_Q6_K};
    bool same = dtype == held[w->format] || (w->format == LX_CPU_Q8 && dtype == LX_F32_OF_BLOCKS);
    if (!lx_cpu_in_blocks(w) || !same)
        return LX_OK;
    lx_table *t = calloc(1, sizeof *t);
    if (t == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an embedding table");
    *t =
        (lx_table){.dtype = held[w->format], .rows = w->shape.rows, .cols = w->shape.cols, .of = w};
    *out = t;
    return LX_OK;
}
