/*
 * `linear` with weights in blocks (block_types) compared with its definition in kernels.h:
 * random, peaky and odd values, odd sizes, outputs that begin as NaN. A back end that multiplies
 * whole numbers is compared with these numbers in double, another one with the oracle. Precision
 * int4 rounds other weights to blocks first.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"
#include "kept_results.h"

#define BOUND 2e-6 /* docs/numerics.md */
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

typedef struct block_case {
    int64_t cols, outputs;
    int32_t rows;
    lx_dtype dtype;
    lx_activation activation;
    bool has_bias, has_residual;
    pattern pattern;
} block_case;

typedef struct block_data {
    lx_host_tensor w;
    float *bias, *x, *residual; /* NULL for none, but for x */
} block_data;

static const lx_dtype block_types[] = {LX_Q8_0, LX_Q4_0, LX_Q4_K, LX_Q5_K, LX_Q6_K};

/* Any codes, and scales of both signs; with PEAKY of any size, denormal ones too. */
static lx_host_tensor random_blocks(rng *r, int64_t rows, int64_t cols, lx_dtype dtype, pattern p)
{
    size_t n_bytes = lx_format_bytes(dtype, rows * cols);
    size_t size = (size_t)lx_format_of(dtype)->n_bytes;
    size_t first = dtype == LX_Q6_K ? size - 2 : 0,
           n = dtype == LX_Q4_K || dtype == LX_Q5_K ? 2 : 1;
    unsigned char *bytes = take(n_bytes);
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (unsigned char)random_below(r, 256);
    for (size_t at = 0; at < n_bytes; at += size) {
        for (unsigned char *scale = bytes + at + first; scale < bytes + at + first + 2 * n;
             scale += 2) {
            uint32_t most = size > 2 + LX_BLOCK ? 18 : 22; /* int4 holds 4e5 */
            uint32_t exponent = p == PEAKY ? random_below(r, most) : 6 + random_below(r, 3);
            scale[1] = (unsigned char)((scale[1] & 0x83u) | exponent << 2);
        }
    }
    return (lx_host_tensor){dtype, rows, cols, bytes};
}

static bool is_in_blocks(lx_dtype dtype)
{
    return lx_format_of(dtype)->block > 1;
}

static block_data make_data(const block_case *c, rng *r)
{
    block_data d = {.x = random_floats(r, c->rows * c->cols, c->pattern, 6, 6)};
    if (is_in_blocks(c->dtype))
        d.w = random_blocks(r, c->outputs, c->cols, c->dtype, c->pattern);
    else
        d.w = tensor_of(random_floats(r, c->outputs * c->cols, c->pattern, 4, 3), c->outputs,
                        c->cols, c->dtype);
    if (c->has_bias)
        d.bias = random_floats(r, c->outputs, c->pattern, 4, 4);
    if (c->has_residual)
        d.residual = random_floats(r, c->rows * c->outputs, c->pattern, 4, 4);
    return d;
}

/* Rows first .. first + n - 1 of the case on a device. */
static bool run_blocks(device *d, const block_case *c, const block_data *data, const lx_matrix *w,
                       int32_t first, int32_t n, float *y)
{
    lx_array *x = dev_array(d, data->x + first * c->cols, n * c->cols);
    lx_array *out = dev_array(d, NULL, n * c->outputs), *residual = NULL;
    if (data->residual != NULL)
        residual = dev_array(d, data->residual + first * c->outputs, n * c->outputs);
    lx_linear_args args = {.y = out,
                           .x = x,
                           .w = w,
                           .activation = c->activation,
                           .residual = residual,
                           .rows = LX_ROWS_TOKENS};
    CHECK_OK(d->k->begin(d->be, single_rows(n), NULL));
    d->k->linear(d->be, &args);
    return dev_finish(d) && dev_read(d, out, y, n * c->outputs);
}

/* --- the definition --- */

static double activated(double x, lx_activation activation)
{
    if (activation == LX_ACT_RELU)
        return fmax(x, 0);
    return activation == LX_ACT_GELU ? 0.5 * x * erfc(-x * 0.70710678118654752440) : x;
}

/* The inputs as whole numbers, and the factor of each block of a row. */
typedef struct whole_inputs {
    int64_t blocks; /* of a row */
    double *n, *t;  /* [rows, cols], [rows, blocks] */
} whole_inputs;

static whole_inputs round_inputs(const block_case *c, const block_data *d)
{
    whole_inputs in = {.blocks = (c->cols + LX_BLOCK - 1) / LX_BLOCK};
    in.n = take((size_t)(c->rows * c->cols) * sizeof *in.n);
    in.t = take((size_t)(c->rows * in.blocks) * sizeof *in.t);
    for (int64_t b = 0; b < c->rows * in.blocks; b++) {
        int64_t k = b % in.blocks * LX_BLOCK, at = b / in.blocks * c->cols + k;
        int64_t n = c->cols - k < LX_BLOCK ? c->cols - k : LX_BLOCK;
        float most = 0;
        for (int64_t i = 0; i < n; i++)
            most = fmaxf(most, fabsf(d->x[at + i]));
        for (int64_t i = 0; i < n && most > 0; i++)
            in.n[at + i] = nearbyint((double)d->x[at + i] * (double)(127.0f / most));
        in.t[b] = (double)(most / 127.0f);
    }
    return in;
}

/* A block of weights of an output: whole numbers with a factor, or those of K-quants, which are
   not whole. */
typedef struct block_weights {
    bool is_k;
    double w[LX_BLOCK], factor;
} block_weights;

static block_weights weights_of(const block_data *d, lx_dtype dtype, int64_t cols, int64_t output,
                                int64_t k)
{
    block_weights b = {.is_k = lx_format_of(dtype)->block == LX_K_BLOCK};
    float w[LX_BLOCK];
    lx_block block;
    if (b.is_k) {
        lx_host_tensor_expand(&d->w, output * cols + k, LX_BLOCK, w);
    } else {
        lx_block_of(&d->w, output, k, dtype, &block);
        b.factor = (double)lx_f16_to_f32(block.scale);
    }
    for (int64_t i = 0; i < LX_BLOCK; i++)
        b.w[i] = b.is_k ? (double)w[i] : (double)block.q[i];
    return b;
}

/* Adds the products of a block of weights with n inputs, and to *scale their size: of whole numbers
   that of the sum, else that of every term. */
static void add_block(const block_weights *b, const double *x, double t, int64_t n, double *sum,
                      double *scale)
{
    double whole = 0;
    for (int64_t i = 0; i < n; i++) {
        double term = b->is_k ? b->w[i] * t * x[i] : b->w[i] * x[i];
        whole += term;
        *scale += b->is_k ? fabs(term) : 0;
    }
    double term = b->is_k ? whole : b->factor * t * whole;
    *sum += term;
    *scale += b->is_k ? 0 : fabs(term);
}

/* `scale` holds the sums of the absolute terms. Weights are expanded once for all rows, and inputs
   once for all outputs. */
static void block_products(const block_case *c, const block_data *d, lx_dtype dtype, float *want,
                           double *scale)
{
    whole_inputs in = round_inputs(c, d);
    double *sum = take((size_t)(c->rows * c->outputs) * sizeof *sum);
    for (int64_t i = 0; i < c->rows * c->outputs; i++) {
        sum[i] = d->bias != NULL ? (double)d->bias[i % c->outputs] : 0;
        scale[i] = fabs(sum[i]) + (d->residual != NULL ? fabs((double)d->residual[i]) : 0);
    }
    for (int64_t b = 0; b < c->outputs * in.blocks; b++) {
        int64_t output = b / in.blocks, block = b % in.blocks, k = block * LX_BLOCK;
        int64_t n = c->cols - k < LX_BLOCK ? c->cols - k : LX_BLOCK;
        block_weights w = weights_of(d, dtype, c->cols, output, k);
        for (int64_t row = 0; row < c->rows; row++)
            add_block(&w, in.n + row * c->cols + k, in.t[row * in.blocks + block], n,
                      &sum[row * c->outputs + output], &scale[row * c->outputs + output]);
    }
    for (int64_t i = 0; i < c->rows * c->outputs; i++)
        want[i] = (float)(activated(sum[i], c->activation) +
                          (d->residual != NULL ? (double)d->residual[i] : 0));
}

/* The sums of |w| |x|, by which the errors of exact products are measured. */
static void exact_scales(const block_case *c, const block_data *d, double *scale)
{
    float *w = floats(c->cols);
    for (int64_t output = 0; output < c->outputs; output++) {
        lx_host_tensor_expand(&d->w, output * c->cols, c->cols, w);
        for (int64_t row = 0; row < c->rows; row++) {
            int64_t i = row * c->outputs + output;
            scale[i] = d->bias != NULL ? fabs((double)d->bias[output]) : 0;
            scale[i] += d->residual != NULL ? fabs((double)d->residual[i]) : 0;
            for (int64_t k = 0; k < c->cols; k++)
                scale[i] += fabs((double)w[k] * (double)d->x[row * c->cols + k]);
        }
    }
}

/* block_products, once in a run. */
static void known_products(const block_case *c, const block_data *d, lx_dtype dtype, float *want,
                           double *scale)
{
    const int64_t sizes[] = {c->cols, c->outputs, c->rows, c->dtype, dtype, c->activation};
    int64_t n = c->rows * c->outputs;
    uint64_t key = hash_bytes(hash_bytes(NO_BYTES, __FILE__, sizeof __FILE__), sizes, sizeof sizes);
    key = hash_bytes(key, d->w.data, lx_format_bytes(c->dtype, c->outputs * c->cols));
    key = hash_floats(key, d->x, c->rows * c->cols);
    key = hash_floats(key, d->bias, d->bias != NULL ? c->outputs : 0);
    key = hash_floats(key, d->residual, d->residual != NULL ? n : 0);
    results known = results_of(key, n, 0);
    if (!known.known) {
        block_products(c, d, dtype, known.y, known.y_scale);
        keep_results(&known);
    }
    memcpy(want, known.y, (size_t)n * sizeof *want);
    memcpy(scale, known.y_scale, (size_t)n * sizeof *scale);
}

static bool check_data(device *dut, device *oracle, const block_case *c, block_data data)
{
    int64_t n = c->rows * c->outputs;
    float *got = floats(n), *want = floats(n);
    double *scale = take((size_t)n * sizeof *scale);
    if (!run_blocks(dut, c, &data,
                    (c->outputs % 2 != 0 ? dev_matrix_read : dev_matrix)(dut, &data.w, data.bias),
                    0, c->rows, got))
        return false;
    if (dut->only_runs) {
        dev_release(dut);
        return true;
    }
    if (dut->int4 || dut->blocks) {
        known_products(c, &data, dut->int4 ? LX_Q4_0 : c->dtype, want, scale);
    } else {
        exact_scales(c, &data, scale);
        if (!run_blocks(oracle, c, &data, dev_matrix(oracle, &data.w, data.bias), 0, c->rows, want))
            return false;
    }
    double error = worst_error(got, want, scale, n);
    CHECK(error <= BOUND, "%lld x %lld, %d rows, %s, activation %d: error %.3g",
          (long long)c->outputs, (long long)c->cols, c->rows, lx_format_of(c->dtype)->name,
          (int)c->activation, error);
    dev_release(dut);
    dev_release(oracle);
    return true;
}

static bool check_case(device *dut, device *oracle, const block_case *c, rng *r)
{
    return check_data(dut, oracle, c, make_data(c, r));
}

/* --- tests --- */

static const int64_t output_sizes[] = {1, 5, 16, 31, 64, 130, 300};
static const int32_t row_counts[] = {1, 2, 3, 4, 5, 6, 7, 12, 13, 17, 40, 65, 131};

/* int4 has blocks of all types and widths. Back ends that expand blocks take a part of the cases.
 */
static bool blocks_match_their_definition(device *dut, device *oracle)
{
    rng r = {1};
    size_t step = dut->blocks || dut->int4 ? 1 : 5, types = COUNT(block_types);
    if (dut->int8)
        return true;
    for (size_t i = 0; i < types * COUNT(output_sizes) * COUNT(row_counts); i += step) {
        lx_dtype dtype = block_types[i % types];
        bool is_k = lx_format_of(dtype)->block == LX_K_BLOCK;
        int64_t blocks = 1 + random_below(&r, is_k ? 3 : 19); /* more than two chunks of 256 */
        block_case c = {
            .cols = blocks * lx_format_of(dtype)->block,
            .outputs = output_sizes[i / types % COUNT(output_sizes)],
            .rows = row_counts[i / types / COUNT(output_sizes)],
            .dtype = dtype,
            .activation = (lx_activation)random_below(&r, 3),
            .has_bias = random_below(&r, 4) != 0,
            .has_residual = random_below(&r, 2) != 0,
            .pattern = (pattern)random_below(&r, PATTERNS),
        };
        if (dut->int4 && i % types == 0) {
            c.dtype = (lx_dtype)random_below(&r, 3);
            c.cols -= random_below(&r, LX_BLOCK);
        }
        if (c.cols * c.outputs > 20000 && c.rows > 13)
            c.rows = 13;
        if (!check_case(dut, oracle, &c, &r))
            return false;
    }
    return true;
}

/* Codes with all bits, with none and with the highest alone, times inputs of one size: no sum of
   products is larger. */
static bool largest_products_of_blocks(device *dut, device *oracle)
{
    static const struct {
        size_t first, n; /* bytes of codes in a block, in the order of block_types */
    } codes[COUNT(block_types)] = {{2, 32}, {2, 16}, {16, 128}, {16, 160}, {0, 192}};
    static const unsigned char fills[] = {0xff, 0x00, 0x80};
    rng r = {10};
    if (!dut->blocks && !dut->int4)
        return true;
    for (size_t i = 0; i < COUNT(block_types) * COUNT(fills); i++) {
        size_t type = i % COUNT(block_types);
        for (int32_t rows = 1; rows <= 12; rows = 2 * rows + 1) {
            block_case c = {.cols = 512, .outputs = 37, .rows = rows, .dtype = block_types[type]};
            block_data data = make_data(&c, &r);
            size_t size = (size_t)lx_format_of(c.dtype)->n_bytes;
            unsigned char *bytes = (unsigned char *)data.w.data;
            for (size_t at = 0; at < lx_format_bytes(c.dtype, c.outputs * c.cols); at += size)
                memset(bytes + at + codes[type].first, fills[i / COUNT(block_types)],
                       codes[type].n);
            for (int64_t k = 0; k < c.rows * c.cols; k++)
                data.x[k] = k / c.cols % 2 == 0 ? 3.0f : -3.0f;
            if (!check_data(dut, oracle, &c, data))
                return false;
        }
    }
    return true;
}

/* Weights of more than 4 MiB, which several threads may pack. */
static bool blocks_of_large_matrices(device *dut, device *oracle)
{
    rng r = {7};
    if (packs_alone(dut) || (!dut->blocks && !dut->int4))
        return true;
    for (size_t i = 0; i < COUNT(block_types); i++) {
        bool is_k = lx_format_of(block_types[i])->block == LX_K_BLOCK;
        block_case c = {.cols = is_k ? 3072 : 3104,
                        .outputs = 2307,
                        .rows = 2,
                        .dtype = block_types[i],
                        .has_bias = true,
                        .pattern = UNIFORM};
        if (!check_case(dut, oracle, &c, &r))
            return false;
    }
    return true;
}

/* Rows alone and in groups of any size give the bytes that they give among all, next to a row of
   NaN too. */
static bool block_rows_are_independent(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {2};
    for (size_t i = 0; i < COUNT(block_types); i++) {
        block_case c = {.cols = lx_format_of(block_types[i])->block == LX_K_BLOCK ? 512 : 544,
                        .outputs = 101,
                        .rows = 91,
                        .dtype = block_types[i],
                        .activation = LX_ACT_GELU,
                        .has_bias = true,
                        .has_residual = true};
        block_data data = make_data(&c, &r);
        lx_matrix *w = dev_matrix(dut, &data.w, data.bias);
        float *all = floats(c.rows * c.outputs), *some = floats(c.rows * c.outputs);
        if (!run_blocks(dut, &c, &data, w, 0, c.rows, all))
            return false;
        for (int32_t first = 0, n = 1; first + n <= c.rows; first += n, n++) {
            if (!run_blocks(dut, &c, &data, w, first, n, some))
                return false;
            CHECK(same_bytes(some, all + first * c.outputs, n * c.outputs),
                  "%s: rows %d to %d differ from the same rows among %d",
                  lx_format_of(c.dtype)->name, first, first + n - 1, c.rows);
        }
        data.x[c.cols + 40] = NAN;
        if (!run_blocks(dut, &c, &data, w, 0, 2, some))
            return false;
        CHECK(same_bytes(some, all, c.outputs), "a row differs next to a NaN row");
        for (int64_t k = 0; k < c.outputs; k++)
            CHECK(isnan(some[c.outputs + k]), "output %lld of a NaN row is %g", (long long)k,
                  (double)some[c.outputs + k]);
        dev_release(dut);
    }
    return true;
}

/* A matrix of parts of several types gives the bytes of its parts. */
static bool joined_matrices_give_the_bytes_of_their_parts(device *dut, device *oracle)
{
    (void)oracle;
    static const struct {
        lx_dtype dtype;
        int64_t rows;
    } parts[] = {{LX_Q4_K, 64}, {LX_F32, 32}, {LX_Q6_K, 160}, {LX_Q8_0, 5}};
    enum { COLS = 512, OUTPUTS = 64 + 32 + 160 + 5, ROWS = 70 };
    rng r = {11};
    lx_matrix *own[COUNT(parts)], *made[COUNT(parts)], *joined = NULL;
    float *bias = random_floats(&r, OUTPUTS, UNIFORM, 4, 4), *all = floats(ROWS * OUTPUTS);
    float *residual = random_floats(&r, ROWS * OUTPUTS, UNIFORM, 4, 4);
    block_case c = {.cols = COLS, .outputs = OUTPUTS, .activation = LX_ACT_GELU};
    block_data data = {.x = random_floats(&r, ROWS * COLS, UNIFORM, 6, 6), .residual = residual};
    if (dut->k->matrix_join == NULL)
        return true;
    for (size_t i = 0, at = 0; i < COUNT(parts); at += (size_t)parts[i].rows, i++) {
        lx_host_tensor t = is_in_blocks(parts[i].dtype)
                               ? random_blocks(&r, parts[i].rows, COLS, parts[i].dtype, UNIFORM)
                               : tensor_of(random_floats(&r, parts[i].rows * COLS, UNIFORM, 4, 3),
                                           parts[i].rows, COLS, parts[i].dtype);
        own[i] = dev_matrix(dut, &t, bias + at);
        CHECK_OK(dut->k->matrix_new(dut->be, &t, NULL, bias + at, &made[i], NULL));
    }
    CHECK_OK(dut->k->matrix_join(dut->be, made, COUNT(parts), &joined, NULL));
    for (int32_t n = 1; n <= ROWS; n += n < 14 ? 1 : 28) {
        if (!run_blocks(dut, &c, &data, joined, 0, n, all))
            return false;
        for (size_t i = 0, at = 0; i < COUNT(parts); at += (size_t)parts[i].rows, i++) {
            float *part = floats(n * parts[i].rows), *y = floats(n * parts[i].rows);
            block_case one = c;
            block_data mine = data;
            one.outputs = parts[i].rows;
            mine.residual = floats(n * parts[i].rows);
            for (int32_t row = 0; row < n; row++) {
                size_t bytes = (size_t)parts[i].rows * sizeof *part;
                memcpy(mine.residual + row * parts[i].rows, residual + row * OUTPUTS + at, bytes);
                memcpy(part + row * parts[i].rows, all + row * OUTPUTS + at, bytes);
            }
            if (!run_blocks(dut, &one, &mine, own[i], 0, n, y))
                return false;
            CHECK(same_bytes(part, y, n * parts[i].rows), "part %zu with %d rows", i, n);
        }
    }
    dut->k->matrix_free(dut->be, joined);
    dev_release(dut);
    return true;
}

/* All instruction sets compute the same whole numbers, in every precision that has blocks. */
static bool blocks_have_equal_bytes_on_every_cpu(device *dut, device *oracle)
{
    (void)oracle;
    static agreement seen[COUNT(block_types)];
    device as_blocks = {.label = dut->label, .is_cpu = dut->is_cpu, .kind = BLOCKS};
    for (size_t i = 0; i < COUNT(block_types); i++) {
        lx_dtype dtype = block_types[i];
        bool is_k = lx_format_of(dtype)->block == LX_K_BLOCK;
        rng r = {9};
        uint64_t hash = NO_BYTES;
        bool has_blocks = dut->blocks || (dut->int4 && dtype == LX_Q4_0);
        for (size_t k = 0; has_blocks && k < COUNT(row_counts) * COUNT(output_sizes); k++) {
            block_case c = {.cols = is_k ? LX_K_BLOCK * (1 + (int64_t)k % 3)
                                         : LX_BLOCK * (1 + (int64_t)k % 17),
                            .outputs = output_sizes[k % COUNT(output_sizes)],
                            .rows = row_counts[k / COUNT(output_sizes)],
                            .dtype = dtype,
                            .activation = (lx_activation)(k % 3),
                            .has_bias = k % 2 == 0,
                            .pattern = (pattern)(k % PATTERNS)};
            block_data data = make_data(&c, &r);
            int64_t n = c.rows * c.outputs;
            float *y = floats(n);
            const lx_matrix *w = dev_matrix(dut, &data.w, data.bias);
            if (!run_blocks(dut, &c, &data, w, 0, c.rows, y))
                return false;
            hash = hash_bytes(hash, y, (size_t)n * sizeof *y);
            dev_release(dut);
        }
        if (has_blocks && !agrees(&as_blocks, &seen[i], hash))
            return false;
    }
    return true;
}

/* Inputs that have no scale, weights that no block holds, rows that are no whole blocks. */
static bool odd_values_of_blocks(device *dut, device *oracle)
{
    (void)oracle;
    enum { COLS = 512, ROWS = 4, OUTPUTS = 3 };
    float *y = floats(ROWS * OUTPUTS);
    lx_matrix *none = NULL;
    unsigned char bytes[2 * LX_BLOCK] = {0};
    for (size_t type = 0; type < COUNT(block_types) && (dut->blocks || dut->int4); type++) {
        block_case c = {.cols = COLS, .outputs = OUTPUTS, .rows = ROWS, .dtype = block_types[type]};
        rng r = {4};
        block_data data = make_data(&c, &r);
        data.x = floats(ROWS * COLS); /* row 0: zeros */
        data.x[COLS + 5] = 1e-38f;
        data.x[2 * COLS + 290] = INFINITY;
        data.x[3 * COLS + 1] = NAN;
        if (!run_blocks(dut, &c, &data, dev_matrix(dut, &data.w, NULL), 0, ROWS, y))
            return false;
        for (int i = 0; i < ROWS * OUTPUTS; i++)
            CHECK(i < 2 * OUTPUTS ? y[i] == 0.0f : isnan(y[i]), "output %d is %g", i, (double)y[i]);
    }
    float *weights = floats(OUTPUTS * COLS);
    lx_host_tensor t = {LX_F32, OUTPUTS, COLS, weights};
    static const float bad[] = {INFINITY, NAN, -5e5f};
    for (size_t i = 0; i < COUNT(bad) && dut->int4; i++) {
        weights[7] = bad[i];
        CHECK(dut->k->matrix_new(dut->be, &t, NULL, NULL, &none, NULL) == LX_ERR_UNSUPPORTED,
              "a weight of %g", (double)bad[i]);
    }
    lx_host_tensor ragged = {LX_Q4_0, 1, LX_BLOCK + 1, bytes};
    CHECK(dut->k->matrix_new(dut->be, &ragged, NULL, NULL, &none, NULL) == LX_ERR_INVALID,
          "a row of 33 values in blocks");
    return true;
}

enum { IDS = 41, WIDTH = 512, TABLE_ROWS = 5 };

/* Rows of a table have the bits of the numbers of a tensor. */
static bool table_has_numbers(device *dut, const lx_table *table, const lx_host_tensor *t)
{
    static const int32_t ids[TABLE_ROWS] = {40, 0, 3, 33, 7};
    float y[TABLE_ROWS * WIDTH], want[WIDTH];
    lx_array *out = dev_array(dut, NULL, TABLE_ROWS * WIDTH);
    lx_embed_args args = {.y = out, .n_tables = 1, .tables = &table, .ids = ids};
    CHECK_OK(dut->k->begin(dut->be, single_rows(TABLE_ROWS), NULL));
    dut->k->embed(dut->be, &args);
    if (!dev_finish(dut) || !dev_read(dut, out, y, TABLE_ROWS * WIDTH))
        return false;
    for (int row = 0; row < TABLE_ROWS; row++) {
        for (int64_t k = 0; k < WIDTH; k++)
            want[k] = 0.0f + lx_host_tensor_at(t, ids[row] * WIDTH + k);
        CHECK(same_bytes(y + row * WIDTH, want, WIDTH), "row %d", row);
    }
    return true;
}

/* A table may be the rows of a matrix, if that has the values of the tensor or, of f32 numbers of
   other blocks, those to which it rounded them. */
static bool table_of_matrix(device *dut, const lx_host_tensor *t)
{
    lx_table *table = NULL;
    const lx_matrix *w = dut->k->table_of != NULL ? dev_matrix(dut, t, NULL) : NULL;
    if (w == NULL)
        return true;
    CHECK_OK(dut->k->table_of(dut->be, w, t->dtype, &table, NULL));
    lx_precision precision = dut->be->precision;
    bool held = is_in_blocks(t->dtype) || t->dtype == LX_F32_OF_BLOCKS;
    if (precision == LX_PRECISION_INT4)
        held = t->dtype == LX_Q4_0;
    CHECK((table != NULL) ==
              (held && (precision == LX_PRECISION_AUTO || precision == LX_PRECISION_INT4)),
          "a table of values of type %d", (int)t->dtype);
    if (table == NULL)
        return true;
    lx_host_tensor held_as = *t;
    if (t->dtype == LX_F32_OF_BLOCKS) {
        unsigned char *bytes = take(lx_format_bytes(LX_Q8_0, t->rows * t->cols));
        for (int64_t i = 0; i < t->rows * t->cols / LX_BLOCK; i++) {
            lx_block block;
            lx_block_of(t, i * LX_BLOCK / t->cols, i * LX_BLOCK % t->cols, LX_Q8_0, &block);
            lx_block_put(&block, LX_Q8_0, bytes + lx_format_bytes(LX_Q8_0, i * LX_BLOCK));
        }
        held_as = (lx_host_tensor){LX_Q8_0, t->rows, t->cols, bytes};
    }
    bool fine = table_has_numbers(dut, table, &held_as);
    dut->k->table_free(dut->be, table);
    return fine;
}

/* Tables in blocks, and tables that are the rows of a matrix; a device has no such tables. */
static bool tables_of_blocks(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {6};
    for (size_t i = 0; i < COUNT(block_types); i++) {
        lx_host_tensor t = random_blocks(&r, IDS, WIDTH, block_types[i], (pattern)(i % PATTERNS));
        if (dut->k->is_device) {
            lx_table *none = NULL;
            CHECK(dut->k->table_new(dut->be, &t, NULL, &none, NULL) == LX_ERR_UNSUPPORTED,
                  "a table");
            continue;
        }
        if (!table_has_numbers(dut, dev_table(dut, &t), &t) ||
            !table_has_numbers(dut, dev_table_read(dut, &t), &t) || !table_of_matrix(dut, &t))
            return false;
    }
    float *numbers = random_floats(&r, IDS * WIDTH, PEAKY, 4, 3);
    lx_host_tensor plain = tensor_of(numbers, IDS, WIDTH, LX_BF16);
    const lx_host_tensor expanded = {LX_F32_OF_BLOCKS, IDS, WIDTH, numbers};
    return table_of_matrix(dut, &plain) && table_of_matrix(dut, &expanded);
}

const test block_tests[] = {
    {"blocks_match_their_definition", blocks_match_their_definition},
    {"largest_products_of_blocks", largest_products_of_blocks},
    {"blocks_of_large_matrices", blocks_of_large_matrices},
    {"block_rows_are_independent", block_rows_are_independent},
    {"joined_matrices_give_the_bytes_of_their_parts",
     joined_matrices_give_the_bytes_of_their_parts},
    {"blocks_have_equal_bytes_on_every_cpu", blocks_have_equal_bytes_on_every_cpu},
    {"odd_values_of_blocks", odd_values_of_blocks},
    {"tables_of_blocks", tables_of_blocks},
    {NULL, NULL},
};
