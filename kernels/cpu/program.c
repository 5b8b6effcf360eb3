/*
 * A step of the cpu back end: begin() takes the back end for this engine, each operation is checked
 * and appended to a program, end() cuts the program into phases and pieces (plan.c), runs them on
 * all threads and gives the back end back. So sync() has nothing left to wait for.
 *
 * Threads take their own pieces first, then those that others have not begun, and nobody waits for
 * a thread that has none. So a thread that the system does not let run, on a machine that has other
 * work, holds the step up only if it was stopped within a piece.
 *
 * When sequences are carried through several operations, row r of an array must stay the business
 * of one piece. It does as long as an array keeps its width and its kind of row; where a step uses
 * an array again in another shape, the operation gets a fence: it begins a phase.
 *
 * Memory grows while a step is recorded that needs more than any before it, never while one runs.
 */
#include <stdlib.h>

#include "kernels/cpu/cpu.h"

#define MAX_OPS 65536

lx_status lx_cpu_begin(lx_backend *be, const lx_batch *batch, lx_error *err)
{
    lx_cpu *c = (lx_cpu *)be;
    lx_turn_take(&c->turn);
    lx_status st = lx_host_batch_check(batch, &c->seen, err);
    if (st != LX_OK) {
        lx_turn_give(&c->turn);
        return st;
    }
    c->batch = batch;
    c->failed = LX_OK;
    c->n_ops = 0;
    c->step++;
    return LX_OK;
}

/* --- recording -------------------------------------------------------------------------------- */

static lx_status grow_ops(lx_cpu *c)
{
    int32_t capacity = c->ops_capacity == 0 ? 256 : c->ops_capacity * 2;
    if (capacity > MAX_OPS)
        return lx_fail(&c->error, LX_ERR_TOO_LARGE, NULL, "a step of more than %d operations",
                       MAX_OPS);
    lx_cpu_op *ops = realloc(c->ops, (size_t)capacity * sizeof *ops);
    if (ops != NULL)
        c->ops = ops;
    lx_cpu_phase *phases = aligned_alloc(64, (size_t)capacity * sizeof *phases);
    if (ops == NULL || phases == NULL) {
        free(phases);
        return lx_fail(&c->error, LX_ERR_NO_MEMORY, NULL, "no memory for a step of %d operations",
                       c->n_ops + 1);
    }
    free(c->phases); /* it holds nothing while a step is recorded */
    c->phases = phases;
    c->ops_capacity = capacity;
    return LX_OK;
}

/* A new operation, or NULL when the step has failed; `checked` is the check of its arguments. */
static lx_cpu_op *append(lx_cpu *c, lx_cpu_kind kind, lx_status checked)
{
    if (c->failed == LX_OK)
        c->failed = checked;
    if (c->failed == LX_OK && c->n_ops == c->ops_capacity)
        c->failed = grow_ops(c);
    if (c->failed != LX_OK)
        return NULL;
    lx_cpu_op *op = &c->ops[c->n_ops++];
    op->kind = kind;
    op->fence = false;
    return op;
}

/* Notes that `op` uses an array in this shape. */
static void use(const lx_cpu *c, lx_cpu_op *op, const lx_array *a, int64_t width, lx_rows rows)
{
    if (a->use->step == c->step && (a->use->width != width || a->use->rows != rows))
        op->fence = true;
    *a->use = (lx_array_use){c->step, width, rows};
}

static void want_scratch(lx_cpu *c, int64_t n_floats)
{
    n_floats = (n_floats + 15) / 16 * 16;
    c->scratch_wanted = n_floats > c->scratch_wanted ? n_floats : c->scratch_wanted;
}

void lx_cpu_embed(lx_backend *be, const lx_embed_args *a)
{
    lx_cpu *c = (lx_cpu *)be;
    if (c->failed != LX_OK)
        return;
    lx_cpu_op *op = append(c, LX_CPU_EMBED, lx_host_check_embed(c->batch, a, &c->error));
    if (op == NULL)
        return;
    op->embed = *a;
    use(c, op, a->y, a->tables[0]->cols, LX_ROWS_TOKENS);
}

void lx_cpu_linear_op(lx_backend *be, const lx_linear_args *a)
{
    lx_cpu *c = (lx_cpu *)be;
    lx_linear_shape shape = {a->w->rows, a->w->cols};
    if (c->failed != LX_OK)
        return;
    lx_cpu_op *op = append(c, LX_CPU_LINEAR, lx_host_check_linear(c->batch, a, shape, &c->error));
    if (op == NULL)
        return;
    op->linear = *a;
    use(c, op, a->x, a->w->cols, a->rows);
    use(c, op, a->y, a->w->rows, a->rows);
    if (a->residual != NULL)
        use(c, op, a->residual, a->w->rows, a->rows);
    want_scratch(c, lx_cpu_linear_op_scratch(a->w->cols));
}

void lx_cpu_norm(lx_backend *be, const lx_norm_args *a)
{
    lx_cpu *c = (lx_cpu *)be;
    if (c->failed != LX_OK)
        return;
    lx_cpu_op *op = append(c, LX_CPU_NORM, lx_host_check_norm(c->batch, a, &c->error));
    if (op == NULL)
        return;
    op->norm = *a;
    use(c, op, a->x, a->d, a->rows);
    use(c, op, a->y, a->d, a->rows);
}

void lx_cpu_attend_linear(lx_backend *be, const lx_attend_linear_args *a)
{
    lx_cpu *c = (lx_cpu *)be;
    if (c->failed != LX_OK)
        return;
    lx_cpu_op *op = append(c, LX_CPU_ATTEND_LINEAR, lx_host_check_attend(c->batch, a, &c->error));
    if (op == NULL)
        return;
    op->attend_linear = *a;
    use(c, op, a->qkv, (int64_t)a->n_heads * (2 * a->d_key + a->d_value), LX_ROWS_TOKENS);
    use(c, op, a->y, (int64_t)a->n_heads * a->d_value, LX_ROWS_TOKENS);
    want_scratch(c, lx_cpu_attend_scratch(a->d_key));
}

void lx_cpu_gather(lx_backend *be, const lx_gather_args *a)
{
    lx_cpu *c = (lx_cpu *)be;
    if (c->failed != LX_OK)
        return;
    lx_cpu_op *op = append(c, LX_CPU_GATHER, lx_host_check_gather(c->batch, a, &c->error));
    if (op == NULL)
        return;
    op->gather = *a;
    use(c, op, a->x, a->d, LX_ROWS_TOKENS);
    use(c, op, a->y, a->d, LX_ROWS_OUTPUTS);
}

void lx_cpu_sample(lx_backend *be, const lx_sample_args *a)
{
    lx_cpu *c = (lx_cpu *)be;
    if (c->failed != LX_OK)
        return;
    lx_cpu_op *op = append(c, LX_CPU_SAMPLE, lx_host_check_sample(c->batch, a, &c->error));
    if (op == NULL)
        return;
    op->sample = *a;
    use(c, op, a->logits, a->n_ids, LX_ROWS_OUTPUTS);
    want_scratch(c, lx_cpu_sample_scratch(a->n_ids));
}

void lx_cpu_sample_mixture(lx_backend *be, const lx_sample_mixture_args *a)
{
    lx_cpu *c = (lx_cpu *)be;
    if (c->failed != LX_OK)
        return;
    lx_status checked = lx_host_check_sample_mixture(c->batch, a, &c->error);
    lx_cpu_op *op = append(c, LX_CPU_SAMPLE_MIXTURE, checked);
    if (op == NULL)
        return;
    op->sample_mixture = *a;
    use(c, op, a->parameters, 3 * (int64_t)a->n_components, LX_ROWS_OUTPUTS);
    want_scratch(c, LX_CPU_MIXTURE);
}

/* --- running ---------------------------------------------------------------------------------- */

static size_t scratch_bytes(const lx_cpu *c)
{
    return (size_t)(c->scratch_floats * c->n_threads) * sizeof(float);
}

static lx_status grow_scratch(lx_cpu *c)
{
    if (c->scratch_wanted <= c->scratch_floats)
        return LX_OK;
    lx_host_release(c->scratch, scratch_bytes(c));
    c->scratch_floats = c->scratch_wanted;
    c->scratch = lx_host_reserve(scratch_bytes(c));
    if (c->scratch != NULL)
        return LX_OK;
    c->scratch_floats = 0;
    return lx_fail(&c->error, LX_ERR_NO_MEMORY, NULL, "no memory for %lld floats of scratch",
                   (long long)c->scratch_wanted);
}

/* The pieces that thread `thread` takes first: *from .. *to - 1. */
static void own_pieces(const lx_cpu *c, const lx_cpu_phase *phase, int thread, int32_t *from,
                       int32_t *to)
{
    int64_t n = phase->n_pieces, of = c->n_threads;
    *from = (int32_t)((n * thread + of - 1) / of);
    *to = (int32_t)((n * (thread + 1) + of - 1) / of);
}

/* Takes a piece of a thread's range in the phase of this number; -1 when none is left. */
static int32_t take_piece(lx_cpu *c, const lx_cpu_phase *phase, unsigned number, int owner)
{
    int32_t from, to;
    own_pieces(c, phase, owner, &from, &to);
    if (from >= to)
        return -1;
    atomic_uint_fast64_t *taken = &c->claims[owner].taken;
    uint_fast64_t seen = atomic_load_explicit(taken, memory_order_relaxed);
    for (;;) {
        int32_t ahead = (int32_t)((uint32_t)(seen >> 32) - number); /* > 0: the phase is over */
        int32_t next = ahead < 0 ? from : ahead == 0 ? (int32_t)(uint32_t)seen : to;
        if (next >= to)
            return -1;
        uint_fast64_t mine = (uint_fast64_t)number << 32 | (uint32_t)(next + 1);
        if (atomic_compare_exchange_weak(taken, &seen, mine))
            return next;
    }
}

static void run_phase(lx_cpu *c, lx_cpu_phase *phase, unsigned number, int thread)
{
    float *scratch = c->scratch + thread * c->scratch_floats;
    for (int i = 0; i < c->n_threads; i++) {
        int owner = (thread + i) % c->n_threads;
        for (int32_t piece; (piece = take_piece(c, phase, number, owner)) >= 0;) {
            lx_cpu_run_piece(c, phase, piece, scratch);
            if (atomic_fetch_add(&phase->n_done, 1) + 1 == phase->n_pieces)
                lx_cpu_gate_step(&c->finished);
        }
    }
}

static void ask_ahead(const lx_cpu *c, const lx_cpu_phase *phase, int thread)
{
    int32_t from, to;
    own_pieces(c, phase, thread, &from, &to);
    if (from < to)
        lx_cpu_ask_ahead(c, phase, from);
}

/* What every thread does: the pieces it gets of the first unfinished phase, until all are finished.
 */
static void run_step(void *context, int thread)
{
    lx_cpu *c = context;
    for (;;) {
        unsigned value = lx_cpu_gate_value(&c->finished);
        unsigned n_finished = value - c->finished_before;
        if (n_finished >= (unsigned)c->n_phases)
            return;
        run_phase(c, &c->phases[n_finished], value, thread);
        if (lx_cpu_gate_value(&c->finished) == value && n_finished + 1 < (unsigned)c->n_phases)
            ask_ahead(c, &c->phases[n_finished + 1], thread);
        lx_cpu_gate_wait(&c->finished, value);
    }
}

static void run_program(lx_cpu *c)
{
    lx_cpu_plan(c);
    c->finished_before = lx_cpu_gate_value(&c->finished);
    lx_cpu_pool_run(c->pool, run_step, c);
}

/* Keeps what was drawn beside the slots. */
static void keep_drawn(const lx_cpu *c)
{
    for (int32_t i = 0; i < c->n_ops; i++) {
        const lx_cpu_op *op = &c->ops[i];
        if (op->kind == LX_CPU_SAMPLE)
            lx_host_keep_drawn(c->batch, op->sample.states, op->sample.rows, op->sample.out);
        else if (op->kind == LX_CPU_SAMPLE_MIXTURE)
            lx_host_keep_drawn(c->batch, op->sample_mixture.states, op->sample_mixture.rows,
                               op->sample_mixture.out);
    }
}

lx_status lx_cpu_end(lx_backend *be, uint64_t *step, lx_error *err)
{
    lx_cpu *c = (lx_cpu *)be;
    if (c->failed == LX_OK)
        c->failed = grow_scratch(c);
    if (c->failed == LX_OK) {
        run_program(c);
        keep_drawn(c);
    }
    *step = c->step;
    lx_status st = c->failed;
    if (st != LX_OK && err != NULL)
        *err = c->error;
    c->batch = NULL;
    lx_turn_give(&c->turn);
    return st;
}

lx_status lx_cpu_sync(lx_backend *be, uint64_t step, lx_error *err)
{
    (void)be;
    (void)step;
    (void)err;
    return LX_OK;
}
