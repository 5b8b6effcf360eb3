/*
 * The engine's thread, and small functions that other threads call.
 *
 * A turn of the thread:
 *   1. ends runs that were cancelled or are late
 *   2. under the mutex: sleeps while there is no work; takes jobs out of the queue that ended or
 * that get a slot (admit.c)
 *   3. without it: ends and starts these jobs, forks samples (runs.c)
 *   4. starts one step and reads the results of an earlier one (step.c)
 *
 * While the thread has jobs, it sleeps only if all of them wait for states that are being moved
 * (moves.c). So it sees cancellations and deadlines within a step, without timers.
 */
#include <errno.h>
#include <math.h>

#include "common/clock.h"
#include "common/compute_thread.h"
#include "common/log.h"
#include "server/engine/internal.h"

enum { MAX_RETRY_S = 3600 };

int32_t lx_engine_draft_of(int64_t wanted, const lx_backend *be)
{
    if (wanted >= 0)
        return (int32_t)wanted;
    return be->ops->is_device ? 0 : LX_MAX_DRAFT / 2;
}

int32_t lx_engine_best_ahead(const lx_backend *be)
{
    return be->ops->is_device ? 2 : 0;
}

/* --- the thread --- */

/* Under the mutex, with nothing to do. False when it is time for a probe. */
static bool wait_for_change(lx_engine *e)
{
    if (e->options.probe_ns == 0 || e->n_runs > 0 || !atomic_load(&e->healthy))
        return pthread_cond_wait(&e->changed, &e->mutex) == 0;
    int64_t due = atomic_load(&e->last_step_ns) + e->options.probe_ns;
    struct timespec until = {.tv_sec = due / LX_NS_PER_S, .tv_nsec = due % LX_NS_PER_S};
    return pthread_cond_timedwait(&e->changed, &e->mutex, &until) != ETIMEDOUT;
}

/* Waits for work, or until a probe is due, and takes work from the queue. False: the engine stops.
 */
static bool take_work(lx_engine *e, int64_t *now)
{
    LX_HOLD(&e->mutex);
    e->probe_due = false;
    for (;;) {
        lx_engine_admit(e, *now);
        bool may_sleep =
            (e->n_runs == 0 || (e->awaits_moves && !lx_moves_done(e))) && !lx_stored_due(e);
        if (e->stopping || e->probe_due || e->n_admitted + e->n_dropped > 0 || !may_sleep)
            break;
        bool was_idle = e->n_runs == 0;
        e->probe_due = !wait_for_change(e);
        *now = lx_now_ns();
        if (was_idle)
            e->paced_ns = *now;
    }
    return !e->stopping;
}

static lx_status take_turn(lx_engine *e, int64_t now, lx_error *err)
{
    for (int32_t i = 0; i < e->n_dropped; i++) {
        lx_error why = {0};
        lx_status st = lx_engine_check_job(e, e->dropped[i], now, &why);
        if (st == LX_ERR_UNAVAILABLE)
            lx_job_mark_suspended(e->dropped[i]);
        lx_engine_end_job(e, e->dropped[i], 0, st, &why);
    }
    e->n_dropped = 0;
    lx_status st = LX_OK;
    for (int32_t i = 0; i < e->n_admitted; i++) { /* all become runs, so that none is lost */
        lx_status started =
            lx_runs_start(e, e->admitted[i].job, e->admitted[i].order, st == LX_OK ? err : NULL);
        st = st == LX_OK ? started : st;
    }
    e->n_admitted = 0;
    if (st == LX_OK)
        st = lx_runs_fork(e, err);
    lx_engine_publish_slots(e);
    return st == LX_OK ? lx_engine_step(e, err) : st;
}

/* Ends the jobs that were taken from the queue. */
static void end_taken(lx_engine *e, lx_status status, const lx_error *err)
{
    for (int32_t i = 0; i < e->n_dropped; i++)
        lx_engine_end_job(e, e->dropped[i], 0, status, err);
    for (int32_t i = 0; i < e->n_admitted; i++) { /* they have no slots yet */
        lx_job *job = e->admitted[i].job;
        lx_usage_count(e, *lx_job_request_note(job), -1, -(lx_job_get_params(job)->n > 1));
        lx_pages_reserve(&e->pages, -lx_job_pages(e, job));
        lx_engine_end_job(e, job, 0, status, err);
    }
    e->n_dropped = e->n_admitted = 0;
    while (e->n_runs > 0)
        lx_runs_end(e, e->run_order[0], status, err);
}

/* Computes one row of no request while there is no run, so that a lost device or bad memory is
   found before the next client comes. The slot that was freed last has its memory in use already.
 */
static lx_status probe(lx_engine *e, lx_error *err)
{
    int32_t slot = e->free_slots[e->n_free - 1];
    lx_status st = LX_OK;
    if (e->pages.n >
        0) /* the probe has the page after the pool: kept states may use pages of the pool */
        st = lx_transformer_state_map(e->transformer, e->states, slot, 1, &e->pages.n, err);
    if (st != LX_OK || lx_transformer_probe(e->transformer, e->states, slot, err) != LX_OK)
        return LX_ERR_DEVICE; /* whatever the error: one row of zeros must be possible */
    lx_counter_add(&e->metrics->probes, 1);
    atomic_store(&e->last_step_ns, lx_now_ns());
    return LX_OK;
}

/* After a failed step the states of its slots are unknown, so the runs end, and kept states are
   forgotten: the step may have been to leave them. Queued jobs end only if the device is lost. */
static void fail(lx_engine *e, lx_status status, const lx_error *err)
{
    bool lost = status == LX_ERR_DEVICE;
    lx_log(LX_LOG_ERROR, "engine %s: %s", e->model->name, err->text);
    if (lost) {
        LX_HOLD(&e->mutex); /* of lx_engine_submit, which adds no job from now on */
        atomic_store(&e->healthy, false);
    }
    lx_engine_abandon(e);
    end_taken(e, lost ? LX_ERR_DEVICE : LX_ERR_INTERNAL, err);
    lx_prefix_forget_all(e);
    if (lost)
        lx_engine_end_queued(e, LX_ERR_DEVICE, err);
}

void *lx_engine_run(void *context)
{
    lx_engine *e = context;
    lx_compute_thread();
    for (;;) {
        lx_error err = {0};
        int64_t now = lx_now_ns();
        lx_status st = lx_runs_drop(e, now, &err);
        if (st == LX_OK && !take_work(e, &now))
            break;
        if (st == LX_OK && e->probe_due)
            st = probe(e, &err);
        if (st == LX_OK)
            st = take_turn(e, now, &err);
        if (st != LX_OK)
            fail(e, st, &err);
    }
    lx_error err;
    (void)lx_fail(&err, LX_ERR_UNAVAILABLE, NULL, "the server is stopping");
    lx_engine_abandon(e);
    end_taken(e, LX_ERR_UNAVAILABLE, &err);
    lx_engine_end_queued(e, LX_ERR_UNAVAILABLE, &err);
    lx_stored_finish(e);
    return NULL;
}

/* --- any thread --- */

void lx_engine_poke(lx_engine *e)
{
    LX_HOLD(&e->mutex);
    (void)pthread_cond_signal(&e->changed);
}

void lx_engine_suspend(lx_engine *e)
{
    atomic_store(&e->suspending, true);
    lx_engine_poke(e);
}

void lx_engine_drain(lx_engine *e)
{
    LX_HOLD(&e->mutex);
    e->draining = true;
}

int64_t lx_engine_jobs(const lx_engine *e)
{
    return atomic_load(&e->n_jobs);
}

bool lx_engine_idle(lx_engine *e)
{
    return lx_engine_jobs(e) + atomic_load(&e->n_follows) == 0;
}

/* Seconds that all jobs of the engine and those that will follow them still need, if every slot has
   work: as many tokens per slot and step as lately, and one before the first steps. */
static double work_s(const lx_engine *e)
{
    int64_t ppm = atomic_load(&e->yield_ppm);
    double yield = ppm > 0 ? (double)ppm / 1e6 : 1;
    double steps = ceil((double)atomic_load(&e->work_left) / (yield * e->options.n_slots));
    return steps * lx_engine_step_s(e);
}

int32_t lx_engine_retry_after_s(const lx_engine *e)
{
    double seconds = work_s(e);
    if (seconds >= MAX_RETRY_S)
        return MAX_RETRY_S;
    return seconds <= 1 ? 1 : (int32_t)seconds + (seconds > (double)(int32_t)seconds);
}

double lx_engine_wait_s(const lx_engine *e)
{
    const lx_metrics *m = e->metrics;
    bool slot_is_free = atomic_load(&m->slots_used) < e->options.n_slots;
    /* Between the end of one job and the start of the next a slot is free for a moment. */
    return slot_is_free && atomic_load(&m->queue_length) == 0 ? 0 : work_s(e);
}

double lx_engine_step_s(const lx_engine *e)
{
    return (double)atomic_load(&e->step_ns) / (double)LX_NS_PER_S;
}

int64_t lx_engine_last_step_ns(const lx_engine *e)
{
    return atomic_load(&e->last_step_ns);
}

bool lx_engine_healthy(const lx_engine *e)
{
    return atomic_load(&e->healthy);
}
