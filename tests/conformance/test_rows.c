/*
 * The operations on single rows, `embed`, `norm` and `gather`, against the oracle or, where nothing
 * is rounded, against the answer itself.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"

#define NORM_BOUND 1e-6 /* docs/numerics.md */

static const int32_t widths[] = {1, 2, 7, 16, 33, 60, 64, 256, 300, 600};
static const int32_t row_counts[] = {1, 3, 17, 64, 257};
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* --- norm --- */

typedef struct norm_case {
    int32_t d, rows;
    bool in_place;
    float *x, *gamma, *beta;
} norm_case;

static const float norm_eps = 1e-5f;

static bool run_norm(device *dev, const norm_case *c, float *y)
{
    lx_rows which = c->in_place ? LX_ROWS_OUTPUTS : LX_ROWS_TOKENS;
    lx_batch *b = step_of(which, c->rows);
    lx_array *x = dev_array(dev, c->x, (int64_t)c->rows * c->d);
    lx_array *out = c->in_place ? x : dev_array(dev, NULL, (int64_t)c->rows * c->d);
    lx_norm_args args = {.y = out,
                         .x = x,
                         .gamma = dev_array(dev, c->gamma, c->d),
                         .beta = dev_array(dev, c->beta, c->d),
                         .d = c->d,
                         .eps = norm_eps,
                         .rows = which};
    CHECK_OK(dev->k->begin(dev->be, b, NULL));
    dev->k->norm(dev->be, &args);
    return dev_finish(dev) && dev_read(dev, out, y, (int64_t)c->rows * c->d);
}

/* The largest input of the row after division by its deviation, times gamma, plus beta. */
static void norm_scales(const norm_case *c, int32_t row, double *scale)
{
    const float *x = c->x + (int64_t)row * c->d;
    double mean = 0, var = 0, largest = 0;
    for (int32_t i = 0; i < c->d; i++)
        mean += (double)x[i] / c->d;
    for (int32_t i = 0; i < c->d; i++) {
        var += ((double)x[i] - mean) * ((double)x[i] - mean) / c->d;
        largest = fmax(largest, fabs((double)x[i]));
    }
    for (int32_t i = 0; i < c->d; i++)
        scale[i] = largest / sqrt(var + (double)norm_eps) * fabs((double)c->gamma[i]) +
                   fabs((double)c->beta[i]);
}

static bool check_norm(device *dut, device *oracle, norm_case *c)
{
    int64_t n = (int64_t)c->rows * c->d;
    float *got = floats(n), *want = floats(n);
    double *scale = take((size_t)n * sizeof *scale);
    for (int32_t row = 0; row < c->rows; row++)
        norm_scales(c, row, scale + (int64_t)row * c->d);
    bool ran = run_norm(dut, c, got);
    c->in_place = false;
    if (!ran || !run_norm(oracle, c, want))
        return false;
    double error = worst_error(got, want, scale, n);
    CHECK(error <= NORM_BOUND, "width %d, %d rows: error %.3g", c->d, c->rows, error);
    dev_release(dut);
    dev_release(oracle);
    return true;
}

static bool norm_matches_oracle(device *dut, device *oracle)
{
    rng r = {3};
    for (size_t i = 0; i < COUNT(widths) * COUNT(row_counts) * 2; i++) {
        pattern p = (pattern)(i % 2);
        norm_case c = {.d = widths[i / 2 % COUNT(widths)],
                       .rows = row_counts[i / 2 / COUNT(widths)],
                       .in_place = random_below(&r, 2) == 0};
        c.x = random_floats(&r, (int64_t)c.rows * c.d, p, 5, 5);
        c.gamma = random_floats(&r, c.d, p, 2, 2);
        c.beta = random_floats(&r, c.d, p, 2, 2);
        if (!check_norm(dut, oracle, &c))
            return false;
    }
    return true;
}

/* y = W norm(x) + residual, in one step or in two; residual: nothing, x or the norm itself. */
static bool run_norm_and_product(device *dev, const norm_case *c, const lx_matrix *w, int residual,
                                 bool two_steps, float *normed, float *y)
{
    int64_t n = (int64_t)c->rows * c->d;
    lx_batch *b = single_rows(c->rows);
    lx_array *x = dev_array(dev, c->x, n), *mid = dev_array(dev, NULL, n);
    lx_array *out = dev_array(dev, NULL, n);
    lx_norm_args norm = {.y = mid,
                         .x = x,
                         .gamma = dev_array(dev, c->gamma, c->d),
                         .beta = dev_array(dev, c->beta, c->d),
                         .d = c->d,
                         .eps = norm_eps,
                         .rows = LX_ROWS_TOKENS};
    const lx_array *const residuals[] = {NULL, x, mid};
    lx_linear_args product = {
        .y = out, .x = mid, .w = w, .residual = residuals[residual], .rows = LX_ROWS_TOKENS};
    CHECK_OK(dev->k->begin(dev->be, b, NULL));
    dev->k->norm(dev->be, &norm);
    if (two_steps) {
        if (!dev_finish(dev))
            return false;
        CHECK_OK(dev->k->begin(dev->be, b, NULL));
    }
    dev->k->linear(dev->be, &product);
    return dev_finish(dev) && dev_read(dev, mid, normed, n) && dev_read(dev, out, y, n);
}

/* A back end may fuse a norm with the product after it; the result must not change. */
static bool norm_feeds_a_product(device *dut, device *oracle)
{
    enum { D = 256, MOST = 6 };
    (void)oracle;
    rng r = {6};
    norm_case c = {.d = D};
    c.x = random_floats(&r, MOST * D, UNIFORM, 0, 0);
    c.gamma = random_floats(&r, D, UNIFORM, 0, 0);
    c.beta = random_floats(&r, D, UNIFORM, 0, 0);
    lx_host_tensor t = {LX_F32, D, D, random_floats(&r, D * D, UNIFORM, 0, 0)};
    float *normed[] = {floats(MOST * D), floats(MOST * D)};
    float *y[] = {floats(MOST * D), floats(MOST * D)};
    for (int i = 0; i < 3 * MOST * 8; i++) {
        c.rows = 1 + i / 3 % MOST;
        const lx_matrix *w = dev_matrix(dut, &t, NULL);
        for (int two = 0; two < 2; two++) {
            if (!run_norm_and_product(dut, &c, w, i % 3, two == 1, normed[two], y[two]))
                return false;
        }
        size_t bytes = (size_t)(c.rows * D) * sizeof(float);
        CHECK(memcmp(normed[0], normed[1], bytes) == 0 && memcmp(y[0], y[1], bytes) == 0,
              "%d rows, residual %d: other bytes in one step", c.rows, i % 3);
        dev_release(dut);
    }
    return true;
}

/* A row alone gives the bytes it gives among others. */
static bool norm_rows_are_independent(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {4};
    norm_case all = {.d = 261, .rows = 64};
    all.x = random_floats(&r, (int64_t)all.rows * all.d, UNIFORM, 0, 0);
    all.gamma = random_floats(&r, all.d, UNIFORM, 0, 0);
    all.beta = random_floats(&r, all.d, UNIFORM, 0, 0);
    float *together = floats((int64_t)all.rows * all.d), *alone = floats(all.d);
    if (!run_norm(dut, &all, together))
        return false;
    for (int32_t i = 0; i < all.rows; i++) {
        norm_case one = all;
        one.rows = 1;
        one.x = all.x + (int64_t)i * all.d;
        if (!run_norm(dut, &one, alone))
            return false;
        CHECK(same_bytes(alone, together + (int64_t)i * all.d, all.d), "row %d differs", i);
        dev_release(dut);
    }
    return true;
}

/* --- embed --- */

typedef struct embed_case {
    int32_t d, rows, n_tables;
    float *values[3];
    lx_host_tensor tables[3];
    int32_t *ids;
} embed_case;

static embed_case make_embed(rng *r, int32_t d, int32_t rows)
{
    embed_case c = {.d = d, .rows = rows, .n_tables = 1 + (int32_t)random_below(r, 3)};
    int32_t sizes[3] = {53, 7, 1};
    c.ids = take((size_t)(rows * c.n_tables) * sizeof *c.ids);
    for (int32_t j = 0; j < c.n_tables; j++) {
        c.values[j] = random_floats(r, (int64_t)sizes[j] * d, UNIFORM, 0, 0);
        c.tables[j] = tensor_of(c.values[j], sizes[j], d, (lx_dtype)random_below(r, 3));
        for (int32_t i = 0; i < rows; i++)
            c.ids[i * c.n_tables + j] = (int32_t)random_below(r, (uint32_t)sizes[j]);
    }
    return c;
}

/* One addition per table, in their order, in f32: nothing may differ. */
static bool check_embed(device *dut, const embed_case *c)
{
    const lx_table *tables[3];
    for (int32_t j = 0; j < c->n_tables; j++)
        tables[j] = dev_table(dut, &c->tables[j]);
    lx_array *y = dev_array(dut, NULL, (int64_t)c->rows * c->d);
    lx_embed_args args = {.y = y, .n_tables = c->n_tables, .tables = tables, .ids = c->ids};
    float *got = floats((int64_t)c->rows * c->d);
    CHECK_OK(dut->k->begin(dut->be, single_rows(c->rows), NULL));
    dut->k->embed(dut->be, &args);
    if (!dev_finish(dut) || !dev_read(dut, y, got, (int64_t)c->rows * c->d))
        return false;
    for (int64_t i = 0; i < (int64_t)c->rows * c->d; i++) {
        float want = 0;
        double scale = 0;
        for (int32_t j = 0; j < c->n_tables; j++) {
            float v = c->values[j][c->ids[i / c->d * c->n_tables + j] * (int64_t)c->d + i % c->d];
            want += v;
            scale += fabs((double)v);
        }
        CHECK(fabs((double)got[i] - (double)want) <= 1.2e-7 * scale,
              "element %lld is %.9g, not %.9g", (long long)i, (double)got[i], (double)want);
    }
    dev_release(dut);
    return true;
}

static bool embed_adds_table_rows(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {5};
    for (size_t i = 0; i < COUNT(widths) * COUNT(row_counts); i++) {
        embed_case c = make_embed(&r, widths[i % COUNT(widths)], row_counts[i / COUNT(widths)]);
        if (!check_embed(dut, &c))
            return false;
    }
    return true;
}

/* --- gather --- */

/* Into the columns from `column` on of `width`; the others stay poisoned. */
static bool check_gather(device *dut, rng *r, int32_t d, int32_t rows, uint32_t one_in,
                         int32_t width, int32_t column)
{
    lx_batch *b = single_rows(rows);
    int32_t *chosen = take((size_t)rows * sizeof *chosen);
    b->n_outputs = 0;
    for (int32_t i = 0; i < rows; i++) {
        if (random_below(r, one_in) == 0)
            chosen[b->n_outputs++] = i;
    }
    b->output_row = chosen;
    float *x = random_floats(r, (int64_t)rows * d, UNIFORM, 0, 0);
    int64_t n = (int64_t)b->n_outputs * width;
    float *got = floats((int64_t)rows * width), *before = random_floats(r, n, UNIFORM, 0, 0);
    lx_array *y = dev_array(dut, before, n);
    lx_gather_args args = {y, dev_array(dut, x, (int64_t)rows * d), d, width, column};
    CHECK_OK(dut->k->begin(dut->be, b, NULL));
    dut->k->gather(dut->be, &args);
    if (!dev_finish(dut) || !dev_read(dut, y, got, n))
        return false;
    for (int64_t i = 0; i < b->n_outputs; i++) {
        memcpy(before + i * width + column, x + chosen[i] * (int64_t)d, (size_t)d * sizeof *x);
        CHECK(same_bytes(got + i * width, before + i * width, width),
              "output %lld of %d, %d of %d columns", (long long)i, b->n_outputs, d, width);
    }
    dev_release(dut);
    return true;
}

static bool gather_copies_output_rows(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {6};
    for (size_t i = 0; i < COUNT(widths) * COUNT(row_counts); i++) {
        /* all rows, some, and with 1000 mostly none */
        for (uint32_t one_in = 1; one_in <= 1000; one_in = one_in * 30 + 3) {
            int32_t d = widths[i % COUNT(widths)], rows = row_counts[i / COUNT(widths)];
            if (!check_gather(dut, &r, d, rows, one_in, d, 0) ||
                !check_gather(dut, &r, d, rows, one_in, 2 * d + 3, d + 1))
                return false;
        }
    }
    return true;
}

const test row_tests[] = {
    {"norm_matches_oracle", norm_matches_oracle},
    {"norm_feeds_a_product", norm_feeds_a_product},
    {"norm_rows_are_independent", norm_rows_are_independent},
    {"embed_adds_table_rows", embed_adds_table_rows},
    {"gather_copies_output_rows", gather_copies_output_rows},
    {NULL, NULL},
};
