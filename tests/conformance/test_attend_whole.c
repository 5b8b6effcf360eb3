/*
 * Compares `attend_whole` with the oracle and with chunks and sums that are written down here,
 * checks its laws (whole.h), and its errors for wrong arguments.
 */
#include <math.h>
#include <string.h>

#include "whole.h"

#define Y_BOUND 6e-7 /* docs/numerics.md */

typedef struct attend_case {
    int32_t heads, d_key, d_value, rounds, buckets, chunk; /* rounds 0: all tokens */
    float scale;
    const float *hashes; /* NULL: random */
} attend_case;

static const attend_case cases[] = {
    {4, 32, 32, 0, 0, 0, 0.18f, NULL},   {1, 1, 1, 0, 0, 0, 1, NULL},
    {3, 7, 19, 0, 0, 0, 0.5f, NULL},     {1, 64, 80, 0, 0, 0, 0.125f, NULL},
    {2, 33, 49, 0, 0, 0, -0.3f, NULL},   {1, 1, 1, 1, 2, 1, 1, NULL},
    {2, 32, 32, 4, 16, 8, 0.2f, NULL},   {3, 7, 19, 2, 34, 5, 1, NULL},
    {1, 64, 80, 1, 64, 200, 0.1f, NULL}, {2, 5, 3, 16, 4, 17, 0.4f, NULL},
};

static int64_t keys_of(const attend_case *c)
{
    return (int64_t)c->heads * c->d_key * (c->rounds > 0 ? 1 : 2);
}

static lx_attend_whole_args args_of(device *d, const attend_case *c, int32_t rows)
{
    rng r = {9};
    int64_t n = (int64_t)c->rounds * c->d_key * (c->buckets / 2);
    lx_attend_whole_args a = {.n_heads = c->heads,
                              .d_key = c->d_key,
                              .d_value = c->d_value,
                              .scale = c->scale,
                              .rounds = c->rounds,
                              .n_buckets = c->buckets,
                              .chunk = c->chunk};
    if (c->rounds == 0)
        return a;
    a.hashes = dev_array(d, c->hashes != NULL ? c->hashes : random_floats(&r, n, UNIFORM, 1, 1), n);
    a.sorted = dev_array(d, NULL, rows * c->heads * lx_whole_sorted(c->rounds));
    return a;
}

static void queue(device *d, const void *of, const lx_array *x, lx_array *y, int32_t rows)
{
    lx_attend_whole_args a = args_of(d, of, rows);
    a.qkv = x;
    a.y = y;
    d->k->attend_whole(d->be, &a);
}

static void fill_rows(rng *r, const void *of, pattern p, float *x, int32_t rows)
{
    int64_t keys = keys_of(of), values = ((const attend_case *)of)->heads;
    values *= ((const attend_case *)of)->d_value;
    for (int32_t i = 0; i < rows; i++, x += keys + values) {
        fill(r, x, keys, p, 4, 1.3f);
        fill(r, x + keys, values, p, 5, 5);
    }
}

/* The largest |v| of a column, times 1 + the largest possible sum of the absolute terms of a logit.
   |k_d| is at most 1 where keys are divided by their length. */
static void scales(const void *of, const float *x, int32_t rows, double *scale)
{
    const attend_case *c = of;
    int64_t keys = keys_of(c), n = (int64_t)c->heads * c->d_value, width = keys + n;
    for (int64_t i = 0; i < n; i++) {
        int64_t first = i / c->d_value * c->d_key;
        double largest = 0;
        for (int32_t t = 0; t < rows; t++)
            largest = fmax(largest, fabs((double)x[t * width + keys + i]));
        for (int32_t t = 0; t < rows; t++)
            scale[t * n + i] = largest;
        for (int64_t d = first; d < first + c->d_key; d++) {
            double most = c->rounds > 0 ? 1 : 0;
            for (int32_t t = 0; t < rows && c->rounds == 0; t++)
                most = fmax(most, fabs((double)x[t * width + keys / 2 + d]));
            for (int32_t t = 0; t < rows; t++)
                scale[t * n + i] +=
                    largest * fabs((double)c->scale * (double)x[t * width + d]) * most;
        }
    }
}

static whole whole_of(const attend_case *c)
{
    return (whole){.c = c,
                   .x_width = keys_of(c) + (int64_t)c->heads * c->d_value,
                   .y_width = (int64_t)c->heads * c->d_value,
                   .fill = fill_rows,
                   .queue = queue,
                   .scales = scales,
                   .bound = Y_BOUND};
}

/* A device may lack the operation. */
static bool whole_attention_matches_oracle(device *dut, device *oracle)
{
    rng r = {61};
    for (size_t i = 0; i < COUNT(cases) && !IS_MISSING(dut, attend_whole); i++) {
        whole op = whole_of(&cases[i]);
        CHECK(whole_matches_oracle(dut, oracle, &op, &r), "case %zu", i);
    }
    return true;
}

static bool whole_attention_is_equal_alone(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {62};
    static agreement seen;
    uint64_t hash = NO_BYTES;
    for (size_t i = 0; i < COUNT(cases) && !IS_MISSING(dut, attend_whole); i++) {
        whole op = whole_of(&cases[i]);
        CHECK(whole_is_equal_alone(dut, &op, &r, &hash), "case %zu", i);
    }
    return IS_MISSING(dut, attend_whole) || agrees(dut, &seen, hash);
}

/*
 * Four buckets of the plane, as in test_attend_lsh.c: tokens 0 3 6 7 8 lie in bucket 0, 1 2 in 1,
 * 4 9 in 2, 5 in 3. So the order is 0 3 | 6 7 | 8 1 | 2 4 | 9 5 in chunks of two.
 */
static bool written_chunks_are_seen(device *dut, device *oracle)
{
    (void)oracle;
    if (IS_MISSING(dut, attend_whole))
        return true;
    static const float hashes[] = {1, 0, 0, 1};
    static const attend_case c = {1, 2, 4, 1, 4, 2, 1, hashes};
    static const float points[][2] = {{1, 0.2f},  {0.2f, 1}, {3, 4},     {1, 0.1f}, {-1, 0.1f},
                                      {0.1f, -1}, {2, 0},    {1, -0.5f}, {1, 1},    {-1, -1}};
    static const char *const sees[] = {"367", "67824", "81495", "067",   "81295",
                                       "249", "03781", "03681", "67124", "245"};
    enum { T = COUNT(points) };
    whole op = whole_of(&c);
    float qkv[T * 6], y[T * 4] = {0};
    int32_t n = T;
    for (int i = 0; i < T; i++) {
        memcpy(qkv + i * 6, points[i], sizeof points[i]);
        for (int m = 0; m < 4; m++)
            qkv[i * 6 + 2 + m] = (float)(i * i + m * 7 % 5);
    }
    if (!whole_run(dut, &op, 1, &n, qkv, y))
        return false;
    for (int i = 0; i < T; i++) {
        double sum = 0, o[4] = {0};
        for (const char *seen = sees[i]; *seen != '\0'; seen++) {
            int j = *seen - '0';
            double a = (double)points[j][0], b = (double)points[j][1];
            double w = exp((a * (double)points[i][0] + b * (double)points[i][1]) / hypot(a, b));
            sum += w;
            for (int m = 0; m < 4; m++)
                o[m] += w * (double)qkv[j * 6 + 2 + m];
        }
        for (int m = 0; m < 4; m++)
            CHECK(fabs((double)y[i * 4 + m] - o[m] / sum) < 2e-5, "token %d: %g, not %g", i,
                  (double)y[i * 4 + m], o[m] / sum);
    }
    return true;
}

static void queue_args(device *d, const void *args)
{
    d->k->attend_whole(d->be, args);
}

static bool broken_whole_attention_is_refused(device *dut, device *oracle)
{
    (void)oracle;
    enum { ROWS = LX_WHOLE_MOST_TOKENS + 1 };
    static const attend_case c = {1, 1, 1, 2, 4, 5, 1, NULL};
    if (IS_MISSING(dut, attend_whole))
        return true;
    lx_attend_whole_args good = args_of(dut, &c, ROWS), bad[9];
    good.qkv = dev_array(dut, NULL, 3 * (int64_t)ROWS);
    good.y = dev_array(dut, NULL, ROWS);
    static const char *const words[COUNT(bad)] = {"heads", "chunk",  "buckets", "scale", "same",
                                                  "same",  "hashes", "sorted",  "65536"};
    for (size_t i = 0; i < COUNT(bad); i++)
        bad[i] = good;
    bad[0].d_value = 1025;
    bad[1].chunk = 683;
    bad[2].n_buckets = 3;
    bad[3].scale = NAN;
    bad[4].qkv = good.y;
    bad[5].sorted = good.y;
    bad[6].n_buckets = 64; /* the array has those of four */
    bad[7].sorted = NULL;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (!whole_is_refused(dut, i + 1 < COUNT(bad) ? 1 : ROWS, words[i], &bad[i], queue_args))
            return false;
    }
    bad[8].hashes = NULL;
    return whole_is_refused(dut, ROWS, "65536", &bad[8], queue_args);
}

const test whole_tests[] = {
    {"whole_attention_matches_oracle", whole_attention_matches_oracle},
    {"whole_attention_is_equal_alone", whole_attention_is_equal_alone},
    {"written_chunks_are_seen", written_chunks_are_seen},
    {"broken_whole_attention_is_refused", broken_whole_attention_is_refused},
    {NULL, NULL},
};
