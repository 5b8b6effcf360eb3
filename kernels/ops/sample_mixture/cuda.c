#include "kernels/cuda/cuda.h"

static lx_status record(lx_cuda *c, lx_cuda_op *op)
{
    lx_cuda_lists none; /* a mixture has no ids to ban or to list */
    lx_status st = lx_cuda_put_rows(c, op, &none);
    return st == LX_OK ? lx_cuda_note_draw(c, op, false) : st;
}

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_sample_mixture_args *a = &op->args.sample_mixture;
    LX_CUDA_KEY(w, lx_cuda_key_address(a->parameters),
                lx_cuda_key_pair(a->n_components, a->n_levels), op->in, op->out,
                lx_cuda_key_address(a->states));
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_sample_mixture_args *a = &op->args.sample_mixture;
    return LX_CUDA_LAUNCH(c, sample_mixture, .parameters = a->parameters->data,
                          LX_CUDA_DRAWS(c, op, a), .n = a->n_components, .levels = a->n_levels);
}

LX_DEFINE_CUDA(sample_mixture, .record = record, .key = key, .run = run);
