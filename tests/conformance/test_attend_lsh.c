/*
 * Compares `attend_lsh` with the oracle and with buckets and sums that are written down here,
 * checks its laws (carried.h), and its errors for wrong arguments.
 */
#include <math.h>
#include <string.h>

#include "carried.h"

#define Y_BOUND 3e-7 /* docs/numerics.md */

typedef struct lsh_case {
    int32_t heads, d_key, d_value, rounds, buckets, cap;
    float scale;
    const float *hashes; /* NULL: random */
} lsh_case;

static const lsh_case cases[] = {{1, 1, 1, 1, 2, 1, 1, NULL},
                                 {2, 32, 32, 4, 16, 5, 0.2f, NULL},
                                 {3, 7, 19, 2, 34, 40, 1, NULL},
                                 {1, 64, 80, 1, 64, 64, 0.125f, NULL},
                                 {2, 5, 3, 16, 4, 17, 0.4f, NULL}};

static lx_attend_lsh_args args_of(const lsh_case *c)
{
    return (lx_attend_lsh_args){.n_heads = c->heads,
                                .d_key = c->d_key,
                                .d_value = c->d_value,
                                .rounds = c->rounds,
                                .n_buckets = c->buckets,
                                .cap = c->cap,
                                .scale = c->scale,
                                .offset = 3,
                                .page_offset = 5};
}

static void queue(device *d, const void *of, lx_states *s, const lx_array *x, lx_array *y)
{
    const lsh_case *c = of;
    rng r = {9};
    int64_t n = (int64_t)c->rounds * c->d_key * (c->buckets / 2);
    lx_attend_lsh_args a = args_of(c);
    a.qkv = x;
    a.y = y;
    a.hashes = dev_array(d, c->hashes != NULL ? c->hashes : random_floats(&r, n, UNIFORM, 1, 1), n);
    a.states = s;
    d->k->attend_lsh(d->be, &a);
}

static carried carried_of(const lsh_case *c)
{
    lx_attend_lsh_args a = args_of(c);
    return (carried){.c = c,
                     .queue = queue,
                     .x_width = (int64_t)c->heads * (c->d_key + c->d_value),
                     .y_width = (int64_t)c->heads * c->d_value,
                     .fixed_floats = 3 + (int64_t)c->heads * c->rounds * c->buckets,
                     .page_floats = 5 + c->heads * LX_PAGE_TOKENS * lx_lsh_row(&a),
                     .most = 256,
                     /* of a value, and of a logit's error */
                     .scale = 2 * (1 + 2 * sqrt(c->d_key) * (double)c->scale),
                     .bound = Y_BOUND};
}

/* A device may lack the operation. */
static bool buckets_match_oracle(device *dut, device *oracle)
{
    rng r = {41};
    for (size_t i = 0; i < COUNT(cases) && !IS_MISSING(dut, attend_lsh); i++) {
        carried op = carried_of(&cases[i]);
        CHECK(carried_matches_oracle(dut, oracle, &op, &r), "case %zu", i);
    }
    return true;
}

static bool buckets_any_split_is_equal(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {42};
    for (size_t i = 0; i < COUNT(cases) && !IS_MISSING(dut, attend_lsh); i++) {
        carried op = carried_of(&cases[i]);
        CHECK(carried_any_split_is_equal(dut, &op, &r), "case %zu", i);
    }
    return true;
}

/* Four buckets of the plane: (1, .2) -> 0, (.2, 1) -> 1, (-1, .1) -> 2, (.1, -1) -> 3. Of two that
   are as near the first one: (1, 1) -> 0, (-1, -1) -> 2. */
static bool written_buckets_are_seen(device *dut, device *oracle)
{
    (void)oracle;
    if (IS_MISSING(dut, attend_lsh))
        return true;
    static const float hashes[] = {1, 0, 0, 1};
    static const lsh_case c = {1, 2, 4, 1, 4, 2, 1, hashes};
    static const float points[][2] = {{1, 0.2f},  {0.2f, 1}, {3, 4},     {1, 0.1f}, {-1, 0.1f},
                                      {0.1f, -1}, {2, 0},    {1, -0.5f}, {1, 1},    {-1, -1}};
    static const int32_t sees[][2] = {{-1, -1}, {-1, -1}, {1, -1}, {0, -1}, {-1, -1},
                                      {-1, -1}, {3, 0},   {6, 3},  {7, 6},  {4, -1}};
    enum { T = COUNT(points) };
    carried op = carried_of(&c);
    float qkv[T * 6], y[T * 4] = {0};
    int32_t n = T, zero = 0;
    for (int i = 0; i < T; i++) {
        memcpy(qkv + i * 6, points[i], sizeof points[i]);
        for (int m = 0; m < 4; m++)
            qkv[i * 6 + 2 + m] = (float)(i * i + m * 7 % 5);
    }
    if (!carried_step(dut, &op, carried_states(dut, &op, 1), 1, &n, &zero, &zero, qkv, y))
        return false;
    for (int i = 0; i < T; i++) {
        double sum = 0, o[4] = {0};
        for (int k = 0; k < 2; k++) {
            int j = sees[i][k] >= 0 || k > 0 ? sees[i][k] : i;
            if (j < 0)
                continue;
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
    d->k->attend_lsh(d->be, args);
}

static bool broken_buckets_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    static const lsh_case c = {2, 3, 2, 2, 4, 5, 1, NULL};
    if (IS_MISSING(dut, attend_lsh))
        return true;
    carried op = carried_of(&c);
    lx_attend_lsh_args good = args_of(&c);
    good.qkv = dev_array(dut, NULL, 2 * op.x_width);
    good.y = dev_array(dut, NULL, 2 * op.y_width);
    good.hashes = dev_array(dut, NULL, 12);
    good.states = carried_states(dut, &op, 2);
    struct {
        lx_attend_lsh_args args;
        const char *word;
    } bad[] = {{good, "heads"}, {good, "rounds"}, {good, "buckets"}, {good, "scale"},
               {good, "same"},  {good, "slot"},   {good, "page"},    {good, "hashes"}};
    bad[0].args.d_value = 1025;
    bad[1].args.cap = 2049;
    bad[2].args.n_buckets = 3;
    bad[3].args.scale = NAN;
    bad[4].args.qkv = good.y;
    bad[5].args.offset = 4;
    bad[6].args.page_offset = 6;
    bad[7].args.hashes = NULL;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (!carried_is_refused(dut, bad[i].word, &bad[i].args, queue_args))
            return false;
    }
    return true;
}

const test lsh_tests[] = {
    {"buckets_match_oracle", buckets_match_oracle},
    {"buckets_any_split_is_equal", buckets_any_split_is_equal},
    {"written_buckets_are_seen", written_buckets_are_seen},
    {"broken_buckets_are_refused", broken_buckets_are_refused},
    {NULL, NULL},
};
