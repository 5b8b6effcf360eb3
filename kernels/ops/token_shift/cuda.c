#include "kernels/cuda/cuda.h"

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_token_shift_args *a = &op->args.token_shift;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->x), lx_cuda_key_address(a->mixes),
                lx_cuda_key_address(a->states), (uint64_t)a->offset,
                lx_cuda_key_pair(a->d, a->n_mixes));
    for (int32_t i = 0; i < a->n_mixes; i++)
        w[5 + i] = lx_cuda_key_address(a->y[i]);
}

/* No output of several is written rounded: the product that reads it rounds it. */
static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_token_shift_args *a = &op->args.token_shift;
    lx_cuda_token_shift k = {.x = a->x->data,
                             .mixes = a->mixes->data,
                             LX_CUDA_STATES(a),
                             LX_CUDA_SEQUENCES(c),
                             .branches = lx_cuda_branches_of(c),
                             .d = a->d,
                             .n_mixes = a->n_mixes};
    for (int32_t i = 0; i < a->n_mixes; i++)
        k.y[i] = a->y[i]->data;
    return lx_cuda_check(c, lx_cuda_launch_token_shift(&k, c->target), "token_shift", &c->error);
}

LX_DEFINE_CUDA(token_shift, .key = key, .run = run);
