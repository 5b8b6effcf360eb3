#include "kernels/ops/sample_mixture/cuda.h"
#include "kernels/cuda/cuda.h"

static lx_status record(lx_cuda *c, lx_cuda_op *op)
{
    lx_cuda_lists none; /* a mixture knows of no ids */
    lx_status st = lx_cuda_put_rows(c, op, &none);
    return st == LX_OK ? lx_cuda_note_draw(c, op, false) : st;
}

static void key(const lx_cuda_op *op, uint64_t *w)
{
    const lx_sample_mixture_args *a = &op->args.sample_mixture;
    w[0] = lx_cuda_key_address(a->parameters);
    w[1] = lx_cuda_key_pair(a->n_components, a->n_levels);
    w[2] = op->in;
    w[3] = op->out;
    w[4] = lx_cuda_key_address(a->states);
}

static lx_status run(lx_cuda *c, const lx_cuda_op *op)
{
    const lx_sample_mixture_args *a = &op->args.sample_mixture;
    lx_cuda_sample_mixture k = {.parameters = a->parameters->data,
                                .rows = lx_cuda_input(c, op->in),
                                .out = (void *)(c->results.device + op->out),
                                .drawn = a->states != NULL ? a->states->drawn : NULL,
                                .live = lx_cuda_live_rows(c, LX_ROWS_OUTPUTS),
                                .n_rows = c->bucket.outputs,
                                .n = a->n_components,
                                .levels = a->n_levels};
    return k.n_rows == 0 ? LX_OK
                         : lx_cuda_launched(c, lx_cuda_launch_sample_mixture(&k, c->target),
                                            "sample_mixture");
}

LX_DEFINE_CUDA(sample_mixture, .record = record, .key = key, .run = run);
