/*
 * Compares `selective_scan` with the oracle, and checks its laws. Any split of a sequence gives the
 * same bytes. Neighbours do not matter. Other slots, and other parts of the slot, stay unchanged.
 * All cpu back ends give equal bytes.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance.h"
#include "sequences.h"
#include "support.h"

#define BOUND 2e-6 /* of the sum of the absolute values of the terms: docs/numerics.md */
#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

/* Columns of a row of the inputs, with gaps: x, t, b, c. */
enum { X, T, B, C, INPUTS };

typedef struct scan_case {
    sequences s; /* one array of rows */
    int32_t d, keys, first[INPUTS];
    float *a, *skip; /* [keys, d], [d] */
    int64_t offset;  /* of the layer in the slot */
} scan_case;

static float *at(const scan_case *c, int which, int64_t row)
{
    return c->s.rows[0] + row * c->s.width[0] + c->first[which];
}

static void run(device *d, const sequences *s, lx_array *y, lx_array *const *in, lx_states *states);
static void scales(const sequences *s, double *y, double *state);

/* Steps from 0 on, with rates whose factors are next to 0 and 1 and between them. */
static scan_case make_case(rng *r, const int32_t *shape, int32_t n_seqs, const int32_t *length,
                           pattern p)
{
    scan_case c = {.d = shape[0], .keys = shape[1]};
    sequences *s = &c.s;
    *s = (sequences){.n_seqs = n_seqs,
                     .n_slots = n_seqs + 2,
                     .n_arrays = 1,
                     .length = length,
                     .n_y = c.d,
                     .run = run,
                     .scales = scales};
    (void)snprintf(s->text, sizeof s->text, "%d channels, K %d", c.d, c.keys);
    s->slot = take((size_t)n_seqs * sizeof *s->slot);
    for (int32_t i = 0; i < n_seqs; i++)
        s->slot[i] = i + 1;
    for (int i = 0; i < INPUTS; i++) {
        c.first[i] = s->width[0] + (int32_t)random_below(r, 4);
        s->width[0] = c.first[i] + (i < B ? c.d : c.keys);
    }
    s->width[0] += (int32_t)random_below(r, 3);
    int64_t rows = sequence_rows(s), n = rows * s->width[0];
    s->rows[0] = floats(n);
    for (int64_t i = 0; i < n; i++)
        s->rows[0][i] = NAN; /* no channel reads these */
    for (int64_t row = 0; row < rows; row++) {
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
    s->floats = c.offset + (int64_t)c.keys * c.d + 3;
    return c;
}

static lx_selective_scan_args args_of(device *d, const scan_case *c, lx_array *y,
                                      const lx_array *in, lx_states *states)
{
    return (lx_selective_scan_args){.y = y,
                                    .x = {in, c->s.width[0], c->first[X]},
                                    .t = {in, c->s.width[0], c->first[T]},
                                    .b = {in, c->s.width[0], c->first[B]},
                                    .c = {in, c->s.width[0], c->first[C]},
                                    .a = dev_array(d, c->a, (int64_t)c->keys * c->d),
                                    .skip = dev_array(d, c->skip, c->d),
                                    .states = states,
                                    .offset = c->offset,
                                    .d = c->d,
                                    .d_key = c->keys};
}

static void run(device *d, const sequences *s, lx_array *y, lx_array *const *in, lx_states *states)
{
    lx_selective_scan_args args = args_of(d, (const scan_case *)s, y, in[0], states);
    d->k->selective_scan(d->be, &args);
}

/* --- against the oracle --- */

static void scales(const sequences *s, double *y, double *state)
{
    const scan_case *c = (const scan_case *)s;
    int64_t row = 0;
    for (int32_t i = 0; i < s->n_seqs; i++) {
        double *first = state + s->slot[i] * s->floats + c->offset;
        for (int32_t n = 0; n < s->length[i]; n++, row++) {
            for (int32_t m = 0; m < c->d; m++) {
                double t = (double)at(c, T, row)[m], x = fabs((double)at(c, X, row)[m]);
                double sum = fabs((double)c->skip[m]) * x;
                for (int32_t k = 0; k < c->keys; k++) {
                    double *e = &first[k * c->d + m];
                    *e = exp(t * (double)c->a[k * c->d + m]) * *e +
                         fabs((double)at(c, B, row)[k]) * t * x;
                    sum += fabs((double)at(c, C, row)[k]) * *e;
                }
                y[row * c->d + m] = sum;
            }
        }
    }
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
        if (!sequences_match(dut, oracle, &one.s, BOUND, BOUND))
            return false;
        scan_case many = make_case(&r, shapes[i % COUNT(shapes)], COUNT(lengths), lengths, p);
        if (!sequences_match(dut, oracle, &many.s, BOUND, BOUND))
            return false;
    }
    return true;
}

/* --- laws --- */

/* Each sequence alone, in pieces, gives the bytes that it gave next to other sequences. */
static bool scan_does_not_depend_on_splits(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t longest[] = {1, 7, 100};
    rng r = {180};
    for (int i = 0; i < COUNT(shapes); i++) {
        scan_case c = make_case(&r, shapes[i], COUNT(lengths), lengths, UNIFORM);
        if (!sequences_split(dut, &c.s, longest, COUNT(longest), NULL))
            return false;
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
        if (!sequences_hash(dut, &c.s, &hash))
            return false;
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
        lx_array *in = dev_array(dut, c.s.rows[0], 2L * c.s.width[0]);
        lx_array *y = dev_array(dut, NULL, 2L * c.d);
        lx_error err = {0};
        uint64_t step = 0;
        lx_selective_scan_args a = args_of(dut, &c, y, in, dev_states(dut, c.s.floats, 1));
        a.t.first += which == 0 ? c.s.width[0] : 0;
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
