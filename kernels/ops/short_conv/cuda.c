#include "kernels/ops/short_conv/cuda.h"
#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_short_conv_args *a = &op->args.short_conv;
    w[0] = lx_cuda_key_address(a->y);
    w[1] = lx_cuda_key_address(a->x.array);
    w[2] = lx_cuda_key_pair(a->x.width, a->x.first);
    w[3] = lx_cuda_key_address(a->weights);
    w[4] = lx_cuda_key_address(a->bias);
    w[5] = lx_cuda_key_address(a->states);
    w[6] = (uint64_t)a->offset;
    w[7] = lx_cuda_key_pair(a->d, a->taps);
    w[8] = a->f;
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_short_conv_args *a = &op->args.short_conv;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    lx_cuda_short_conv k = {.y = y.f32,
                            .twin = y.rounded,
                            .x = a->x.array->data + a->x.first,
                            .x_width = a->x.width,
                            .weights = a->weights->data,
                            .bias = lx_array_at(a->bias, 0),
                            LX_CUDA_STATES(a),
                            LX_CUDA_SEQUENCES(c),
                            .branches = lx_cuda_branches_of(c),
                            .d = a->d,
                            .taps = a->taps,
                            .f = a->f};
    return lx_cuda_launched(c, lx_cuda_launch_short_conv(&k, c->target), "short_conv");
}

LX_DEFINE_CUDA(short_conv, .key = key, .run = run, .writes = lx_cuda_writes_rounded);
