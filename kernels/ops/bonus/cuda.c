#include "kernels/ops/bonus/cuda.h"
#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_bonus_args *a = &op->args.bonus;
    w[0] = lx_cuda_key_address(a->y);
    w[1] = lx_cuda_key_address(a->u);
    w[2] = lx_cuda_key_pair(a->n_heads, a->d_key);
    w[3] = (uint64_t)a->d_value;
    w = lx_cuda_key_columns(lx_cuda_key_columns(w + 4, &a->x), &a->q);
    w = lx_cuda_key_columns(lx_cuda_key_columns(w, &a->k), &a->v);
    if (a->z.array != NULL)
        (void)lx_cuda_key_columns(w, &a->z);
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_bonus_args *a = &op->args.bonus;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    lx_cuda_bonus k = {.y = y.f32,
                       .twin = y.rounded,
                       .x = lx_columns_at(&a->x, 0, 0),
                       .q = lx_columns_at(&a->q, 0, 0),
                       .k = lx_columns_at(&a->k, 0, 0),
                       .v = lx_columns_at(&a->v, 0, 0),
                       .z = lx_columns_at(&a->z, 0, 0),
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

LX_DEFINE_CUDA(bonus, .key = key, .run = run, .writes = lx_cuda_writes_rounded);
