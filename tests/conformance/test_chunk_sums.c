/*
 * Compares `chunk_sums` with the oracle and with sums that are written down here, checks its laws
 * (carried.h), and its errors for wrong arguments.
 */
#include <math.h>
#include <string.h>

#include "carried.h"

#define BOUND 2e-9 /* docs/numerics.md */

enum { MOST = 90 };

typedef struct chunk_case {
    int32_t d_key, d_value, chunk;
} chunk_case;

static const chunk_case cases[] = {{1, 1, 1}, {5, 19, 8}, {32, 64, 16}, {7, 133, 37}, {3, 48, 200}};

static int32_t width(const chunk_case *c) /* of a row of q, k, v with three columns unused */
{
    return 2 * c->d_key + c->d_value + 3;
}

static void queue(device *d, const void *of, lx_states *s, const lx_array *x, lx_array *y)
{
    const chunk_case *c = of;
    lx_chunk_sums_args a = {.y = y,
                            .q = {x, width(c), 1},
                            .k = {x, width(c), 1 + c->d_key},
                            .v = {x, width(c), 2 + 2 * c->d_key},
                            .states = s,
                            .offset = 2,
                            .d_key = c->d_key,
                            .d_value = c->d_value,
                            .chunk = c->chunk,
                            .scale = 0.5f};
    d->k->chunk_sums(d->be, &a);
}

static carried carried_of(const chunk_case *c)
{
    return (carried){.c = c,
                     .queue = queue,
                     .x_width = width(c),
                     .y_width = c->d_value,
                     .fixed_floats = 2 + 2 * (int64_t)c->d_key * c->d_value,
                     .most = MOST,
                     .scale = 1 + 8.0 * MOST * c->d_key,
                     .bound = BOUND};
}

static bool chunks_match_oracle(device *dut, device *oracle)
{
    rng r = {51};
    for (size_t i = 0; i < COUNT(cases); i++) {
        carried op = carried_of(&cases[i]);
        CHECK(carried_matches_oracle(dut, oracle, &op, &r), "case %zu", i);
    }
    return true;
}

static bool chunks_any_split_is_equal(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {52};
    for (size_t i = 0; i < COUNT(cases); i++) {
        carried op = carried_of(&cases[i]);
        CHECK(carried_any_split_is_equal(dut, &op, &r), "case %zu", i);
    }
    return true;
}

/* Sizes of 1, chunks of 2, q = k = 1, values 1 to 5: the sums of finished chunks, halved. */
static bool written_chunks_are_summed(device *dut, device *oracle)
{
    (void)oracle;
    static const chunk_case c = {1, 1, 2};
    static const float want[] = {0, 0, 1.5f, 1.5f, 5};
    carried op = carried_of(&c);
    float rows[5 * 6], y[5] = {0};
    int32_t n = 5, zero = 0;
    for (int i = 0; i < 5; i++) {
        const float row[] = {NAN, 1, 1, NAN, (float)(i + 1), NAN};
        memcpy(rows + i * 6, row, sizeof row);
    }
    if (!carried_step(dut, &op, carried_states(dut, &op, 1), 1, &n, &zero, &zero, rows, y))
        return false;
    for (int i = 0; i < 5; i++)
        CHECK(y[i] == want[i], "token %d: %g, not %g", i, (double)y[i], (double)want[i]);
    return true;
}

/* Enough sequences to fill the device's memory for their starts, then a slot number larger than the
   number of tokens: no sum continues across sequences. */
static bool chunks_end_with_their_sequences(device *dut, device *oracle)
{
    enum { SEQS = 15, SLOTS = 40, TOKENS = SEQS + 1 };
    const chunk_case *c = &cases[1];
    int32_t slot[SEQS] = {SLOTS - 1}, length[SEQS] = {2}, zero[SEQS] = {0};
    carried op = carried_of(c);
    rng r = {53};
    float *x = random_floats(&r, (int64_t)TOKENS * width(c), UNIFORM, 2, 2);
    float *got = floats((int64_t)TOKENS * c->d_value), *want = floats((int64_t)TOKENS * c->d_value);
    for (int32_t i = 1; i < SEQS; i++) {
        slot[i] = i;
        length[i] = 1;
    }
    memset(got, 0, (size_t)TOKENS * (size_t)c->d_value * sizeof *got);
    memset(want, 0, (size_t)TOKENS * (size_t)c->d_value * sizeof *want);
    if (!carried_step(dut, &op, carried_states(dut, &op, SLOTS), SEQS, length, slot, zero, x,
                      got) ||
        !carried_step(oracle, &op, carried_states(oracle, &op, SLOTS), SEQS, length, slot, zero, x,
                      want))
        return false;
    for (int32_t i = 0; i < TOKENS * c->d_value; i++)
        CHECK(fabs((double)got[i] - (double)want[i]) <= op.bound * op.scale, "value %d", i);
    return true;
}

static void queue_args(device *d, const void *args)
{
    d->k->chunk_sums(d->be, args);
}

static bool broken_chunks_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    lx_array *in = dev_array(dut, NULL, 2 * 6);
    lx_chunk_sums_args good = {.y = dev_array(dut, NULL, 2),
                               .q = {in, 6, 1},
                               .k = {in, 6, 2},
                               .v = {in, 6, 4},
                               .states = dev_states(dut, 2, 2),
                               .d_key = 1,
                               .d_value = 1,
                               .chunk = 2,
                               .scale = 1};
    struct {
        lx_chunk_sums_args args;
        const char *word;
    } bad[] = {{good, "sizes"}, {good, "chunk"}, {good, "scale"},
               {good, "row"},   {good, "y is"},  {good, "slot"}};
    bad[0].args.d_key = 0;
    bad[1].args.chunk = 0;
    bad[2].args.scale = NAN;
    bad[3].args.v.first = 6;
    bad[4].args.y = in;
    bad[5].args.offset = 1;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (!carried_is_refused(dut, bad[i].word, &bad[i].args, queue_args))
            return false;
    }
    return true;
}

const test chunk_tests[] = {
    {"chunks_match_oracle", chunks_match_oracle},
    {"chunks_any_split_is_equal", chunks_any_split_is_equal},
    {"written_chunks_are_summed", written_chunks_are_summed},
    {"chunks_end_with_their_sequences", chunks_end_with_their_sequences},
    {"broken_chunks_are_refused", broken_chunks_are_refused},
    {NULL, NULL},
};
