/*
 * Steps of the cuda back end that have ended: waits for them and hands their results out, in the
 * order in which they were started.
 */
#include <string.h>

#include "kernels/cuda/cuda.h"

static void hand_out(const lx_cuda_frame *f, const lx_cuda_draw *d)
{
    if (f->n_outputs > 0)
        memcpy(d->out, f->results + d->at, (size_t)f->n_outputs * sizeof *d->out);
    const lx_sample *top = (const void *)(f->results + d->top);
    for (int32_t i = 0; d->rows != NULL && i < f->n_outputs; i++) {
        const lx_sampling *s = &d->rows[i];
        if (s->n_top > 0)
            memcpy(s->top, top, (size_t)s->n_top * sizeof *top);
        top += s->n_top;
    }
}

lx_status lx_cuda_finish_step(lx_cuda *c, uint64_t step, lx_error *err)
{
    while (c->n_finished < step) {
        const lx_cuda_frame *f = &c->frames[(c->n_finished + 1) % LX_CUDA_STEPS];
        cudaError_t e = cudaEventSynchronize(f->done);
        if (e != cudaSuccess)
            return lx_cuda_lose(c, e, "a step", err);
        for (int32_t i = 0; i < f->n_draws; i++)
            hand_out(f, &f->draws[i]);
        c->n_finished++;
    }
    return LX_OK;
}

lx_status lx_cuda_finish_all(lx_cuda *c, lx_error *err)
{
    return lx_cuda_finish_step(c, c->n_ended, err);
}

lx_status lx_cuda_sync(lx_backend *be, uint64_t step, lx_error *err)
{
    lx_cuda *c = (lx_cuda *)be;
    lx_status st = lx_cuda_use(c, err);
    if (st != LX_OK)
        return st;
    /* Without the turn, so that another engine can start its step meanwhile. If a later step
       already uses the event, this step's results have been handed out. */
    cudaError_t e = cudaEventSynchronize(c->frames[step % LX_CUDA_STEPS].done);
    lx_turn_take(&c->turn);
    st = e == cudaSuccess ? lx_cuda_finish_step(c, step, err) : lx_cuda_lose(c, e, "a step", err);
    lx_turn_give(&c->turn);
    return st;
}
