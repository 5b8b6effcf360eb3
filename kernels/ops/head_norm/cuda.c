#include "kernels/ops/head_norm/cuda.h"
#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_head_norm_args *a = &op->args.head_norm;
    w[0] = lx_cuda_key_address(a->y);
    w[1] = lx_cuda_key_address(a->x.array);
    w[2] = lx_cuda_key_pair(a->x.width, a->x.first);
    w[3] = lx_cuda_key_address(a->gamma);
    w[4] = lx_cuda_key_address(a->beta);
    w[5] = lx_cuda_key_pair(a->n_heads, a->d);
    w[6] = lx_cuda_key_pair(a->kind, a->rows);
    w[7] = lx_cuda_key_float(a->eps);
    if (a->gate.array == NULL)
        return;
    *lx_cuda_key_columns(w + 8, &a->gate) = lx_cuda_key_pair(a->f, a->gate_first);
}

/* Beside columns that are not written there is no room for rounded ones. */
static lx_cuda_writing writes(const void *args)
{
    const lx_head_norm_args *a = args;
    return lx_head_norm_output(a).width == a->n_heads * a->d ? LX_CUDA_ROUNDED : LX_CUDA_SOME;
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_head_norm_args *a = &op->args.head_norm;
    const lx_cuda_results to = lx_cuda_results_of(c, op);
    lx_columns y = lx_head_norm_output(a);
    lx_cuda_head_norm k = {.y = to.f32 != NULL ? to.f32 + y.first : NULL,
                           .twin = to.rounded,
                           .x = lx_columns_at(&a->x, 0, 0),
                           .gate = lx_columns_at(&a->gate, 0, 0),
                           .gamma = lx_array_at(a->gamma, 0),
                           .beta = lx_array_at(a->beta, 0),
                           .y_width = y.width,
                           .x_width = a->x.width,
                           .gate_width = a->gate.width,
                           .live = lx_cuda_live_rows(c, a->rows),
                           .n_heads = a->n_heads,
                           .d = a->d,
                           .rows = lx_cuda_row_count(c, a->rows),
                           .kind = a->kind,
                           .f = a->f,
                           .gate_first = a->gate_first,
                           .eps = a->eps};
    return k.rows == 0 ? LX_OK
                       : lx_cuda_launched(c, lx_cuda_launch_head_norm(&k, c->target), "head_norm");
}

LX_DEFINE_CUDA(head_norm, .key = key, .run = run, .writes = writes);
