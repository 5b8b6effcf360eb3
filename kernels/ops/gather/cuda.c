#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_gather_args *a = &op->args.gather;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->y), lx_cuda_key_address(a->x), (uint64_t)a->d,
                lx_cuda_key_pair(a->width, a->column));
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_gather_args *a = &op->args.gather;
    return LX_CUDA_LAUNCH(c, gather, .y = a->y->data + a->column, .x = a->x->data,
                          .row = lx_cuda_input(c, c->output_row), .d = a->d, .width = a->width,
                          LX_CUDA_ROWS(c, LX_ROWS_OUTPUTS));
}

LX_DEFINE_CUDA(gather, .key = key, .run = run);
