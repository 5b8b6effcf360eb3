/*
 * Compares `recurrence` with the oracle for all its decays, corrections and reads, and checks its
 * laws. Any split of a sequence gives the same bytes. Neighbours do not matter. Other slots, and
 * other parts of the slot, stay unchanged. All cpu back ends give equal bytes.
 *
 * Without a correction, an element's error is measured by the sum of its absolute terms. With a
 * correction, terms cancel on purpose, so its error is measured by a bound of its column's length.
 * Keys have length 1 there, so that a correction does not make a column longer.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance.h"
#include "sequences.h"
#include "support.h"

#define Y_BOUND 2e-6 /* docs/numerics.md */
#define STATE_BOUND 2e-6
#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

/* Where an input lies in the rows: of array 0 or 1. */
typedef struct input {
    int32_t from, first, apart, shared;
} input;

enum { Q, K, V, W, A, B, BETA, INPUTS };

typedef struct recur_case {
    sequences s;
    int32_t heads, d_key, d_value;
    lx_decay decay;
    lx_correction correction;
    lx_read read;
    bool has_beta, has_bonus, has_skip;
    input in[INPUTS];
    float *fixed, *bonus, *skip; /* [heads], [heads * d_key], [heads] */
    int64_t offset;              /* of the layer in the slot */
    float scale;
} recur_case;

static int64_t part_of(const recur_case *c)
{
    return (int64_t)c->heads * c->d_key * c->d_value;
}

static float *at(const recur_case *c, int which, int64_t row, int32_t head)
{
    const input *in = &c->in[which];
    return c->s.rows[in->from] + row * c->s.width[in->from] + in->first +
           head / in->shared * in->apart;
}

static int32_t length_of(const recur_case *c, int which)
{
    if (which == BETA || (which == W && c->decay != LX_DECAY_CHANNEL))
        return 1;
    return which == V ? c->d_value : c->d_key;
}

/* --- making cases --- */

/* Lays the inputs out in order, with gaps; heads may share q and k. */
static void lay_out(rng *r, recur_case *c)
{
    for (int i = 0; i < INPUTS; i++) {
        input *in = &c->in[i];
        in->from = (int32_t)random_below(r, SEQUENCE_ARRAYS);
        in->shared = i == Q || i == K ? 1 : c->heads;
        if (i != Q && i != K)
            in->shared = random_below(r, 4) == 0 && i == W ? c->heads : 1;
        else if (random_below(r, 2) == 0)
            in->shared = c->heads % 2 == 0 ? 2 : c->heads;
        in->apart = length_of(c, i) + (int32_t)random_below(r, 3);
        in->first = c->s.width[in->from] + (int32_t)random_below(r, 5);
        c->s.width[in->from] = in->first + c->heads / in->shared * in->apart;
    }
    int64_t rows = sequence_rows(&c->s);
    for (int i = 0; i < SEQUENCE_ARRAYS; i++) {
        c->s.width[i] += (int32_t)random_below(r, 4) + 1;
        c->s.rows[i] = floats(rows * c->s.width[i]);
        for (int64_t k = 0; k < rows * c->s.width[i]; k++)
            c->s.rows[i][k] = NAN; /* no head reads these */
    }
}

static void to_length_one(float *x, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (int32_t i = 0; i < n; i++)
        x[i] = (float)((double)x[i] / sqrt(sum));
}

/* Factors from 0 to 1, now and then one of the two. */
static float some_factor(rng *r)
{
    uint32_t which = random_below(r, 12);
    return which < 2 ? (float)which : random_between(r, 0.3f, 1.0f);
}

static void fill_row(rng *r, const recur_case *c, int64_t row, pattern p)
{
    for (int32_t h = 0; h < c->heads; h++) {
        fill(r, at(c, Q, row, h), c->d_key, p, 4, 2);
        fill(r, at(c, V, row, h), c->d_value, p, 4, 4);
        fill(r, at(c, K, row, h), c->d_key, p, 4, 2);
        if (c->correction == LX_CORRECT_DELTA)
            to_length_one(at(c, K, row, h), c->d_key);
        for (int32_t i = 0; i < length_of(c, W); i++)
            at(c, W, row, h)[i] = some_factor(r);
        float *a = at(c, A, row, h), *b = at(c, B, row, h);
        fill(r, a, c->d_key, UNIFORM, 0, 0);
        to_length_one(a, c->d_key);
        for (int32_t i = 0; i < c->d_key; i++)
            b[i] = -a[i] * some_factor(r);
        at(c, BETA, row, h)[0] = 2 * some_factor(r);
    }
}

static void fill_parameters(rng *r, recur_case *c)
{
    c->bonus = random_floats(r, (int64_t)c->heads * c->d_key, UNIFORM, 0, 0);
    c->skip = random_floats(r, c->heads, UNIFORM, 0, 0);
    c->fixed = floats(c->heads + 2L);
    for (int32_t i = 0; i < c->heads + 2; i++)
        c->fixed[i] = random_between(r, 0.5f, 1.0f);
}

static void run(device *d, const sequences *s, lx_array *y, lx_array *const *in, lx_states *states);
static void scales(const sequences *s, double *y, double *state);

static recur_case make_case(rng *r, const int32_t *shape, int kind, int32_t n_seqs,
                            const int32_t *length, pattern p)
{
    recur_case c = {.heads = shape[0],
                    .d_key = shape[1],
                    .d_value = shape[2],
                    .scale = random_between(r, 0.1f, 1.0f)};
    c.decay = (lx_decay)(kind % 4);
    c.correction = kind / 4 < 3 ? (lx_correction)(kind / 4) : LX_CORRECT_NONE;
    c.read = kind / 4 < 3 ? LX_READ_AFTER : LX_READ_BEFORE;
    c.has_beta = c.read == LX_READ_AFTER && random_below(r, 3) > 0;
    c.has_bonus = c.read == LX_READ_BEFORE && random_below(r, 3) > 0;
    c.has_skip = random_below(r, 2) == 0;
    c.offset = random_below(r, 2) == 0 ? 0 : 5;
    c.s = (sequences){.n_seqs = n_seqs,
                      .n_slots = n_seqs + 3,
                      .n_arrays = SEQUENCE_ARRAYS,
                      .length = length,
                      .slot = sequence_slots(n_seqs),
                      .n_y = (int64_t)c.heads * c.d_value,
                      .floats = c.offset + part_of(&c) + 3,
                      .run = run,
                      .scales = scales};
    (void)snprintf(c.s.text, sizeof c.s.text, "%d heads, K %d, V %d, %d %d %d", c.heads, c.d_key,
                   c.d_value, c.decay, c.correction, c.read);
    lay_out(r, &c);
    fill_parameters(r, &c);
    for (int64_t row = 0; row < sequence_rows(&c.s); row++)
        fill_row(r, &c, row, p);
    return c;
}
enum { KINDS = 16 };

/* --- running them --- */

static lx_head_columns columns(const recur_case *c, int which, lx_array *const *arrays)
{
    const input *in = &c->in[which];
    return (lx_head_columns){arrays[in->from], c->s.width[in->from], in->first, in->apart,
                             in->shared};
}

static lx_recurrence_args args_of(device *d, const recur_case *c, lx_array *y,
                                  lx_array *const *arrays, lx_states *states)
{
    lx_recurrence_args a = {.y = y,
                            .q = columns(c, Q, arrays),
                            .k = columns(c, K, arrays),
                            .v = columns(c, V, arrays),
                            .w = columns(c, W, arrays),
                            .a = columns(c, A, arrays),
                            .b = columns(c, B, arrays),
                            .states = states,
                            .offset = c->offset,
                            .n_heads = c->heads,
                            .d_key = c->d_key,
                            .d_value = c->d_value,
                            .decay = c->decay,
                            .correction = c->correction,
                            .read = c->read,
                            .scale = c->scale};
    if (c->decay == LX_DECAY_FIXED)
        a.w = (lx_head_columns){dev_array(d, c->fixed, c->heads + 2L), c->heads + 2, 1, 1, 1};
    if (c->has_beta)
        a.beta = columns(c, BETA, arrays);
    if (c->has_bonus)
        a.bonus = dev_array(d, c->bonus, (int64_t)c->heads * c->d_key);
    if (c->has_skip)
        a.skip = dev_array(d, c->skip, c->heads);
    return a;
}

static void run(device *d, const sequences *s, lx_array *y, lx_array *const *in, lx_states *states)
{
    lx_recurrence_args args = args_of(d, (const recur_case *)s, y, in, states);
    d->k->recurrence(d->be, &args);
}

/* --- against the oracle --- */

static double factor(const recur_case *c, int64_t row, int32_t head, int32_t d)
{
    if (c->decay == LX_DECAY_NONE)
        return 1;
    if (c->decay == LX_DECAY_FIXED)
        return (double)c->fixed[head + 1];
    return (double)at(c, W, row, head)[c->decay == LX_DECAY_CHANNEL ? d : 0];
}

static double length_squared(const float *x, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

/*
 * One token of one head: s [K, V] becomes the size that the state's errors are measured by, and y
 * [V] that of the output's errors.
 */
static void scale_token(const recur_case *c, int64_t row, int32_t h, double *s, double *y)
{
    const float *q = at(c, Q, row, h), *k = at(c, K, row, h), *v = at(c, V, row, h);
    double beta = c->has_beta ? (double)at(c, BETA, row, h)[0] : 1;
    double k_all = sqrt(length_squared(k, c->d_key)), q_all = sqrt(length_squared(q, c->d_key));
    bool corrects = c->correction != LX_CORRECT_NONE;
    for (int32_t m = 0; m < c->d_value; m++) {
        double value = fabs((double)v[m]), sum = 0, longest = 0;
        for (int32_t d = 0; d < c->d_key; d++) {
            double *x = &s[d * c->d_value + m], before = *x, w = factor(c, row, h, d);
            double key = corrects ? k_all : fabs((double)k[d]);
            *x = (corrects ? 1 : w) * *x + key * fabs(beta) * value;
            double bonus = c->has_bonus ? fabs((double)(c->bonus[h * c->d_key + d] * k[d])) : 0;
            double read = c->read == LX_READ_AFTER ? *x : before + bonus * value;
            sum += fabs((double)q[d]) * read;
            longest = fmax(longest, *x);
        }
        y[m] = (double)c->scale * (corrects ? q_all * longest : sum) +
               (c->has_skip ? fabs((double)c->skip[h]) * value : 0);
    }
}

static void scales(const sequences *s, double *y, double *state)
{
    const recur_case *c = (const recur_case *)s;
    int64_t row = 0;
    for (int32_t i = 0; i < s->n_seqs; i++) {
        double *first = state + s->slot[i] * s->floats + c->offset;
        for (int32_t t = 0; t < s->length[i]; t++, row++) {
            for (int32_t h = 0; h < c->heads; h++)
                scale_token(c, row, h, first + (int64_t)h * c->d_key * c->d_value,
                            y + (row * c->heads + h) * c->d_value);
        }
    }
}

static const int32_t shapes[][3] = {/* heads, K, V */
                                    {2, 64, 64},  {1, 1, 1},   {3, 7, 7},   {2, 33, 33},
                                    {4, 16, 48},  {3, 31, 17}, {1, 5, 100}, {17, 8, 8},
                                    {2, 20, 130}, {2, 170, 32}};
static const int32_t lengths[] = {1, 3, 17, 1, 40, 2, 1, 1, 9, 1, 5, 1};

static bool recurrence_matches_oracle(device *dut, device *oracle)
{
    static const int32_t long_one[] = {129};
    rng r = {70};
    for (int i = 0; i < COUNT(shapes); i++) {
        for (int kind = 0; kind < KINDS; kind++) {
            pattern p = kind % 2 == 0 ? UNIFORM : PEAKY;
            int n = i % 3 == 0 ? COUNT(lengths) : 3;
            recur_case one = make_case(&r, shapes[i], kind, 1, long_one, p);
            if (!sequences_match(dut, oracle, &one.s, Y_BOUND, STATE_BOUND))
                return false;
            recur_case many = make_case(&r, shapes[i], kind, n, lengths, p);
            if (!sequences_match(dut, oracle, &many.s, Y_BOUND, STATE_BOUND))
                return false;
        }
    }
    return true;
}

/* --- laws --- */

static bool recurrence_any_split_is_equal(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t length[] = {37}, longest[] = {1, 11};
    rng r = {80};
    for (int kind = 0; kind < KINDS; kind++) {
        const int32_t *shape = shapes[kind % COUNT(shapes)];
        recur_case c = make_case(&r, shape, kind, 1, length, UNIFORM);
        if (!sequences_split(dut, &c.s, longest, COUNT(longest), &r))
            return false;
    }
    return true;
}

static bool recurrence_neighbours_do_not_matter(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t whole = INT32_MAX;
    rng r = {90};
    for (int kind = 0; kind < KINDS; kind++) {
        const int32_t *shape = shapes[kind % COUNT(shapes)];
        recur_case c = make_case(&r, shape, kind, COUNT(lengths), lengths, UNIFORM);
        if (!sequences_split(dut, &c.s, &whole, 1, NULL))
            return false;
    }
    return true;
}

static bool recurrence_is_equal_on_every_cpu(device *dut, device *oracle)
{
    (void)oracle;
    static agreement exact;
    static const int32_t length[] = {19, 1, 5};
    device as_exact = {.is_cpu = dut->is_cpu,
                       .label = dut->label}; /* it has no products to round */
    uint64_t hash = NO_BYTES;
    rng r = {95};
    for (int kind = 0; kind < KINDS; kind++) {
        recur_case c = make_case(&r, shapes[kind % COUNT(shapes)], kind, 3, length, PEAKY);
        if (!sequences_hash(dut, &c.s, &hash))
            return false;
    }
    return agrees(&as_exact, &exact, hash);
}

/* --- arguments --- */

typedef enum wrong {
    WRONG_COLUMNS,
    WRONG_SHARED,
    WRONG_STATE,
    WRONG_READ,
    WRONG_SAME,
    WRONGS
} wrong;

static bool recurrence_refuses_bad_arguments(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t length[] = {2}, shape[] = {3, 5, 4};
    for (int which = 0; which < WRONGS; which++) {
        rng r = {99};
        recur_case c = make_case(&r, shape, 4, 1, length, UNIFORM);
        lx_array *in[SEQUENCE_ARRAYS], *y = dev_array(dut, NULL, 2 * 12);
        lx_batch *b = ragged_batch(1, length, NULL);
        lx_error err = {0};
        uint64_t step = 0;
        for (int i = 0; i < SEQUENCE_ARRAYS; i++)
            in[i] = dev_array(dut, c.s.rows[i], 2L * c.s.width[i]);
        lx_recurrence_args a = args_of(dut, &c, y, in, dev_states(dut, c.s.floats, 1));
        if (which == WRONG_COLUMNS)
            a.v.first = a.v.width - 3;
        else if (which == WRONG_SHARED)
            a.q.shared = 2;
        else if (which == WRONG_STATE)
            a.offset = c.s.floats - part_of(&c) + 1;
        else if (which == WRONG_READ)
            a.read = LX_READ_BEFORE;
        else
            a.q.array = a.y;
        CHECK_OK(dut->k->begin(dut->be, b, NULL));
        dut->k->recurrence(dut->be, &a);
        CHECK(dut->k->end(dut->be, &step, &err) == LX_ERR_INVALID, "mistake %d was taken", which);
        CHECK(strncmp(err.text, "recurrence: ", 12) == 0, "mistake %d: %s", which, err.text);
        dev_release(dut);
    }
    return true;
}

const test recurrence_tests[] = {
    {"recurrence_matches_oracle", recurrence_matches_oracle},
    {"recurrence_any_split_is_equal", recurrence_any_split_is_equal},
    {"recurrence_neighbours_do_not_matter", recurrence_neighbours_do_not_matter},
    {"recurrence_is_equal_on_every_cpu", recurrence_is_equal_on_every_cpu},
    {"recurrence_refuses_bad_arguments", recurrence_refuses_bad_arguments},
    {NULL, NULL},
};
