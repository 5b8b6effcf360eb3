/*
 * A step of the cuda back end. begin() takes the back end for this engine; each operation is
 * checked and recorded, and what it is given on the host goes to pinned memory; end() queues on one
 * stream the copy of these inputs, the kernels in their order and the copy of the results, and
 * gives the back end back; sync() waits and hands the results out.
 *
 * Several steps may be under way. Each has its own pinned memory and its own event; on the device
 * all use the same memory, because there one follows the other. An id that stands for a drawn token
 * goes to the device as a place in the arena's `drawn`, which the sampling kernels fill.
 *
 * Between end's first call and its last nothing waits and nothing is allocated. A step of single
 * rows with one output each, the common one, runs as a graph (graph.c): all its sizes, and so all
 * places in the inputs, are those of a bucket that holds it; lists whose length differs from step
 * to step lie behind everything else, and rows refer to them by place.
 *
 * When all places are taken by steps that were not synced, the next begin() finishes the oldest:
 * its results are handed out then.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

#define MAX_OPS 65536

/* Every sequence has one row, and every row an output: decoding. */
static bool is_single_rows(const lx_batch *b)
{
    return b->n_tokens == b->n_seqs && b->n_outputs == b->n_seqs;
}

/* Such a step is never captured: what branches has two rows. */
static lx_status put_branches(lx_cuda *c, const lx_batch *b)
{
    size_t n = (size_t)b->n_seqs * sizeof(int32_t);
    lx_status st = lx_cuda_put(c, b->branch, n, n, &c->branch);
    return st == LX_OK ? lx_cuda_put(c, b->branch_row, n, n, &c->branch_row) : st;
}

static lx_status put_batch(lx_cuda *c, const lx_batch *b)
{
    const size_t id = sizeof(int32_t);
    lx_cuda_arena_turn(&c->inputs, c->n_ended + 1);
    lx_cuda_arena_turn(&c->results, c->n_ended + 1);
    c->n_tokens = b->n_tokens;
    c->n_seqs = b->n_seqs;
    c->n_outputs = b->n_outputs;
    c->captured = is_single_rows(b) && b->n_seqs <= LX_CUDA_MOST_CAPTURED;
    c->bucket = (lx_cuda_live){b->n_tokens, b->n_seqs, b->n_outputs};
    const lx_cuda_live live = c->bucket;
    if (c->captured) {
        int32_t n = lx_cuda_bucket(b->n_tokens);
        c->bucket = (lx_cuda_live){n, n, n};
    }
    size_t at = 0, seqs = (size_t)b->n_seqs, room = (size_t)c->bucket.seqs;
    lx_status st = lx_cuda_put(c, &live, sizeof live, sizeof live, &at);
    if (st == LX_OK)
        st = lx_cuda_put(c, b->seq_start, (seqs + 1) * id, (room + 1) * id, &c->seq_start);
    if (st == LX_OK)
        st = lx_cuda_put(c, b->slot, seqs * id, room * id, &c->slot);
    if (st == LX_OK)
        st = lx_cuda_put(c, b->output_row, (size_t)b->n_outputs * id,
                         (size_t)c->bucket.outputs * id, &c->output_row);
    if (st == LX_OK)
        st = lx_cuda_put(c, b->position, seqs * id, room * id, &c->position);
    return st == LX_OK && b->branch != NULL && !c->captured ? put_branches(c, b) : st;
}

lx_status lx_cuda_begin(lx_backend *be, const lx_batch *batch, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_turn_take(&c->turn);
    lx_status st = lx_cuda_use(c, err);
    if (st == LX_OK && c->n_ended - c->n_finished == LX_CUDA_STEPS)
        st = lx_cuda_finish_step(c, c->n_finished + 1, err);
    if (st == LX_OK)
        st = lx_batch_check(batch, &c->seen, err);
    if (st != LX_OK) {
        lx_turn_give(&c->turn);
        return st;
    }
    c->batch = batch;
    c->n_ops = 0;
    c->frame = &c->frames[(c->n_ended + 1) % LX_CUDA_STEPS];
    c->frame->n_outputs = batch->n_outputs;
    c->frame->n_draws = 0;
    c->failed = put_batch(c, batch);
    return LX_OK;
}

/* --- recording --- */

static lx_status grow_ops(lx_cuda *c)
{
    int32_t capacity = c->ops_capacity == 0 ? 256 : c->ops_capacity * 2;
    if (capacity > MAX_OPS)
        return lx_fail(&c->error, LX_ERR_TOO_LARGE, NULL, "a step of more than %d operations",
                       MAX_OPS);
    lx_cuda_op *ops = realloc(c->ops, (size_t)capacity * sizeof *ops);
    if (ops == NULL)
        return lx_fail(&c->error, LX_ERR_NO_MEMORY, NULL, "no memory for a step of %d operations",
                       c->n_ops + 1);
    c->ops = ops;
    c->ops_capacity = capacity;
    return LX_OK;
}

void lx_cuda_record(lx_cuda *c, const lx_cuda_kind *kind, const void *args)
{
    if (c->failed == LX_OK && c->n_ops == c->ops_capacity)
        c->failed = grow_ops(c);
    if (c->failed != LX_OK)
        return;
    lx_cuda_op *op = &c->ops[c->n_ops];
    c->failed = lx_op_check(kind->op, c->batch, args, &op->uses, &c->error);
    if (c->failed != LX_OK)
        return;
    op->kind = kind;
    op->in = op->more = op->biases = op->out = op->top = 0;
    memcpy(&op->args, args, kind->op->args_size);
    c->n_ops++;
    if (kind->record != NULL)
        c->failed = kind->record(c, op);
}

/* --- running --- */

static lx_status grow_scratch(lx_cuda *c)
{
    lx_status st = lx_cuda_scratch_grow(c, &c->rounded);
    if (st == LX_OK)
        st = lx_cuda_scratch_grow(c, &c->product);
    if (st == LX_OK)
        st = lx_cuda_scratch_grow(c, &c->bits);
    return st;
}

static lx_status copy(lx_cuda *c, void *to, const void *from, size_t n_bytes,
                      enum cudaMemcpyKind kind)
{
    if (n_bytes == 0)
        return LX_OK;
    cudaError_t e = cudaMemcpyAsync(to, from, n_bytes, kind, c->stream);
    return e == cudaSuccess ? LX_OK : lx_cuda_lose(c, e, "a step's copy", &c->error);
}

/* Everything a step is, in the order of the stream. */
static lx_status queue(lx_cuda *c)
{
    lx_status st =
        copy(c, c->inputs.device, c->inputs.host, c->inputs.used, cudaMemcpyHostToDevice);
    if (st == LX_OK)
        st = c->captured ? lx_cuda_graph_run(c) : lx_cuda_run_ops(c, c->stream);
    if (st == LX_OK)
        st = copy(c, c->results.host, c->results.device, c->results.used, cudaMemcpyDeviceToHost);
    if (st != LX_OK)
        return st;
    cudaError_t e = cudaEventRecord(c->frame->done, c->stream);
    return e == cudaSuccess ? LX_OK : lx_cuda_lose(c, e, "starting a step", &c->error);
}

lx_status lx_cuda_prepare(lx_backend *be, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_cuda_graph *graph = NULL;
    if (c->failed == LX_OK)
        c->failed = grow_scratch(c);
    if (c->failed == LX_OK && c->captured)
        c->failed = lx_cuda_graph_get(c, &graph);
    lx_status st = c->failed;
    if (st != LX_OK && err != NULL)
        *err = c->error;
    c->batch = NULL;
    lx_turn_give(&c->turn);
    return st;
}

/* Operations look at one model's states, so next to each other at the same. */
static void note_slots(lx_cuda *c)
{
    const lx_states *noted = NULL;
    for (int32_t i = 0; i < c->n_ops; i++) {
        const lx_states *s = c->ops[i].uses.states;
        if (s != NULL && s != noted)
            lx_cuda_states_note(s, c->batch, c->n_ended);
        noted = s != NULL ? s : noted;
    }
}

lx_status lx_cuda_end(lx_backend *be, uint64_t *step, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = c->failed;
    if (st == LX_OK)
        st = grow_scratch(c);
    if (st == LX_OK)
        st = queue(c);
    if (st != LX_OK && err != NULL)
        *err = c->error;
    c->frame->results = c->results.host;
    c->n_ended += st == LX_OK;
    if (st == LX_OK)
        note_slots(c);
    *step = c->n_ended;
    c->batch = NULL;
    lx_turn_give(&c->turn);
    return st;
}
