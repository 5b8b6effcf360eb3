/*
 * `bonus` against the oracle: columns of wider rows, with and without z, y in place of x. The error
 * of an element is measured by the absolute values that make it up.
 */
#include <math.h>

#include "conformance.h"
#include "support.h"

#define BOUND 1e-6 /* docs/numerics.md */
#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

enum { X, Q, K, V, Z, INPUTS };

typedef struct bonus_case {
    int32_t rows, heads, d_key, d_value;
    bool in_place, has_z;
    lx_columns at[INPUTS]; /* without arrays */
    float *in[INPUTS], *u;
} bonus_case;

static bonus_case make_case(rng *r, const int32_t *shape, pattern p)
{
    bonus_case c = {shape[0], shape[1], shape[2], shape[3], .in_place = random_below(r, 3) == 0};
    c.has_z = random_below(r, 2) == 0;
    for (int i = 0; i < INPUTS; i++) {
        bool narrow = i == X && c.in_place;
        int32_t n = c.heads * (i == Q || i == K ? c.d_key : c.d_value);
        c.at[i].first = narrow ? 0 : (int32_t)random_below(r, 5);
        c.at[i].width = c.at[i].first + n + (narrow ? 0 : (int32_t)random_below(r, 5));
        c.in[i] = random_floats(r, (int64_t)c.rows * c.at[i].width, p, 3, 3);
    }
    c.u = random_floats(r, (int64_t)c.heads * c.d_key, UNIFORM, 0, 0);
    return c;
}

static bool run_case(device *d, const bonus_case *c, float *y)
{
    int64_t n = (int64_t)c->rows * c->heads * c->d_value;
    lx_columns at[INPUTS];
    lx_array *x = NULL;
    for (int i = 0; i < INPUTS; i++) {
        lx_array *a = dev_array(d, c->in[i], (int64_t)c->rows * c->at[i].width);
        x = i == X ? a : x;
        at[i] = (lx_columns){a, c->at[i].width, c->at[i].first};
    }
    lx_bonus_args a = {.y = c->in_place ? x : dev_array(d, NULL, n),
                       .x = at[X],
                       .q = at[Q],
                       .k = at[K],
                       .v = at[V],
                       .u = dev_array(d, c->u, (int64_t)c->heads * c->d_key),
                       .n_heads = c->heads,
                       .d_key = c->d_key,
                       .d_value = c->d_value};
    if (c->has_z)
        a.z = at[Z];
    CHECK_OK(d->k->begin(d->be, single_rows(c->rows), NULL));
    d->k->bonus(d->be, &a);
    return dev_finish(d) && dev_read(d, a.y, y, n);
}

static double element(const bonus_case *c, int which, int64_t row, int64_t column)
{
    return fabs((double)c->in[which][row * c->at[which].width + c->at[which].first + column]);
}

static double *scales(const bonus_case *c)
{
    int64_t width = (int64_t)c->heads * c->d_value;
    double *scale = take((size_t)(c->rows * width) * sizeof *scale);
    for (int64_t i = 0; i < c->rows * width; i++) {
        int64_t row = i / width, at = i % width, key = at / c->d_value * c->d_key;
        double sum = 0;
        for (int64_t d = key; d < key + c->d_key; d++)
            sum += fabs((double)c->u[d]) * element(c, Q, row, d) * element(c, K, row, d);
        scale[i] = element(c, X, row, at) + sum * element(c, V, row, at);
        scale[i] *= c->has_z ? element(c, Z, row, at) : 1;
    }
    return scale;
}

static const int32_t shapes[][4] = {/* rows, heads, keys, values */
                                    {1, 1, 1, 1},
                                    {3, 2, 7, 9},
                                    {1, 12, 64, 64},
                                    {33, 3, 16, 40}};

static bool bonus_matches_oracle(device *dut, device *oracle)
{
    static agreement exact;
    device as_exact = {.is_cpu = dut->is_cpu, .label = dut->label};
    uint64_t hash = NO_BYTES;
    rng r = {501};
    for (int i = 0; i < 12 * COUNT(shapes); i++) {
        bonus_case c = make_case(&r, shapes[i / 12], (pattern)(i % 2));
        int64_t n = (int64_t)c.rows * c.heads * c.d_value;
        float *got = floats(n), *want = floats(n);
        if (!run_case(dut, &c, got) || !run_case(oracle, &c, want))
            return false;
        double error = worst_error(got, want, scales(&c), n);
        CHECK(error <= BOUND, "%d heads, %d keys, %d values: error %.3g", c.heads, c.d_key,
              c.d_value, error);
        hash = hash_bytes(hash, got, (size_t)n * sizeof *got);
        dev_release(dut);
        dev_release(oracle);
        arena_reset();
    }
    return agrees(&as_exact, &exact, hash);
}

static bool bonus_refuses_bad_arguments(device *dut, device *oracle)
{
    (void)oracle;
    for (int which = 0; which < 3; which++) {
        lx_array *all = dev_array(dut, NULL, 16), *y = dev_array(dut, NULL, 8);
        lx_columns c = {all, 8, 0};
        lx_bonus_args a = {.y = y,
                           .x = c,
                           .q = c,
                           .k = c,
                           .v = c,
                           .u = dev_array(dut, NULL, 8),
                           .n_heads = 2,
                           .d_key = 4,
                           .d_value = 4};
        lx_error err = {0};
        uint64_t step = 0;
        a.q.first = which == 0;
        a.y = which == 1 ? all : y;
        a.n_heads = which == 2 ? 0 : 2;
        CHECK_OK(dut->k->begin(dut->be, single_rows(1), NULL));
        dut->k->bonus(dut->be, &a);
        CHECK(dut->k->end(dut->be, &step, &err) == LX_ERR_INVALID, "mistake %d was taken", which);
        dev_release(dut);
    }
    return true;
}

const test bonus_tests[] = {
    {"bonus_matches_oracle", bonus_matches_oracle},
    {"bonus_refuses_bad_arguments", bonus_refuses_bad_arguments},
    {NULL, NULL},
};
