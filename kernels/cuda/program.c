/*
 * A step of the cuda back end:
 *
 *   begin()     takes the back end for this engine
 *   operations  are checked and recorded; their inputs from the host go to pinned memory
 *   end()       queues the copy of the inputs, the kernels and the copy of the results on one
 * stream, and gives the back end back; it does not wait sync()      waits and hands the results out
 *
 * Several steps may be under way. Each has its own pinned memory and its own event. They share one
 * memory on the device, because they follow each other there. A deferred token goes to the device
 * as a place in the states' `drawn`, which the sampling kernels fill.
 *
 * The common step, of single rows with one output each, runs as a graph (graph.c). All its sizes,
 * and so all places in the inputs, are those of its bucket. Lists of varying length come last, and
 * rows name their places.
 *
 * When LX_CUDA_STEPS steps are not synced, the next begin() finishes the oldest and hands its
 * results out.
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

static lx_status put_batch(lx_cuda *c, const lx_batch *b)
{
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
    bool branches = b->branch != NULL && !c->captured; /* two rows of a sequence: not captured */
    const struct {
        const int32_t *data;
        int32_t n, room;
        size_t *at;
    } lists[] = {
        {b->seq_start, b->n_seqs + 1, c->bucket.seqs + 1, &c->seq_start},
        {b->slot, b->n_seqs, c->bucket.seqs, &c->slot},
        {b->output_row, b->n_outputs, c->bucket.outputs, &c->output_row},
        {b->position, b->n_seqs, c->bucket.seqs, &c->position},
        {b->branch, b->n_seqs, b->n_seqs, &c->branch},
        {b->branch_row, b->n_seqs, b->n_seqs, &c->branch_row},
    };
    size_t at = 0, n_lists = sizeof lists / sizeof lists[0] - (branches ? 0 : 2);
    lx_status st = lx_cuda_put(c, &live, sizeof live, sizeof live, &at);
    for (size_t i = 0; st == LX_OK && i < n_lists; i++)
        st = lx_cuda_put(c, lists[i].data, (size_t)lists[i].n * sizeof(int32_t),
                         (size_t)lists[i].room * sizeof(int32_t), lists[i].at);
    return st;
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
    return lx_cuda_check(c, cudaMemcpyAsync(to, from, n_bytes, kind, c->stream), "a step's copy",
                         &c->error);
}

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
    return lx_cuda_check(c, cudaEventRecord(c->frame->done, c->stream), "starting a step",
                         &c->error);
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

/* A step has the operations of one model, so neighbours share their states. */
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
