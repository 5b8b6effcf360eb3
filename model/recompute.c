/* See recompute.h. */
#include "model/recompute.h"

#include <stdlib.h>

struct lx_recompute {
    const lx_model *model;
    lx_backend *be;
    int32_t max_tokens, n_inputs;
    lx_states *work; /* of one slot, with pages for the longest sequence */
    float *state;    /* [pages of the longest sequence, LX_PAGE_TOKENS, n_inputs] */
    int32_t *ids;    /* such ids, followed by a number for each row */
};

static int64_t most_rows(const lx_model *m)
{
    return (int64_t)lx_model_state_pages(m, m->max_rows) * LX_PAGE_TOKENS;
}

static lx_status new_work(lx_recompute *r, lx_error *err)
{
    lx_state_layout layout = r->model->work;
    int32_t n = layout.page_floats > 0 ? lx_model_state_pages(r->model, r->model->max_rows) : 0;
    layout.n_pages = layout.slot_pages = n;
    lx_status st = r->be->ops->states_new(r->be, &layout, 1, &r->work, err);
    for (int32_t i = 0; i < n && st == LX_OK; i++)
        st = r->be->ops->state_map(r->be, r->work, 0, i, 1, &i);
    return st;
}

lx_status lx_recompute_new(const lx_model *m, lx_backend *be, int32_t max_tokens,
                           lx_recompute **out, lx_error *err)
{
    lx_recompute *r = calloc(1, sizeof *r);
    if (r == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a transformer");
    size_t rows = (size_t)most_rows(m), n = rows * (size_t)m->config.n_inputs;
    *r = (lx_recompute){.model = m,
                        .be = be,
                        .max_tokens = max_tokens,
                        .n_inputs = m->config.n_inputs,
                        .state = malloc(n * sizeof *r->state),
                        .ids = malloc((n + rows) * sizeof *r->ids)};
    lx_status st = r->state != NULL && r->ids != NULL
                       ? new_work(r, err)
                       : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a transformer");
    if (st != LX_OK) {
        lx_recompute_free(r);
        return st;
    }
    *out = r;
    return LX_OK;
}

void lx_recompute_free(lx_recompute *r)
{
    if (r == NULL)
        return;
    r->be->ops->states_free(r->be, r->work);
    free(r->state);
    free(r->ids);
    free(r);
}

static bool is_id(float x, int32_t size)
{
    return x >= 0 && x < (float)size && x == (float)(int32_t)x;
}

/* All rows of sequence i of the batch, to r->ids; they are kept in its state. */
static lx_status read_rows(lx_recompute *r, lx_states *states, const lx_step *s, int32_t i,
                           lx_error *err)
{
    const lx_batch *b = &s->batch;
    int64_t width = r->n_inputs, before = b->position[i] * width;
    int64_t n = (b->seq_start[i + 1] - b->seq_start[i]) * width;
    int32_t pages = lx_model_state_pages(r->model, (before + n) / width);
    const int32_t *given = s->ids + b->seq_start[i] * width;
    lx_status st = r->be->ops->state_export(r->be, states, b->slot[i], r->state,
                                            lx_model_state_pages(r->model, b->position[i]));
    for (int64_t k = 0; k < before; k++) {
        bool known = is_id(r->state[k], r->model->config.inputs[k % width].size);
        r->ids[k] = known ? (int32_t)r->state[k] : 0;
    }
    for (int64_t k = before; k < pages * r->model->state.page_floats; k++) {
        bool is_given = k < before + n;
        r->ids[k] = is_given ? given[k - before] : 0;
        if (is_given && lx_is_drawn_id(r->ids[k]))
            return lx_fail(err, LX_ERR_INVALID, NULL, "row %lld: its id is not known yet",
                           (long long)(k / width));
        r->state[k] = (float)r->ids[k];
    }
    if (st == LX_OK)
        st = r->be->ops->state_import(r->be, states, b->slot[i], r->state, pages);
    return st == LX_OK ? LX_OK : lx_fail(err, st, NULL, "slot %d has no room", b->slot[i]);
}

/* Outputs out0 .. out1 - 1 of the step, which are those of sequence i: all rows up to the last. */
static lx_status run_rows(lx_recompute *r, void *transformer, lx_recompute_run run,
                          const lx_step *s, int32_t i, int32_t out0, int32_t out1, lx_error *err)
{
    const lx_batch *b = &s->batch;
    /* From the number of a row in the batch to its position. */
    int32_t shift = b->position[i] - b->seq_start[i], slot = 0;
    int32_t n = b->output_row[out1 - 1] + shift + 1;
    int32_t *rows = r->ids + (int64_t)n * r->n_inputs; /* after the given rows */
    lx_status st = r->be->ops->state_zero(r->be, r->work, 0);
    for (int32_t from = 0; from < n && st == LX_OK; from += r->max_tokens) {
        int32_t end = n - from < r->max_tokens ? n : from + r->max_tokens, out = out0;
        int32_t seq_start[2] = {0, end - from};
        for (; out < out1 && b->output_row[out] + shift < end; out++)
            rows[out - out0] = b->output_row[out] + shift - from;
        lx_step part = {.batch = {.n_tokens = end - from,
                                  .n_seqs = 1,
                                  .seq_start = seq_start,
                                  .slot = &slot,
                                  .n_outputs = out - out0,
                                  .output_row = rows,
                                  .position = &from},
                        .ids = r->ids + (int64_t)from * r->n_inputs,
                        .sampling = s->sampling + out0,
                        .samples = s->samples + out0,
                        .logits = s->logits};
        if (s->logits != NULL)
            part.logits += (int64_t)out0 * r->model->config.head_size;
        st = run(transformer, r->work, &part, err);
        out0 = out;
    }
    return st;
}

lx_status lx_recompute_step(lx_recompute *r, void *transformer, lx_recompute_run run,
                            lx_states *states, const lx_step *s, lx_error *err)
{
    const lx_batch *b = &s->batch;
    lx_status st = LX_OK;
    int32_t out = 0;
    if (b->position == NULL)
        return lx_fail(err, LX_ERR_INVALID, NULL, "the batch has no positions");
    if (b->branch != NULL)
        return lx_fail(err, LX_ERR_UNSUPPORTED, NULL,
                       "a sequence that is recomputed cannot branch");
    for (int32_t i = 0; i < b->n_seqs && st == LX_OK; i++) {
        int64_t end = (int64_t)b->position[i] + b->seq_start[i + 1] - b->seq_start[i];
        int32_t first = out;
        if (b->position[i] < 0 || end > most_rows(r->model))
            return lx_fail(err, LX_ERR_INVALID, NULL, "a sequence of %lld rows, at most %lld",
                           (long long)end, (long long)most_rows(r->model));
        while (out < b->n_outputs && b->output_row[out] < b->seq_start[i + 1])
            out++;
        st = read_rows(r, states, s, i, err);
        if (st == LX_OK && out > first)
            st = run_rows(r, transformer, run, s, i, first, out, err);
    }
    return st;
}
