/*
 * Compares `selective_scan` with the oracle, and checks its laws. Any split of a sequence gives the
 * same bytes. Neighbours do not matter. Other slots, and other parts of the slot, stay unchanged.
 * All cpu back ends give equal bytes.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"
#include "support.h"

#define BOUND 2e-6 /* of the sum of the absolute values of the terms: docs/numerics.md */
#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

/* Columns of a row of the inputs, with gaps: x, t, b, c. */
enum { X, T, B, C, INPUTS };

typedef struct scan_case {
    int32_t d, keys, n_seqs, width, first[INPUTS];
    const int32_t *length;
    float *rows, *a, *skip; /* [rows, width], [keys, d], [d] */
    int64_t offset, floats; /* of the layer in the slot; of the slot */
} scan_case;

static int32_t total_rows(const scan_case *c)
{
    int32_t rows = 0;
    for (int32_t i = 0; i < c->n_seqs; i++)
        rows += c->length[i];
    return rows;
}

static float *at(const scan_case *c, int which, int64_t row)
{
    return c->rows + row * c->width + c->first[which];
}

/* Steps from 0 on, with rates whose factors are next to 0 and 1 and between them. */
static scan_case make_case(rng *r, const int32_t *shape, int32_t n_seqs, const int32_t *length,
                           pattern p)
{
    scan_case c = {.d = shape[0], .keys = shape[1], .n_seqs = n_seqs, .length = length};
    for (int i = 0; i < INPUTS; i++) {
        c.first[i] = c.width + (int32_t)random_below(r, 4);
        c.width = c.first[i] + (i < B ? c.d : c.keys);
    }
    c.width += (int32_t)random_below(r, 3);
    c.rows = floats((int64_t)total_rows(&c) * c.width);
    for (int64_t i = 0; i < (int64_t)total_rows(&c) * c.width; i++)
        c.rows[i] = NAN; /* no channel reads these */
    for (int64_t row = 0; row < total_rows(&c); row++) {
        fill(r, at(&c, X, row), c.d, p, 4, 4);
        fill(r, at(&c, B, row), c.keys, p, 4, 2);
        fill(r, at(&c, C, row), c.keys, p, 4, 2);
        for (int32_t i = 0; i < c.d; i++)
            at(&c, T, row)[i] = random_below(r, 9) == 0 ? 0 : random_between(r, 0, 0.5f);
    }
    c.a = floats((int64_t)c.keys * c.d);
    for (int64_t i = 0; i < (int64_t)c.keys * c.d; i++)
        c.a[i] = -expf(random_between(r, -4, random_below(r, 5) == 0 ? 7 : 3));
    c.skip = random_floats(r, c.d, UNIFORM, 0, 0);
    c.offset = random_below(r, 2) == 0 ? 0 : 5;
    c.floats = c.offset + (int64_t)c.keys * c.d + 3;
    return c;
}

static lx_selective_scan_args args_of(device *d, const scan_case *c, lx_array *y,
                                      const lx_array *in, lx_states *states)
{
    return (lx_selective_scan_args){.y = y,
                                    .x = {in, c->width, c->first[X]},
                                    .t = {in, c->width, c->first[T]},
                                    .b = {in, c->width, c->first[B]},
                                    .c = {in, c->width, c->first[C]},
                                    .a = dev_array(d, c->a, (int64_t)c->keys * c->d),
                                    .skip = dev_array(d, c->skip, c->d),
                                    .states = states,
                                    .offset = c->offset,
                                    .d = c->d,
                                    .d_key = c->keys};
}

/* One step on rows `row` .. of sequences with these lengths and slots. */
static bool scan_step(device *d, const scan_case *c, lx_states *states, int32_t n_seqs,
                      const int32_t *length, const int32_t *slot, int64_t row, float *y)
{
    lx_batch *b = ragged_batch(n_seqs, length, slot);
    int64_t n_y = (int64_t)b->n_tokens * c->d;
    int owned = d->n_owned;
    lx_array *in = dev_array(d, c->rows + row * c->width, (int64_t)b->n_tokens * c->width);
    lx_array *out = dev_array(d, NULL, n_y);
    lx_selective_scan_args args = args_of(d, c, out, in, states);
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->selective_scan(d->be, &args);
    bool ok = dev_finish(d) && dev_read(d, out, y, n_y);
    while (d->n_owned > owned)
        d->k->array_free(d->be, d->owned[--d->n_owned].object);
    return ok;
}

/* Sequence i is in slot i + 1, from a zero state; y and all slots' states come back. */
static bool scan_all(device *d, const scan_case *c, float *y, float *state)
{
    lx_states *s = dev_states(d, c->floats, c->n_seqs + 2);
    int32_t *slot = take((size_t)c->n_seqs * sizeof *slot);
    for (int32_t i = 0; i < c->n_seqs; i++)
        slot[i] = i + 1;
    if (!scan_step(d, c, s, c->n_seqs, c->length, slot, 0, y))
        return false;
    for (int32_t i = 0; i < c->n_seqs + 2; i++)
        CHECK_OK(d->k->state_export(d->be, s, i, state + i * c->floats, 0));
    return true;
}

/* --- against the oracle --- */

/* The sizes by which errors of y and of the states are measured; 0 where nothing is written. */
static void scales(const scan_case *c, double *y, double *state)
{
    int64_t row = 0;
    for (int32_t i = 0; i < c->n_seqs; i++) {
        double *first = state + (i + 1) * c->floats + c->offset;
        for (int32_t n = 0; n < c->length[i]; n++, row++) {
            for (int32_t m = 0; m < c->d; m++) {
                double t = (double)at(c, T, row)[m], x = fabs((double)at(c, X, row)[m]);
                double sum = fabs((double)c->skip[m]) * x;
                for (int32_t k = 0; k < c->keys; k++) {
                    double *s = &first[k * c->d + m];
                    *s = exp(t * (double)c->a[k * c->d + m]) * *s +
                         fabs((double)at(c, B, row)[k]) * t * x;
                    sum += fabs((double)at(c, C, row)[k]) * *s;
                }
                y[row * c->d + m] = sum;
            }
        }
    }
}

static bool check_case(device *dut, device *oracle, const scan_case *c)
{
    int64_t n_y = (int64_t)total_rows(c) * c->d, n = (c->n_seqs + 2) * c->floats;
    float *got = floats(n_y), *want = floats(n_y), *got_state = floats(n), *want_state = floats(n);
    double *y_scale = take((size_t)n_y * sizeof *y_scale);
    double *state_scale = take((size_t)n * sizeof *state_scale);
    if (!scan_all(dut, c, got, got_state))
        return false;
    if (!dut->only_runs) {
        if (!scan_all(oracle, c, want, want_state))
            return false;
        scales(c, y_scale, state_scale);
        double error = worst_error(got, want, y_scale, n_y);
        CHECK(error <= BOUND, "%d channels, K %d: error %.3g", c->d, c->keys, error);
        error = worst_error(got_state, want_state, state_scale, n);
        CHECK(error <= BOUND, "%d channels, K %d: state's error %.3g", c->d, c->keys, error);
        for (int64_t i = 0; i < n; i++)
            CHECK(state_scale[i] > 0 || got_state[i] == 0, "float %lld of the states was written",
                  (long long)i);
    }
    dev_release(dut);
    dev_release(oracle);
    arena_reset();
    return true;
}

static const int32_t shapes[][2] = {/* channels, K */
                                    {64, 16}, {1, 1},   {7, 3},    {33, 16},
                                    {48, 5},  {17, 31}, {130, 16}, {300, 2}};
static const int32_t lengths[] = {1, 3, 17, 1, 40, 2, 1, 1, 9};

static bool scan_matches_oracle(device *dut, device *oracle)
{
    static const int32_t long_one[] = {129};
    rng r = {170};
    for (int i = 0; i < COUNT(shapes) * PATTERNS; i++) {
        pattern p = (pattern)(i / COUNT(shapes));
        scan_case one = make_case(&r, shapes[i % COUNT(shapes)], 1, long_one, p);
        if (!check_case(dut, oracle, &one))
            return false;
        scan_case many = make_case(&r, shapes[i % COUNT(shapes)], COUNT(lengths), lengths, p);
        if (!check_case(dut, oracle, &many))
            return false;
    }
    return true;
}

/* --- laws --- */

/* Sequence `which` alone, in pieces of `longest` rows, must give the bytes that it gave next to
 * other sequences. */
static bool check_alone(device *d, const scan_case *c, int32_t which, int64_t row0, int32_t longest,
                        const float *y, const float *state)
{
    lx_states *s = dev_states(d, c->floats, 1);
    float *piece = floats((int64_t)c->length[which] * c->d), *end = floats(c->floats);
    int32_t zero = 0;
    for (int32_t row = 0, n = 0; row < c->length[which]; row += n) {
        n = longest < c->length[which] - row ? longest : c->length[which] - row;
        if (!scan_step(d, c, s, 1, &n, &zero, row0 + row, piece))
            return false;
        CHECK(same_bytes(piece, y + (row0 + row) * c->d, (int64_t)n * c->d),
              "%d channels, K %d, pieces of %d: row %d", c->d, c->keys, longest, row);
    }
    CHECK_OK(d->k->state_export(d->be, s, 0, end, 0));
    CHECK(same_bytes(end, state + (which + 1) * c->floats, c->floats), "the state differs");
    return true;
}

static bool scan_does_not_depend_on_splits(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {180};
    for (int i = 0; i < COUNT(shapes); i++) {
        scan_case c = make_case(&r, shapes[i], COUNT(lengths), lengths, UNIFORM);
        float *y = floats((int64_t)total_rows(&c) * c.d),
              *state = floats((c.n_seqs + 2) * c.floats);
        if (!scan_all(dut, &c, y, state))
            return false;
        int64_t row = 0;
        for (int32_t s = 0; s < c.n_seqs; row += c.length[s], s++) {
            if (!check_alone(dut, &c, s, row, 1, y, state) ||
                !check_alone(dut, &c, s, row, 7, y, state) ||
                !check_alone(dut, &c, s, row, 100, y, state))
                return false;
        }
        dev_release(dut);
        arena_reset();
    }
    return true;
}

static bool scan_is_equal_on_every_cpu(device *dut, device *oracle)
{
    (void)oracle;
    static agreement exact;
    static const int32_t length[] = {19, 1, 5};
    device as_exact = {.is_cpu = dut->is_cpu, .label = dut->label}; /* it has no products */
    uint64_t hash = NO_BYTES;
    rng r = {195};
    for (int i = 0; i < COUNT(shapes); i++) {
        scan_case c = make_case(&r, shapes[i], COUNT(length), length, PEAKY);
        int64_t n_y = (int64_t)total_rows(&c) * c.d, n = (c.n_seqs + 2) * c.floats;
        float *y = floats(n_y), *state = floats(n);
        if (!scan_all(dut, &c, y, state))
            return false;
        hash = hash_bytes(hash_bytes(hash, y, (size_t)n_y * sizeof *y), state,
                          (size_t)n * sizeof *state);
        dev_release(dut);
    }
    return agrees(&as_exact, &exact, hash);
}

/* --- arguments --- */

static bool scan_refuses_bad_arguments(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t length[] = {2}, shape[] = {6, 4};
    rng r = {199};
    for (int which = 0; which < 6; which++) {
        scan_case c = make_case(&r, shape, 1, length, UNIFORM);
        lx_array *in = dev_array(dut, c.rows, 2L * c.width), *y = dev_array(dut, NULL, 2L * c.d);
        lx_error err = {0};
        uint64_t step = 0;
        lx_selective_scan_args a = args_of(dut, &c, y, in, dev_states(dut, c.floats, 1));
        a.t.first += which == 0 ? c.width : 0;
        a.c.width = which == 1 ? a.c.first + c.keys - 1 : a.c.width;
        a.offset += which == 2 ? 4 : 0;
        a.b.array = which == 3 ? y : a.b.array;
        a.d = which == 4 ? 0 : a.d;
        a.skip = which == 5 ? NULL : a.skip;
        CHECK_OK(dut->k->begin(dut->be, ragged_batch(1, length, NULL), NULL));
        dut->k->selective_scan(dut->be, &a);
        CHECK(dut->k->end(dut->be, &step, &err) == LX_ERR_INVALID, "mistake %d was taken", which);
        CHECK(strncmp(err.text, "selective_scan: ", 16) == 0, "mistake %d: %s", which, err.text);
        dev_release(dut);
    }
    return true;
}

const test scan_tests[] = {
    {"scan_matches_oracle", scan_matches_oracle},
    {"scan_does_not_depend_on_splits", scan_does_not_depend_on_splits},
    {"scan_is_equal_on_every_cpu", scan_is_equal_on_every_cpu},
    {"scan_refuses_bad_arguments", scan_refuses_bad_arguments},
    {NULL, NULL},
};
