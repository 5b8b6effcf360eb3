/*
 * Runs begin, fork and end.
 *
 * A run's first slot computes the prompt. With several samples it becomes the prompt slot: each
 * sample gets a copy of its state when admit.c grants a slot, and the last sample gets the prompt
 * slot itself. Full pages of a growing state are shared, and only the page that samples write is
 * copied.
 */
#include <assert.h>

#include "common/clock.h"
#include "server/engine/internal.h"

void lx_runs_init(lx_engine *e)
{
    int32_t n = e->total_slots;
    for (int32_t i = 0; i < n; i++) {
        e->slots[i] = (lx_slot){.run = -1, .pages = -1, .state = i, .second = -1};
        e->free_slots[i] = n - 1 - i;
        e->run_order[i] = i;
    }
    e->n_free = n;
}

/* --- slots --- */

/* Takes a free slot, with the n_shared pages of a chain and new ones. Of the n_reserved pages it
   gives back the pages that other runs use too. */
static lx_status take_slot(lx_engine *e, int32_t run, int32_t shared, int32_t n_shared,
                           int32_t n_reserved, int32_t *out, lx_error *err)
{
    int32_t slot = e->free_slots[--e->n_free], n = e->runs[run].pages, n_new = n - n_shared;
    e->slots[slot] = (lx_slot){
        .run = run, .sample = -1, .state = slot, .second = -1, .order = e->next_slot_order++};
    e->runs[run].n_slots++;
    *out = slot;
    int32_t n_used = n_new + lx_pages_share(&e->pages, LX_PAGES_RUN, shared);
    lx_prefix_make_room(e, n_new);
    e->slots[slot].pages = lx_pages_extend(&e->pages, LX_PAGES_RUN, shared, n_new);
    lx_pages_reserve(&e->pages, n_used - n_reserved);
    if (n == 0)
        return LX_OK;
    lx_pages_list(&e->pages, e->slots[slot].pages, n, e->page_list);
    return lx_transformer_state_map(e->transformer, e->states, slot, n, e->page_list, err);
}

void lx_runs_free_slot(lx_engine *e, int32_t slot)
{
    lx_slot_enter(e, slot, LX_SLOT_FREE);
    e->runs[e->slots[slot].run].n_slots--;
    lx_pages_reserve(&e->pages, -lx_pages_drop(&e->pages, LX_PAGES_RUN, e->slots[slot].pages));
    lx_drafts_give_back(e, slot);
    e->slots[slot] = (lx_slot){.run = -1, .pages = -1, .state = slot, .second = -1};
    e->free_slots[e->n_free++] = slot;
}

/* The slots for which the run will still ask. */
static int32_t pending(const lx_engine *e, const lx_run *r)
{
    bool in_prompt = r->params->n > 1 && !lx_run_is_ready(e, r);
    return r->params->n - r->next_sample - in_prompt;
}

static void start_sample(lx_engine *e, lx_run *r, int32_t slot)
{
    lx_slot_enter(e, slot, LX_SLOT_DECODE);
    e->slots[slot].order = e->next_slot_order++;
    e->slots[slot].sample = r->next_sample++;
    e->slots[slot].step = r->params->start.n_tokens;
}

lx_status lx_runs_keep_state(lx_engine *e, int32_t slot, lx_error *err)
{
    const lx_slot *s = &e->slots[slot];
    const lx_run *r = &e->runs[s->run];
    int32_t rows = lx_slot_rows(s, r);
    float *room = lx_job_state_room(r->job, s->sample, rows);
    if (room == NULL || rows == 0)
        return LX_OK;
    return lx_moves_ask(e, &(lx_move){.slot = slot, .rows = rows, .to = room}, err);
}

/* --- runs --- */

static int32_t new_run(lx_engine *e, lx_job *job, uint64_t order)
{
    int32_t i = e->run_order[e->n_runs++];
    e->runs[i] = (lx_run){.job = job,
                          .plan = lx_job_plan(job),
                          .params = lx_job_get_params(job),
                          .first_slot = -1,
                          .pages = lx_job_pages(e, job),
                          .shared_pages = lx_job_shared_pages(e, job),
                          .request = *lx_job_request_note(job),
                          .first_row = lx_job_get_params(job)->start.rows,
                          .order = order};
    return i;
}

/* kept: the back end's slot to start from, -1: none. */
static lx_status first_state(lx_engine *e, const lx_run *r, int32_t kept, int32_t slot,
                             lx_error *err)
{
    const lx_job_start *start = &r->params->start;
    if (start->rows > 0)
        return lx_moves_ask(e, &(lx_move){.slot = slot, .rows = start->rows, .from = start->state},
                            err);
    if (r->awaits_state) {
        lx_prefix_key key = {
            .owner = lx_run_owner(e, r), .ids = r->plan->prompt_ids, .n_rows = r->first_row};
        return lx_moves_ask(e, &(lx_move){.slot = slot, .rows = r->first_row, .key = key}, err);
    }
    if (kept >= 0)
        return lx_transformer_state_copy(e->transformer, e->states, slot, kept, r->first_row, err);
    return lx_transformer_state_zero(e->transformer, e->states, slot, err);
}

/* The run's first slot computes prompt rows, if some are left. */
static void begin_in_slot(lx_engine *e, lx_run *r, int32_t slot)
{
    const lx_job_start *start = &r->params->start;
    lx_slot *s = &e->slots[slot];
    bool prompt = start->n_tokens == 0 && r->first_row < lx_run_prompt_end(r);
    s->prompt_row = r->first_row;
    s->step = start->n_tokens;
    r->first_slot = slot;
    lx_slot_enter(e, slot, prompt ? LX_SLOT_PROMPT : lx_run_after_prompt(r));
    if (r->params->n > 1)
        e->n_pending += pending(e, r);
    else
        s->sample = r->next_sample++;
}

lx_status lx_runs_start(lx_engine *e, lx_job *job, uint64_t order, lx_error *err)
{
    int32_t run = new_run(e, job, order), slot = -1, n_shared = 0;
    lx_run *r = &e->runs[run];
    int32_t kept = lx_prefix_begin(e, r);
    int32_t shared = lx_prefix_shared(e, kept, r->first_row, &n_shared);
    lx_status st = take_slot(e, run, shared, n_shared, r->pages, &slot, err);
    begin_in_slot(e, r, slot);
    lx_job_mark(job, LX_JOB_STARTED, atomic_load(&e->metrics->steps));
    lx_job_times t = lx_job_get_times(job);
    if (!e->runs[run].params->follows)
        lx_histogram_observe(&e->metrics->queue_time, t.started - t.submitted);
    lx_counter_add(&e->metrics->queue_steps, (int64_t)(t.started_step - t.submitted_step));
    return st == LX_OK ? first_state(e, r, kept, slot, err) : st;
}

/* A slot for the run's next sample, with a copy of the shared prompt's state. */
static lx_status copy_prompt_slot(lx_engine *e, int32_t run, int32_t *slot, lx_error *err)
{
    const lx_run *r = &e->runs[run];
    const lx_slot *from = &e->slots[r->first_slot];
    int32_t n = r->shared_pages;
    int32_t shared = lx_pages_before(&e->pages, from->pages, r->pages - n);
    lx_status st = take_slot(e, run, shared, n, r->pages - n, slot, err);
    if (st != LX_OK)
        return st;
    e->slots[*slot].prompt_row = from->prompt_row;
    return lx_transformer_state_copy(e->transformer, e->states, *slot, r->first_slot,
                                     lx_slot_rows(from, r), err);
}

static lx_status fork_run(lx_engine *e, int32_t run, lx_error *err)
{
    lx_run *r = &e->runs[run];
    lx_status st = LX_OK;
    while (r->granted > 0 && st == LX_OK && e->slots[r->first_slot].moves == 0) {
        bool last = r->next_sample == r->params->n - 1;
        int32_t slot = r->first_slot;
        if (!last)
            st = copy_prompt_slot(e, run, &slot, err);
        start_sample(e, r, slot); /* after a failure too: the slot took the grant */
        r->granted--, e->n_granted--, e->n_pending--;
        if (last) {
            r->first_slot = -1;
            lx_usage_count(e, r->request, 0, -1);
        }
    }
    return st;
}

lx_status lx_runs_fork(lx_engine *e, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; i < e->n_runs && e->n_granted > 0 && st == LX_OK; i++)
        st = fork_run(e, e->run_order[i], err);
    return st;
}

void lx_runs_end(lx_engine *e, int32_t run, lx_status status, const lx_error *err)
{
    lx_run *r = &e->runs[run];
    bool complete = r->n_done == r->params->n; /* then its slots are free already */
    assert(r->under_way == 0);
    e->n_pending -= pending(e, r);
    for (int32_t i = 0; i < e->total_slots && !complete; i++)
        if (e->slots[i].run == run)
            lx_runs_free_slot(e, i);
    lx_usage_count(e, r->request, -r->granted, -(r->params->n > 1 && r->first_slot >= 0));
    /* Granted samples without a slot have reserved pages, but the last one has the prompt slot's.
     */
    bool last = r->granted > 0 && r->next_sample + r->granted == r->params->n;
    lx_pages_reserve(&e->pages, -(r->granted - last) * (r->pages - r->shared_pages));
    e->n_granted -= r->granted;
    lx_job *job = r->job;
    int64_t n_tokens = r->n_tokens;
    for (int32_t i = 0, gap = 0; i < e->n_runs; i++) { /* the younger ones move up */
        gap += e->run_order[i] == run;
        e->run_order[i] = i + gap < e->n_runs ? e->run_order[i + gap] : run;
    }
    e->n_runs--;
    lx_engine_end_job(e, job, n_tokens, status, err);
}

lx_status lx_runs_drop(lx_engine *e, int64_t now, lx_error *err)
{
    for (int32_t k = 0, i; k < e->n_runs; k += e->run_order[k] == i) { /* one that ends leaves */
        i = e->run_order[k];
        lx_run *r = &e->runs[i];
        lx_error why = {0};
        lx_status st = lx_engine_check_job(e, r->job, now, &why);
        if (r->phase == LX_RUN_OPEN || r->phase == LX_RUN_ENDING)
            r->phase = st == LX_OK ? LX_RUN_OPEN : LX_RUN_ENDING;
        if (st == LX_OK || r->under_way > 0)
            continue; /* its slots and its job's memory are still in use */
        if (st == LX_ERR_UNAVAILABLE && r->phase == LX_RUN_ENDING) {
            if (!lx_drafts_catch_up(e, r->first_slot))
                continue;
            r->phase = LX_RUN_SAVED;
            lx_status saved = lx_runs_keep_state(e, r->first_slot, err); /* n is 1 */
            if (saved != LX_OK)
                return saved;
            if (r->under_way > 0)
                continue;
        }
        if (st == LX_ERR_UNAVAILABLE)
            lx_job_mark_suspended(r->job);
        lx_runs_end(e, i, st, &why);
    }
    return LX_OK;
}
