/*
 * Steps under way, and their results. Nothing is allocated here.
 *
 * A turn starts one step, if a slot has rows (batch.c), and waits for the oldest steps while more
 * than `ahead` are under way. If a run's next rows depend on a token of the newest step, the turn
 * waits for all; if it started nothing, for one.
 *
 * A run that is to end gets no more rows, and ends when none of its steps is under way. No step
 * goes beyond the known end of a sample. So a slot without steps under way has the state after its
 * newest token, except for late rows; whatever needs the state has the slot catch up first
 * (drafts.c).
 *
 * All tokens of a step are published before any reader is woken, so a reader sees them in one
 * burst.
 */
#include <assert.h>

#include "common/clock.h"
#include "server/engine/internal.h"

enum { MEAN_STEPS = 64 }; /* about so many steps count in the means of time and yield */

static lx_frame *frame_of(lx_engine *e, uint64_t number)
{
    return &e->frames[number % ((uint64_t)e->options.ahead + 1)];
}

/* --- results of a step --- */

static void observe_token(lx_engine *e, const lx_run *r, const lx_slot *s, int64_t now)
{
    if (r->n_tokens == 0 && !r->params->follows)
        lx_histogram_observe(&e->metrics->time_to_first_token,
                             now - lx_job_get_times(r->job).submitted);
    if (s->token_ns != 0 && r->params->targets == NULL)
        lx_histogram_observe(&e->metrics->inter_token, now - s->token_ns);
}

static void free_finished(lx_engine *e, int32_t slot)
{
    e->runs[e->slots[slot].run].n_done++;
    lx_runs_free_slot(e, slot);
}

/* The slot's sample is complete. Its state may still be wanted, or be on its way to the job. */
static lx_status finish_sample(lx_engine *e, int32_t slot, lx_error *err)
{
    const lx_run *r = &e->runs[e->slots[slot].run];
    bool wants_state = r->params->keep_state || lx_prefix_keeps_answers(e, r);
    if (wants_state && !lx_drafts_catch_up(e, slot))
        return LX_OK;
    lx_status st = r->params->keep_state ? lx_runs_keep_state(e, slot, err) : LX_OK;
    if (st == LX_OK)
        st = lx_prefix_keep_answer(e, slot, err);
    if (e->slots[slot].moves > 0)
        lx_slot_enter(e, slot, LX_SLOT_LEAVING);
    else
        free_finished(e, slot);
    return st;
}

/* Takes the moves that are done. */
static lx_status take_moves(lx_engine *e, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t slot = 0; st == LX_OK && (slot = lx_moves_take(e, false, &st, err)) >= 0;) {
        if (e->runs[e->slots[slot].run].awaits_state)
            st = lx_prefix_arrived(e, slot, st, err);
        else if (e->slots[slot].phase == LX_SLOT_LEAVING)
            free_finished(e, slot);
    }
    return st;
}

typedef struct counts {
    int32_t generated, scored; /* tokens handed out */
    int32_t work;              /* those of them that count in work_left */
} counts;

/* Whether the sample goes on. */
static bool push_token(lx_engine *e, int32_t slot, lx_sample sample, int64_t now, counts *n)
{
    lx_slot *s = &e->slots[slot];
    lx_run *r = &e->runs[s->run];
    assert(r->phase != LX_RUN_SAVED);
    if (sample.token < 0)
        r->phase = LX_RUN_FAILED;
    if (r->phase == LX_RUN_FAILED)
        return false;
    bool scored = lx_job_tokens(r->job, s->sample, NULL, NULL) < r->params->n_targets;
    n->scored += scored;
    n->generated += !scored;
    n->work += !r->params->follows;
    observe_token(e, r, s, now);
    lx_drafts_learn(e, r, s, sample.token);
    r->advanced |= lx_job_push(r->job, s->sample, sample.token, sample.logprob);
    r->n_tokens++;
    s->token_ns = now;
    return !lx_job_sample_ended(r->job, s->sample);
}

/* Hands out the tokens of one slot from output *at on, up to the first one that the next row did
   not assume. Then *at is at the next slot's outputs. */
static lx_status hand_out(lx_engine *e, const lx_frame *f, int32_t *at, int64_t now, counts *n,
                          lx_error *err)
{
    int32_t slot = f->output_slot[*at];
    const lx_run *r = &e->runs[e->slots[slot].run];
    int64_t before = r->n_tokens;
    bool goes_on = true;
    for (; *at < f->step.batch.n_outputs && f->output_slot[*at] == slot; ++*at)
        goes_on = goes_on && push_token(e, slot, f->samples[*at], now, n) &&
                  (f->guess[*at] < 0 || f->guess[*at] == f->samples[*at].token);
    if (r->phase == LX_RUN_FAILED)
        return LX_OK;
    lx_drafts_settle(e, slot, (int32_t)(r->n_tokens - before));
    bool ended = lx_job_sample_ended(r->job, e->slots[slot].sample);
    return ended ? finish_sample(e, slot, err) : LX_OK;
}

/* The slots that caught up in this step have no late rows any more. */
static lx_status end_catching_up(lx_engine *e, const lx_frame *f, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; i < f->step.batch.n_seqs && st == LX_OK; i++) {
        lx_slot *s = &e->slots[f->seq_slot[i]];
        if (s->phase != LX_SLOT_CATCH_UP)
            continue;
        lx_slot_enter(e, f->seq_slot[i], LX_SLOT_DECODE);
        s->late = 0;
        if (lx_job_sample_ended(e->runs[s->run].job, s->sample))
            st = finish_sample(e, f->seq_slot[i], err);
    }
    return st;
}

/* Ends the samples that want no token. */
static lx_status finish_prompted(lx_engine *e, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; i < e->total_slots && st == LX_OK; i++) {
        if (e->slots[i].phase == LX_SLOT_PROMPTED && lx_slot_is_idle(&e->slots[i]))
            st = finish_sample(e, i, err);
    }
    return st;
}

/* With finite weights, numbers overflow only if the client's state has absurd ones. A grammar may
   allow no token. */
static void end_overflown(lx_engine *e, int32_t run)
{
    lx_error err = {0};
    lx_status st = LX_ERR_INTERNAL;
    const char *stuck = lx_plan_stuck(e->runs[run].plan);
    if (stuck != NULL)
        st = lx_fail(&err, LX_ERR_INVALID, lx_plan_shape(e->runs[run].plan)->field, "%s", stuck);
    else if (e->runs[run].params->start.rows > 0)
        st = lx_fail(&err, LX_ERR_INVALID, "state",
                     "the state cannot be used: the numbers in it are so large that the model "
                     "overflows");
    else
        (void)lx_fail(&err, st, NULL, "the model produced a number that is not finite");
    lx_runs_end(e, run, st, &err);
}

/* Ends runs that are complete or failed, and wakes the readers of other runs that got a token. */
static void tell_jobs(lx_engine *e)
{
    for (int32_t k = 0, i; k < e->n_runs; k += e->run_order[k] == i) { /* one that ends leaves */
        i = e->run_order[k];
        lx_run *r = &e->runs[i];
        bool advanced = r->advanced;
        r->advanced = false;
        if (r->phase == LX_RUN_FAILED) {
            if (r->under_way == 0)
                end_overflown(e, i);
        } else if (r->n_done == r->params->n) {
            lx_runs_end(e, i, LX_OK, NULL);
        } else if (advanced) {
            lx_job_notify(r->job);
        }
    }
}

/* A step's share of the time in which the engine had work. It includes the time between two steps:
   on a busy machine that is most of what a client waits for. The mean spans a second at least,
   because steps are slow for a moment when many requests arrive together. */
static void measure_pace(lx_engine *e, int64_t now)
{
    int64_t ns = now - e->paced_ns, mean = atomic_load(&e->step_ns);
    int64_t in_a_second = mean > 0 ? LX_NS_PER_S / mean : 0;
    int64_t most = in_a_second > MEAN_STEPS ? in_a_second : MEAN_STEPS;
    e->paced_ns = now;
    e->n_averaged = e->n_averaged < most ? e->n_averaged + 1 : most;
    atomic_store(&e->step_ns, mean + (ns - mean) / e->n_averaged);
}

/* Steps follow each other on the device, so a step's time begins when the one before is done. */
static void count(lx_engine *e, const lx_frame *f)
{
    lx_metrics *m = e->metrics;
    int64_t now = lx_now_ns(), begin = f->begin_ns > e->done_ns ? f->begin_ns : e->done_ns;
    int64_t ns = now - begin;
    e->done_ns = now;
    lx_counter_add(&m->steps, 1);
    lx_counter_add(&m->step_rows, f->step.batch.n_tokens);
    lx_counter_add(&m->prompt_tokens, f->n_prompt_rows);
    lx_histogram_observe(&m->step_time, ns);
    lx_prefix_count_spared(e, f->n_prompt_rows, (double)ns / f->step.batch.n_tokens);
    if (f->n_prompt_rows == 0)
        lx_step_cost_observe(&e->drafts.cost, f->step.batch.n_tokens, ns);
    measure_pace(e, now);
}

/* In a step a slot makes no token of a prompt, and several where guesses are right. So its yield is
   measured over many steps. Jobs that follow others use slots and yield nothing: of the jobs that
   wait it is not known yet how many will follow them, so the yield of their tokens is that much
   smaller. */
static void measure_yield(lx_engine *e, int64_t n_slots, int64_t n_tokens)
{
    e->busy_slots += (double)n_slots - e->busy_slots / MEAN_STEPS;
    e->busy_tokens += (double)n_tokens - e->busy_tokens / MEAN_STEPS;
    if (e->busy_slots > 0)
        atomic_store(&e->yield_ppm, (int64_t)(1e6 * e->busy_tokens / e->busy_slots));
}

static lx_status hand_out_all(lx_engine *e, const lx_frame *f, lx_error *err)
{
    int64_t now = lx_now_ns();
    counts n = {0};
    lx_status st = LX_OK;
    for (int32_t i = 0; i < f->step.batch.n_outputs && st == LX_OK;)
        st = hand_out(e, f, &i, now, &n, err);
    lx_counter_add(&e->metrics->generated_tokens, n.generated);
    atomic_fetch_sub(&e->work_left, n.work);
    measure_yield(e, f->step.batch.n_seqs, n.work);
    atomic_store(&e->last_step_ns, now);
    return st;
}

/* --- steps under way --- */

/* Starts the step, and keeps the states of prompts that pause in it or after it: the device copies
 * them then. */
static lx_status start(lx_engine *e, lx_frame *f, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; i < f->step.batch.n_seqs && st == LX_OK; i++)
        st = lx_prefix_branch(e, f, i, err);
    if (st == LX_OK)
        st = lx_transformer_start(e->transformer, e->states, &f->step, &f->number, err);
    e->n_started += st == LX_OK;
    for (int32_t i = 0; i < f->step.batch.n_seqs && st == LX_OK; i++)
        st = lx_prefix_keep(e, f->seq_slot[i], f->position[i], err);
    return st;
}

/* The oldest step under way is done. */
static lx_frame *retire(lx_engine *e)
{
    lx_frame *f = frame_of(e, ++e->n_done);
    for (int32_t i = 0; i < f->step.batch.n_seqs; i++)
        lx_slot_count(e, f->seq_slot[i], -1, 0);
    return f;
}

static lx_status finish_oldest(lx_engine *e, lx_error *err)
{
    lx_status st = lx_transformer_wait(e->transformer, frame_of(e, e->n_done + 1)->number, err);
    if (st != LX_OK)
        return st;
    const lx_frame *f = retire(e);
    count(e, f);
    st = end_catching_up(e, f, err);
    return st == LX_OK ? hand_out_all(e, f, err) : st;
}

void lx_engine_abandon(lx_engine *e)
{
    lx_status st = LX_OK;
    if (e->n_done < e->n_started)
        st = lx_transformer_wait(e->transformer, frame_of(e, e->n_started)->number, NULL);
    (void)st; /* done or failed: nothing writes to the jobs' memory any more */
    while (e->n_done < e->n_started)
        (void)retire(e);
    while (lx_moves_pending(e))
        (void)lx_moves_take(e, true, &st, NULL);
}

/* How many steps may stay under way in this turn. */
static uint64_t may_stay(const lx_engine *e, const lx_frame *started)
{
    uint64_t under_way = e->n_started - e->n_done;
    if (started == NULL)
        return under_way > 0 ? under_way - 1 : 0;
    return started->awaited ? 0 : (uint64_t)e->options.ahead;
}

lx_status lx_engine_step(lx_engine *e, lx_error *err)
{
    lx_frame *f = frame_of(e, e->n_started + 1);
    lx_status st = take_moves(e, err);
    f->begin_ns = lx_now_ns();
    bool started = st == LX_OK && lx_engine_batch(e, f);
    if (started)
        st = start(e, f, err);
    e->awaits_moves = !started && e->n_started == e->n_done && lx_moves_pending(e);
    uint64_t stay = may_stay(e, started ? f : NULL);
    while (st == LX_OK && e->n_started - e->n_done > stay)
        st = finish_oldest(e, err);
    if (st == LX_OK)
        st = finish_prompted(e, err);
    if (st == LX_OK)
        tell_jobs(e);
    return st == LX_OK ? lx_stored_save(e, err) : st;
}
