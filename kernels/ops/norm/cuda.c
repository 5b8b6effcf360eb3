#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_norm_args *a = &op->args.norm;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->y), lx_cuda_key_address(a->x),
                lx_cuda_key_address(a->gamma), lx_cuda_key_address(a->beta),
                lx_cuda_key_pair(a->d, a->rows), lx_cuda_key_float(a->eps));
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_norm_args *a = &op->args.norm;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    return LX_CUDA_LAUNCH(c, norm, LX_CUDA_RESULTS(y), .x = a->x->data, .gamma = a->gamma->data,
                          .beta = a->beta->data, .d = a->d, LX_CUDA_ROWS(c, a->rows),
                          .eps = a->eps);
}

LX_DEFINE_CUDA(norm, .key = key, .run = run, .writes = lx_cuda_writes_rounded);
