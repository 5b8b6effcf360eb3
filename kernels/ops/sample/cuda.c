/* Sampling: the inputs are rows, then banned ids, bits of allowed ids, and biases; top ids are
   among the results. */
#include <string.h>

#include "kernels/cuda/cuda.h"

#define MAX_LISTED (1 << 28) /* banned ids, biases or top ids of all rows of an operation */

/* Of the bits of a row's allowed ids. */
static size_t words_of(const lx_cuda_op *op)
{
    return ((size_t)op->args.sample.n_ids + 31) / 32;
}

/* Room for the lists of all rows, row by row; their sums are below 2^63. */
static lx_status take_room(lx_cuda *c, lx_cuda_op *op, const lx_cuda_lists *n)
{
    size_t words = n->allowed * words_of(op);
    if (words > MAX_LISTED)
        return lx_fail(&c->error, LX_ERR_TOO_LARGE, NULL,
                       "sample: %zu words of allowed ids in a step", words);
    if (n->banned > MAX_LISTED)
        return lx_fail(&c->error, LX_ERR_TOO_LARGE, NULL, "sample: %zu banned ids in a step",
                       n->banned);
    if (n->biases > MAX_LISTED)
        return lx_fail(&c->error, LX_ERR_TOO_LARGE, NULL, "sample: %zu biases in a step",
                       n->biases);
    lx_status st = lx_cuda_put(c, NULL, 0, (n->banned + words) * sizeof(int32_t), &op->more);
    if (st == LX_OK)
        st = lx_cuda_put(c, NULL, 0, n->biases * sizeof(lx_bias), &op->biases);
    if (st == LX_OK)
        st = lx_cuda_arena_put(c, &c->results, NULL, 0, n->top * sizeof(lx_sample), &op->top);
    return st;
}

/* Writes masks and lists to the inputs, and each row's places. */
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
        if (rows[i].allowed != NULL) {
            to[i].allowed_at = (int64_t)(op->more / sizeof *banned) + n_banned;
            memcpy(banned + n_banned, rows[i].allowed, words_of(op) * sizeof *banned);
            n_banned += (int64_t)words_of(op);
        }
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
    if (st == LX_OK && (n.masks || n.allowed > 0 || n.banned > 0 || n.biases > 0 || n.top > 0))
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
    LX_CUDA_KEY(w, lx_cuda_key_address(a->logits), (uint64_t)a->n_ids, op->in, op->out,
                lx_cuda_key_address(a->states));
}

/* A row counts the places of its lists from the beginnings of the inputs and of the results. */
static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_sample_args *a = &op->args.sample;
    return LX_CUDA_LAUNCH(c, sample, .logits = a->logits->data, LX_CUDA_DRAWS(c, op, a),
                          .banned = lx_cuda_input(c, 0), .biases = lx_cuda_input(c, 0),
                          .top = (void *)c->results.device, .bits = c->bits.data,
                          .n_ids = a->n_ids);
}

LX_DEFINE_CUDA(sample, .record = record, .key = key, .run = run);
