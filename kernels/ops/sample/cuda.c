/* Puts banned ids, biases and places for top ids down behind the rows, and launches. */
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "kernels/ops/sample/cuda.h"

#define MAX_LISTED (1 << 28) /* banned ids, biases or top ids of all rows of an operation */

/* Room for the lists of all rows, one row's behind the other's; their sums are below 2^63. */
static lx_status take_room(lx_cuda *c, lx_cuda_op *op, const lx_cuda_lists *n)
{
    if (n->banned > MAX_LISTED)
        return lx_fail(&c->error, LX_ERR_TOO_LARGE, NULL, "sample: %zu banned ids in a step",
                       n->banned);
    if (n->biases > MAX_LISTED)
        return lx_fail(&c->error, LX_ERR_TOO_LARGE, NULL, "sample: %zu biases in a step",
                       n->biases);
    lx_status st = lx_cuda_put(c, NULL, 0, n->banned * sizeof(int32_t), &op->more);
    if (st == LX_OK)
        st = lx_cuda_put(c, NULL, 0, n->biases * sizeof(lx_bias), &op->biases);
    if (st == LX_OK)
        st = lx_cuda_arena_put(c, &c->results, NULL, 0, n->top * sizeof(lx_sample), &op->top);
    return st;
}

/* Puts masks and lists down and says each row where its own are. */
static void put_lists(lx_cuda *c, const lx_cuda_op *op, const lx_sampling *rows)
{
    lx_cuda_row *to = (void *)(c->inputs.host + op->in);
    int32_t *banned = (void *)(c->inputs.host + op->more);
    lx_bias *biases = (void *)(c->inputs.host + op->biases);
    int64_t n_banned = 0, n_biases = 0, n_top = 0;
    for (int32_t i = 0; i < c->n_outputs; i++) {
        to[i].mask = rows[i].mask != NULL ? rows[i].mask->bias : NULL;
        to[i].banned_at = (int64_t)(op->more / sizeof *banned) + n_banned;
        to[i].bias_at = (int64_t)op->biases + n_biases * (int64_t)sizeof *biases;
        to[i].top_at = (int64_t)(op->top / sizeof(lx_sample)) + n_top;
        if (to[i].n_banned > 0)
            memcpy(banned + n_banned, rows[i].banned, (size_t)to[i].n_banned * sizeof *banned);
        if (to[i].n_biases > 0)
            memcpy(biases + n_biases, rows[i].biases, (size_t)to[i].n_biases * sizeof *biases);
        n_banned += to[i].n_banned;
        n_biases += to[i].n_biases;
        n_top += to[i].n_top;
    }
}

static lx_status record(lx_cuda *c, lx_cuda_op *op)
{
    const lx_sample_args *a = &op->args.sample;
    lx_cuda_lists n;
    lx_status st = lx_cuda_put_rows(c, op, &n);
    if (st == LX_OK)
        st = take_room(c, op, &n);
    if (st == LX_OK && (n.masks || n.banned > 0 || n.biases > 0 || n.top > 0))
        put_lists(c, op, a->rows);
    if (st == LX_OK)
        st = lx_cuda_note_draw(c, op, n.top > 0);
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

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_sample_args *a = &op->args.sample;
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

LX_DEFINE_CUDA(sample, .record = record, .key = key, .run = run);
