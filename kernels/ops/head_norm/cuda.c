#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_head_norm_args *a = &op->args.head_norm;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->y), LX_CUDA_KEY_COLUMNS(a->x),
                lx_cuda_key_address(a->gamma), lx_cuda_key_address(a->beta),
                lx_cuda_key_pair(a->n_heads, a->d), lx_cuda_key_pair(a->kind, a->rows),
                lx_cuda_key_float(a->eps), LX_CUDA_KEY_COLUMNS(a->gate),
                lx_cuda_key_pair(a->f, a->gate_first));
}

/* A row of rounded results has n_heads * d columns, so a wider row of y has none. */
static lx_cuda_writing writes(const void *args)
{
    const lx_head_norm_args *a = args;
    return lx_head_norm_output(a).width == a->n_heads * a->d ? LX_CUDA_ROUNDED : LX_CUDA_SOME;
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_head_norm_args *a = &op->args.head_norm;
    const lx_cuda_results to = lx_cuda_results_of(c, op);
    const lx_columns y = lx_head_norm_output(a);
    return LX_CUDA_LAUNCH(c, head_norm, .y = to.f32 != NULL ? to.f32 + y.first : NULL,
                          .twin = to.rounded, .y_width = y.width, LX_CUDA_COLUMNS(x, a->x),
                          LX_CUDA_COLUMNS(gate, a->gate), .gamma = lx_array_at(a->gamma, 0),
                          .beta = lx_array_at(a->beta, 0), LX_CUDA_ROWS(c, a->rows),
                          .n_heads = a->n_heads, .d = a->d, .kind = a->kind, .f = a->f,
                          .gate_first = a->gate_first, .eps = a->eps);
}

LX_DEFINE_CUDA(head_norm, .key = key, .run = run, .writes = writes);
