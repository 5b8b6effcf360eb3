/*
 * Packs the rows of many sequences into steps of at most max_tokens rows. A sequence that does not
 * fit goes on in the next step from its slot's state, which gives the same bits as one pass. Slots
 * are handed out round-robin; a slot is zeroed when a sequence begins.
 */
#include "model/score.h"

#include <stdlib.h>
#include <string.h>

struct lx_scorer {
    lx_transformer *t;
    lx_states *states;
    int64_t state_rows; /* that each state has room for; 0: there are no states yet */
    int32_t max_tokens, n_slots, n_inputs;
    int32_t *seq_start, *slot, *position; /* [n_slots + 1], [n_slots], [n_slots] */
    int32_t *output_row;                  /* [max_tokens] */
    int32_t *ids;                         /* [max_tokens, n_inputs] */
    lx_sampling *sampling;                /* [max_tokens] */
    lx_sample *samples;                   /* [max_tokens] */
    float **sink;                         /* [max_tokens] where each output's result goes */
    lx_step step;
};

lx_status lx_scorer_new(lx_transformer *t, int32_t max_tokens, int32_t n_slots, lx_scorer **out,
                        lx_error *err)
{
    lx_scorer *s = calloc(1, sizeof *s);
    if (s == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a scorer");
    size_t rows = (size_t)max_tokens, slots = (size_t)n_slots;
    if (max_tokens < 1 || n_slots < 1) {
        free(s);
        return lx_fail(err, LX_ERR_INVALID, NULL, "a scorer wants rows and slots");
    }
    s->t = t;
    s->max_tokens = max_tokens;
    s->n_slots = n_slots;
    s->n_inputs = lx_transformer_model(t)->config.n_inputs;
    s->seq_start = calloc(slots + 1, sizeof *s->seq_start);
    s->slot = calloc(slots, sizeof *s->slot);
    s->position = calloc(slots, sizeof *s->position);
    s->output_row = calloc(rows, sizeof *s->output_row);
    s->ids = calloc(rows * (size_t)s->n_inputs, sizeof *s->ids);
    s->sampling = calloc(rows, sizeof *s->sampling);
    s->samples = calloc(rows, sizeof *s->samples);
    s->sink = calloc(rows, sizeof *s->sink);
    if (s->seq_start == NULL || s->slot == NULL || s->position == NULL || s->output_row == NULL ||
        s->ids == NULL || s->sampling == NULL || s->samples == NULL || s->sink == NULL) {
        lx_scorer_free(s);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a scorer");
    }
    *out = s;
    return LX_OK;
}

void lx_scorer_free(lx_scorer *s)
{
    if (s == NULL)
        return;
    lx_transformer_states_free(s->t, s->states);
    free(s->seq_start);
    free(s->slot);
    free(s->position);
    free(s->output_row);
    free(s->ids);
    free(s->sampling);
    free(s->samples);
    free(s->sink);
    free(s);
}

/* Adds row `row` of an item to the step; its prediction is wanted once the prompt is complete. */
static void add_row(lx_scorer *s, const lx_score_item *item, int32_t row)
{
    const lx_plan *plan = item->plan;
    lx_batch *b = &s->step.batch;
    int32_t *ids = s->ids + (size_t)b->n_tokens * (size_t)s->n_inputs;
    int32_t step = row - plan->n_prompt; /* which generated token this row feeds */
    if (step < 0)
        memcpy(ids, plan->prompt_ids + (size_t)row * (size_t)s->n_inputs,
               (size_t)s->n_inputs * sizeof *ids);
    else
        plan->model->task->input(plan, step, item->targets, ids);
    if (step >= -1) {
        int32_t o = b->n_outputs++;
        s->output_row[o] = b->n_tokens;
        s->sampling[o] = (lx_sampling){.forced = item->targets[step + 1], .top_p = 1.0f};
        s->sink[o] = &item->logprobs[step + 1];
    }
    b->n_tokens++;
}

/* Runs the packed step and hands out its results. */
static lx_status flush(lx_scorer *s, lx_error *err)
{
    lx_batch *b = &s->step.batch;
    if (b->n_tokens == 0)
        return LX_OK;
    s->seq_start[b->n_seqs] = b->n_tokens;
    lx_status st = lx_transformer_step(s->t, s->states, &s->step, err);
    for (int32_t o = 0; o < b->n_outputs && st == LX_OK; o++) {
        if (s->samples[o].token < 0)
            st = lx_fail(err, LX_ERR_INTERNAL, NULL, "the model's logits are not finite");
        *s->sink[o] = s->samples[o].logprob;
    }
    b->n_tokens = b->n_seqs = b->n_outputs = 0;
    return st;
}

static int32_t rows_of(const lx_score_item *item)
{
    return item->plan->n_prompt + item->plan->n_new - 1;
}

/* States with room for the longest of the items. */
static lx_status make_states(lx_scorer *s, const lx_score_item *items, int32_t n, lx_error *err)
{
    int64_t rows = 1;
    for (int32_t i = 0; i < n; i++)
        rows = rows_of(&items[i]) > rows ? rows_of(&items[i]) : rows;
    if (rows <= s->state_rows)
        return LX_OK;
    lx_transformer_states_free(s->t, s->states);
    s->states = NULL;
    s->state_rows = 0;
    lx_status st = lx_transformer_states_new(s->t, s->n_slots, rows, &s->states, err);
    if (st == LX_OK)
        s->state_rows = rows;
    return st;
}

/* All rows of an item, from the slot's empty state on. */
static lx_status add_item(lx_scorer *s, const lx_score_item *item, int32_t slot, lx_error *err)
{
    lx_batch *b = &s->step.batch;
    lx_status st = b->n_seqs == s->n_slots ? flush(s, err) : LX_OK;
    if (st == LX_OK)
        st = lx_transformer_state_zero(s->t, s->states, slot, err);
    bool opened = false;
    for (int32_t row = 0; row < rows_of(item) && st == LX_OK; row++) {
        if (b->n_tokens == s->max_tokens) {
            st = flush(s, err);
            opened = false;
        }
        if (!opened) {
            s->seq_start[b->n_seqs] = b->n_tokens;
            s->position[b->n_seqs] = row;
            s->slot[b->n_seqs++] = slot;
            opened = true;
        }
        if (st == LX_OK)
            add_row(s, item, row);
    }
    return st;
}

lx_status lx_scorer_run(lx_scorer *s, const lx_score_item *items, int32_t n, lx_error *err)
{
    s->step = (lx_step){
        .batch = {.seq_start = s->seq_start,
                  .slot = s->slot,
                  .output_row = s->output_row,
                  .position = s->position},
        .ids = s->ids,
        .sampling = s->sampling,
        .samples = s->samples,
    };
    lx_status st = make_states(s, items, n, err);
    for (int32_t i = 0; i < n && st == LX_OK; i++)
        st = add_item(s, &items[i], i % s->n_slots, err);
    return st == LX_OK ? flush(s, err) : st;
}
