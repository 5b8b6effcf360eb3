/* Sequences as whole steps (see whole.h). */
#include "whole.h"

#include <math.h>
#include <string.h>

#include "kept_results.h"

enum { MOST_SEQS = 13 };
static const int32_t lengths[MOST_SEQS] = {1, 3, 17, 1, 64, 2, 1, 1, 301, 1, 5, 33, 1};

static int32_t rows_of(int32_t n, const int32_t *length)
{
    int32_t rows = 0;
    for (int32_t i = 0; i < n; i++)
        rows += length[i];
    return rows;
}

bool whole_run(device *d, const whole *op, int32_t n_seqs, const int32_t *length, const float *x,
               float *y)
{
    lx_batch *b = ragged_batch(n_seqs, length, NULL);
    lx_array *in = dev_array(d, x, b->n_tokens * op->x_width);
    lx_array *out = dev_array(d, NULL, b->n_tokens * op->y_width);
    CHECK_OK(d->k->begin(d->be, b, NULL));
    op->queue(d, op->c, in, out, b->n_tokens);
    return dev_finish(d) && dev_read(d, out, y, b->n_tokens * op->y_width);
}

static bool compare(device *oracle, const whole *op, const float *x, const float *got)
{
    int64_t all = rows_of(MOST_SEQS, lengths), width = op->y_width;
    uint64_t key = hash_bytes(NO_BYTES, &op->queue, sizeof op->queue);
    key = hash_bytes(key, &op->c, sizeof op->c); /* its address, which is in the test's table */
    results want = results_of(hash_floats(key, x, all * op->x_width), all * width, 0);
    if (!want.known && !whole_run(oracle, op, MOST_SEQS, lengths, x, want.y))
        return false;
    for (int32_t i = 0, row = 0; i < MOST_SEQS; row += lengths[i], i++) {
        double *scale = want.y_scale + row * width;
        if (!want.known)
            op->scales(op->c, x + row * op->x_width, lengths[i], scale);
        double error =
            worst_error(got + row * width, want.y + row * width, scale, lengths[i] * width);
        CHECK(error <= op->bound, "a sequence of %d is off by %.3g", lengths[i], error);
    }
    if (!want.known)
        keep_results(&want);
    return true;
}

bool whole_matches_oracle(device *dut, device *oracle, const whole *op, rng *r)
{
    int32_t rows = rows_of(MOST_SEQS, lengths);
    for (int p = 0; p < PATTERNS; p++) {
        float *x = floats(rows * op->x_width), *got = floats(rows * op->y_width);
        op->fill(r, op->c, (pattern)p, x, rows);
        if (!whole_run(dut, op, MOST_SEQS, lengths, x, got))
            return false;
        if (dut->only_runs)
            continue;
        if (!compare(oracle, op, x, got))
            return false;
        dev_release(dut);
        dev_release(oracle);
    }
    return true;
}

bool whole_is_equal_alone(device *dut, const whole *op, rng *r, uint64_t *hash)
{
    int32_t rows = rows_of(MOST_SEQS, lengths);
    float *x = floats(rows * op->x_width), *y = floats(rows * op->y_width);
    float *alone = floats(rows * op->y_width);
    op->fill(r, op->c, UNIFORM, x, rows);
    if (!whole_run(dut, op, MOST_SEQS, lengths, x, y))
        return false;
    for (int32_t i = 0, row = 0; i < MOST_SEQS; row += lengths[i], i++) {
        if (!whole_run(dut, op, 1, lengths + i, x + row * op->x_width, alone))
            return false;
        CHECK(same_bytes(alone, y + row * op->y_width, lengths[i] * op->y_width),
              "a sequence of %d alone", lengths[i]);
    }
    *hash = hash_bytes(*hash, y, (size_t)(rows * op->y_width) * sizeof *y);
    dev_release(dut);
    return true;
}

bool whole_is_refused(device *dut, int32_t rows, const char *word, const void *args,
                      void (*queue)(device *d, const void *args))
{
    uint64_t step;
    lx_error err = {0};
    CHECK_OK(dut->k->begin(dut->be, ragged_batch(1, &rows, NULL), NULL));
    queue(dut, args);
    CHECK(dut->k->end(dut->be, &step, &err) == LX_ERR_INVALID && strstr(err.text, word) != NULL,
          "no word of %s: %s", word, err.text);
    return true;
}
