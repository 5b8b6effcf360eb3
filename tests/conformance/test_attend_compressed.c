/*
 * Compares `attend_compressed` with the oracle and with rows that are written down here, checks its
 * laws (carried.h), and its errors for wrong arguments.
 */
#include <math.h>
#include <string.h>

#include "carried.h"

#define Y_BOUND 3e-7 /* docs/numerics.md */

typedef struct compressed_case {
    int32_t heads, d_key, d_value, factor;
    bool inclusive, learned;
    float scale;
    float tap; /* all taps, no bias; 0: random */
} compressed_case;

/* The third has more rows than are summed at a time. */
static const compressed_case cases[] = {
    {1, 1, 1, 1, false, true, 1, 0},        {2, 32, 32, 3, false, true, 0.2f, 0},
    {2, 6, 5, 1, true, false, 0.5f, 0},     {3, 7, 19, 4, true, true, 0.4f, 0},
    {1, 40, 80, 7, false, false, 0.15f, 0}, {2, 5, 3, 64, true, true, 0.4f, 0}};

static lx_attend_compressed_args args_of(const compressed_case *c)
{
    return (lx_attend_compressed_args){.n_heads = c->heads,
                                       .d_key = c->d_key,
                                       .d_value = c->d_value,
                                       .factor = c->factor,
                                       .inclusive = c->inclusive,
                                       .scale = c->scale,
                                       .offset = 3,
                                       .page_offset = 5};
}

/* The sum of a block is about as large as its terms. */
static lx_array *taps_of(device *d, const compressed_case *c, rng *r, int32_t n)
{
    int64_t all = (int64_t)c->heads * c->factor * n * n;
    float size = 1.5f / sqrtf((float)(c->factor * n)), *taps = floats(all);
    for (int64_t i = 0; i < all; i++)
        taps[i] = c->tap > 0 ? c->tap : random_between(r, -size, size);
    return dev_array(d, taps, all);
}

static lx_array *vector_of(device *d, const compressed_case *c, rng *r, int32_t n)
{
    float *values = floats((int64_t)c->heads * n);
    if (c->tap == 0)
        fill(r, values, (int64_t)c->heads * n, UNIFORM, 1, 1);
    return dev_array(d, values, (int64_t)c->heads * n);
}

static void queue(device *d, const void *of, lx_states *s, const lx_array *x, lx_array *y)
{
    const compressed_case *c = of;
    rng r = {9};
    lx_attend_compressed_args a = args_of(c);
    a.qkv = x;
    a.y = y;
    a.taps_k = taps_of(d, c, &r, c->d_key);
    a.bias_k = vector_of(d, c, &r, c->d_key);
    a.taps_v = taps_of(d, c, &r, c->d_value);
    a.bias_v = vector_of(d, c, &r, c->d_value);
    a.first = c->learned ? vector_of(d, c, &r, c->d_key + c->d_value) : NULL;
    a.states = s;
    d->k->attend_compressed(d->be, &a);
}

static carried carried_of(const compressed_case *c)
{
    int64_t row = (int64_t)c->d_key + c->d_value;
    return (carried){.c = c,
                     .queue = queue,
                     .x_width = (int64_t)c->heads * (2 * c->d_key + c->d_value),
                     .y_width = (int64_t)c->heads * c->d_value,
                     .fixed_floats = 3 + c->heads * row * (c->learned ? 1 : 2),
                     .page_floats = 5 + c->heads * row * lx_compressed_rows(c->factor),
                     .most = 300,
                     /* of a value, and of a logit's error, of numbers up to 4 */
                     .scale = 4 * (1 + 2 * sqrt(c->d_key) * (double)c->scale),
                     .bound = Y_BOUND};
}

/* A device may lack the operation. */
static bool compressed_rows_match_oracle(device *dut, device *oracle)
{
    rng r = {61};
    for (size_t i = 0; i < COUNT(cases) && !IS_MISSING(dut, attend_compressed); i++) {
        carried op = carried_of(&cases[i]);
        CHECK(carried_matches_oracle(dut, oracle, &op, &r), "case %zu", i);
    }
    return true;
}

static bool compressed_rows_any_split_is_equal(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {62};
    for (size_t i = 0; i < COUNT(cases) && !IS_MISSING(dut, attend_compressed); i++) {
        carried op = carried_of(&cases[i]);
        CHECK(carried_any_split_is_equal(dut, &op, &r), "case %zu", i);
    }
    return true;
}

/* All queries are 0, all taps 1, values 1 to 7. y is the mean of the first row, 1 or the learned 0,
   and of the sums of the visible blocks of three. */
static bool written_blocks_are_averaged(device *dut, device *oracle)
{
    (void)oracle;
    static const compressed_case forms[] = {{1, 1, 1, 3, false, false, 1, 1},
                                            {1, 1, 1, 3, true, true, 1, 1}};
    static const float want[][7] = {{1, 1, 1, 3.5f, 3.5f, 3.5f, 22 / 3.0f}, {0, 0, 3, 3, 3, 7, 7}};
    if (IS_MISSING(dut, attend_compressed))
        return true;
    for (size_t form = 0; form < COUNT(forms); form++) {
        carried op = carried_of(&forms[form]);
        float qkv[7 * 3] = {0}, y[7] = {0};
        int32_t n = 7, zero = 0;
        for (int i = 0; i < n; i++)
            qkv[i * 3 + 2] = (float)(i + 1);
        if (!carried_step(dut, &op, carried_states(dut, &op, 1), 1, &n, &zero, &zero, qkv, y))
            return false;
        for (int i = 0; i < n; i++)
            CHECK(fabsf(y[i] - want[form][i]) < 1e-6f, "form %zu, token %d: %g, not %g", form, i,
                  (double)y[i], (double)want[form][i]);
    }
    return true;
}

static void queue_args(device *d, const void *args)
{
    d->k->attend_compressed(d->be, args);
}

static bool broken_blocks_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    static const compressed_case c = {2, 3, 2, 4, false, true, 1, 0};
    if (IS_MISSING(dut, attend_compressed))
        return true;
    carried op = carried_of(&c);
    rng r = {1};
    lx_attend_compressed_args good = args_of(&c);
    good.qkv = dev_array(dut, NULL, 2 * op.x_width);
    good.y = dev_array(dut, NULL, 2 * op.y_width);
    good.taps_k = taps_of(dut, &c, &r, 3);
    good.bias_k = vector_of(dut, &c, &r, 3);
    good.taps_v = taps_of(dut, &c, &r, 2);
    good.bias_v = vector_of(dut, &c, &r, 2);
    good.first = vector_of(dut, &c, &r, 5);
    good.states = carried_states(dut, &op, 2);
    struct {
        lx_attend_compressed_args args;
        const char *word;
    } bad[] = {{good, "heads"}, {good, "factor"},       {good, "scale"},
               {good, "same"},  {good, "slot"},         {good, "slot"},
               {good, "page"},  {good, "taps of keys"}, {good, "bias of values"}};
    bad[0].args.d_value = 1025;
    bad[1].args.factor = 65;
    bad[2].args.scale = NAN;
    bad[3].args.qkv = good.y;
    bad[4].args.offset = 4;
    bad[5].args.first = NULL; /* then the slot holds the row */
    bad[6].args.page_offset = 6;
    bad[7].args.taps_k = NULL;
    bad[8].args.bias_v = NULL;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (!carried_is_refused(dut, bad[i].word, &bad[i].args, queue_args))
            return false;
    }
    return true;
}

const test compressed_tests[] = {
    {"compressed_rows_match_oracle", compressed_rows_match_oracle},
    {"compressed_rows_any_split_is_equal", compressed_rows_any_split_is_equal},
    {"written_blocks_are_averaged", written_blocks_are_averaged},
    {"broken_blocks_are_refused", broken_blocks_are_refused},
    {NULL, NULL},
};
