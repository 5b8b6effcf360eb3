/*
 * `short_conv` and `token_shift`, which keep a sequence's last inputs in its slot: against the
 * oracle, in any split, among neighbours, and without a touch of anything else in the slots.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"
#include "support.h"

#define BOUND 1e-6 /* of the sum of the absolute values of the terms: docs/numerics.md */
#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

/* A convolution of 2 .. 8 taps, or with taps = 0 a shift. */
typedef struct kept_case {
    int32_t taps, mixes, d, width, first, n_seqs;
    const int32_t *length;
    float *x, *weights, *bias; /* weights: of the mixes, too; bias NULL for none */
    lx_function f;
    int64_t offset, floats; /* of the layer in the slot; of the slot */
} kept_case;

static int32_t total_rows(const kept_case *c)
{
    int32_t rows = 0;
    for (int32_t i = 0; i < c->n_seqs; i++)
        rows += c->length[i];
    return rows;
}

static int64_t part_of(const kept_case *c)
{
    return (int64_t)(c->taps > 0 ? c->taps - 1 : 1) * c->d;
}

/* Floats of a row's outputs: those of all mixes. */
static int64_t outputs(const kept_case *c)
{
    return (int64_t)c->d * (c->taps > 0 ? 1 : c->mixes);
}

static kept_case make_case(rng *r, int32_t taps, int32_t d, int32_t n_seqs, const int32_t *length,
                           pattern p)
{
    kept_case c = {.taps = taps, .d = d, .width = d, .n_seqs = n_seqs, .length = length};
    c.mixes = 1 + (int32_t)random_below(r, LX_SHIFT_MOST_MIXES);
    if (taps > 0) {
        c.first = (int32_t)random_below(r, 5);
        c.width = c.first + d + (int32_t)random_below(r, 5);
        c.f = random_below(r, 2) == 0 && p == UNIFORM ? LX_FN_SILU : LX_FN_IDENTITY;
    }
    c.x = random_floats(r, (int64_t)total_rows(&c) * c.width, p, 4, 4);
    c.weights = random_floats(r, (int64_t)(taps > 0 ? taps : c.mixes) * d, UNIFORM, 0, 0);
    c.bias = taps > 0 && random_below(r, 2) == 0 ? random_floats(r, d, UNIFORM, 0, 0) : NULL;
    c.offset = random_below(r, 2) == 0 ? 0 : 5;
    c.floats = c.offset + part_of(&c) + 3;
    return c;
}

/* The outputs of `rows` rows: per row, all mixes in order. */
static bool read_mixes(device *d, const kept_case *c, lx_array *const *y, int64_t rows, float *to)
{
    float *one = floats(rows * c->d);
    int64_t n = c->taps > 0 ? 1 : c->mixes;
    for (int64_t i = 0; i < n; i++) {
        if (!dev_read(d, y[i], one, rows * c->d))
            return false;
        for (int64_t row = 0; row < rows; row++)
            memcpy(to + (row * n + i) * c->d, one + row * c->d, (size_t)c->d * sizeof *one);
    }
    return true;
}

/* One step on rows `row` .. of sequences with these lengths and slots. */
static bool kept_step(device *d, const kept_case *c, lx_states *states, int32_t n_seqs,
                      const int32_t *length, const int32_t *slot, int64_t row, float *y)
{
    lx_batch *b = ragged_batch(n_seqs, length, slot);
    int64_t rows = b->n_tokens;
    int owned = d->n_owned;
    lx_array *out[LX_SHIFT_MOST_MIXES] = {NULL};
    lx_array *x = dev_array(d, c->x + row * c->width, rows * c->width);
    lx_array *weights =
        dev_array(d, c->weights, (int64_t)(c->taps > 0 ? c->taps : c->mixes) * c->d);
    lx_array *bias = c->bias != NULL ? dev_array(d, c->bias, c->d) : NULL;
    for (int32_t i = 0; i < (c->taps > 0 ? 1 : c->mixes); i++)
        out[i] = dev_array(d, NULL, rows * c->d);
    CHECK_OK(d->k->begin(d->be, b, NULL));
    if (c->taps > 0) {
        lx_short_conv_args a = {
            out[0], {x, c->width, c->first}, weights, bias, states, c->offset, c->d, c->taps, c->f};
        d->k->short_conv(d->be, &a);
    } else {
        lx_token_shift_args a = {.x = x,
                                 .mixes = weights,
                                 .states = states,
                                 .offset = c->offset,
                                 .n_mixes = c->mixes,
                                 .d = c->d};
        memcpy(a.y, out, sizeof out);
        d->k->token_shift(d->be, &a);
    }
    bool ok = dev_finish(d) && read_mixes(d, c, out, rows, y);
    while (d->n_owned > owned)
        d->k->array_free(d->be, d->owned[--d->n_owned].object);
    return ok;
}

/* Sequence i is in slot i + 1; y and all slots' states come back. */
static bool kept_all(device *d, const kept_case *c, float *y, float *state)
{
    lx_states *s = dev_states(d, c->floats, c->n_seqs + 2);
    int32_t *slot = take((size_t)c->n_seqs * sizeof *slot);
    for (int32_t i = 0; i < c->n_seqs; i++)
        slot[i] = i + 1;
    if (!kept_step(d, c, s, c->n_seqs, c->length, slot, 0, y))
        return false;
    for (int32_t i = 0; i < c->n_seqs + 2; i++)
        CHECK_OK(d->k->state_export(d->be, s, i, state + i * c->floats, 0));
    return true;
}

/* The size that an output's errors are measured by. SiLU changes by at most 1.1 of its argument's
 * change. */
static void scale_sequence(const kept_case *c, int64_t row0, int32_t length, double *scale)
{
    int32_t taps = c->taps > 0 ? c->taps : 2;
    for (int64_t t = 0; t < length; t++) {
        for (int64_t i = 0; i < outputs(c); i++) {
            int64_t channel = i % c->d;
            double sum = c->bias != NULL ? fabs((double)c->bias[channel]) : 0;
            for (int64_t j = 0; j < taps && j <= t; j++) {
                double x = (double)c->x[(row0 + t - j) * c->width + c->first + channel];
                int64_t at = (taps - 1 - j) * c->d + channel;
                sum += fabs(x) * (c->taps > 0 ? fabs((double)c->weights[at]) : 2);
            }
            scale[(row0 + t) * outputs(c) + i] = 2 * sum;
        }
    }
}

static bool check_case(device *dut, device *oracle, const kept_case *c, uint64_t *hash)
{
    int64_t n_y = total_rows(c) * outputs(c), n = (c->n_seqs + 2) * c->floats, row = 0;
    float *got = floats(n_y), *want = floats(n_y), *state = floats(n), *want_state = floats(n);
    double *scale = take((size_t)n_y * sizeof *scale);
    if (!kept_all(dut, c, got, state) || !kept_all(oracle, c, want, want_state))
        return false;
    for (int32_t i = 0; i < c->n_seqs; row += c->length[i], i++)
        scale_sequence(c, row, c->length[i], scale);
    double error = worst_error(got, want, scale, n_y);
    CHECK(error <= BOUND, "%d taps, %d columns: error %.3g", c->taps, c->d, error);
    CHECK(same_bytes(state, want_state, n), "%d taps, %d columns: the states", c->taps, c->d);
    *hash = hash_bytes(*hash, got, (size_t)n_y * sizeof *got);
    dev_release(dut);
    dev_release(oracle);
    return true;
}

static const int32_t sizes[] = {1, 7, 16, 64, 100, 193};
static const int32_t lengths[] = {1, 3, 17, 1, 2, 40, 1, 5};
static const int32_t taps_of[] = {0, 2, 3, 4, 7, 8};

static bool kept_inputs_match_oracle(device *dut, device *oracle)
{
    static agreement exact;
    device as_exact = {.is_cpu = dut->is_cpu, .label = dut->label};
    uint64_t hash = NO_BYTES;
    rng r = {401};
    for (int i = 0; i < COUNT(taps_of) * COUNT(sizes) * PATTERNS; i++) {
        int32_t d = sizes[i / COUNT(taps_of) % COUNT(sizes)], taps = taps_of[i % COUNT(taps_of)];
        pattern p = (pattern)(i / COUNT(taps_of) / COUNT(sizes));
        kept_case many = make_case(&r, taps, d, COUNT(lengths), lengths, p);
        kept_case one = make_case(&r, taps, d, 1, lengths + 5, p);
        if (!check_case(dut, oracle, &many, &hash) || !check_case(dut, oracle, &one, &hash))
            return false;
        arena_reset();
    }
    return agrees(&as_exact, &exact, hash);
}

/* Sequence `which`, alone and in pieces, must give the bytes that it gave next to other sequences.
 */
static bool check_alone(device *d, const kept_case *c, int32_t which, int64_t row0, int32_t longest,
                        const float *y, const float *state)
{
    lx_states *s = dev_states(d, c->floats, 1);
    float *piece = floats(c->length[which] * outputs(c)), *end = floats(c->floats);
    int32_t zero = 0;
    for (int32_t row = 0, n = 0; row < c->length[which]; row += n) {
        n = longest < c->length[which] - row ? longest : c->length[which] - row;
        if (!kept_step(d, c, s, 1, &n, &zero, row0 + row, piece))
            return false;
        CHECK(same_bytes(piece, y + (row0 + row) * outputs(c), n * outputs(c)),
              "%d taps, %d columns, pieces of %d: row %d", c->taps, c->d, longest, row);
    }
    CHECK_OK(d->k->state_export(d->be, s, 0, end, 0));
    CHECK(same_bytes(end, state + (which + 1) * c->floats, c->floats), "the state differs");
    return true;
}

static bool kept_inputs_do_not_depend_on_splits(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {402};
    for (int i = 0; i < COUNT(taps_of) * COUNT(sizes); i++) {
        kept_case c = make_case(&r, taps_of[i % COUNT(taps_of)], sizes[i / COUNT(taps_of)],
                                COUNT(lengths), lengths, UNIFORM);
        float *y = floats(total_rows(&c) * outputs(&c)), *state = floats((c.n_seqs + 2) * c.floats);
        if (!kept_all(dut, &c, y, state))
            return false;
        int64_t row = 0;
        for (int32_t s = 0; s < c.n_seqs; row += c.length[s], s++) {
            if (!check_alone(dut, &c, s, row, 1, y, state) ||
                !check_alone(dut, &c, s, row, 3, y, state) ||
                !check_alone(dut, &c, s, row, 100, y, state))
                return false;
        }
        dev_release(dut);
        arena_reset();
    }
    return true;
}

static bool kept_inputs_refuse_bad_arguments(device *dut, device *oracle)
{
    (void)oracle;
    for (int which = 0; which < 5; which++) {
        lx_array *x = dev_array(dut, NULL, 8), *y = dev_array(dut, NULL, 8);
        lx_states *states = dev_states(dut, 12, 1);
        lx_array *w = dev_array(dut, NULL, 16);
        lx_short_conv_args conv = {
            .y = y, .x = {x, 4, 0}, .weights = w, .states = states, .d = 4, .taps = 4};
        lx_token_shift_args shift = {
            .y = {y}, .x = x, .mixes = w, .states = states, .n_mixes = 1, .d = 4};
        lx_error err = {0};
        uint64_t step = 0;
        CHECK_OK(dut->k->begin(dut->be, single_rows(1), NULL));
        conv.taps = which == 0 ? LX_CONV_MOST_TAPS + 1 : 4;
        conv.offset += which == 1;
        conv.y = which == 2 ? x : y;
        shift.n_mixes = which == 3 ? LX_SHIFT_MOST_MIXES + 1 : 1;
        shift.y[0] = which == 4 ? x : y;
        if (which < 3)
            dut->k->short_conv(dut->be, &conv);
        else
            dut->k->token_shift(dut->be, &shift);
        CHECK(dut->k->end(dut->be, &step, &err) == LX_ERR_INVALID, "mistake %d was taken", which);
        CHECK(strncmp(err.text, which < 3 ? "short_conv: " : "token_shift: ", 12) == 0,
              "mistake %d: %s", which, err.text);
        dev_release(dut);
    }
    return true;
}

const test kept_tests[] = {
    {"kept_inputs_match_oracle", kept_inputs_match_oracle},
    {"kept_inputs_do_not_depend_on_splits", kept_inputs_do_not_depend_on_splits},
    {"kept_inputs_refuse_bad_arguments", kept_inputs_refuse_bad_arguments},
    {NULL, NULL},
};
