#include "kernels/ops/norm/cuda.h"
#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_norm_args *a = &op->args.norm;
    w[0] = lx_cuda_key_address(a->y);
    w[1] = lx_cuda_key_address(a->x);
    w[2] = lx_cuda_key_address(a->gamma);
    w[3] = lx_cuda_key_address(a->beta);
    w[4] = lx_cuda_key_pair(a->d, a->rows);
    w[5] = lx_cuda_key_float(a->eps);
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_norm_args *a = &op->args.norm;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    lx_cuda_norm k = {.y = y.f32,
                      .twin = y.rounded,
                      .x = a->x->data,
                      .gamma = a->gamma->data,
                      .beta = a->beta->data,
                      .d = a->d,
                      .live = lx_cuda_live_rows(c, a->rows),
                      .rows = lx_cuda_row_count(c, a->rows),
                      .eps = a->eps};
    return k.rows == 0 ? LX_OK : lx_cuda_launched(c, lx_cuda_launch_norm(&k, c->target), "norm");
}

LX_DEFINE_CUDA(norm, .key = key, .run = run, .writes = lx_cuda_writes_rounded);
