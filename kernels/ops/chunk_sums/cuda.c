#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_chunk_sums_args *a = &op->args.chunk_sums;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->y), lx_cuda_key_address(a->states), (uint64_t)a->offset,
                lx_cuda_key_pair(a->d_key, a->d_value), (uint64_t)a->chunk,
                lx_cuda_key_float(a->scale), LX_CUDA_KEY_COLUMNS(a->q), LX_CUDA_KEY_COLUMNS(a->k),
                LX_CUDA_KEY_COLUMNS(a->v));
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_chunk_sums_args *a = &op->args.chunk_sums;
    return LX_CUDA_LAUNCH(c, chunk_sums, .y = a->y->data, LX_CUDA_COLUMNS(q, a->q),
                          LX_CUDA_COLUMNS(k, a->k), LX_CUDA_COLUMNS(v, a->v), LX_CUDA_STATES(a),
                          LX_CUDA_SEQUENCES(c), .position = lx_cuda_input(c, c->position),
                          .d_key = a->d_key, .d_value = a->d_value, .chunk = a->chunk,
                          .scale = a->scale);
}

LX_DEFINE_CUDA(chunk_sums, .key = key, .run = run);
