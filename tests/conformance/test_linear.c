/*
 * Compares `linear` with the oracle: stored types, odd sizes, activations, residual, both kinds of
 * rows. Its law: a row's result does not depend on neighbouring rows.
 *
 * An output's error is measured by the sum of the absolute values of its terms, which its rounding
 * errors are proportional to. So the limit is fair to large and small values.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance.h"

#define BOUND 2e-6 /* docs/numerics.md */

typedef enum residual_kind { NO_RESIDUAL, OWN_RESIDUAL, IN_PLACE, RESIDUALS } residual_kind;

typedef struct linear_case {
    int64_t cols, outputs;
    int32_t rows;
    lx_dtype dtype;
    lx_activation activation;
    residual_kind residual;
    bool bias;
    pattern pattern;
} linear_case;

typedef struct linear_data {
    lx_host_tensor w;
    float *weights, *bias, *x, *residual;
} linear_data;

static linear_data make_data(const linear_case *c, rng *r)
{
    linear_data d = {0};
    float spread = c->dtype == LX_F16 ? 3.0f : 8.0f;
    d.weights = random_floats(r, c->outputs * c->cols, c->pattern, spread, spread);
    d.w = tensor_of(d.weights, c->outputs, c->cols, c->dtype);
    d.bias = random_floats(r, c->outputs, c->pattern, 4, 4);
    d.x = random_floats(r, c->rows * c->cols, c->pattern, 6, 6);
    d.residual = random_floats(r, c->rows * c->outputs, c->pattern, 4, 4);
    return d;
}

/* The rounding errors of an output are proportional to |w| |x| + |b| + |residual|. */
static double *scales(const linear_case *c, const linear_data *d)
{
    double *scale = take((size_t)(c->rows * c->outputs) * sizeof *scale);
    for (int64_t row = 0; row < c->rows; row++) {
        for (int64_t o = 0; o < c->outputs; o++) {
            double sum = c->bias ? fabs((double)d->bias[o]) : 0;
            if (c->residual != NO_RESIDUAL)
                sum += fabs((double)d->residual[row * c->outputs + o]);
            for (int64_t k = 0; k < c->cols; k++)
                sum += fabs((double)d->weights[o * c->cols + k] * (double)d->x[row * c->cols + k]);
            scale[row * c->outputs + o] = sum;
        }
    }
    return scale;
}

/* Rows first .. first + n - 1 of the case on a device, as output rows when `outputs` is set. */
static bool run_linear(device *d, const linear_case *c, const linear_data *data, const lx_matrix *w,
                       int32_t first, int32_t n, bool outputs, float *y)
{
    lx_batch *b = step_of(outputs ? LX_ROWS_OUTPUTS : LX_ROWS_TOKENS, n);
    lx_array *x = dev_array(d, data->x + first * c->cols, n * c->cols);
    const float *residual = data->residual + first * c->outputs;
    lx_array *out = dev_array(d, c->residual == IN_PLACE ? residual : NULL, n * c->outputs);
    lx_array *other = dev_array(d, residual, n * c->outputs);
    lx_linear_args args = {
        .y = out,
        .x = x,
        .w = w,
        .activation = c->activation,
        .residual = c->residual == IN_PLACE       ? out
                    : c->residual == OWN_RESIDUAL ? other
                                                  : NULL,
        .rows = outputs ? LX_ROWS_OUTPUTS : LX_ROWS_TOKENS,
    };
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->linear(d->be, &args);
    return dev_finish(d) && dev_read(d, out, y, n * c->outputs);
}

/* --- precision int8 --- */

/* n values as whole numbers, kept as double, and their scale: the text of lx_precision. */
static float to_whole(const float *from, double *to, int64_t n)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(from[i]));
    for (int64_t i = 0; i < n; i++)
        to[i] = most > 0 ? nearbyint((double)from[i] * (double)(127.0f / most)) : 0;
    return most / 127.0f;
}

static double activated(double x, lx_activation activation)
{
    if (activation == LX_ACT_RELU)
        return fmax(x, 0);
    return activation == LX_ACT_GELU ? 0.5 * x * erfc(-x * 0.70710678118654752440) : x;
}

/* `want` holds the products of the rounded factors in double, `scale` the sums of the absolute
 * terms. */
static void whole_products(const linear_case *c, const linear_data *d, float *want, double *scale)
{
    enum { CHUNK = 256 };
    int64_t chunks = (c->cols + CHUNK - 1) / CHUNK;
    double *p = take((size_t)(c->outputs * c->cols) * sizeof *p);
    double *n = take((size_t)(c->rows * c->cols) * sizeof *n);
    float *s = floats(c->outputs), *t = floats(c->rows * chunks);
    for (int64_t o = 0; o < c->outputs; o++)
        s[o] = to_whole(d->weights + o * c->cols, p + o * c->cols, c->cols);
    for (int64_t i = 0; i < c->rows * chunks; i++) {
        int64_t k0 = i % chunks * CHUNK, at = i / chunks * c->cols + k0;
        t[i] = to_whole(d->x + at, n + at, c->cols - k0 < CHUNK ? c->cols - k0 : CHUNK);
    }
    for (int64_t i = 0; i < c->rows * c->outputs; i++) {
        double start = c->bias ? (double)d->bias[i % c->outputs] : 0;
        double residual = c->residual != NO_RESIDUAL ? (double)d->residual[i] : 0, sum = start;
        int64_t row = i / c->outputs, o = i % c->outputs;
        scale[i] = fabs(start) + fabs(residual);
        for (int64_t k = 0; k < c->cols; k++) {
            double term = (double)s[o] * (double)t[row * chunks + k / CHUNK] * p[o * c->cols + k] *
                          n[row * c->cols + k];
            sum += term;
            scale[i] += fabs(term);
        }
        want[i] = (float)(activated(sum, c->activation) + residual);
    }
}

static bool check_int8_case(device *dut, const linear_case *c, const linear_data *data)
{
    int64_t n = c->rows * c->outputs;
    float *got = floats(n), *want = floats(n);
    double *scale = take((size_t)n * sizeof *scale);
    lx_matrix *w = dev_matrix(dut, &data->w, c->bias ? data->bias : NULL);
    if (!run_linear(dut, c, data, w, 0, c->rows, false, got))
        return false;
    if (dut->only_runs) {
        dev_release(dut);
        return true;
    }
    whole_products(c, data, want, scale);
    double error = worst_error(got, want, scale, n);
    CHECK(error <= BOUND, "%lld x %lld, %d rows, %s, activation %d: error %.3g",
          (long long)c->outputs, (long long)c->cols, c->rows, lx_format_of(c->dtype)->name,
          (int)c->activation, error);
    dev_release(dut);
    return true;
}

/* Values int8 has no scale for: a row of zeros, tiny ones, one that is not finite. */
static bool int8_odd_values(device *dut, device *oracle)
{
    (void)oracle;
    enum { COLS = 300, ROWS = 4 };
    if (!dut->int8)
        return true;
    linear_case c = {.cols = COLS, .outputs = 3, .rows = ROWS};
    rng r = {4};
    linear_data data = make_data(&c, &r);
    float y[ROWS * 3];
    memset(data.weights, 0, COLS * sizeof(float)); /* output 0 */
    data.x = floats(ROWS * COLS);                  /* row 0: zeros */
    data.x[COLS + 5] = 1e-38f;
    data.x[2 * COLS + 290] = INFINITY;
    data.x[3 * COLS + 1] = NAN;
    if (!run_linear(dut, &c, &data, dev_matrix(dut, &data.w, NULL), 0, ROWS, false, y))
        return false;
    for (int i = 0; i < ROWS * 3; i++)
        CHECK(i < 6 ? y[i] == 0.0f : isnan(y[i]), "output %d is %g", i, (double)y[i]);
    lx_matrix *none = NULL;
    data.weights[7] = INFINITY;
    CHECK(dut->k->matrix_new(dut->be, &data.w, NULL, NULL, &none, NULL) == LX_ERR_UNSUPPORTED,
          "a weight that is not finite");
    return true;
}

/* --- tests --- */

static bool check_case(device *dut, device *oracle, const linear_case *c, rng *r)
{
    linear_data data = make_data(c, r);
    if (dut->int8)
        return check_int8_case(dut, c, &data);
    if (dut->rounds && c->dtype == LX_BF16) /* rounding is tested apart */
        (void)tensor_of(data.x, c->rows, c->cols, LX_BF16);
    const float *bias = c->bias ? data.bias : NULL;
    int64_t n = c->rows * c->outputs;
    float *got = floats(n), *want = floats(n);
    if (!run_linear(dut, c, &data, dev_matrix(dut, &data.w, bias), 0, c->rows, false, got))
        return false;
    if (dut->only_runs) {
        dev_release(dut);
        return true;
    }
    if (!run_linear(oracle, c, &data, dev_matrix(oracle, &data.w, bias), 0, c->rows, true, want))
        return false;
    double error = worst_error(got, want, scales(c, &data), n);
    CHECK(error <= BOUND, "%lld x %lld, %d rows, %s, activation %d: error %.3g",
          (long long)c->outputs, (long long)c->cols, c->rows, lx_format_of(c->dtype)->name,
          (int)c->activation, error);
    dev_release(dut);
    dev_release(oracle);
    return true;
}

/* More than one run of inputs (ops/linear/cpu.h) has 801. */
static const int64_t sizes[] = {1, 2, 7, 33, 60, 64, 255, 300, 801};
static const int64_t output_sizes[] = {1, 5, 16, 31, 64, 300};
static const int32_t row_counts[] = {1, 2, 3, 5, 12, 13, 17, 64, 257};
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* All sizes; types, activations and row counts take turns so that every pair of them comes. */
static bool linear_matches_oracle(device *dut, device *oracle)
{
    rng r = {1};
    for (size_t i = 0; i < COUNT(sizes) * COUNT(output_sizes) * 3; i++) {
        linear_case c = {
            .cols = sizes[i / 3 % COUNT(sizes)],
            .outputs = output_sizes[i / 3 / COUNT(sizes)],
            .rows = row_counts[random_below(&r, COUNT(row_counts))],
            .dtype = (lx_dtype)(i % 3),
            .activation = (lx_activation)random_below(&r, 3),
            .residual = (residual_kind)random_below(&r, RESIDUALS),
            .bias = random_below(&r, 4) != 0,
            .pattern = (pattern)random_below(&r, PATTERNS),
        };
        if (c.cols * c.outputs > 20000 && c.rows > 17) /* keeps the slow back ends short */
            c.rows = 17 + c.rows % 5;
        if (!check_case(dut, oracle, &c, &r))
            return false;
    }
    return true;
}

/* Weights of more than 4 MiB, which several threads may pack: every output is where it belongs. */
static bool linear_of_large_matrices_matches_oracle(device *dut, device *oracle)
{
    rng r = {7};
    for (int dtype = 0; dtype < 3 && !packs_alone(dut); dtype++) {
        linear_case c = {.cols = 1031,
                         .outputs = 2307,
                         .rows = 2,
                         .dtype = (lx_dtype)dtype,
                         .bias = true,
                         .pattern = UNIFORM};
        if (!check_case(dut, oracle, &c, &r))
            return false;
    }
    return true;
}

/* Rows that are read, in parts and by several threads, give the bytes of rows in memory. */
static bool linear_of_rows_that_are_read(device *dut, device *oracle)
{
    (void)oracle;
    static const int64_t shapes[][2] = {{1, 33}, {31, 7}, {65, 4100}, {301, 520}, {2307, 1031}};
    rng r = {8};
    for (size_t i = 0; i < COUNT(shapes) * 3; i++) {
        linear_case c = {.outputs = shapes[i / 3][0],
                         .cols = shapes[i / 3][1],
                         .rows = 3,
                         .dtype = (lx_dtype)(i % 3)};
        linear_data data = make_data(&c, &r);
        float *want = floats(c.rows * c.outputs), *got = floats(c.rows * c.outputs);
        const lx_matrix *w = dev_matrix(dut, &data.w, data.bias);
        const lx_matrix *read = dev_matrix_read(dut, &data.w, data.bias);
        if (!run_linear(dut, &c, &data, w, 0, c.rows, false, want) ||
            !run_linear(dut, &c, &data, read, 0, c.rows, false, got))
            return false;
        CHECK(same_bytes(got, want, c.rows * c.outputs), "%lld x %lld, %s", (long long)c.outputs,
              (long long)c.cols, lx_format_of(c.dtype)->name);
        dev_release(dut);
    }
    return true;
}

typedef struct broken_reader {
    const lx_host_tensor *t;
    int64_t row; /* that cannot be read */
} broken_reader;

static lx_status read_until(const void *context, int64_t first, int64_t n, void *to, lx_error *err)
{
    const broken_reader *b = context;
    if (first + n > b->row)
        return lx_fail(err, LX_ERR_CONFLICT, "file", "row %lld is gone", (long long)b->row);
    memset(to, 0, lx_format_bytes(b->t->dtype, n * b->t->cols));
    return LX_OK;
}

/* A file may change while it is read: the matrix is not made, and the reader's error comes out. */
static bool rows_that_cannot_be_read(device *dut, device *oracle)
{
    (void)oracle;
    const lx_host_tensor t = {LX_BF16, 2307, 1031, NULL};
    lx_matrix *w = NULL;
    lx_table *table = NULL;
    static const int64_t rows[] = {0, 40, 2306};
    for (size_t i = 0; i < COUNT(rows); i++) {
        lx_error err = {0};
        const broken_reader b = {&t, rows[i]};
        const lx_row_reader reader = {read_until, &b};
        char text[32];
        (void)snprintf(text, sizeof text, "row %lld is gone", (long long)rows[i]);
        CHECK(dut->k->matrix_new(dut->be, &t, &reader, NULL, &w, &err) == LX_ERR_CONFLICT &&
                  strcmp(err.text, text) == 0 && strcmp(err.param, "file") == 0 && w == NULL,
              "a matrix: %s", err.text);
        CHECK(dut->k->matrix_new(dut->be, &t, &reader, NULL, &w, NULL) == LX_ERR_CONFLICT,
              "without a place for the error");
        CHECK(dut->k->table_new(dut->be, &t, &reader, &table, &err) == LX_ERR_CONFLICT &&
                  strcmp(err.text, text) == 0 && table == NULL,
              "a table: %s", err.text);
    }
    const lx_host_tensor both = {LX_F32, 1, 1, &t};
    const lx_row_reader reader = {read_until, NULL};
    CHECK(dut->k->matrix_new(dut->be, &both, &reader, NULL, &w, NULL) == LX_ERR_INVALID,
          "rows in memory and a reader");
    return true;
}

/* The bytes that a matrix is said to take grow with its format. */
static bool matrix_bytes_are_those_of_the_format(device *dut, device *oracle)
{
    (void)oracle;
    enum { ROWS = 1024, COLS = 2048 };
    const lx_host_tensor f32 = {LX_F32, ROWS, COLS, NULL}, bf16 = {LX_BF16, ROWS, COLS, NULL};
    if (dut->k->matrix_bytes == NULL)
        return true;
    int64_t a = dut->k->matrix_bytes(dut->be, &f32), b = dut->k->matrix_bytes(dut->be, &bf16);
    int64_t values = (int64_t)ROWS * COLS;
    if (dut->int8)
        CHECK(a == b && a > values && a < values * 11 / 10, "int8: %lld", (long long)a);
    else if (dut->int4)
        CHECK(a == b && a > values / 2 && a < values * 6 / 10, "int4: %lld", (long long)a);
    else
        CHECK(a == 4 * values + ROWS * 4 && b == 2 * values + ROWS * 4, "%lld, %lld", (long long)a,
              (long long)b);
    return true;
}

/* Rows alone and in groups of any size give the bytes that they give among 257, with any
 * neighbours. */
static bool linear_rows_are_independent(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {2};
    for (int dtype = 0; dtype < 3; dtype++) {
        linear_case c = {.cols = 261,
                         .outputs = 101,
                         .rows = 257,
                         .dtype = (lx_dtype)dtype,
                         .activation = LX_ACT_GELU,
                         .residual = OWN_RESIDUAL,
                         .bias = true};
        linear_data data = make_data(&c, &r);
        lx_matrix *w = dev_matrix(dut, &data.w, data.bias);
        float *all = floats(c.rows * c.outputs), *some = floats(c.rows * c.outputs);
        if (!run_linear(dut, &c, &data, w, 0, c.rows, false, all))
            return false;
        for (int32_t first = 0, n = 1; first + n <= c.rows; first += n, n++) {
            if (!run_linear(dut, &c, &data, w, first, n, n % 2 == 0, some))
                return false;
            CHECK(same_bytes(some, all + first * c.outputs, n * c.outputs),
                  "%s: rows %d to %d differ from the same rows among %d",
                  lx_format_of(c.dtype)->name, first, first + n - 1, c.rows);
        }
        for (int64_t k = 0; k < c.cols; k++)
            data.x[c.cols + k] = NAN;
        if (!run_linear(dut, &c, &data, w, 0, 2, false, some))
            return false;
        CHECK(same_bytes(some, all, c.outputs), "a row differs next to a NaN row");
        dev_release(dut);
    }
    return true;
}

/* Rows of an array that holds nothing else give the bytes that they give elsewhere. */
static bool linear_into_spare_rows(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {3};
    lx_error err = {0};
    for (int i = 0; i < 4 * RESIDUALS; i++) {
        linear_case c = {.cols = 24,
                         .outputs = i % 2 == 0 ? 40 : 37,
                         .rows = 13,
                         .dtype = LX_BF16,
                         .activation = i % 4 < 2 ? LX_ACT_NONE : LX_ACT_GELU,
                         .residual = (residual_kind)(i / 4),
                         .bias = true};
        linear_data data = make_data(&c, &r);
        lx_matrix *w = dev_matrix(dut, &data.w, data.bias);
        float *want = floats(c.rows * c.outputs), *got = floats(c.rows * c.outputs);
        lx_array *y = NULL, *residual = dev_array(dut, data.residual, c.rows * c.outputs);
        lx_array *x = dev_array(dut, data.x, c.rows * c.cols);
        bool in_place = c.residual == IN_PLACE;
        if (!run_linear(dut, &c, &data, w, 0, c.rows, false, want))
            return false;
        CHECK_OK(dut->k->rows_new(dut->be, c.rows, c.outputs, &y, &err));
        CHECK_OK(dut->k->array_upload(dut->be, y, 0, data.residual, c.rows * c.outputs));
        lx_linear_args args = {.y = y,
                               .x = x,
                               .w = w,
                               .activation = c.activation,
                               .residual = in_place                    ? y
                                           : c.residual == NO_RESIDUAL ? NULL
                                                                       : residual,
                               .rows = LX_ROWS_TOKENS};
        CHECK_OK(dut->k->begin(dut->be, single_rows(c.rows), NULL));
        dut->k->linear(dut->be, &args);
        bool ok = dev_finish(dut) &&
                  dut->k->array_download(dut->be, y, 0, got, c.rows * c.outputs) == LX_OK;
        dut->k->array_free(dut->be, y);
        CHECK(ok && same_bytes(got, want, c.rows * c.outputs), "%d: other bytes in spare rows", i);
        dev_release(dut);
    }
    return true;
}

/* Odd and even sizes; every third case so small that many products and sums are denormal. */
static bool linear_has_equal_bytes_on_every_cpu(device *dut, device *oracle)
{
    (void)oracle;
    static agreement seen;
    rng r = {4};
    uint64_t hash = NO_BYTES;
    for (size_t i = 0; i < COUNT(sizes) * COUNT(row_counts); i++) {
        linear_case c = {
            .cols = sizes[i % COUNT(sizes)],
            .outputs = output_sizes[i % COUNT(output_sizes)],
            .rows = row_counts[i / COUNT(sizes)] % 65,
            .dtype = LX_BF16,
            .activation = (lx_activation)random_below(&r, 3),
            .bias = i % 3 != 0,
        };
        linear_data data = make_data(&c, &r);
        for (int64_t k = 0; i % 3 == 0 && k < c.rows * c.cols; k++)
            data.x[k] *= 1e-36f;
        int64_t n = c.rows * c.outputs;
        float *y = floats(n);
        const lx_matrix *w = dev_matrix(dut, &data.w, c.bias ? data.bias : NULL);
        if (!run_linear(dut, &c, &data, w, 0, c.rows, false, y))
            return false;
        hash = hash_bytes(hash, y, (size_t)n * sizeof *y);
        dev_release(dut);
    }
    return agrees(dut, &seen, hash);
}

/* Values about 2^exponent, and among them some that are zero, denormal, largest, not finite. */
static void extreme_values(rng *r, float *x, int64_t n, int exponent)
{
    static const float odd[] = {0.0f,      -0.0f,     0x1p-133f,   0x1.fcp-127f, 0x1.fffffep-127f,
                                0x1p-149f, 0x1p-126f, 0x1.fep127f, INFINITY,     -INFINITY,
                                NAN};
    for (int64_t i = 0; i < n; i++) {
        int e = exponent - 4 + (int)random_below(r, 9);
        x[i] = random_below(r, 24) == 0 ? odd[random_below(r, COUNT(odd))]
                                        : ldexpf(random_between(r, -2.0f, 2.0f), e);
    }
}

/* A NaN's bits may differ. */
static void same_nans(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = isnan(x[i]) ? NAN : x[i];
}

/* Products and sums near the ends of f32's range and in its middle. A row alone has the bytes that
   it has among others, and all instruction sets of one kind give equal bytes; also neonbf16plain,
   on a processor without neonbf16. */
static bool linear_has_equal_bytes_of_extreme_values(device *dut, device *oracle)
{
    (void)oracle;
    enum { CASES = 90, ROWS = 7, OUTPUTS = 40 };
    static const int exponents[] = {-63, 0, 62};
    static agreement seen;
    rng r = {5};
    uint64_t hash = NO_BYTES;
    for (int i = 0; i < CASES && !dut->int8; i++) {
        linear_case c = {
            .cols = 1 + i % 11, .outputs = OUTPUTS, .rows = ROWS, .dtype = LX_BF16, .bias = true};
        linear_data data = {.residual = floats(ROWS * OUTPUTS)};
        int64_t n = OUTPUTS * c.cols;
        int exponent = exponents[i % 3];
        float all[ROWS * OUTPUTS], one[OUTPUTS], bias[OUTPUTS];
        data.weights = floats(n);
        data.x = floats(ROWS * c.cols);
        extreme_values(&r, data.weights, n, exponent);
        extreme_values(&r, data.x, ROWS * c.cols, exponent);
        extreme_values(&r, bias, OUTPUTS, 2 * exponent);
        data.w = tensor_of(data.weights, OUTPUTS, c.cols, LX_BF16);
        const lx_matrix *w = dev_matrix(dut, &data.w, bias);
        if (!run_linear(dut, &c, &data, w, 0, ROWS, false, all))
            return false;
        same_nans(all, ROWS * OUTPUTS);
        for (int32_t row = 0; row < ROWS; row++) {
            if (!run_linear(dut, &c, &data, w, row, 1, false, one))
                return false;
            same_nans(one, OUTPUTS);
            CHECK(same_bytes(one, all + row * OUTPUTS, OUTPUTS), "case %d: row %d alone", i, row);
        }
        hash = hash_bytes(hash, all, sizeof all);
        dev_release(dut);
    }
    if (dut->kind == ROUNDED_TO_ODD)
        CHECK(hash == UINT64_C(0xeaaaa8d585468c94), "not the bytes of BFDOT and BFMMLA: %016llx",
              (unsigned long long)hash);
    return agrees(dut, &seen, hash);
}

/* A back end that rounds inputs of products rounds them to the nearest, and nothing else. */
static bool linear_rounds_inputs_as_it_says(device *dut, device *oracle)
{
    rng r = {3};
    for (int dtype = 0; dtype < 3; dtype++) {
        linear_case c = {.cols = 259, .outputs = 70, .rows = 15, .dtype = (lx_dtype)dtype};
        linear_data data = make_data(&c, &r);
        if (dut->int8) {
            if (!check_int8_case(dut, &c, &data))
                return false;
            continue;
        }
        int64_t n = c.rows * c.outputs;
        float *got = floats(n), *want = floats(n);
        if (!run_linear(dut, &c, &data, dev_matrix(dut, &data.w, NULL), 0, c.rows, false, got))
            return false;
        if (dut->rounds && dtype == LX_BF16)
            (void)tensor_of(data.x, c.rows, c.cols, LX_BF16);
        if (!run_linear(oracle, &c, &data, dev_matrix(oracle, &data.w, NULL), 0, c.rows, false,
                        want))
            return false;
        double error = worst_error(got, want, scales(&c, &data), n);
        CHECK(error <= BOUND, "%s: error %.3g", lx_format_of(c.dtype)->name, error);
        dev_release(dut);
        dev_release(oracle);
    }
    return true;
}

/* Of gelu(x) itself; below -5 it is at most 1.5e-6, and taken as 0 from -5.625 on. */
static double gelu_allowed(double x, double want)
{
    return x > 0 ? 2e-7 * want : x > -5 ? 1.5e-6 * -want : 6e-8;
}

/* GELU alone: of the biases of a matrix of zeros. */
static bool gelu_is_accurate(device *dut, device *oracle)
{
    (void)oracle;
    enum { N = 40001 };
    float zero = 0.0f, *x = floats(N), *y = floats(N);
    lx_host_tensor t = {LX_F32, N, 1, floats(N)};
    for (int i = 0; i < N; i++)
        x[i] = -20.0f + 40.0f * (float)i / (N - 1);
    lx_array *in = dev_array(dut, &zero, 1), *out = dev_array(dut, NULL, N);
    lx_linear_args args = {.y = out,
                           .x = in,
                           .w = dev_matrix(dut, &t, x),
                           .activation = LX_ACT_GELU,
                           .rows = LX_ROWS_TOKENS};
    CHECK_OK(dut->k->begin(dut->be, single_rows(1), NULL));
    dut->k->linear(dut->be, &args);
    if (!dev_finish(dut) || !dev_read(dut, out, y, N))
        return false;
    for (int i = 0; i < N; i++) {
        double v = (double)x[i], want = 0.5 * v * erfc(-v * 0.70710678118654752440);
        double error = fabs((double)y[i] - want);
        CHECK(error <= gelu_allowed(v, want), "gelu(%.9g) = %.9g, error %.3g", v, (double)y[i],
              error);
    }
    return true;
}

const test linear_tests[] = {
    {"linear_matches_oracle", linear_matches_oracle},
    {"linear_of_large_matrices_matches_oracle", linear_of_large_matrices_matches_oracle},
    {"linear_of_rows_that_are_read", linear_of_rows_that_are_read},
    {"rows_that_cannot_be_read", rows_that_cannot_be_read},
    {"matrix_bytes_are_those_of_the_format", matrix_bytes_are_those_of_the_format},
    {"linear_rows_are_independent", linear_rows_are_independent},
    {"linear_into_spare_rows", linear_into_spare_rows},
    {"linear_has_equal_bytes_on_every_cpu", linear_has_equal_bytes_on_every_cpu},
    {"linear_has_equal_bytes_of_extreme_values", linear_has_equal_bytes_of_extreme_values},
    {"linear_rounds_inputs_as_it_says", linear_rounds_inputs_as_it_says},
    {"int8_odd_values", int8_odd_values},
    {"gelu_is_accurate", gelu_is_accurate},
    {NULL, NULL},
};
