#include "kernels/ops/chunk_sums/cuda.h"
#include "kernels/cuda/cuda.h"

static uint64_t *key_columns(uint64_t *w, const lx_columns *c)
{
    w[0] = lx_cuda_key_address(c->array);
    w[1] = lx_cuda_key_pair(c->width, c->first);
    return w + 2;
}

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_chunk_sums_args *a = &op->args.chunk_sums;
    w[0] = lx_cuda_key_address(a->y);
    w[1] = lx_cuda_key_address(a->states);
    w[2] = (uint64_t)a->offset;
    w[3] = lx_cuda_key_pair(a->d_key, a->d_value);
    w[4] = (uint64_t)a->chunk;
    w[5] = lx_cuda_key_float(a->scale);
    (void)key_columns(key_columns(key_columns(w + 6, &a->q), &a->k), &a->v);
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op, bool ready)
{
    const lx_chunk_sums_args *a = &op->args.chunk_sums;
    (void)ready;
    lx_cuda_chunk_sums k = {.y = a->y->data,
                            .q = a->q.array->data + a->q.first,
                            .k = a->k.array->data + a->k.first,
                            .v = a->v.array->data + a->v.first,
                            .q_width = a->q.width,
                            .k_width = a->k.width,
                            .v_width = a->v.width,
                            .states = a->states->data + a->offset,
                            .stride = a->states->stride,
                            .seq_start = lx_cuda_input(c, c->seq_start),
                            .slot = lx_cuda_input(c, c->slot),
                            .position = lx_cuda_input(c, c->position),
                            .live = &((const lx_cuda_live *)lx_cuda_input(c, 0))->seqs,
                            .n_seqs = c->bucket.seqs,
                            .d_key = a->d_key,
                            .d_value = a->d_value,
                            .chunk = a->chunk,
                            .scale = a->scale};
    return lx_cuda_launched(c, lx_cuda_launch_chunk_sums(&k, c->target), "chunk_sums");
}

const lx_cuda_kind lx_cuda_op_chunk_sums = {.op = &lx_op_chunk_sums, .key = key, .run = run};
