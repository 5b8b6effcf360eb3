#include "kernels/ops/gather/cuda.h"
#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_gather_args *a = &op->args.gather;
    w[0] = lx_cuda_key_address(a->y);
    w[1] = lx_cuda_key_address(a->x);
    w[2] = (uint64_t)a->d;
    w[3] = (uint64_t)a->width << 32 | (uint32_t)a->column;
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_gather_args *a = &op->args.gather;
    lx_cuda_gather k = {.y = a->y->data + a->column,
                        .x = a->x->data,
                        .row = lx_cuda_input(c, c->output_row),
                        .d = a->d,
                        .width = a->width,
                        .live = lx_cuda_live_rows(c, LX_ROWS_OUTPUTS),
                        .rows = c->bucket.outputs};
    return k.rows == 0 ? LX_OK
                       : lx_cuda_launched(c, lx_cuda_launch_gather(&k, c->target), "gather");
}

LX_DEFINE_CUDA(gather, .key = key, .run = run);
