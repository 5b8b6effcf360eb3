/*
 * A step of the cpu back end: begin() takes the back end for this engine, each operation is checked
 * and appended to a program, end() lets every thread run the program on its part of the batch
 * (split.c) and gives the back end back. So sync() has nothing left to wait for.
 *
 * When threads carry their own sequences through the step without meeting, row r of an array must
 * stay the business of one thread. It does as long as an array keeps its width and its kind of row;
 * where a step uses an array again in another shape, the operation gets a fence, at which all meet.
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
    lx_cpu_op *ops = NULL;
    if (capacity <= MAX_OPS)
        ops = realloc(c->ops, (size_t)capacity * sizeof *ops);
    if (ops == NULL)
        return lx_fail(&c->error, LX_ERR_NO_MEMORY, NULL, "no memory for a step of %d operations",
                       c->n_ops + 1);
    c->ops = ops;
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
    want_scratch(c, lx_cpu_linear_scratch(a->w->cols));
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

static void run_part(void *context, int thread)
{
    const lx_cpu *c = context;
    for (int32_t i = 0; i < c->n_ops; i++) {
        if (i > 0 && c->n_threads > 1 && (c->shared || c->ops[i].fence))
            lx_cpu_pool_barrier(c->pool);
        lx_cpu_run_op(c, &c->ops[i], &c->parts[thread], c->scratch + thread * c->scratch_floats);
    }
}

lx_status lx_cpu_end(lx_backend *be, lx_error *err)
{
    lx_cpu *c = (lx_cpu *)be;
    if (c->failed == LX_OK)
        c->failed = grow_scratch(c);
    if (c->failed == LX_OK) {
        lx_cpu_split(c);
        lx_cpu_pool_run(c->pool, run_part, c);
    }
    lx_status st = c->failed;
    if (st != LX_OK && err != NULL)
        *err = c->error;
    c->batch = NULL;
    lx_turn_give(&c->turn);
    return st;
}

lx_status lx_cpu_sync(lx_backend *be, lx_error *err)
{
    (void)be;
    (void)err;
    return LX_OK;
}
