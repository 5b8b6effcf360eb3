/*
 * A step of the cpu back end. begin() takes the back end for this engine. Each operation is checked
 * and appended to a program. end() cuts the program into phases and pieces (plan.c), runs them on
 * all threads and gives the back end back. So sync() does not wait.
 *
 * A thread takes its own pieces first, then pieces that other threads have not begun. No thread
 * waits for an idle one. So a thread that the system stops delays the step only if it has begun a
 * piece.
 *
 * When a piece carries sequences through several operations, no other piece may use row r of an
 * array. This holds while the array keeps its width and its kind of row. An operation that uses an
 * array in another shape gets a fence: it begins a phase.
 *
 * Most steps repeat the previous step. An operation with the arguments of its predecessor in this
 * place keeps that record: this saves the checks of its arguments, and other threads have it in
 * their caches. A freed object ends that, since its address may come again.
 *
 * Memory grows while a step larger than all earlier ones is recorded, never while one runs.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

#define MAX_OPS 65536

lx_status lx_cpu_begin(lx_backend *be, const lx_batch *batch, lx_error *err)
{
    lx_cpu *c = (lx_cpu *)be;
    lx_turn_take(&c->turn);
    lx_status st = lx_batch_check(batch, &c->seen, err);
    if (st != LX_OK) {
        lx_turn_give(&c->turn);
        return st;
    }
    c->batch = batch;
    c->failed = LX_OK;
    unsigned freed = atomic_load(&c->host.n_freed);
    c->n_known = freed == c->freed_known ? c->n_ops : 0;
    c->freed_known = freed;
    c->n_ops = 0;
    c->step++;
    return LX_OK;
}

/* --- recording --- */

static lx_status grow_ops(lx_cpu *c)
{
    int32_t capacity = c->ops_capacity == 0 ? 256 : c->ops_capacity * 2;
    if (capacity > MAX_OPS)
        return lx_fail(&c->error, LX_ERR_TOO_LARGE, NULL, "a step of more than %d operations",
                       MAX_OPS);
    lx_cpu_op *ops = realloc(c->ops, (size_t)capacity * sizeof *ops);
    if (ops != NULL)
        c->ops = ops;
    lx_cpu_phase *phases = aligned_alloc(64, 2 * (size_t)capacity * sizeof *phases);
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

/* Notes in which shape the operation uses its arrays; true when one had another shape before. */
static bool note_uses(const lx_cpu *c, const lx_cpu_op *op)
{
    bool fence = false;
    for (int32_t i = 0; i < op->uses.n; i++) {
        const lx_use *u = &op->uses.arrays[i];
        lx_array_use *use = ((const lx_host_array *)u->array)->use;
        if (u->role == LX_USE_PARAMETER)
            continue;
        if (use->step == c->step && (use->width != u->width || use->rows != u->rows))
            fence = true;
        *use = (lx_array_use){c->step, u->width, u->rows};
    }
    return fence;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void want_scratch(lx_cpu *c, const lx_cpu_op *op)
{
    int64_t n = op->kind->scratch != NULL ? op->kind->scratch(&op->args) : 0;
    c->scratch_wanted = most(c->scratch_wanted, (n + 15) / 16 * 16);
    if (op->kind->columns != NULL) /* see plan.c: the rows before it may be its own */
        c->own_wanted =
            most(c->own_wanted, lx_cpu_own_scratch(lx_uses_find(&op->uses, LX_USE_IN)->width));
}

/* The next operation is the one in this place of the previous step. */
static bool is_known(const lx_cpu *c, const lx_cpu_kind *kind, const void *args)
{
    const lx_cpu_op *op = &c->ops[c->n_ops];
    return kind->op->lasting && c->n_ops < c->n_known && op->kind == kind &&
           memcmp(&op->args, args, kind->op->args_size) == 0;
}

static lx_status keep_op(lx_cpu *c, lx_cpu_op *op, const lx_cpu_kind *kind, const void *args)
{
    lx_status st = lx_op_check(kind->op, c->batch, args, &op->uses, &c->error);
    if (st != LX_OK)
        return st;
    op->kind = kind;
    op->fence = false;
    memcpy(&op->args, args, kind->op->args_size);
    want_scratch(c, op);
    return LX_OK;
}

void lx_cpu_record(lx_cpu *c, const lx_cpu_kind *kind, const void *args)
{
    if (c->failed == LX_OK && c->n_ops == c->ops_capacity)
        c->failed = grow_ops(c);
    if (c->failed != LX_OK)
        return;
    lx_cpu_op *op = &c->ops[c->n_ops];
    c->failed = is_known(c, kind, args)
                    ? lx_op_check_batch(kind->op, c->batch, args, &op->uses, &c->error)
                    : keep_op(c, op, kind, args);
    if (c->failed != LX_OK)
        return;
    c->n_ops++;
    bool fence = note_uses(c, op);
    if (op->fence != fence)
        op->fence = fence;
}

/* --- running --- */

static size_t scratch_bytes(const lx_cpu *c)
{
    return (size_t)(c->scratch_floats * c->n_threads) * sizeof(float);
}

static lx_status grow_scratch(lx_cpu *c)
{
    int64_t wanted = c->own_wanted + c->scratch_wanted;
    if (wanted <= c->scratch_floats)
        return LX_OK;
    lx_host_release(c->scratch, scratch_bytes(c));
    c->scratch_floats = wanted;
    c->scratch = lx_host_reserve(scratch_bytes(c));
    if (c->scratch != NULL)
        return LX_OK;
    c->scratch_floats = 0;
    return lx_fail(&c->error, LX_ERR_NO_MEMORY, NULL, "no memory for %lld floats of scratch",
                   (long long)wanted);
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

/* Runs the rest of a thread's range and then counts its pieces at once, as all threads want the
   cache line of the count. */
static void run_range(lx_cpu *c, lx_cpu_phase *phase, unsigned number, int owner, int thread)
{
    float *scratch = c->scratch + thread * c->scratch_floats;
    int32_t n_pieces = phase->n_pieces, n = 0;
    for (int32_t piece; (piece = take_piece(c, phase, number, owner)) >= 0; n++)
        lx_cpu_run_piece(c, phase, piece, scratch);
    if (n > 0 && atomic_fetch_add(&phase->n_done, n) + n == n_pieces)
        lx_event_count_step(&c->finished);
}

static void run_ranges_of_others(lx_cpu *c, lx_cpu_phase *phase, unsigned number, int thread)
{
    for (int i = 1; i < c->n_threads; i++)
        run_range(c, phase, number, (thread + i) % c->n_threads, thread);
}

static void ask_ahead(const lx_cpu *c, const lx_cpu_phase *phase, int thread)
{
    int32_t from, to;
    own_pieces(c, phase, thread, &from, &to);
    if (from < to)
        lx_cpu_ask_ahead(c, phase, from);
}

/* Every thread runs this: it takes pieces of the first unfinished phase until all are finished. */
static void run_step(void *context, int thread)
{
    lx_cpu *c = context;
    for (;;) {
        unsigned value = lx_event_count_value(&c->finished);
        unsigned n_finished = value - c->finished_before;
        if (n_finished >= (unsigned)c->n_phases)
            return;
        lx_cpu_phase *phase = &c->phases[n_finished];
        run_range(c, phase, value, thread, thread);
        if (lx_event_count_value(&c->finished) == value && n_finished + 1 < (unsigned)c->n_phases)
            ask_ahead(c, phase + 1, thread);
        if (!lx_event_count_soon(&c->finished, value))
            run_ranges_of_others(c, phase, value, thread);
        lx_event_count_wait(&c->finished, value);
    }
}

static void run_program(lx_cpu *c)
{
    lx_cpu_plan(c);
    c->finished_before = lx_event_count_value(&c->finished);
    lx_cpu_pool_run(c->pool, run_step, c);
}

static void keep_drawn(const lx_cpu *c)
{
    for (int32_t i = 0; i < c->n_ops; i++) {
        const lx_op *op = c->ops[i].kind->op;
        if (op->drawing == NULL)
            continue;
        lx_drawing d = op->drawing(&c->ops[i].args);
        lx_host_keep_drawn(c->batch, d.states, d.rows, d.out);
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
