/*
 * One step: the scheduler's choice becomes a ragged batch, the transformer computes it, the tokens
 * go to their jobs. Nothing is allocated here.
 *
 * Row by row: a slot in its prompt feeds the plan's rows; a decoding slot feeds the row of its
 * newest token, or, when its sample has just started from a shared state, the prompt's last row.
 * The rows after which a token is due are the output rows. A scored job's targets are known, so all
 * its rows are prompt rows, each with its target forced where one is due.
 *
 * All tokens of the step are published first, then every job whose reader waits for one of them is
 * woken once: a reader sees a step's tokens of all its samples in one burst.
 */
#include "server/engine_internal.h"

#include <string.h>

#include "common/clock.h"

typedef struct batch {
    int32_t n_rows, n_seqs, n_outputs, n_prompt_rows;
} batch;

/* --- before the step -------------------------------------------------------------------------- */

int32_t lx_run_prompt_end(const lx_run *r)
{
    if (r->params->targets != NULL)
        return r->plan->n_prompt + r->params->max_new - 1;
    bool state_only = r->params->max_new == r->params->start.n_tokens;
    /* The last row is each sample's own, or that of whoever goes on from the state. */
    return r->plan->n_prompt - (r->params->n > 1 || state_only);
}

static int32_t choose_rows(lx_engine *e)
{
    lx_schedule_limits limits = {e->options.max_tokens, e->options.prompt_chunk,
                                 e->options.prompt_beside};
    for (int32_t i = 0; i < e->options.n_slots; i++) {
        const lx_slot *s = &e->slots[i];
        e->views[i] = (lx_slot_view){.phase = s->phase};
        if (s->phase == LX_SLOT_PROMPT) {
            const lx_run *r = &e->runs[s->run];
            int32_t end = lx_run_prompt_end(r), pause = lx_prefix_pause(e, r, s->prompt_row);
            e->views[i].rows_left = (pause < end ? pause : end) - s->prompt_row;
            e->views[i].order = r->order;
        }
    }
    return lx_schedule(e->views, e->options.n_slots, &limits, e->rows, e->scratch);
}

static const int32_t *sample_tokens(const lx_run *r, const lx_slot *s)
{
    const int32_t *tokens = NULL;
    (void)lx_job_tokens(r->job, s->sample, &tokens, NULL);
    return tokens;
}

/* The batch's newest row is followed by token number `step`; returns where to say which. */
static lx_sampling *add_output(lx_engine *e, batch *b, int32_t slot, int32_t step)
{
    const lx_slot *s = &e->slots[slot];
    const lx_run *r = &e->runs[s->run];
    e->output_slot[b->n_outputs] = slot;
    e->output_row[b->n_outputs] = b->n_rows - 1;
    lx_sampling *sampling = &e->sampling[b->n_outputs++];
    *sampling = (lx_sampling){
        .seed = r->params->seed,
        .sample = r->params->start.first_sample + (uint32_t)s->sample,
        .step = (uint32_t)step,
        .temperature = r->params->temperature,
        .top_p = r->params->top_p,
        .top_k = r->params->top_k,
        .forced = -1,
        .n_biases = r->params->n_biases,
        .biases = r->params->biases,
        .n_top = r->params->n_top,
        .top = lx_job_top_room(r->job, s->sample, step),
    };
    return sampling;
}

static void add_generated(lx_engine *e, batch *b, int32_t slot)
{
    const lx_slot *s = &e->slots[slot];
    const lx_run *r = &e->runs[s->run];
    lx_constraint *c = &e->constraints[slot];
    e->model->task->constrain(r->plan, s->step, sample_tokens(r, s), c);
    lx_sampling *sampling = add_output(e, b, slot, s->step);
    sampling->forced = c->forced;
    sampling->mask = c->use_mask ? e->masks[c->mask_idx] : NULL;
    sampling->n_banned = c->n_banned;
    sampling->banned = c->banned;
}

/* A row whose token is known: of the prompt, or of a scored job. */
static void add_known_row(lx_engine *e, batch *b, int32_t slot, int32_t row)
{
    const lx_run *r = &e->runs[e->slots[slot].run];
    int32_t n_prompt = r->plan->n_prompt, step = row - n_prompt + 1; /* of the token that is due */
    size_t width = (size_t)e->model->config.n_inputs;
    int32_t *ids = e->ids + (size_t)b->n_rows++ * width;
    if (row < n_prompt)
        memcpy(ids, r->plan->prompt_ids + (size_t)row * width, width * sizeof *ids);
    else
        e->model->task->input(r->plan, row - n_prompt, r->params->targets, ids);
    if (step >= 0 && r->params->targets != NULL)
        add_output(e, b, slot, step)->forced = r->params->targets[step];
}

static void add_prompt_rows(lx_engine *e, batch *b, int32_t slot, int32_t n)
{
    lx_slot *s = &e->slots[slot];
    lx_run *r = &e->runs[s->run];
    int32_t pause = lx_prefix_pause(e, r, s->prompt_row);
    for (int32_t i = 0; i < n; i++)
        add_known_row(e, b, slot, s->prompt_row++);
    s->paused = s->prompt_row == pause;
    b->n_prompt_rows += n;
    if (s->prompt_row < lx_run_prompt_end(r) || r->params->targets != NULL)
        return; /* a scored job ends with its last token */
    r->ready = r->params->n > 1;
    r->prompted = r->params->max_new == 0;
    s->phase = r->ready || r->prompted ? LX_SLOT_FREE : LX_SLOT_DECODE;
    if (s->phase == LX_SLOT_DECODE)
        add_generated(e, b, slot);
}

static void add_decode_row(lx_engine *e, batch *b, int32_t slot)
{
    const lx_slot *s = &e->slots[slot];
    const lx_run *r = &e->runs[s->run];
    size_t width = (size_t)e->model->config.n_inputs;
    int32_t *ids = e->ids + (size_t)b->n_rows * width;
    if (s->step > 0) {
        e->model->task->input(r->plan, s->step - 1, sample_tokens(r, s), ids);
    } else {
        const int32_t *last = r->plan->prompt_ids + (size_t)(r->plan->n_prompt - 1) * width;
        memcpy(ids, last, width * sizeof *ids);
        b->n_prompt_rows += s->sample == 0;
    }
    b->n_rows++;
    add_generated(e, b, slot);
}

static batch build(lx_engine *e)
{
    batch b = {0};
    for (int32_t slot = 0; slot < e->options.n_slots; slot++) {
        if (e->rows[slot] == 0)
            continue;
        e->seq_start[b.n_seqs] = b.n_rows;
        e->seq_slot[b.n_seqs++] = slot;
        if (e->slots[slot].phase == LX_SLOT_PROMPT)
            add_prompt_rows(e, &b, slot, e->rows[slot]);
        else
            add_decode_row(e, &b, slot);
    }
    e->seq_start[b.n_seqs] = b.n_rows;
    return b;
}

static lx_status compute(lx_engine *e, const batch *b, lx_error *err)
{
    lx_step step = {
        .batch = {.n_tokens = b->n_rows,
                  .n_seqs = b->n_seqs,
                  .seq_start = e->seq_start,
                  .slot = e->seq_slot,
                  .n_outputs = b->n_outputs,
                  .output_row = e->output_row},
        .ids = e->ids,
        .sampling = e->sampling,
        .samples = e->samples,
    };
    return lx_transformer_step(e->transformer, e->states, &step, err);
}

/* --- after it --------------------------------------------------------------------------------- */

static void observe_token(lx_engine *e, const lx_run *r, const lx_slot *s, int64_t now)
{
    if (r->n_tokens == 0)
        lx_histogram_observe(&e->metrics->time_to_first_token,
                             now - lx_job_get_times(r->job).submitted);
    if (s->token_ns != 0 && r->params->targets == NULL)
        lx_histogram_observe(&e->metrics->inter_token, now - s->token_ns);
}

static bool is_scored(const lx_engine *e, int32_t slot)
{
    return e->runs[e->slots[slot].run].params->targets != NULL;
}

/* The sample in the slot is complete. */
static lx_status finish_sample(lx_engine *e, int32_t slot, lx_error *err)
{
    lx_run *r = &e->runs[e->slots[slot].run];
    lx_status st = r->params->keep_state ? lx_runs_keep_state(e, slot, err) : LX_OK;
    r->n_done++;
    lx_runs_free_slot(e, slot);
    return st;
}

/* Counts in *n the tokens handed out. */
static lx_status hand_out(lx_engine *e, int32_t slot, lx_sample sample, int64_t now, int32_t *n,
                          lx_error *err)
{
    lx_slot *s = &e->slots[slot];
    lx_run *r = &e->runs[s->run];
    if (sample.token < 0) {
        r->failed = true;
        return LX_OK;
    }
    observe_token(e, r, s, now);
    r->advanced |= lx_job_push(r->job, s->sample, sample.token, sample.logprob);
    r->n_tokens++;
    s->token_ns = now;
    ++*n;
    s->step++;
    return lx_job_sample_ended(r->job, s->sample) ? finish_sample(e, slot, err) : LX_OK;
}

/* Ends the samples that wanted nothing but the state after their prompt. */
static lx_status finish_prompted(lx_engine *e, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; i < e->options.n_slots && st == LX_OK; i++) {
        if (e->slots[i].run >= 0 && e->runs[e->slots[i].run].prompted)
            st = finish_sample(e, i, err);
    }
    return st;
}

/* Ends the runs that are complete or failed and wakes the others that got a token. */
static void tell_jobs(lx_engine *e)
{
    for (int32_t i = e->oldest, newer; i >= 0; i = newer) {
        lx_run *r = &e->runs[i];
        bool advanced = r->advanced;
        newer = r->newer;
        r->advanced = false;
        if (r->failed) {
            lx_error err;
            (void)lx_fail(&err, LX_ERR_INTERNAL, NULL,
                          "the model produced a number that is not finite");
            lx_runs_end(e, i, LX_ERR_INTERNAL, &err);
        } else if (r->n_done == r->params->n) {
            lx_runs_end(e, i, LX_OK, NULL);
        } else if (advanced) {
            lx_job_notify(r->job);
        }
    }
}

static void count(lx_engine *e, const batch *b, int64_t ns)
{
    lx_metrics *m = e->metrics;
    atomic_fetch_add_explicit(&m->steps, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->step_rows, (uint64_t)b->n_rows, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->prompt_tokens, (uint64_t)b->n_prompt_rows, memory_order_relaxed);
    lx_histogram_observe(&m->step_time, ns);
    int64_t mean = atomic_load(&e->step_ns);
    atomic_store(&e->step_ns, mean == 0 ? ns : mean + (ns - mean) / 8);
}

/* Keeps the states of prompts that have paused for it. */
static lx_status keep_prefixes(lx_engine *e, const batch *b, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; i < b->n_seqs && st == LX_OK; i++)
        st = lx_prefix_keep(e, e->seq_slot[i], err);
    return st;
}

/* Hands the step's tokens to their jobs. */
static lx_status hand_out_all(lx_engine *e, const batch *b, lx_error *err)
{
    int64_t now = lx_now_ns();
    int32_t n_tokens = 0, n_scored = 0;
    lx_status st = LX_OK;
    for (int32_t i = 0; i < b->n_outputs && st == LX_OK; i++) {
        bool scored = is_scored(e, e->output_slot[i]);
        st =
            hand_out(e, e->output_slot[i], e->samples[i], now, scored ? &n_scored : &n_tokens, err);
    }
    atomic_fetch_add_explicit(&e->metrics->generated_tokens, (uint64_t)n_tokens,
                              memory_order_relaxed);
    atomic_fetch_sub(&e->work_left, n_tokens + n_scored);
    atomic_store(&e->last_step_ns, now);
    return st;
}

static lx_status compute_and_hand_out(lx_engine *e, lx_error *err)
{
    int64_t begin = lx_now_ns();
    batch b = build(e);
    lx_status st = compute(e, &b, err);
    if (st != LX_OK)
        return st;
    count(e, &b, lx_now_ns() - begin);
    st = keep_prefixes(e, &b, err);
    if (st != LX_OK)
        return st;
    return hand_out_all(e, &b, err);
}

lx_status lx_engine_step(lx_engine *e, lx_error *err)
{
    lx_status st = choose_rows(e) > 0 ? compute_and_hand_out(e, err) : LX_OK;
    if (st == LX_OK)
        st = finish_prompted(e, err);
    if (st == LX_OK)
        tell_jobs(e);
    return st;
}
