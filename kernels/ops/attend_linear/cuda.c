#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_attend_linear_args *a = &op->args.attend_linear;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->y), lx_cuda_key_address(a->qkv),
                lx_cuda_key_address(a->states), (uint64_t)a->offset,
                lx_cuda_key_pair(a->n_heads, a->d_key),
                lx_cuda_key_pair(a->d_value, a->feature_map), lx_cuda_key_float(a->eps));
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_attend_linear_args *a = &op->args.attend_linear;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    return LX_CUDA_LAUNCH(c, attend_linear, LX_CUDA_RESULTS(y), .qkv = a->qkv->data,
                          LX_CUDA_STATES(a), LX_CUDA_SEQUENCES(c),
                          .branches = lx_cuda_branches_of(c), .n_heads = a->n_heads,
                          .d_key = a->d_key, .d_value = a->d_value,
                          .feature_map = (int32_t)a->feature_map, .eps = a->eps);
}

LX_DEFINE_CUDA(attend_linear, .key = key, .run = run, .writes = lx_cuda_writes_rounded);
