#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_rotary_args *a = &op->args.rotary;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->x), lx_cuda_key_address(a->turns),
                lx_cuda_key_pair(a->width, a->first), lx_cuda_key_pair(a->apart, a->n_heads),
                (uint64_t)a->d);
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_rotary_args *a = &op->args.rotary;
    return LX_CUDA_LAUNCH(c, rotary, .x = a->x->data + a->first, .turns = a->turns->data,
                          .seq_start = lx_cuda_input(c, c->seq_start),
                          .position = lx_cuda_input(c, c->position), .live = lx_cuda_input(c, 0),
                          .width = a->width, .rows = lx_cuda_row_count(c, LX_ROWS_TOKENS),
                          .n_heads = a->n_heads, .apart = a->apart, .d = a->d);
}

LX_DEFINE_CUDA(rotary, .key = key, .run = run);
