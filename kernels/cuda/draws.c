/*
 * What all sampling operations put down for the device, a row each, and what sync() hands out.
 */
#include "kernels/cuda/cuda.h"

lx_status lx_cuda_put(lx_cuda *c, const void *data, size_t n_bytes, size_t room, size_t *at)
{
    return lx_cuda_arena_put(c, &c->inputs, data, n_bytes, room, at);
}

static lx_cuda_row row_of(const lx_sampling *s)
{
    return (lx_cuda_row){.seed = s->seed,
                         .sample = s->sample,
                         .step = s->step,
                         .temperature = s->temperature,
                         .top_p = s->top_p,
                         .min_p = s->min_p,
                         .typical_p = s->typical_p,
                         .top_k = s->top_k,
                         .forced = s->forced};
}

/* Room for the results and the rows. */
lx_status lx_cuda_put_rows(lx_cuda *c, lx_cuda_op *op)
{
    lx_drawing d = op->kind->op->drawing(&op->args);
    size_t n = (size_t)c->n_outputs, room = (size_t)c->bucket.outputs;
    lx_status st = lx_cuda_arena_put(c, &c->results, NULL, 0, room * sizeof(lx_sample), &op->out);
    if (st == LX_OK)
        st = lx_cuda_put(c, NULL, 0, room * sizeof(lx_cuda_row), &op->in);
    if (st != LX_OK)
        return st;
    lx_cuda_row *to = (void *)(c->inputs.host + op->in);
    int32_t seq = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t slot = d.states != NULL ? lx_host_keeper(c->batch, (int32_t)i, &seq) : -1;
        to[i] = row_of(&d.rows[i]);
        to[i].keep_at = slot >= 0 ? lx_drawn_place(slot, d.rows[i].step) : -1;
    }
    return LX_OK;
}

lx_status lx_cuda_note_draw(lx_cuda *c, const lx_cuda_op *op, bool with_top)
{
    lx_drawing d = op->kind->op->drawing(&op->args);
    if (c->frame->n_draws == LX_CUDA_MAX_DRAWS)
        return lx_fail(&c->error, LX_ERR_TOO_LARGE, NULL, "a step samples more than %d times",
                       LX_CUDA_MAX_DRAWS);
    c->frame->draws[c->frame->n_draws++] =
        (lx_cuda_draw){d.out, with_top ? d.rows : NULL, op->out, op->top};
    return LX_OK;
}
