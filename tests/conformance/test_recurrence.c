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
#include <string.h>

#include "conformance.h"
#include "support.h"

#define Y_BOUND 2e-6 /* docs/numerics.md */
#define STATE_BOUND 2e-6
#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

/* Where an input lies in the rows: of array 0 or 1. */
typedef struct input {
    int32_t from, first, apart, shared;
} input;

enum { Q, K, V, W, A, B, BETA, INPUTS, ARRAYS = 2 };

typedef struct recur_case {
    int32_t heads, d_key, d_value, n_seqs, n_slots;
    lx_decay decay;
    lx_correction correction;
    lx_read read;
    bool has_beta, has_bonus, has_skip;
    const int32_t *length;
    int32_t *slot;
    input in[INPUTS];
    int32_t width[ARRAYS];
    float *rows[ARRAYS];
    float *fixed, *bonus, *skip; /* [heads], [heads * d_key], [heads] */
    int64_t offset, floats;      /* of the layer in the slot; of the slot */
    float scale;
} recur_case;

static int64_t part_of(const recur_case *c)
{
    return (int64_t)c->heads * c->d_key * c->d_value;
}

static int32_t total_rows(const recur_case *c)
{
    int32_t rows = 0;
    for (int32_t i = 0; i < c->n_seqs; i++)
        rows += c->length[i];
    return rows;
}

static float *at(const recur_case *c, int which, int64_t row, int32_t head)
{
    const input *in = &c->in[which];
    return c->rows[in->from] + row * c->width[in->from] + in->first + head / in->shared * in->apart;
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
        in->from = (int32_t)random_below(r, ARRAYS);
        in->shared = i == Q || i == K ? 1 : c->heads;
        if (i != Q && i != K)
            in->shared = random_below(r, 4) == 0 && i == W ? c->heads : 1;
        else if (random_below(r, 2) == 0)
            in->shared = c->heads % 2 == 0 ? 2 : c->heads;
        in->apart = length_of(c, i) + (int32_t)random_below(r, 3);
        in->first = c->width[in->from] + (int32_t)random_below(r, 5);
        c->width[in->from] = in->first + c->heads / in->shared * in->apart;
    }
    for (int i = 0; i < ARRAYS; i++) {
        c->width[i] += (int32_t)random_below(r, 4) + 1;
        c->rows[i] = floats((int64_t)total_rows(c) * c->width[i]);
        for (int64_t k = 0; k < (int64_t)total_rows(c) * c->width[i]; k++)
            c->rows[i][k] = NAN; /* no head reads these */
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

static recur_case make_case(rng *r, const int32_t *shape, int kind, int32_t n_seqs,
                            const int32_t *length, pattern p)
{
    recur_case c = {.heads = shape[0],
                    .d_key = shape[1],
                    .d_value = shape[2],
                    .n_seqs = n_seqs,
                    .n_slots = n_seqs + 3,
                    .length = length,
                    .scale = random_between(r, 0.1f, 1.0f)};
    c.decay = (lx_decay)(kind % 4);
    c.correction = kind / 4 < 3 ? (lx_correction)(kind / 4) : LX_CORRECT_NONE;
    c.read = kind / 4 < 3 ? LX_READ_AFTER : LX_READ_BEFORE;
    c.has_beta = c.read == LX_READ_AFTER && random_below(r, 3) > 0;
    c.has_bonus = c.read == LX_READ_BEFORE && random_below(r, 3) > 0;
    c.has_skip = random_below(r, 2) == 0;
    c.offset = random_below(r, 2) == 0 ? 0 : 5;
    c.floats = c.offset + part_of(&c) + 3;
    c.slot = take((size_t)n_seqs * sizeof *c.slot);
    for (int32_t i = 0; i < n_seqs; i++)
        c.slot[i] = (i * 5 + 2) % (n_seqs + 1); /* distinct where n_seqs + 1 is no multiple of 5 */
    lay_out(r, &c);
    fill_parameters(r, &c);
    for (int64_t row = 0; row < total_rows(&c); row++)
        fill_row(r, &c, row, p);
    return c;
}
enum { KINDS = 16 };

/* --- running them --- */

static lx_head_columns columns(const recur_case *c, int which, lx_array *const *arrays)
{
    const input *in = &c->in[which];
    return (lx_head_columns){arrays[in->from], c->width[in->from], in->first, in->apart,
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

/* One step on rows `row` .. of sequences with these lengths and slots. */
static bool recur_step(device *d, const recur_case *c, lx_states *states, int32_t n_seqs,
                       const int32_t *length, const int32_t *slot, int64_t row, float *y)
{
    lx_batch *b = ragged_batch(n_seqs, length, slot);
    int64_t n_y = (int64_t)b->n_tokens * c->heads * c->d_value;
    int owned = d->n_owned;
    lx_array *in[ARRAYS], *out = dev_array(d, NULL, n_y);
    for (int i = 0; i < ARRAYS; i++)
        in[i] = dev_array(d, c->rows[i] + row * c->width[i], (int64_t)b->n_tokens * c->width[i]);
    lx_recurrence_args args = args_of(d, c, out, in, states);
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->recurrence(d->be, &args);
    bool ok = dev_finish(d) && dev_read(d, out, y, n_y);
    while (d->n_owned > owned)
        d->k->array_free(d->be, d->owned[--d->n_owned].object);
    return ok;
}

/* Runs all sequences together from zero states; y and all slots' states come back. */
static bool recur_all(device *d, const recur_case *c, float *y, float *state)
{
    lx_states *s = dev_states(d, c->floats, c->n_slots);
    if (!recur_step(d, c, s, c->n_seqs, c->length, c->slot, 0, y))
        return false;
    for (int32_t i = 0; i < c->n_slots; i++)
        CHECK_OK(d->k->state_export(d->be, s, i, state + i * c->floats, 0));
    return true;
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

static void scales(const recur_case *c, double *y, double *state)
{
    int64_t row = 0;
    for (int32_t i = 0; i < c->n_seqs; i++) {
        double *s = state + c->slot[i] * c->floats + c->offset;
        for (int32_t t = 0; t < c->length[i]; t++, row++) {
            for (int32_t h = 0; h < c->heads; h++)
                scale_token(c, row, h, s + (int64_t)h * c->d_key * c->d_value,
                            y + (row * c->heads + h) * c->d_value);
        }
    }
}

static bool check_case(device *dut, device *oracle, const recur_case *c)
{
    int64_t n_y = (int64_t)total_rows(c) * c->heads * c->d_value, n_state = c->n_slots * c->floats;
    float *got = floats(n_y), *want = floats(n_y);
    float *got_state = floats(n_state), *want_state = floats(n_state);
    double *y_scale = take((size_t)n_y * sizeof *y_scale);
    double *state_scale = take((size_t)n_state * sizeof *state_scale);
    if (!recur_all(dut, c, got, got_state))
        return false;
    if (dut->only_runs) {
        dev_release(dut);
        arena_reset();
        return true;
    }
    if (!recur_all(oracle, c, want, want_state))
        return false;
    scales(c, y_scale, state_scale);
    double error = worst_error(got, want, y_scale, n_y);
    CHECK(error <= Y_BOUND, "%d heads, K %d, V %d, %d sequences, %d %d %d: error %.3g", c->heads,
          c->d_key, c->d_value, c->n_seqs, c->decay, c->correction, c->read, error);
    /* where nothing may be written the scale is 0 */
    error = worst_error(got_state, want_state, state_scale, n_state);
    CHECK(error <= STATE_BOUND, "%d heads, K %d, V %d, %d %d %d: state's error %.3g", c->heads,
          c->d_key, c->d_value, c->decay, c->correction, c->read, error);
    for (int64_t i = 0; i < n_state; i++)
        CHECK(state_scale[i] > 0 || got_state[i] == 0, "float %lld of the states was written",
              (long long)i);
    dev_release(dut);
    dev_release(oracle);
    arena_reset();
    return true;
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
            if (!check_case(dut, oracle, &one))
                return false;
            recur_case many = make_case(&r, shapes[i], kind, n, lengths, p);
            if (!check_case(dut, oracle, &many))
                return false;
        }
    }
    return true;
}

/* --- laws --- */

/* Runs one sequence in random pieces: y and the state must equal the results of one step. */
static bool check_split(device *d, const recur_case *c, rng *r, int32_t longest, const float *y,
                        const float *state)
{
    lx_states *s = dev_states(d, c->floats, 1);
    int64_t n_y = (int64_t)c->heads * c->d_value;
    float *piece = floats(c->length[0] * n_y), *end = floats(c->floats);
    int32_t zero = 0;
    for (int32_t row = 0, n = 0; row < c->length[0]; row += n) {
        n = 1 + (int32_t)random_below(r, (uint32_t)longest);
        n = n < c->length[0] - row ? n : c->length[0] - row;
        if (!recur_step(d, c, s, 1, &n, &zero, row, piece))
            return false;
        CHECK(same_bytes(piece, y + row * n_y, n * n_y), "rows %d to %d differ", row, row + n - 1);
    }
    CHECK_OK(d->k->state_export(d->be, s, 0, end, 0));
    CHECK(same_bytes(end, state, c->floats), "the state differs");
    return true;
}

static bool recurrence_any_split_is_equal(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t length[] = {37};
    rng r = {80};
    for (int kind = 0; kind < KINDS; kind++) {
        const int32_t *shape = shapes[kind % COUNT(shapes)];
        recur_case c = make_case(&r, shape, kind, 1, length, UNIFORM);
        c.slot[0] = 0;
        float *y = floats((int64_t)length[0] * c.heads * c.d_value);
        float *state = floats(c.n_slots * c.floats);
        if (!recur_all(dut, &c, y, state) || !check_split(dut, &c, &r, 1, y, state) ||
            !check_split(dut, &c, &r, 11, y, state))
            return false;
        dev_release(dut);
        arena_reset();
    }
    return true;
}

static bool recurrence_neighbours_do_not_matter(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {90};
    int32_t zero = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        const int32_t *shape = shapes[kind % COUNT(shapes)];
        recur_case c = make_case(&r, shape, kind, COUNT(lengths), lengths, UNIFORM);
        int64_t n_y = (int64_t)c.heads * c.d_value, row = 0;
        float *y = floats(total_rows(&c) * n_y), *alone = floats(total_rows(&c) * n_y);
        float *state = floats(c.n_slots * c.floats), *end = floats(c.floats);
        if (!recur_all(dut, &c, y, state))
            return false;
        for (int32_t s = 0; s < c.n_seqs; row += c.length[s], s++) {
            lx_states *own = dev_states(dut, c.floats, 1);
            if (!recur_step(dut, &c, own, 1, &c.length[s], &zero, row, alone))
                return false;
            CHECK_OK(dut->k->state_export(dut->be, own, 0, end, 0));
            CHECK(same_bytes(alone, y + row * n_y, c.length[s] * n_y), "y of sequence %d", s);
            CHECK(same_bytes(end, state + c.slot[s] * c.floats, c.floats), "state of %d", s);
        }
        dev_release(dut);
        arena_reset();
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
        int64_t n_y = (int64_t)total_rows(&c) * c.heads * c.d_value, n = c.n_slots * c.floats;
        float *y = floats(n_y), *state = floats(n);
        if (!recur_all(dut, &c, y, state))
            return false;
        hash = hash_bytes(hash_bytes(hash, y, (size_t)n_y * sizeof *y), state,
                          (size_t)n * sizeof *state);
        dev_release(dut);
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
        lx_array *in[ARRAYS], *y = dev_array(dut, NULL, 2 * 12);
        lx_batch *b = ragged_batch(1, length, NULL);
        lx_error err = {0};
        uint64_t step = 0;
        for (int i = 0; i < ARRAYS; i++)
            in[i] = dev_array(dut, c.rows[i], 2L * c.width[i]);
        lx_recurrence_args a = args_of(dut, &c, y, in, dev_states(dut, c.floats, 1));
        if (which == WRONG_COLUMNS)
            a.v.first = a.v.width - 3;
        else if (which == WRONG_SHARED)
            a.q.shared = 2;
        else if (which == WRONG_STATE)
            a.offset = c.floats - part_of(&c) + 1;
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
