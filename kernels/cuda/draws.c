/*
 * The inputs of sampling operations on the device, one structure per row, and the notes by which
 * sync() hands the results out.
 */
#include "kernels/cuda/cuda.h"

lx_status lx_cuda_put(lx_cuda *c, const void *data, size_t n_bytes, size_t room, size_t *at)
{
    return lx_cuda_arena_put(c, &c->inputs, data, n_bytes, room, at);
}

static int32_t count_of(int32_t n)
{
    return n > 0 ? n : 0;
}

/* Field by field: a large step has many rows, and a compound literal would copy each twice. */
static void put_row(lx_cuda_row *to, const lx_sampling *s, int64_t keep_at)
{
    to->seed = s->seed;
    to->sample = s->sample;
    to->step = s->step;
    to->temperature = s->temperature;
    to->top_p = s->top_p;
    to->min_p = s->min_p;
    to->typical_p = s->typical_p;
    to->top_k = s->top_k;
    to->forced = s->forced;
    to->mask = NULL;
    to->keep_at = keep_at;
    to->banned_at = to->top_at = to->bias_at = 0;
    to->allowed_at = -1;
    to->n_banned = count_of(s->n_banned);
    to->n_biases = count_of(s->n_biases);
    to->n_top = count_of(s->n_top);
}

/* Takes room for results and rows, and counts the rows' lists, which need more room. */
lx_status lx_cuda_put_rows(lx_cuda *c, lx_cuda_op *op, lx_cuda_lists *lists)
{
    lx_drawing d = op->kind->op->drawing(&op->args);
    size_t n = (size_t)c->n_outputs, room = (size_t)c->bucket.outputs;
    lx_status st = lx_cuda_arena_put(c, &c->results, NULL, 0, room * sizeof(lx_sample), &op->out);
    if (st == LX_OK)
        st = lx_cuda_put(c, NULL, 0, room * sizeof(lx_cuda_row), &op->in);
    if (st != LX_OK)
        return st;
    lx_cuda_row *to = (void *)(c->inputs.host + op->in);
    lx_cuda_lists all = {0};
    int32_t seq = 0;
    for (size_t i = 0; i < n; i++) {
        const lx_sampling *s = &d.rows[i];
        int32_t slot = d.states != NULL ? lx_batch_keeper(c->batch, (int32_t)i, &seq) : -1;
        put_row(&to[i], s, slot >= 0 ? lx_drawn_place(slot, s->step) : -1);
        all.banned += (size_t)to[i].n_banned;
        all.biases += (size_t)to[i].n_biases;
        all.top += (size_t)to[i].n_top;
        all.masks = all.masks || s->mask != NULL;
        all.allowed += s->allowed != NULL;
    }
    *lists = all;
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
