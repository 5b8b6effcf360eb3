/*
 * The engine: its queue, its thread and the functions other threads call; start.c makes and ends
 * it.
 *
 * A turn of the thread:
 *   1. end running jobs that were cancelled or are late
 *   2. under the mutex: sleep while there is nothing at all; go through the queue, taking out
 *      cancelled and late jobs and those that get a slot now (admit.c)
 *   3. outside it: end the former, start the latter, fork samples (runs.c)
 *   4. start one batch and read the results of the one `ahead` steps before (step.c)
 * Without any job it sleeps, and computes one row every probe_ns, so that a device that was lost
 * meanwhile is known before the next client comes.
 * The thread never sleeps while a job is with it, unless all its jobs wait for states that are on
 * their way (moves.c), so cancellations and deadlines are noticed within
 * a step without timers.
 *
 * The queue's bound counts jobs that must wait. A job that is submitted while a slot is free and
 * unclaimed (credit) is sure to get it in the next turn and takes no place in the queue, so that
 * what is accepted does not depend on how fast the thread wakes up, and max_queue = 0 means "only
 * if there is room".
 *
 * Wake callbacks run outside the mutex: a callback may take a lock that its owner holds while it
 * calls lx_engine_submit.
 */
#include "server/engine/engine.h"

#include <errno.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/compute_thread.h"
#include "common/log.h"
#include "server/engine/internal.h"

enum { MAX_RETRY_S = 3600 };

static int64_t total_tokens(const lx_job *job)
{
    const lx_job_params *p = lx_job_get_params(job);
    return (int64_t)p->n * (p->max_new - p->start.n_tokens);
}

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

static void publish_slots(lx_engine *e)
{
    int32_t used = e->n_active < e->options.n_slots ? e->n_active : e->options.n_slots;
    atomic_store_explicit(&e->metrics->slots_used, used, memory_order_relaxed);
    int64_t pages = e->pages.n - atomic_load(&e->pages.left);
    atomic_store_explicit(&e->metrics->pool_used, pages * lx_engine_page_bytes(e),
                          memory_order_relaxed);
    pages = e->pages.n_used[LX_PAGES_KEPT];
    atomic_store_explicit(&e->metrics->pool_kept, pages * lx_engine_page_bytes(e),
                          memory_order_relaxed);
}

/* Under the mutex: jobs that wait, or take turns with others for a slot. */
static int32_t n_waiting(const lx_engine *e)
{
    return e->n_queue - e->n_sure + e->n_beyond;
}

/* Under the mutex. */
static void publish_queue(lx_engine *e)
{
    atomic_store_explicit(&e->metrics->queue_length, n_waiting(e), memory_order_relaxed);
}

/* Likewise, the engine's thread only. */
static void count_beyond(lx_engine *e)
{
    int32_t n = e->n_active - e->options.n_slots, n_runs = e->total_slots - e->n_free_runs;
    n_runs += e->n_admitted; /* about to be */
    e->n_beyond = n < n_runs ? n : n_runs - 1;
    if (e->n_beyond < 0)
        e->n_beyond = 0;
    publish_queue(e);
}

void lx_engine_end_job(lx_engine *e, lx_job *job, int64_t n_tokens, lx_status status,
                       const lx_error *err)
{
    atomic_fetch_sub(&e->work_left, total_tokens(job) - n_tokens);
    atomic_fetch_sub(&e->n_jobs, 1);
    publish_slots(e); /* before its readers are woken: they find its slots free */
    lx_job_mark_ended(job, atomic_load(&e->metrics->steps));
    (void)pthread_mutex_lock(&e->mutex);
    lx_usage_leave(e, job);
    count_beyond(e);
    (void)pthread_mutex_unlock(&e->mutex);
    lx_job_finish(job, status, err);
    lx_job_notify(job);
    lx_job_unref(job);
}

/* --- the thread --- */

/* Under the mutex, with nothing to do. False when it is time for a probe. */
static bool wait_for_change(lx_engine *e)
{
    if (e->options.probe_ns == 0 || e->oldest >= 0 || !atomic_load(&e->healthy))
        return pthread_cond_wait(&e->changed, &e->mutex) == 0;
    int64_t due = atomic_load(&e->last_step_ns) + e->options.probe_ns;
    struct timespec until = {.tv_sec = due / LX_NS_PER_S, .tv_nsec = due % LX_NS_PER_S};
    return pthread_cond_timedwait(&e->changed, &e->mutex, &until) != ETIMEDOUT;
}

/* Under the mutex. */
static bool may_sleep(const lx_engine *e)
{
    return e->oldest < 0 || (e->awaits_moves && !lx_moves_done(e));
}

/* Waits for work, or until a probe is due, and takes it from the queue; false when the engine is to
 * stop. */
static bool take_work(lx_engine *e, int64_t *now)
{
    (void)pthread_mutex_lock(&e->mutex);
    lx_engine_admit(e, *now); /* also tells submit about slots that became free */
    count_beyond(e);
    e->probe_due = false;
    while (!e->stopping && !e->probe_due && e->n_admitted + e->n_dropped == 0 && may_sleep(e)) {
        e->probe_due = !wait_for_change(e);
        *now = lx_now_ns();
        lx_engine_admit(e, *now);
        count_beyond(e);
    }
    bool go_on = !e->stopping;
    (void)pthread_mutex_unlock(&e->mutex);
    return go_on;
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
            lx_runs_start(e, e->admitted[i], e->admitted_order[i], st == LX_OK ? err : NULL);
        st = st == LX_OK ? started : st;
    }
    e->n_admitted = 0;
    if (st == LX_OK)
        st = lx_runs_fork(e, err);
    publish_slots(e);
    return st == LX_OK ? lx_engine_step(e, err) : st;
}

/* Ends the jobs that were taken from the queue. */
static void end_taken(lx_engine *e, lx_status status, const lx_error *err)
{
    for (int32_t i = 0; i < e->n_dropped; i++)
        lx_engine_end_job(e, e->dropped[i], 0, status, err);
    for (int32_t i = 0; i < e->n_admitted; i++) { /* they have no slots yet */
        int32_t request = *lx_job_request_note(e->admitted[i]);
        lx_usage_count_active(e, request, -1);
        lx_usage_count_prompt_slots(e, request, -(lx_job_get_params(e->admitted[i])->n > 1));
        lx_pages_reserve(&e->pages, -lx_job_pages(e, e->admitted[i]));
        lx_engine_end_job(e, e->admitted[i], 0, status, err);
    }
    e->n_dropped = e->n_admitted = 0;
    while (e->oldest >= 0)
        lx_runs_end(e, e->oldest, status, err);
}

/* Ends the jobs in the queue; submit refuses by now, so that no other comes behind them. */
static void end_queued(lx_engine *e, lx_status status, const lx_error *err)
{
    for (;;) {
        (void)pthread_mutex_lock(&e->mutex);
        lx_job *job = e->n_queue > 0 ? e->queue[--e->n_queue].job : NULL;
        e->n_sure = 0;
        publish_queue(e);
        (void)pthread_mutex_unlock(&e->mutex);
        if (job == NULL)
            break;
        lx_engine_end_job(e, job, 0, status, err);
    }
}

/* A failed step leaves the states of its slots in doubt, so the running jobs end. Those in the
   queue go on, unless the device is lost. */
static void fail(lx_engine *e, lx_status status, const lx_error *err)
{
    bool lost = status == LX_ERR_DEVICE;
    lx_log(LX_LOG_ERROR, "engine %s: %s", e->model->name, err->text);
    if (lost) {
        (void)pthread_mutex_lock(&e->mutex);
        atomic_store(&e->healthy, false);
        (void)pthread_mutex_unlock(&e->mutex);
    }
    lx_engine_abandon(e);
    end_taken(e, lost ? LX_ERR_DEVICE : LX_ERR_INTERNAL, err);
    if (lost)
        end_queued(e, LX_ERR_DEVICE, err);
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
            st = lx_engine_probe(e, &err);
        if (st == LX_OK)
            st = take_turn(e, now, &err);
        if (st != LX_OK)
            fail(e, st, &err);
    }
    lx_error err;
    (void)lx_fail(&err, LX_ERR_UNAVAILABLE, NULL, "the server is stopping");
    lx_engine_abandon(e);
    end_taken(e, LX_ERR_UNAVAILABLE, &err);
    end_queued(e, LX_ERR_UNAVAILABLE, &err);
    return NULL;
}

/* --- any thread --- */

/* Under the mutex: takes a sure slot or a place in the queue. */
static lx_status reserve(lx_engine *e, const lx_job *job, lx_error *err)
{
    if (e->draining)
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the server is stopping");
    if (!atomic_load(&e->healthy))
        return lx_fail(err, LX_ERR_DEVICE, NULL, "the device this model runs on has failed");
    int32_t n_pages = lx_job_first_pages(e, job);
    bool large = lx_fair_is_large(e->pages.n, lx_job_pages(e, job));
    int32_t kept_back = large ? e->pages.n - lx_fair_most_pages(e->pages.n) : 0;
    if (e->credit > 0 && e->page_credit >= n_pages + kept_back) {
        int32_t n = lx_job_get_params(job)->n;
        e->page_credit -= n_pages;
        e->credit = n < e->credit ? e->credit - n : 0;
        e->n_sure++;
        return LX_OK;
    }
    if (n_waiting(e) >= e->options.max_queue)
        return lx_fail(err, LX_ERR_BUSY, NULL,
                       "all slots are in use and %d requests are waiting: try again later",
                       n_waiting(e));
    return LX_OK;
}

lx_status lx_engine_submit(lx_engine *e, lx_job *job, lx_error *err)
{
    if (lx_job_plan(job)->model != e->model)
        return lx_fail(err, LX_ERR_INVALID, "model", "the request was made for another model");
    int64_t page_bytes = lx_engine_page_bytes(e);
    int32_t most = lx_fair_most_pages(e->pages.n);
    if (lx_job_first_pages(e, job) > most || lx_job_pages(e, job) > e->slot_pages)
        return lx_fail(err, LX_ERR_INVALID, "max_tokens",
                       "the request needs %lld bytes for its states, more than the %lld that one "
                       "request may have of %lld (--state-mb)",
                       (long long)(lx_job_first_pages(e, job) * page_bytes),
                       (long long)(most * page_bytes), (long long)(e->pages.n * page_bytes));
    (void)pthread_mutex_lock(&e->mutex);
    lx_status st = reserve(e, job, err);
    if (st == LX_OK) {
        lx_job_ref(job);
        lx_job_mark_submitted(job, atomic_load(&e->metrics->steps));
        lx_usage_enter(e, job);
        e->queue[e->n_queue++] = (lx_queued){.job = job, .order = e->next_order++};
        publish_queue(e);
        atomic_fetch_add(&e->n_jobs, 1);
        atomic_fetch_add(&e->work_left, total_tokens(job));
        (void)pthread_cond_signal(&e->changed);
    }
    (void)pthread_mutex_unlock(&e->mutex);
    return st;
}

void lx_engine_poke(lx_engine *e)
{
    (void)pthread_mutex_lock(&e->mutex);
    (void)pthread_cond_signal(&e->changed);
    (void)pthread_mutex_unlock(&e->mutex);
}

void lx_engine_suspend(lx_engine *e)
{
    atomic_store(&e->suspending, true);
    lx_engine_poke(e);
}

void lx_engine_drain(lx_engine *e)
{
    (void)pthread_mutex_lock(&e->mutex);
    e->draining = true;
    (void)pthread_mutex_unlock(&e->mutex);
}

bool lx_engine_idle(lx_engine *e)
{
    return atomic_load(&e->n_jobs) == 0;
}

/* Seconds of work that is with the engine. */
static double work_s(const lx_engine *e)
{
    int64_t n_slots = e->options.n_slots;
    int64_t steps = (atomic_load(&e->work_left) + n_slots - 1) / n_slots;
    return (double)steps * lx_engine_step_s(e);
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
    int64_t used = atomic_load_explicit(&e->metrics->slots_used, memory_order_relaxed);
    return used < e->options.n_slots ? 0 : work_s(e);
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
