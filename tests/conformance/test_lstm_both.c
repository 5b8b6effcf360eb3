/*
 * Compares `lstm_both` with the oracle and with steps that are written down here, checks its laws
 * (whole.h), and its errors for wrong arguments.
 */
#include <math.h>
#include <string.h>

#include "whole.h"

#define Y_BOUND 5e-7 /* docs/numerics.md */

static const int32_t cases[] = {1, 3, 16, 29, 40, 120}; /* cells a way */

static void queue(device *d, const void *of, const lx_array *x, lx_array *y, int32_t rows)
{
    (void)rows;
    rng r = {8};
    int32_t n = *(const int32_t *)of;
    int64_t n_u = 8 * (int64_t)n * n;
    float *u = floats(n_u);
    for (int64_t i = 0; i < n_u; i++)
        u[i] = random_between(&r, -1, 1) / sqrtf((float)n);
    d->k->lstm_both(d->be, &(lx_lstm_both_args){.y = y, .x = x, .u = dev_array(d, u, n_u), .n = n});
}

static void fill_rows(rng *r, const void *of, pattern p, float *x, int32_t rows)
{
    fill(r, x, 8 * (int64_t) * (const int32_t *)of * rows, p, 4, 1.3f);
}

/* An output is at most 1; the argument of a gate may be as large as the largest input. */
static void scales(const void *of, const float *x, int32_t rows, double *scale)
{
    int64_t n = *(const int32_t *)of;
    double largest = 0;
    for (int64_t i = 0; i < 8 * n * rows; i++)
        largest = fmax(largest, fabs((double)x[i]));
    for (int64_t i = 0; i < 2 * n * rows; i++)
        scale[i] = 1 + largest;
}

static whole whole_of(const int32_t *n)
{
    return (whole){.c = n,
                   .x_width = 8 * (int64_t)*n,
                   .y_width = 2 * (int64_t)*n,
                   .fill = fill_rows,
                   .queue = queue,
                   .scales = scales,
                   .bound = Y_BOUND};
}

/* A device may lack the operation. */
static bool lstm_matches_oracle(device *dut, device *oracle)
{
    rng r = {71};
    for (size_t i = 0; i < COUNT(cases) && !IS_MISSING(dut, lstm_both); i++) {
        whole op = whole_of(&cases[i]);
        CHECK(whole_matches_oracle(dut, oracle, &op, &r), "%d cells", cases[i]);
    }
    return true;
}

static bool lstm_is_equal_alone(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {72};
    static agreement seen;
    uint64_t hash = NO_BYTES;
    for (size_t i = 0; i < COUNT(cases) && !IS_MISSING(dut, lstm_both); i++) {
        whole op = whole_of(&cases[i]);
        CHECK(whole_is_equal_alone(dut, &op, &r, &hash), "%d cells", cases[i]);
    }
    return IS_MISSING(dut, lstm_both) || agrees(dut, &seen, hash);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* One cell per direction, two tokens, by hand: the first token of a direction does not depend on
   the other token. */
static bool written_steps_are_taken(device *dut, device *oracle)
{
    (void)oracle;
    if (IS_MISSING(dut, lstm_both))
        return true;
    static const float u[8] = {0.5f, -0.25f, 1, 2, -1, 0.75f, -0.5f, 0.25f};
    static const float x[2][8] = {{0.1f, -0.2f, 0.3f, 0.4f, 1, 2, -1, 0.5f},
                                  {-0.6f, 0.8f, -0.7f, 0.9f, 0.2f, -0.3f, 0.6f, -0.1f}};
    float y[4];
    int32_t two = 2;
    lx_array *out = dev_array(dut, NULL, 4);
    lx_lstm_both_args args = {out, dev_array(dut, x[0], 16), dev_array(dut, u, 8), 1};
    CHECK_OK(dut->k->begin(dut->be, ragged_batch(1, &two, NULL), NULL));
    dut->k->lstm_both(dut->be, &args);
    if (!dev_finish(dut) || !dev_read(dut, out, y, 4))
        return false;
    for (int way = 0; way < 2; way++) {
        double h = 0, c = 0;
        for (int i = 0; i < 2; i++) {
            int t = way == 0 ? i : 1 - i;
            double gate[4];
            for (int k = 0; k < 4; k++)
                gate[k] = (double)x[t][4 * way + k] + (double)u[4 * way + k] * h;
            c = sigmoid(gate[1]) * c + sigmoid(gate[0]) * tanh(gate[2]);
            h = sigmoid(gate[3]) * tanh(c);
            CHECK(fabs((double)y[2 * t + way] - h) < 1e-6, "way %d, token %d: %g, not %g", way, t,
                  (double)y[2 * t + way], h);
        }
    }
    return true;
}

static void queue_args(device *d, const void *args)
{
    d->k->lstm_both(d->be, args);
}

static bool broken_lstms_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    if (IS_MISSING(dut, lstm_both))
        return true;
    const lx_lstm_both_args good = {dev_array(dut, NULL, 6), dev_array(dut, NULL, 24),
                                    dev_array(dut, NULL, 72), 3};
    struct {
        lx_lstm_both_args args;
        const char *word;
    } bad[] = {{good, "cells"}, {good, "cells"}, {good, "same"}, {good, "u"}, {good, "x"}};
    bad[0].args.n = 0;
    bad[1].args.n = 4097;
    bad[2].args.x = good.y;
    bad[3].args.u = good.x;
    bad[4].args.x = NULL;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (!whole_is_refused(dut, 1, bad[i].word, &bad[i].args, queue_args))
            return false;
    }
    return true;
}

const test lstm_tests[] = {
    {"lstm_matches_oracle", lstm_matches_oracle},
    {"lstm_is_equal_alone", lstm_is_equal_alone},
    {"written_steps_are_taken", written_steps_are_taken},
    {"broken_lstms_are_refused", broken_lstms_are_refused},
    {NULL, NULL},
};
