#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_bonus_args *a = &op->args.bonus;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->y), lx_cuda_key_address(a->u),
                lx_cuda_key_pair(a->n_heads, a->d_key), (uint64_t)a->d_value,
                LX_CUDA_KEY_COLUMNS(a->x), LX_CUDA_KEY_COLUMNS(a->q), LX_CUDA_KEY_COLUMNS(a->k),
                LX_CUDA_KEY_COLUMNS(a->v), LX_CUDA_KEY_COLUMNS(a->z));
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_bonus_args *a = &op->args.bonus;
    const lx_cuda_results y = lx_cuda_results_of(c, op);
    return LX_CUDA_LAUNCH(c, bonus, LX_CUDA_RESULTS(y), LX_CUDA_COLUMNS(x, a->x),
                          LX_CUDA_COLUMNS(q, a->q), LX_CUDA_COLUMNS(k, a->k),
                          LX_CUDA_COLUMNS(v, a->v), LX_CUDA_COLUMNS(z, a->z), .u = a->u->data,
                          LX_CUDA_ROWS(c, LX_ROWS_TOKENS), .n_heads = a->n_heads, .d_key = a->d_key,
                          .d_value = a->d_value);
}

LX_DEFINE_CUDA(bonus, .key = key, .run = run, .writes = lx_cuda_writes_rounded);
