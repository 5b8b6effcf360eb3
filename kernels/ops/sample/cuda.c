/* Puts banned ids, biases and places for top ids down behind the rows, and launches. */
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "kernels/ops/sample/cuda.h"

#define MAX_LISTED (1 << 28) /* banned ids, biases or top ids of all rows of an operation */

/* The banned ids of all rows, one after the other. */
static lx_status put_banned(lx_cuda *c, lx_cuda_op *op, const lx_sampling *rows)
{
    size_t n_banned = 0;
    for (int32_t i = 0; i < c->n_outputs; i++)
        n_banned += rows[i].n_banned > 0 ? (size_t)rows[i].n_banned : 0;
    if (n_banned > MAX_LISTED)
        return lx_fail(&c->error, LX_ERR_TOO_LARGE, NULL, "sample: %zu banned ids in a step",
                       n_banned);
    lx_status st = lx_cuda_put(c, NULL, 0, n_banned * sizeof(int32_t), &op->more);
    if (st != LX_OK)
        return st;
    int32_t *banned = (void *)c->inputs.host;
    int64_t at = (int64_t)(op->more / sizeof *banned);
    lx_cuda_row *to = (void *)(c->inputs.host + op->in);
    for (int32_t i = 0; i < c->n_outputs; i++) {
        int32_t n = rows[i].n_banned > 0 ? rows[i].n_banned : 0;
        to[i].mask = rows[i].mask != NULL ? rows[i].mask->bias : NULL;
        to[i].banned_at = at;
        to[i].n_banned = n;
        if (n > 0)
            memcpy(banned + at, rows[i].banned, (size_t)n * sizeof *banned);
        at += n;
    }
    return LX_OK;
}

static lx_status put_biases(lx_cuda *c, lx_cuda_op *op, const lx_sampling *rows)
{
    size_t n_biases = 0;
    for (int32_t i = 0; i < c->n_outputs; i++)
        n_biases += rows[i].n_biases > 0 ? (size_t)rows[i].n_biases : 0;
    if (n_biases > MAX_LISTED)
        return lx_fail(&c->error, LX_ERR_TOO_LARGE, NULL, "sample: %zu biases in a step", n_biases);
    lx_status st = lx_cuda_put(c, NULL, 0, n_biases * sizeof(lx_bias), &op->biases);
    if (st != LX_OK)
        return st;
    lx_bias *biases = (void *)(c->inputs.host + op->biases);
    int64_t at = 0;
    lx_cuda_row *to = (void *)(c->inputs.host + op->in);
    for (int32_t i = 0; i < c->n_outputs; i++) {
        int32_t n = rows[i].n_biases > 0 ? rows[i].n_biases : 0;
        to[i].bias_at = (int64_t)op->biases + at * (int64_t)sizeof *biases;
        to[i].n_biases = n;
        if (n > 0)
            memcpy(biases + at, rows[i].biases, (size_t)n * sizeof *biases);
        at += n;
    }
    return LX_OK;
}

/* Room for the top ids of all rows. */
static lx_status put_top(lx_cuda *c, lx_cuda_op *op, const lx_sampling *rows)
{
    lx_cuda_row *to = (void *)(c->inputs.host + op->in);
    size_t n_top = 0; /* few rows of few: no overflow */
    for (int32_t i = 0; i < c->n_outputs; i++)
        n_top += (size_t)rows[i].n_top;
    lx_status st = lx_cuda_arena_put(c, &c->results, NULL, 0, n_top * sizeof(lx_sample), &op->top);
    int64_t at = (int64_t)(op->top / sizeof(lx_sample));
    for (int32_t i = 0; i < c->n_outputs; i++) {
        to[i].top_at = at;
        to[i].n_top = rows[i].n_top;
        at += rows[i].n_top;
    }
    return st;
}

static lx_status record(lx_cuda *c, lx_cuda_op *op)
{
    const lx_sample_args *a = &op->args.sample;
    lx_status st = lx_cuda_put_rows(c, op);
    if (st == LX_OK)
        st = put_banned(c, op, a->rows);
    if (st == LX_OK)
        st = put_biases(c, op, a->rows);
    if (st == LX_OK)
        st = put_top(c, op, a->rows);
    if (st == LX_OK)
        st = lx_cuda_note_draw(c, op, true);
    int64_t words = ((int64_t)a->n_ids + 31) / 32 * c->bucket.outputs;
    lx_cuda_scratch_want(&c->bits, words * (int64_t)sizeof(uint32_t));
    return st;
}

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_sample_args *a = &op->args.sample;
    w[0] = lx_cuda_key_address(a->logits);
    w[1] = (uint64_t)a->n_ids;
    w[2] = op->in;
    w[3] = op->out;
    w[4] = lx_cuda_key_address(a->states);
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op, bool ready)
{
    const lx_sample_args *a = &op->args.sample;
    (void)ready;
    lx_cuda_sample k = {.logits = a->logits->data,
                        .rows = lx_cuda_input(c, op->in),
                        .banned =
                            lx_cuda_input(c, 0), /* places count from the arenas' beginnings */
                        .biases = lx_cuda_input(c, 0),
                        .top = (void *)c->results.device,
                        .bits = c->bits.data,
                        .out = (void *)(c->results.device + op->out),
                        .drawn = a->states != NULL ? a->states->drawn : NULL,
                        .live = lx_cuda_live_rows(c, LX_ROWS_OUTPUTS),
                        .n_rows = c->bucket.outputs,
                        .n_ids = a->n_ids};
    return k.n_rows == 0 ? LX_OK
                         : lx_cuda_launched(c, lx_cuda_launch_sample(&k, c->target), "sample");
}

const lx_cuda_kind lx_cuda_op_sample = {
    .op = &lx_op_sample, .record = record, .key = key, .run = run};
