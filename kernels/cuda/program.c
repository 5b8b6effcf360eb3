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
 * When all places are taken by steps that nobody has synced, the next begin() finishes the oldest:
 * its results are handed out then.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"

#define MAX_OPS 65536
#define MAX_LISTED (1 << 28) /* banned ids, biases or top ids of all rows of an operation */

static void hand_out(const lx_cuda_frame *f, const lx_cuda_draw *d)
{
    if (f->n_outputs > 0)
        memcpy(d->out, f->results + d->at, (size_t)f->n_outputs * sizeof *d->out);
    const lx_sample *top = (const void *)(f->results + d->top);
    for (int32_t i = 0; d->rows != NULL && i < f->n_outputs; i++) {
        const lx_sampling *s = &d->rows[i];
        if (s->n_top > 0)
            memcpy(s->top, top, (size_t)s->n_top * sizeof *top);
        top += s->n_top;
    }
}

/* Waits for the steps up to that one and hands out their results. */
static lx_status finish(lx_cuda *c, uint64_t step, lx_error *err)
{
    while (c->n_finished < step) {
        const lx_cuda_frame *f = &c->frames[++c->n_finished % LX_CUDA_STEPS];
        cudaError_t e = cudaEventSynchronize(f->done);
        if (e != cudaSuccess)
            return lx_cuda_lose(c, e, "a step", err);
        for (int32_t i = 0; i < f->n_draws; i++)
            hand_out(f, &f->draws[i]);
    }
    return LX_OK;
}

lx_status lx_cuda_finish_all(lx_cuda *c, lx_error *err)
{
    return finish(c, c->n_ended, err);
}

static lx_status put(lx_cuda *c, const void *data, size_t n_bytes, size_t room, size_t *at)
{
    return lx_cuda_arena_put(c, &c->inputs, data, n_bytes, room, at);
}

/* Every sequence has one row, and every row an output: decoding. */
static bool is_single_rows(const lx_batch *b)
{
    return b->n_tokens == b->n_seqs && b->n_outputs == b->n_seqs;
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
    lx_status st = put(c, &live, sizeof live, sizeof live, &at);
    if (st == LX_OK)
        st = put(c, b->seq_start, (seqs + 1) * id, (room + 1) * id, &c->seq_start);
    if (st == LX_OK)
        st = put(c, b->slot, seqs * id, room * id, &c->slot);
    if (st == LX_OK)
        st = put(c, b->output_row, (size_t)b->n_outputs * id, (size_t)c->bucket.outputs * id,
                 &c->output_row);
    return st;
}

lx_status lx_cuda_begin(lx_backend *be, const lx_batch *batch, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_turn_take(&c->turn);
    lx_status st = lx_cuda_use(c, err);
    if (st == LX_OK && c->n_ended - c->n_finished == LX_CUDA_STEPS)
        st = finish(c, c->n_finished + 1, err);
    if (st == LX_OK)
        st = lx_host_batch_check(batch, &c->seen, err);
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

/* --- recording ----------------------------------------------------------------------------------
 */

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

/* A new operation, or NULL when the step has failed; `checked` is the check of its arguments. */
static lx_cuda_op *append(lx_cuda *c, lx_cuda_kind kind, lx_status checked)
{
    c->failed = checked;
    if (c->failed == LX_OK && c->n_ops == c->ops_capacity)
        c->failed = grow_ops(c);
    if (c->failed != LX_OK)
        return NULL;
    lx_cuda_op *op = &c->ops[c->n_ops++];
    *op = (lx_cuda_op){.kind = kind};
    return op;
}

static lx_status put_tables(lx_cuda *c, const lx_embed_args *a, lx_cuda_op *op)
{
    lx_cuda_table tables[64]; /* the check allows no more */
    for (int32_t j = 0; j < a->n_tables; j++)
        tables[j] = (lx_cuda_table){a->tables[j]->data, (int32_t)a->tables[j]->dtype,
                                    (int32_t)a->tables[j]->rows};
    size_t n_bytes = (size_t)a->n_tables * sizeof *tables;
    return put(c, tables, n_bytes, n_bytes, &op->in);
}

/* An id that stands for a drawn token is -1 - its place in `drawn`. */
static lx_status put_ids(lx_cuda *c, const lx_embed_args *a, lx_cuda_op *op)
{
    size_t row = (size_t)a->n_tables, n = (size_t)c->n_tokens * row;
    lx_status st = put(c, a->ids, n * sizeof *a->ids,
                       (size_t)c->bucket.tokens * row * sizeof *a->ids, &op->more);
    if (st != LX_OK || a->states == NULL)
        return st;
    int32_t *ids = (void *)(c->inputs.host + op->more);
    const lx_batch *b = c->batch;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        size_t end = (size_t)b->seq_start[i + 1] * row;
        for (size_t j = (size_t)b->seq_start[i] * row; j < end; j++) {
            if (lx_is_drawn_id(ids[j]))
                ids[j] = (int32_t)(-1 - lx_drawn_place_of(b->slot[i], ids[j]));
        }
    }
    return LX_OK;
}

void lx_cuda_record_embed(lx_backend *be, const lx_embed_args *a)
{
    lx_cuda *c = (lx_cuda *)be;
    if (c->failed != LX_OK)
        return;
    lx_cuda_op *op = append(c, LX_CUDA_EMBED, lx_host_check_embed(c->batch, a, &c->error));
    if (op == NULL)
        return;
    op->embed = *a;
    c->failed = put_tables(c, a, op);
    if (c->failed == LX_OK)
        c->failed = put_ids(c, a, op);
}

void lx_cuda_record_linear(lx_backend *be, const lx_linear_args *a)
{
    lx_cuda *c = (lx_cuda *)be;
    if (c->failed != LX_OK)
        return;
    lx_linear_shape shape = {a->w->rows, a->w->cols};
    lx_status checked = lx_host_check_linear(c->batch, a, shape, &c->error);
    lx_cuda_op *op = append(c, LX_CUDA_LINEAR, checked);
    if (op == NULL)
        return;
    op->linear = *a;
    if (a->w->w16 == NULL)
        return;
    int64_t rows = a->rows == LX_ROWS_TOKENS ? c->bucket.tokens : c->bucket.outputs;
    lx_cuda_scratch_want(&c->rounded, rows * a->w->padded_cols * (int64_t)sizeof(uint16_t));
    lx_cuda_scratch_want(&c->product, rows * a->w->padded_rows * (int64_t)sizeof(float));
}

void lx_cuda_record_norm(lx_backend *be, const lx_norm_args *a)
{
    lx_cuda *c = (lx_cuda *)be;
    if (c->failed != LX_OK)
        return;
    lx_cuda_op *op = append(c, LX_CUDA_NORM, lx_host_check_norm(c->batch, a, &c->error));
    if (op != NULL)
        op->norm = *a;
}

void lx_cuda_record_attend(lx_backend *be, const lx_attend_linear_args *a)
{
    lx_cuda *c = (lx_cuda *)be;
    if (c->failed != LX_OK)
        return;
    lx_cuda_op *op = append(c, LX_CUDA_ATTEND, lx_host_check_attend(c->batch, a, &c->error));
    if (op != NULL)
        op->attend = *a;
}

void lx_cuda_record_gather(lx_backend *be, const lx_gather_args *a)
{
    lx_cuda *c = (lx_cuda *)be;
    if (c->failed != LX_OK)
        return;
    lx_cuda_op *op = append(c, LX_CUDA_GATHER, lx_host_check_gather(c->batch, a, &c->error));
    if (op != NULL)
        op->gather = *a;
}

static lx_cuda_row row_of(const lx_sampling *s)
{
    return (lx_cuda_row){.seed = s->seed,
                         .sample = s->sample,
                         .step = s->step,
                         .temperature = s->temperature,
                         .top_p = s->top_p,
                         .top_k = s->top_k,
                         .forced = s->forced};
}

/* Room for the results and the rows. */
static lx_status put_rows(lx_cuda *c, lx_cuda_op *op, const lx_sampling *rows,
                          const lx_states *states)
{
    size_t n = (size_t)c->n_outputs, room = (size_t)c->bucket.outputs;
    lx_status st = lx_cuda_arena_put(c, &c->results, NULL, 0, room * sizeof(lx_sample), &op->out);
    if (st == LX_OK)
        st = put(c, NULL, 0, room * sizeof(lx_cuda_row), &op->in);
    if (st != LX_OK)
        return st;
    lx_cuda_row *to = (void *)(c->inputs.host + op->in);
    int32_t seq = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t slot = states != NULL ? lx_host_keeper(c->batch, (int32_t)i, &seq) : -1;
        to[i] = row_of(&rows[i]);
        to[i].keep_at = slot >= 0 ? lx_drawn_place(slot, rows[i].step) : -1;
    }
    return LX_OK;
}

/* What is handed out when the step has finished. */
static void note_draw(lx_cuda *c, const lx_cuda_op *op, lx_sample *out, const lx_sampling *rows)
{
    if (c->failed != LX_OK)
        return;
    if (c->frame->n_draws == LX_CUDA_MAX_DRAWS)
        c->failed = lx_fail(&c->error, LX_ERR_TOO_LARGE, NULL, "a step samples more than %d times",
                            LX_CUDA_MAX_DRAWS);
    else
        c->frame->draws[c->frame->n_draws++] = (lx_cuda_draw){out, rows, op->out, op->top};
}

/* The banned ids of all rows, one after the other. */
static lx_status put_banned(lx_cuda *c, lx_cuda_op *op, const lx_sampling *rows)
{
    size_t n_banned = 0;
    for (int32_t i = 0; i < c->n_outputs; i++)
        n_banned += rows[i].n_banned > 0 ? (size_t)rows[i].n_banned : 0;
    if (n_banned > MAX_LISTED)
        return lx_fail(&c->error, LX_ERR_TOO_LARGE, NULL, "sample: %zu banned ids in a step",
                       n_banned);
    lx_status st = put(c, NULL, 0, n_banned * sizeof(int32_t), &op->more);
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
    lx_status st = put(c, NULL, 0, n_biases * sizeof(lx_bias), &op->biases);
    if (st != LX_OK)
        return st;
    lx_bias *biases = (void *)c->inputs.host;
    int64_t at = (int64_t)(op->biases / sizeof *biases);
    lx_cuda_row *to = (void *)(c->inputs.host + op->in);
    for (int32_t i = 0; i < c->n_outputs; i++) {
        int32_t n = rows[i].n_biases > 0 ? rows[i].n_biases : 0;
        to[i].bias_at = at;
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

void lx_cuda_record_sample(lx_backend *be, const lx_sample_args *a)
{
    lx_cuda *c = (lx_cuda *)be;
    if (c->failed != LX_OK)
        return;
    lx_cuda_op *op = append(c, LX_CUDA_SAMPLE, lx_host_check_sample(c->batch, a, &c->error));
    if (op == NULL)
        return;
    op->sample = *a;
    c->failed = put_rows(c, op, a->rows, a->states);
    if (c->failed == LX_OK)
        c->failed = put_banned(c, op, a->rows);
    if (c->failed == LX_OK)
        c->failed = put_biases(c, op, a->rows);
    if (c->failed == LX_OK)
        c->failed = put_top(c, op, a->rows);
    note_draw(c, op, a->out, a->rows);
    int64_t words = ((int64_t)a->n_ids + 31) / 32 * c->bucket.outputs;
    lx_cuda_scratch_want(&c->bits, words * (int64_t)sizeof(uint32_t));
}

void lx_cuda_record_mixture(lx_backend *be, const lx_sample_mixture_args *a)
{
    lx_cuda *c = (lx_cuda *)be;
    if (c->failed != LX_OK)
        return;
    lx_status checked = lx_host_check_sample_mixture(c->batch, a, &c->error);
    lx_cuda_op *op = append(c, LX_CUDA_MIXTURE, checked);
    if (op == NULL)
        return;
    op->mixture = *a;
    c->failed = put_rows(c, op, a->rows, a->states);
    note_draw(c, op, a->out, NULL);
}

/* --- running ------------------------------------------------------------------------------------
 */

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
    c->target = c->stream;
    if (st == LX_OK && c->captured)
        st = lx_cuda_graph_run(c);
    for (int32_t i = 0; st == LX_OK && !c->captured && i < c->n_ops; i++)
        st = lx_cuda_run_op(c, &c->ops[i]);
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
    *step = c->n_ended;
    c->batch = NULL;
    lx_turn_give(&c->turn);
    return st;
}

lx_status lx_cuda_sync(lx_backend *be, uint64_t step, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = lx_cuda_use(c, err);
    if (st != LX_OK)
        return st;
    /* Without the turn, so that another engine can start its step meanwhile. Should the event stand
       for a later step by now, this one has been handed out. */
    cudaError_t e = cudaEventSynchronize(c->frames[step % LX_CUDA_STEPS].done);
    lx_turn_take(&c->turn);
    st = e == cudaSuccess ? finish(c, step, err) : lx_cuda_lose(c, e, "a step", err);
    lx_turn_give(&c->turn);
    return st;
}
