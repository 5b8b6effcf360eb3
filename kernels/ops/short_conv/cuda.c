#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_short_conv_args *a = &op->args.short_conv;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->y), LX_CUDA_KEY_COLUMNS(a->x),
                lx_cuda_key_address(a->weights), lx_cuda_key_address(a->bias),
                lx_cuda_key_address(a->states), (uint64_t)a->offset,
                lx_cuda_key_pair(a->d, a->taps), a->f);
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_short_conv_args *a = &op->args.short_conv;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    return LX_CUDA_LAUNCH(
        c, short_conv, LX_CUDA_RESULTS(y), LX_CUDA_COLUMNS(x, a->x), .weights = a->weights->data,
        .bias = lx_array_at(a->bias, 0), LX_CUDA_STATES(a), LX_CUDA_SEQUENCES(c),
        .branches = lx_cuda_branches_of(c), .d = a->d, .taps = a->taps, .f = a->f);
}

LX_DEFINE_CUDA(short_conv, .key = key, .run = run, .writes = lx_cuda_writes_rounded);
