#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_selective_scan_args *a = &op->args.selective_scan;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->y), LX_CUDA_KEY_COLUMNS(a->x), LX_CUDA_KEY_COLUMNS(a->t),
                LX_CUDA_KEY_COLUMNS(a->b), LX_CUDA_KEY_COLUMNS(a->c), lx_cuda_key_address(a->a),
                lx_cuda_key_address(a->skip), lx_cuda_key_address(a->states), (uint64_t)a->offset,
                lx_cuda_key_pair(a->d, a->d_key));
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_selective_scan_args *a = &op->args.selective_scan;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    return LX_CUDA_LAUNCH(c, selective_scan, LX_CUDA_RESULTS(y), LX_CUDA_COLUMNS(x, a->x),
                          LX_CUDA_COLUMNS(t, a->t), LX_CUDA_COLUMNS(b, a->b),
                          LX_CUDA_COLUMNS(c, a->c), .a = a->a->data, .skip = a->skip->data,
                          LX_CUDA_STATES(a), LX_CUDA_SEQUENCES(c),
                          .branches = lx_cuda_branches_of(c), .d = a->d, .d_key = a->d_key);
}

LX_DEFINE_CUDA(selective_scan, .key = key, .run = run, .writes = lx_cuda_writes_rounded);
