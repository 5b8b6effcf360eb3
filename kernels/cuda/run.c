/*
 * Recorded operations as kernels on the stream. Offsets become pointers, and arguments those of
 * kernels/ops/NAME/cuda.h. Nothing here allocates or waits.
 */
#include "kernels/cuda/cuda.h"

const void *lx_cuda_input(const lx_cuda *c, size_t at)
{
    return c->inputs.device + at;
}

lx_cuda_branches lx_cuda_branches_of(const lx_cuda *c)
{
    if (c->batch->branch == NULL || c->captured)
        return (lx_cuda_branches){NULL, NULL};
    return (lx_cuda_branches){lx_cuda_input(c, c->branch), lx_cuda_input(c, c->branch_row)};
}

int32_t lx_cuda_row_count(const lx_cuda *c, lx_rows rows)
{
    return rows == LX_ROWS_TOKENS ? c->bucket.tokens : c->bucket.outputs;
}

const int32_t *lx_cuda_live_rows(const lx_cuda *c, lx_rows rows)
{
    const lx_cuda_live *l = lx_cuda_input(c, 0);
    return rows == LX_ROWS_TOKENS ? &l->tokens : &l->outputs;
}

/*
 * The planner's first rule: a value that only products read, which round it, is written to its
 * array in rounded form only. Only arrays of rows_new may hold such values: other arrays must keep
 * f32 values after the step.
 */

static lx_cuda_writing writing_of(const lx_cuda_op *op)
{
    return op->kind->writes != NULL ? op->kind->writes(&op->args) : LX_CUDA_SOME;
}

static int32_t times_named(const lx_cuda_op *op, const lx_array *a)
{
    int32_t n = 0;
    for (int32_t i = 0; i < op->uses.n; i++)
        n += op->uses.arrays[i].array == a;
    return n;
}

static bool is_alike(const lx_use *a, const lx_use *b)
{
    return a != NULL && a->array == b->array && a->rows == b->rows && a->width == b->width;
}

static bool takes_rounded(const lx_cuda_op *op, const lx_use *y)
{
    return is_alike(lx_uses_find(&op->uses, LX_USE_IN), y) && op->kind->takes_rounded != NULL &&
           op->kind->takes_rounded(&op->args);
}

/* The end of the operations that read the result of `op`, if only products read it; else NULL. */
static lx_cuda_op *readers_end(const lx_cuda *c, lx_cuda_op *op)
{
    lx_cuda_op *end = NULL;
    const lx_use *y = lx_uses_find(&op->uses, LX_USE_OUT);
    if (writing_of(op) != LX_CUDA_ROUNDED || lx_cuda_room(y->array) == 0 ||
        times_named(op, y->array) != 1)
        return NULL;
    for (lx_cuda_op *o = op + 1; o < c->ops + c->n_ops; o++) {
        int32_t n = times_named(o, y->array);
        if (n == 0)
            continue;
        if (n == 1 && takes_rounded(o, y))
            end = o + 1;
        else if (n == 1 && is_alike(lx_uses_find(&o->uses, LX_USE_OUT), y) &&
                 writing_of(o) != LX_CUDA_SOME)
            return end; /* the next value */
        else
            return NULL;
    }
    return end;
}

static void plan(lx_cuda *c)
{
    for (int32_t i = 0; i < c->n_ops; i++)
        c->ops[i].takes = false;
    for (int32_t i = 0; i < c->n_ops; i++) {
        lx_cuda_op *op = &c->ops[i], *end = readers_end(c, op);
        op->rounds = end != NULL;
        for (lx_cuda_op *o = op + 1; end != NULL && o < end; o++)
            o->takes = o->takes || times_named(o, lx_uses_find(&op->uses, LX_USE_OUT)->array) > 0;
    }
}

/*
 * The second rule: a value that a product of the library reads next, and other operations later, is
 * written in both forms, and c->ready names that product. Our own product rounds as it reads.
 */
static uint16_t *twin(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_cuda_op *next = op + 1;
    if (c->own || next == c->ops + c->n_ops || writing_of(op) != LX_CUDA_ROUNDED ||
        !takes_rounded(next, lx_uses_find(&op->uses, LX_USE_OUT)))
        return NULL;
    c->ready = next;
    return c->rounded.data;
}

lx_cuda_results lx_cuda_results_of(lx_cuda *c, const lx_cuda_op *op)
{
    float *y = lx_uses_find(&op->uses, LX_USE_OUT)->array->data;
    if (op->rounds)
        return (lx_cuda_results){NULL, (uint16_t *)y};
    return (lx_cuda_results){y, twin(c, op)};
}

lx_cuda_writing lx_cuda_writes_rounded(const void *args)
{
    (void)args;
    return LX_CUDA_ROUNDED;
}

const uint16_t *lx_cuda_rounded_input(const lx_cuda *c, const lx_cuda_op *op)
{
    if (!c->is_ready)
        return NULL;
    if (op->takes)
        return (const uint16_t *)lx_uses_find(&op->uses, LX_USE_IN)->array->data;
    return c->rounded.data;
}

/* Every operation declares first the array whose rows it computes or reads. */
static lx_status run_op(lx_cuda *c, const lx_cuda_op *op)
{
    c->is_ready = c->ready == op || op->takes;
    c->ready = NULL;
    if (lx_cuda_row_count(c, op->uses.arrays[0].rows) == 0)
        return LX_OK;
    return op->kind->run(c, op);
}

lx_status lx_cuda_run_ops(lx_cuda *c, cudaStream_t target)
{
    lx_status st = LX_OK;
    c->target = target;
    plan(c);
    for (int32_t i = 0; st == LX_OK && i < c->n_ops; i++)
        st = run_op(c, &c->ops[i]);
    return st;
}
