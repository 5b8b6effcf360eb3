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
    LX_CUDA_KEY(w, lx_cuda_key_address(a->y), lx_cuda_key_address(a->qkv),
                lx_cuda_key_address(a->states), (uint64_t)a->offset,
                lx_cuda_key_pair(a->n_heads, a->d_key), lx_cuda_key_pair(a->d_value, a->ring),
                lx_cuda_key_float(a->scale),
                lx_cuda_key_pair(a->n_patterns, lx_ring_kept(a->patterns, a->n_patterns)),
                lx_cuda_key_float(divisor_of(a)), lx_cuda_key_pair(a->by_count, a->leave_unseeing),
                op->in, /* the place of the patterns, which the device reads there */
                lx_cuda_key_address(a->distances.keys), lx_cuda_key_address(a->distances.weights),
                lx_cuda_key_pair(a->distances.n, a->distances.zeros_before),
                lx_cuda_key_pair(lx_attend_rows_key_heads(a), a->common_key));
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
    bool in_ring = a->ring > 0, by_distance = a->distances.keys != NULL;
    int32_t keys = lx_attend_rows_key_heads(a);
    return LX_CUDA_LAUNCH(
        c, attend_rows, LX_CUDA_RESULTS(y), .qkv = a->qkv->data,
        .tiles = (in_ring ? s->data : s->pool) + a->offset,
        .stride = in_ring ? s->stride : s->page_stride,
        .pages = in_ring ? NULL : lx_cuda_states_of(s)->pages, .slot_pages = s->slot_pages,
        .branches = lx_cuda_branches_of(c), .ring = a->ring / LX_ROWS_TILE,
        .kept = lx_ring_kept(a->patterns, a->n_patterns), LX_CUDA_SEQUENCES(c),
        .position = lx_cuda_input(c, c->position), .patterns = lx_cuda_input(c, op->in),
        .n_patterns = a->n_patterns, .n_heads = a->n_heads, .shared = a->n_heads / keys,
        .width = (int32_t)lx_attend_rows_width(a), .keys_at = (int32_t)lx_attend_rows_keys_at(a),
        .values_at = (int32_t)lx_attend_rows_values_at(a), .common_key = a->common_key,
        .d_key = a->d_key, .d_value = a->d_value, .scale = a->scale, .divisor = divisor_of(a),
        .by_count = a->by_count, .leave_unseeing = a->leave_unseeing,
        .zeros_before = by_distance && a->distances.zeros_before,
        .distance_keys = lx_array_at(a->distances.keys, 0),
        .distance_weights = by_distance ? a->distances.weights->data : NULL,
        .n_distances = by_distance ? a->distances.n : 0);
}

LX_DEFINE_CUDA(attend_rows, .record = record, .key = key, .run = run, .writes = writes);
