/*
 * One recorded operation as kernels on the stream: offsets become pointers, arguments those of
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

lx_status lx_cuda_launched(lx_cuda *c, cudaError_t e, const char *what)
{
    return e == cudaSuccess ? LX_OK : lx_cuda_lose(c, e, what, &c->error);
}

bool lx_cuda_is_capturing(const lx_cuda *c)
{
    return c->target == c->capture;
}

/*
 * The planner's rule: what the next operation takes as its main input, in the same shape and
 * rounded, is written rounded too, and c->ready says so to the next one.
 */
uint16_t *lx_cuda_twin(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_cuda_op *next = op + 1;
    if (next == c->ops + c->n_ops || next->kind->takes_rounded == NULL)
        return NULL;
    const lx_use *y = lx_uses_find(&op->uses, LX_USE_OUT);
    const lx_use *x = lx_uses_find(&next->uses, LX_USE_IN);
    if (x->array != y->array || x->rows != y->rows || x->width != y->width ||
        !next->kind->takes_rounded(&next->args))
        return NULL;
    c->ready = next;
    return c->rounded.data;
}

static lx_status run_op(lx_cuda *c, const lx_cuda_op *op)
{
    bool ready = c->ready == op;
    c->ready = NULL;
    return op->kind->run(c, op, ready);
}

lx_status lx_cuda_run_ops(lx_cuda *c, cudaStream_t target)
{
    lx_status st = LX_OK;
    c->target = target;
    for (int32_t i = 0; st == LX_OK && i < c->n_ops; i++)
        st = run_op(c, &c->ops[i]);
    return st;
}
