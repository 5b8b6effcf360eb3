/*
 * `chunk_sums` against the oracle and against sums that are written down; by its laws: any split of
 * a sequence beside another one gives the same bytes, state included.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define BOUND 1e-6 /* docs/numerics.md */

enum { MOST = 90 };

typedef struct chunk_case {
    int32_t d_key, d_value, chunk;
} chunk_case;

static const chunk_case cases[] = {{1, 1, 1}, {5, 19, 8}, {32, 64, 16}, {7, 133, 37}, {3, 48, 200}};

static int32_t width(const chunk_case *c) /* of a row of q, k, v with three columns unused */
{
    return 2 * c->d_key + c->d_value + 3;
}

static int64_t state_floats(const chunk_case *c)
{
    return 2 + 2 * (int64_t)c->d_key * c->d_value;
}

/* y holds what is added to, then the sum. */
static bool step(device *d, const chunk_case *c, lx_states *s, int32_t n_seqs,
                 const int32_t *length, const int32_t *slot, const int32_t *position,
                 const float *rows, float *y)
{
    lx_batch *b = ragged_batch(n_seqs, length, slot);
    lx_array *in = dev_array(d, rows, (int64_t)b->n_tokens * width(c));
    lx_chunk_sums_args a = {.y = dev_array(d, y, (int64_t)b->n_tokens * c->d_value),
                            .q = {in, width(c), 1},
                            .k = {in, width(c), 1 + c->d_key},
                            .v = {in, width(c), 2 + 2 * c->d_key},
                            .states = s,
                            .offset = 2,
                            .d_key = c->d_key,
                            .d_value = c->d_value,
                            .chunk = c->chunk,
                            .scale = 0.5f};
    b->position = position;
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->chunk_sums(d->be, &a);
    return dev_finish(d) && dev_read(d, a.y, y, (int64_t)b->n_tokens * c->d_value);
}

static bool chunks_match_oracle(device *dut, device *oracle)
{
    static const int32_t length[] = {MOST, 1, 40}, slot[] = {2, 0, 1}, zero[] = {0, 0, 0};
    enum { T = MOST + 41 };
    rng r = {51};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const chunk_case *c = &cases[i];
        int64_t n = (int64_t)T * c->d_value;
        float *rows = floats((int64_t)T * width(c)), *got = floats(n), *want = floats(n);
        double *scale = take((size_t)n * sizeof *scale);
        fill(&r, rows, (int64_t)T * width(c), UNIFORM, 2, 2);
        fill(&r, got, n, UNIFORM, 1, 1);
        memcpy(want, got, (size_t)n * sizeof *want);
        for (int64_t k = 0; k < n; k++)
            scale[k] = 1 + 8.0 * MOST * c->d_key;
        if (!step(dut, c, dev_states(dut, state_floats(c), 3), 3, length, slot, zero, rows, got) ||
            !step(oracle, c, dev_states(oracle, state_floats(c), 3), 3, length, slot, zero, rows,
                  want))
            return false;
        double error = worst_error(got, want, scale, n);
        CHECK(error <= BOUND, "case %zu: error %.3g", i, error);
        dev_release(dut);
        dev_release(oracle);
    }
    return true;
}

static bool chunks_any_split_is_equal(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {52};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const chunk_case *c = &cases[i];
        int32_t n = MOST, zero = 0, some[2] = {1, 2}, slots[2] = {1, 0}, at[2] = {0, 0};
        int64_t n_y = c->d_value;
        float *rows = floats((int64_t)(n + 2) * width(c)), *y = floats((n + 2) * n_y);
        float *whole = floats(n * n_y), *piece = floats((n + 2) * n_y);
        float *one = floats(state_floats(c)), *two = floats(state_floats(c));
        fill(&r, rows, (int64_t)(n + 2) * width(c), UNIFORM, 2, 2);
        fill(&r, y, (n + 2) * n_y, UNIFORM, 1, 1);
        memcpy(whole, y, (size_t)(n * n_y) * sizeof *whole);
        lx_states *s = dev_states(dut, state_floats(c), 2);
        if (!step(dut, c, s, 1, &n, &zero, &zero, rows, whole))
            return false;
        CHECK_OK(dut->k->state_export(dut->be, s, 0, one, 0));
        CHECK_OK(dut->k->state_zero(dut->be, s, 0));
        for (; at[0] < n; at[0] += some[0]) {
            some[0] = 1 + (int32_t)random_below(&r, 20);
            some[0] = some[0] < n - at[0] ? some[0] : n - at[0];
            memcpy(piece, y + at[0] * n_y, (size_t)((some[0] + 2) * n_y) * sizeof *piece);
            if (!step(dut, c, s, 2, some, slots, at, rows + (int64_t)at[0] * width(c), piece))
                return false;
            CHECK(same_bytes(piece, whole + at[0] * n_y, some[0] * n_y), "case %zu: row %d", i,
                  at[0]);
        }
        CHECK_OK(dut->k->state_export(dut->be, s, 1, two, 0));
        CHECK(same_bytes(one, two, state_floats(c)), "case %zu: the state differs", i);
        dev_release(dut);
    }
    return true;
}

/* Sizes of 1, chunks of 2, q = k = 1, values 1 to 5: what lies in finished chunks, halved. */
static bool written_chunks_are_summed(device *dut, device *oracle)
{
    (void)oracle;
    static const chunk_case c = {1, 1, 2};
    static const float want[] = {0, 0, 1.5f, 1.5f, 5};
    float rows[5 * 6], y[5] = {0};
    int32_t n = 5, zero = 0;
    for (int i = 0; i < 5; i++) {
        const float row[] = {NAN, 1, 1, NAN, (float)(i + 1), NAN};
        memcpy(rows + i * 6, row, sizeof row);
    }
    if (!step(dut, &c, dev_states(dut, state_floats(&c), 1), 1, &n, &zero, &zero, rows, y))
        return false;
    for (int i = 0; i < 5; i++)
        CHECK(y[i] == want[i], "token %d: %g, not %g", i, (double)y[i], (double)want[i]);
    return true;
}

static bool broken_chunks_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t position[] = {0, 0};
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
        lx_batch *b = single_rows(2);
        lx_error err = {0};
        uint64_t number;
        b->position = position;
        CHECK_OK(dut->k->begin(dut->be, b, NULL));
        dut->k->chunk_sums(dut->be, &bad[i].args);
        CHECK(dut->k->end(dut->be, &number, &err) == LX_ERR_INVALID, "accepted: %s", bad[i].word);
        CHECK(strstr(err.text, bad[i].word) != NULL, "\"%s\" says no %s", err.text, bad[i].word);
    }
    return true;
}

const test chunk_tests[] = {
    {"chunks_match_oracle", chunks_match_oracle},
    {"chunks_any_split_is_equal", chunks_any_split_is_equal},
    {"written_chunks_are_summed", written_chunks_are_summed},
    {"broken_chunks_are_refused", broken_chunks_are_refused},
    {NULL, NULL},
};
