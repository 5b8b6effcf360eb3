#include "kernels/ops/bonus/cuda.h"
#include "kernels/cuda/cuda.h"

static uint64_t *key_columns(uint64_t *w, const lx_columns *c)
{
    w[0] = lx_cuda_key_address(c->array);
    w[1] = lx_cuda_key_pair(c->width, c->first);
    return w + 2;
}

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_bonus_args *a = &op->args.bonus;
    w[0] = lx_cuda_key_address(a->y);
    w[1] = lx_cuda_key_address(a->u);
    w[2] = lx_cuda_key_pair(a->n_heads, a->d_key);
    w[3] = (uint64_t)a->d_value;
    w = key_columns(key_columns(w + 4, &a->x), &a->q);
    w = key_columns(key_columns(w, &a->k), &a->v);
    if (a->z.array != NULL)
        (void)key_columns(w, &a->z);
}

static lx_cuda_writing writes(const void *args)
{
    (void)args;
    return LX_CUDA_ROUNDED;
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op, bool ready)
{
    const lx_bonus_args *a = &op->args.bonus;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    (void)ready;
    lx_cuda_bonus k = {.y = y.f32,
                       .twin = y.rounded,
                       .x = a->x.array->data + a->x.first,
                       .q = a->q.array->data + a->q.first,
                       .k = a->k.array->data + a->k.first,
                       .v = a->v.array->data + a->v.first,
                       .z = a->z.array != NULL ? a->z.array->data + a->z.first : NULL,
                       .u = a->u->data,
                       .x_width = a->x.width,
                       .q_width = a->q.width,
                       .k_width = a->k.width,
                       .v_width = a->v.width,
                       .z_width = a->z.width,
                       .live = lx_cuda_live_rows(c, LX_ROWS_TOKENS),
                       .rows = lx_cuda_row_count(c, LX_ROWS_TOKENS),
                       .n_heads = a->n_heads,
                       .d_key = a->d_key,
                       .d_value = a->d_value};
    return lx_cuda_launched(c, lx_cuda_launch_bonus(&k, c->target), "bonus");
}

const lx_cuda_kind lx_cuda_op_bonus = {
    .op = &lx_op_bonus, .key = key, .run = run, .writes = writes};
