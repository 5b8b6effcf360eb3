#include "kernels/ops/attend_rows/cuda.h"
#include "kernels/cuda/cuda.h"
#include "kernels/row_ranges.h"

static lx_status record(lx_cuda *c, lx_cuda_op *op)
{
    const lx_attend_rows_args *a = &op->args.attend_rows;
    size_t n_bytes = (size_t)a->n_patterns * sizeof *a->patterns;
    return lx_cuda_put(c, a->patterns, n_bytes, n_bytes, &op->in);
}

static float divisor_of(const lx_attend_rows_args *a)
{
    return a->weighting == LX_WEIGHT_RELU2 ? a->divisor : 0.0f;
}

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_attend_rows_args *a = &op->args.attend_rows;
    w[0] = lx_cuda_key_address(a->y);
    w[1] = lx_cuda_key_address(a->qkv);
    w[2] = lx_cuda_key_address(a->states);
    w[3] = (uint64_t)a->offset;
    w[4] = lx_cuda_key_pair(a->n_heads, a->d_key);
    w[5] = lx_cuda_key_pair(a->d_value, a->ring);
    w[6] = lx_cuda_key_float(a->scale);
    w[7] = lx_cuda_key_pair(a->n_patterns, lx_ring_kept(a->patterns, a->n_patterns));
    w[8] = lx_cuda_key_float(divisor_of(a));
    w[9] = lx_cuda_key_pair(a->by_count, a->leave_unseeing);
    w[10] = op->in; /* where the patterns are; which they are, the device reads there */
    w[11] = lx_cuda_key_address(a->distances.keys);
    w[12] = lx_cuda_key_address(a->distances.weights);
    w[13] = lx_cuda_key_pair(a->distances.n, a->distances.zeros_before);
    w[14] = (uint64_t)lx_attend_rows_key_heads(a);
}

static lx_cuda_writing writes(const void *args)
{
    return ((const lx_attend_rows_args *)args)->leave_unseeing ? LX_CUDA_SOME : LX_CUDA_ROUNDED;
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_attend_rows_args *a = &op->args.attend_rows;
    const lx_states *s = a->states;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    bool in_ring = a->ring > 0;
    int32_t keys = lx_attend_rows_key_heads(a);
    lx_cuda_attend_rows k = {.y = y.f32,
                             .twin = y.rounded,
                             .qkv = a->qkv->data,
                             .tiles = (in_ring ? s->data : s->pool) + a->offset,
                             .stride = in_ring ? s->stride : s->page_stride,
                             .pages = in_ring ? NULL : lx_cuda_states_of(s)->pages,
                             .slot_pages = s->slot_pages,
                             .ring = a->ring / LX_ROWS_TILE,
                             .kept = lx_ring_kept(a->patterns, a->n_patterns),
                             LX_CUDA_SEQUENCES(c),
                             .position = lx_cuda_input(c, c->position),
                             .patterns = lx_cuda_input(c, op->in),
                             .n_patterns = a->n_patterns,
                             .n_heads = a->n_heads,
                             .shared = a->n_heads / keys,
                             .width = (int32_t)lx_attend_rows_width(a),
                             .keys_at = a->n_heads * a->d_key,
                             .values_at = (a->n_heads + keys) * a->d_key,
                             .d_key = a->d_key,
                             .d_value = a->d_value,
                             .scale = a->scale,
                             .divisor = divisor_of(a),
                             .by_count = a->by_count,
                             .leave_unseeing = a->leave_unseeing};
    if (a->distances.keys != NULL) {
        k.zeros_before = a->distances.zeros_before;
        k.distance_keys = a->distances.keys->data;
        k.distance_weights = a->distances.weights->data;
        k.n_distances = a->distances.n;
    }
    return lx_cuda_launched(c, lx_cuda_launch_attend_rows(&k, c->target), "attend_rows");
}

LX_DEFINE_CUDA(attend_rows, .record = record, .key = key, .run = run, .writes = writes);
