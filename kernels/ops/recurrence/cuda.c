#include "kernels/cuda/cuda.h"

#define KEY_COLUMNS(c) LX_CUDA_KEY_COLUMNS(c), lx_cuda_key_pair((c).apart, (c).shared)

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_recurrence_args *a = &op->args.recurrence;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->y), lx_cuda_key_address(a->bonus),
                lx_cuda_key_address(a->skip), lx_cuda_key_address(a->states), (uint64_t)a->offset,
                lx_cuda_key_pair(a->n_heads, a->d_key), lx_cuda_key_pair(a->d_value, a->decay),
                lx_cuda_key_pair(a->correction, a->read), lx_cuda_key_float(a->scale),
                KEY_COLUMNS(a->q), KEY_COLUMNS(a->k), KEY_COLUMNS(a->v), KEY_COLUMNS(a->w),
                KEY_COLUMNS(a->a), KEY_COLUMNS(a->b), KEY_COLUMNS(a->beta));
}

static lx_cuda_columns columns(const lx_head_columns *c, bool used)
{
    if (!used)
        return (lx_cuda_columns){.shared = 1};
    return (lx_cuda_columns){c->array->data + c->first, c->width, c->apart, c->shared};
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_recurrence_args *a = &op->args.recurrence;
    bool pair = a->correction == LX_CORRECT_PAIR;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    lx_cuda_columns w = columns(&a->w, a->decay != LX_DECAY_NONE);
    w.width = a->decay == LX_DECAY_FIXED ? 0 : w.width;
    return LX_CUDA_LAUNCH(
        c, recurrence, LX_CUDA_RESULTS(y), .q = columns(&a->q, true), .k = columns(&a->k, true),
        .v = columns(&a->v, true), .w = w, .a = columns(&a->a, pair), .b = columns(&a->b, pair),
        .beta = columns(&a->beta, a->beta.array != NULL), .bonus = lx_array_at(a->bonus, 0),
        .skip = lx_array_at(a->skip, 0), LX_CUDA_STATES(a), LX_CUDA_SEQUENCES(c),
        .branches = lx_cuda_branches_of(c), .n_heads = a->n_heads, .d_key = a->d_key,
        .d_value = a->d_value, .decay = a->decay, .correction = a->correction, .read = a->read,
        .scale = a->scale);
}

LX_DEFINE_CUDA(recurrence, .key = key, .run = run, .writes = lx_cuda_writes_rounded);
