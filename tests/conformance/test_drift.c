/*
 * 65,536 tokens of `recurrence` compared with doubles: the error of a state in f32 must not grow
 * with the position. Decays are next to 1, corrections up to their limit of 2, so that errors stay
 * as long as they can.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"

enum { TOKENS = 65536, PIECE = 8192, D = 8, M = 4 };
#define BOUND 5e-6 /* of the largest |y| */

typedef struct form {
    const char *name;
    lx_decay decay;
    lx_correction correction;
    bool has_beta;
} form;

static const form forms[] = {
    {"decay a head, no correction, beta (Mamba-2)", LX_DECAY_HEAD, LX_CORRECT_NONE, true},
    {"decay a channel, no correction (GLA)", LX_DECAY_CHANNEL, LX_CORRECT_NONE, false},
    {"no decay, delta (DeltaNet)", LX_DECAY_NONE, LX_CORRECT_DELTA, true},
    {"decay a head, delta (Gated DeltaNet)", LX_DECAY_HEAD, LX_CORRECT_DELTA, true},
    {"decay a channel, delta (KDA)", LX_DECAY_CHANNEL, LX_CORRECT_DELTA, true},
    {"decay a channel, pair (RWKV-7)", LX_DECAY_CHANNEL, LX_CORRECT_PAIR, false},
};

/* One head's inputs for a piece. */
typedef struct numbers {
    float q[PIECE][D], k[PIECE][D], v[PIECE][M], w[PIECE][D], a[PIECE][D], b[PIECE][D], beta[PIECE];
} numbers;

static void to_length_one(float *x)
{
    double squares = 0;
    for (int d = 0; d < D; d++)
        squares += (double)x[d] * (double)x[d];
    for (int d = 0; d < D; d++)
        x[d] = (float)((double)x[d] / sqrt(squares));
}

static void fill_numbers(rng *r, const form *f, numbers *x)
{
    for (int t = 0; t < PIECE; t++) {
        fill(r, x->q[t], D, UNIFORM, 0, 0);
        fill(r, x->k[t], D, UNIFORM, 0, 0);
        fill(r, x->v[t], M, UNIFORM, 0, 0);
        fill(r, x->a[t], D, UNIFORM, 0, 0);
        to_length_one(x->a[t]);
        if (f->correction == LX_CORRECT_DELTA)
            to_length_one(x->k[t]);
        for (int d = 0; d < D; d++) {
            x->w[t][d] = random_between(r, 0.999f, 1.0f);
            x->b[t][d] = -x->a[t][d] * random_between(r, 0.0f, 1.0f);
        }
        x->beta[t] = f->correction == LX_CORRECT_DELTA ? random_between(r, 0.0f, 2.0f)
                                                       : random_between(r, 0.0f, 1.0f);
    }
}

static double decay(const form *f, const numbers *x, int t, int d)
{
    return f->decay == LX_DECAY_NONE ? 1 : (double)x->w[t][f->decay == LX_DECAY_HEAD ? 0 : d];
}

/* A token of one column of values; s is its part of the state. */
static double step(const form *f, const numbers *x, int t, int m, double s[D][M])
{
    double p = 0, y = 0, u = (double)x->v[t][m];
    for (int d = 0; d < D; d++) {
        if (f->correction == LX_CORRECT_PAIR)
            p += (double)x->a[t][d] * s[d][m];
        s[d][m] *= decay(f, x, t, d);
        if (f->correction == LX_CORRECT_DELTA)
            p += (double)x->k[t][d] * s[d][m];
    }
    u = (f->has_beta ? (double)x->beta[t] : 1) * (f->correction == LX_CORRECT_DELTA ? u - p : u);
    for (int d = 0; d < D; d++) {
        if (f->correction == LX_CORRECT_PAIR)
            s[d][m] += (double)x->b[t][d] * p;
        s[d][m] += (double)x->k[t][d] * u;
        y += (double)x->q[t][d] * s[d][m];
    }
    return y;
}

static lx_head_columns columns(device *d, const void *values, int n)
{
    return (lx_head_columns){dev_array(d, values, (int64_t)PIECE * n), n, 0, n, 1};
}

static bool run_piece(device *d, const form *f, const numbers *x, lx_states *states, float *y)
{
    static float first[PIECE];
    int32_t length = PIECE;
    lx_array *out = dev_array(d, NULL, (int64_t)PIECE * M);
    for (int t = 0; t < PIECE; t++)
        first[t] = x->w[t][0];
    lx_recurrence_args a = {.y = out,
                            .q = columns(d, x->q, D),
                            .k = columns(d, x->k, D),
                            .v = columns(d, x->v, M),
                            .states = states,
                            .n_heads = 1,
                            .d_key = D,
                            .d_value = M,
                            .decay = f->decay,
                            .correction = f->correction,
                            .scale = 1};
    if (f->decay != LX_DECAY_NONE)
        a.w = f->decay == LX_DECAY_HEAD ? columns(d, first, 1) : columns(d, x->w, D);
    if (f->correction == LX_CORRECT_PAIR) {
        a.a = columns(d, x->a, D);
        a.b = columns(d, x->b, D);
    }
    if (f->has_beta)
        a.beta = columns(d, x->beta, 1);
    CHECK_OK(d->k->begin(d->be, ragged_batch(1, &length, NULL), NULL));
    d->k->recurrence(d->be, &a);
    return dev_finish(d) && dev_read(d, out, y, (int64_t)PIECE * M);
}

static bool check_form(device *dut, const form *f)
{
    rng r = {99};
    double s[D][M] = {{0}}, largest = 0, error = 0;
    numbers *x = take(sizeof *x);
    float *y = floats((int64_t)PIECE * M);
    lx_states *states = dev_states(dut, (int64_t)D * M, 1);
    for (int at = 0; at < TOKENS; at += PIECE) {
        fill_numbers(&r, f, x);
        if (!run_piece(dut, f, x, states, y))
            return false;
        for (int i = 0; i < PIECE * M; i++) {
            double want = step(f, x, i / M, i % M, s), is = (double)y[i];
            largest = fmax(largest, fabs(want));
            error = isfinite(is) ? fmax(error, fabs(is - want)) : INFINITY;
        }
    }
    CHECK(error <= BOUND * largest, "%s: error %.3g of %.3g", f->name, error, largest);
    return true;
}

static bool states_do_not_drift(device *dut, device *oracle)
{
    (void)oracle;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (!check_form(dut, &forms[i]))
            return false;
        dev_release(dut);
    }
    return true;
}

const test drift_tests[] = {
    {"states_do_not_drift", states_do_not_drift},
    {NULL, NULL},
};
