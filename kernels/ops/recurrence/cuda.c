#include "kernels/ops/recurrence/cuda.h"
#include "kernels/cuda/cuda.h"

static uint64_t *key_columns(uint64_t *w, const lx_head_columns *c)
{
    w[0] = lx_cuda_key_address(c->array);
    w[1] = lx_cuda_key_pair(c->width, c->first);
    w[2] = lx_cuda_key_pair(c->apart, c->shared);
    return w + 3;
}

/* What is not looked at is no part of it. */
static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_recurrence_args *a = &op->args.recurrence;
    w[0] = lx_cuda_key_address(a->y);
    w[1] = lx_cuda_key_address(a->bonus);
    w[2] = lx_cuda_key_address(a->skip);
    w[3] = lx_cuda_key_address(a->states);
    w[4] = (uint64_t)a->offset;
    w[5] = lx_cuda_key_pair(a->n_heads, a->d_key);
    w[6] = lx_cuda_key_pair(a->d_value, a->decay);
    w[7] = lx_cuda_key_pair(a->correction, a->read);
    w[8] = lx_cuda_key_float(a->scale);
    w = key_columns(key_columns(key_columns(w + 9, &a->q), &a->k), &a->v);
    if (a->decay != LX_DECAY_NONE)
        w = key_columns(w, &a->w);
    if (a->correction == LX_CORRECT_PAIR)
        w = key_columns(key_columns(w, &a->a), &a->b);
    if (a->beta.array != NULL)
        (void)key_columns(w, &a->beta);
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
    lx_cuda_recurrence k = {.y = y.f32,
                            .twin = y.rounded,
                            .q = columns(&a->q, true),
                            .k = columns(&a->k, true),
                            .v = columns(&a->v, true),
                            .w = columns(&a->w, a->decay != LX_DECAY_NONE),
                            .a = columns(&a->a, pair),
                            .b = columns(&a->b, pair),
                            .beta = columns(&a->beta, a->beta.array != NULL),
                            .bonus = lx_array_at(a->bonus, 0),
                            .skip = lx_array_at(a->skip, 0),
                            LX_CUDA_STATES(a),
                            LX_CUDA_SEQUENCES(c),
                            .branches = lx_cuda_branches_of(c),
                            .n_heads = a->n_heads,
                            .d_key = a->d_key,
                            .d_value = a->d_value,
                            .decay = a->decay,
                            .correction = a->correction,
                            .read = a->read,
                            .scale = a->scale};
    if (a->decay == LX_DECAY_FIXED)
        k.w.width = 0;
    return lx_cuda_launched(c, lx_cuda_launch_recurrence(&k, c->target), "recurrence");
}

LX_DEFINE_CUDA(recurrence, .key = key, .run = run, .writes = lx_cuda_writes_rounded);
