#include "kernels/ops/chunk_sums/cuda.h"
#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_chunk_sums_args *a = &op->args.chunk_sums;
    w[0] = lx_cuda_key_address(a->y);
    w[1] = lx_cuda_key_address(a->states);
    w[2] = (uint64_t)a->offset;
    w[3] = lx_cuda_key_pair(a->d_key, a->d_value);
    w[4] = (uint64_t)a->chunk;
    w[5] = lx_cuda_key_float(a->scale);
    (void)lx_cuda_key_columns(lx_cuda_key_columns(lx_cuda_key_columns(w + 6, &a->q), &a->k), &a->v);
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_chunk_sums_args *a = &op->args.chunk_sums;
    lx_cuda_chunk_sums k = {.y = a->y->data,
                            .q = lx_columns_at(&a->q, 0, 0),
                            .k = lx_columns_at(&a->k, 0, 0),
                            .v = lx_columns_at(&a->v, 0, 0),
                            .q_width = a->q.width,
                            .k_width = a->k.width,
                            .v_width = a->v.width,
                            LX_CUDA_STATES(a),
                            LX_CUDA_SEQUENCES(c),
                            .position = lx_cuda_input(c, c->position),
                            .d_key = a->d_key,
                            .d_value = a->d_value,
                            .chunk = a->chunk,
                            .scale = a->scale};
    return lx_cuda_launched(c, lx_cuda_launch_chunk_sums(&k, c->target), "chunk_sums");
}

LX_DEFINE_CUDA(chunk_sums, .key = key, .run = run);
