/*
 * The engine: its queue, its thread and the functions other threads call.
 *
 * A turn of the thread:
 *   1. end running jobs that were cancelled or are late
 *   2. under the mutex: sleep while there is nothing at all; go through the queue, taking out
 *      cancelled and late jobs and those that get a place now (engine_admit.c)
 *   3. outside it: end the former, start the latter, fork samples (engine_runs.c)
 *   4. start one batch and read the results of the one `ahead` steps before (engine_step.c)
 * Without any job it sleeps, and computes one row every probe_ns, so that a device that was lost
 * meanwhile is known before the next client comes.
 * The thread never sleeps while a job is with it, so cancellations and deadlines are noticed within
 * a step without timers.
 *
 * The queue's bound counts jobs that must wait. A job submitted while a slot is free that nobody
 * needs (credit) is sure to get it in the next turn and takes no place, so that what is accepted
 * does not depend on how fast the thread wakes up, and max_queue = 0 means "only if there is room".
 *
 * Wake callbacks run outside the mutex: a callback may take a lock that its owner holds while it
 * calls lx_engine_submit.
 */
#include "server/engine/engine.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/compute_thread.h"
#include "common/log.h"
#include "server/engine/internal.h"

enum {
    MAX_SLOTS = 1 << 20,
    MAX_QUEUE = 1 << 20,
    MAX_ROWS = 1 << 20,
    MAX_RETRY_S = 3600,
    MAX_PREFIXES = 1 << 16
};

static int64_t total_tokens(const lx_job *job)
{
    const lx_job_params *p = lx_job_get_params(job);
    return (int64_t)p->n * (p->max_new - p->start.n_tokens);
}

int32_t lx_engine_best_ahead(const lx_backend *be)
{
    return be->ops->memory != NULL ? 2 : 0;
}

static void publish_slots(lx_engine *e)
{
    int32_t used = e->n_seats < e->options.n_slots ? e->n_seats : e->options.n_slots;
    atomic_store_explicit(&e->metrics->slots_used, used, memory_order_relaxed);
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
    int32_t n = e->n_seats - e->options.n_slots, n_runs = e->n_places - e->n_free_runs;
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
    publish_slots(e); /* whoever waits for the job finds its slots free */
    lx_job_mark_ended(job, atomic_load(&e->metrics->steps));
    (void)pthread_mutex_lock(&e->mutex);
    lx_parties_leave(e, job);
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
    if (e->options.probe_ns == 0 || !atomic_load(&e->healthy))
        return pthread_cond_wait(&e->changed, &e->mutex) == 0;
    int64_t due = atomic_load(&e->last_step_ns) + e->options.probe_ns;
    struct timespec until = {.tv_sec = due / LX_NS_PER_S, .tv_nsec = due % LX_NS_PER_S};
    return pthread_cond_timedwait(&e->changed, &e->mutex, &until) != ETIMEDOUT;
}

/* Waits for work, or until a probe is due, and takes it from the queue; false when the engine is to
 * stop. */
static bool take_work(lx_engine *e, int64_t *now)
{
    (void)pthread_mutex_lock(&e->mutex);
    lx_engine_admit(e, *now); /* also tells submit about slots that became free */
    count_beyond(e);
    e->probe_due = false;
    while (!e->stopping && !e->probe_due && e->n_admitted + e->n_dropped == 0 && e->oldest < 0) {
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
            lx_job_mark_parked(e->dropped[i]);
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
    for (int32_t i = 0; i < e->n_admitted; i++) { /* they have places by name only */
        int32_t request = *lx_job_request_note(e->admitted[i]);
        lx_count_seats(e, request, -1);
        lx_count_sources(e, request, -(lx_job_get_params(e->admitted[i])->n > 1));
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

static void *run_thread(void *context)
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

/* --- start and stop --- */

static lx_status check_options(const lx_engine_options *o, lx_error *err)
{
    if (o->n_slots < 1 || o->n_slots > MAX_SLOTS)
        return lx_fail(err, LX_ERR_INVALID, "slots", "slots is %d, not in 1 .. %d", o->n_slots,
                       MAX_SLOTS);
    if (o->max_queue < 0 || o->max_queue > MAX_QUEUE)
        return lx_fail(err, LX_ERR_INVALID, "max_queue", "max_queue is %d, not in 0 .. %d",
                       o->max_queue, MAX_QUEUE);
    if (o->max_tokens < o->n_slots || o->max_tokens > MAX_ROWS)
        return lx_fail(err, LX_ERR_INVALID, "max_tokens",
                       "a step's rows are %d, not in %d (slots) .. %d", o->max_tokens, o->n_slots,
                       MAX_ROWS);
    if (o->prefix_bytes < 0 || o->prefix_every < 0)
        return lx_fail(err, LX_ERR_INVALID, "prefix_cache_mb", "kept prefixes are below nothing");
    if (o->prompt_beside < 1)
        return lx_fail(err, LX_ERR_INVALID, "prompt_beside", "prompt_beside is %d, not at least 1",
                       o->prompt_beside);
    if (o->ahead < 0 || o->ahead > LX_MAX_AHEAD)
        return lx_fail(err, LX_ERR_INVALID, "ahead", "ahead is %d, not in 0 .. %d", o->ahead,
                       LX_MAX_AHEAD);
    if (o->prompt_chunk < 1)
        return lx_fail(err, LX_ERR_INVALID, "prompt_chunk", "prompt_chunk is %d, not at least 1",
                       o->prompt_chunk);
    return LX_OK;
}

/* One zeroed array; *ok turns false without memory. */
static void *grab(size_t n, size_t size, bool *ok)
{
    void *p = calloc(n, size);
    *ok = *ok && p != NULL;
    return p;
}

static bool allocate_frame(const lx_engine *e, lx_frame *f)
{
    bool ok = true;
    size_t n = (size_t)e->options.n_slots, rows = (size_t)e->options.max_tokens;
    size_t n_places = (size_t)e->n_places;
    f->seq_start = grab(n + 1, sizeof *f->seq_start, &ok);
    f->seq_slot = grab(n, sizeof *f->seq_slot, &ok);
    f->constraints = grab(n_places, sizeof *f->constraints, &ok);
    f->ids = grab(rows * (size_t)e->model->config.n_inputs, sizeof *f->ids, &ok);
    f->output_row = grab(rows, sizeof *f->output_row, &ok);
    f->output_slot = grab(rows, sizeof *f->output_slot, &ok);
    f->sampling = grab(rows, sizeof *f->sampling, &ok);
    f->samples = grab(rows, sizeof *f->samples, &ok);
    return ok;
}

static void free_frame(lx_frame *f)
{
    void *arrays[] = {f->seq_start,  f->seq_slot,    f->constraints, f->ids,
                      f->output_row, f->output_slot, f->sampling,    f->samples};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
}

#define GRAB(field, n) (e->field = grab((size_t)(n), sizeof *e->field, &ok))

static bool allocate(lx_engine *e)
{
    bool ok = true;
    int32_t n = e->n_places, n_queue = e->options.max_queue + e->options.n_slots;
    int32_t n_jobs = 2 * n_queue + n; /* in the queue, dropped from it, and running */
    GRAB(masks, e->model->task->n_masks + 1);
    GRAB(queue, n_queue);
    GRAB(admitted, n);
    GRAB(admitted_order, n);
    GRAB(dropped, n_queue);
    GRAB(slots, n);
    GRAB(free_slots, n);
    GRAB(runs, n);
    GRAB(free_runs, n);
    GRAB(views, n);
    GRAB(rows, n);
    GRAB(scratch, n);
    GRAB(items, n);
    ok = lx_parties_init(&e->clients, n_jobs) && lx_parties_init(&e->requests, n_jobs) && ok;
    for (int32_t i = 0; i <= e->options.ahead; i++)
        ok = ok && allocate_frame(e, &e->frames[i]);
    return ok;
}

static void release(lx_engine *e)
{
    for (int32_t i = 0; e->masks != NULL && i < e->model->task->n_masks; i++)
        e->be->ops->mask_free(e->be, e->masks[i]);
    e->be->ops->states_free(e->be, e->states);
    lx_prefix_cache_free(e->prefixes);
    for (int32_t i = 0; i <= LX_MAX_AHEAD; i++)
        free_frame(&e->frames[i]);
    lx_parties_fini(&e->clients);
    lx_parties_fini(&e->requests);
    void *arrays[] = {e->masks,      e->queue, e->admitted,      e->dropped, e->slots,
                      e->free_slots, e->runs,  e->free_runs,     e->views,   e->rows,
                      e->scratch,    e->items, e->admitted_order};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    free(e);
}

static lx_status make_masks(lx_engine *e, lx_error *err)
{
    int32_t n_ids = e->model->config.head_size;
    uint8_t *banned = malloc((size_t)n_ids);
    if (banned == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a mask");
    lx_status st = LX_OK;
    for (int32_t i = 0; i < e->model->task->n_masks && st == LX_OK; i++) {
        e->model->task->fill_mask(e->model, i, banned);
        st = e->be->ops->mask_new(e->be, banned, n_ids, &e->masks[i], err);
    }
    free(banned);
    return st;
}

/* Places, one for probes, and as many for prompts' states as the bytes allow. */
static lx_status make_states(lx_engine *e, lx_error *err)
{
    int64_t places = e->options.prefix_bytes / (e->model->state.fixed_floats * 4);
    if (places > MAX_PREFIXES)
        places = MAX_PREFIXES;
    lx_status st = LX_OK;
    if (places > 0)
        st = lx_prefix_cache_new((int32_t)places, e->model->config.n_inputs, &e->prefixes, err);
    if (st == LX_OK)
        st = lx_transformer_states_new(e->transformer, e->n_places + 1 + (int32_t)places,
                                       &e->states, err);
    return st;
}

/* Timed waits are on the monotonic clock. */
static bool init_condition(pthread_cond_t *changed)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool ok = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(changed, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
    return ok;
}

/* The thread takes no signals: they are for the main thread. */
static lx_status start_thread(lx_engine *e, lx_error *err)
{
    sigset_t all, old;
    if (pthread_mutex_init(&e->mutex, NULL) != 0)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a lock");
    if (!init_condition(&e->changed)) {
        (void)pthread_mutex_destroy(&e->mutex);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a lock");
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int code = pthread_create(&e->thread, NULL, run_thread, e);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code == 0)
        return LX_OK;
    (void)pthread_cond_destroy(&e->changed);
    (void)pthread_mutex_destroy(&e->mutex);
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "the engine's thread could not be started");
}

lx_status lx_engine_start(lx_transformer *t, const lx_engine_options *options, lx_metrics *metrics,
                          lx_engine **out, lx_error *err)
{
    lx_status st = check_options(options, err);
    if (st != LX_OK)
        return st;
    lx_engine *e = calloc(1, sizeof *e);
    if (e == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an engine");
    e->transformer = t;
    e->model = lx_transformer_model(t);
    e->be = lx_transformer_backend(t);
    e->metrics = metrics;
    e->options = *options;
    e->n_places = options->n_slots + lx_fair_spare(options->n_slots);
    atomic_init(&e->healthy, true);
    atomic_init(&e->last_step_ns, lx_now_ns());
    st = allocate(e) ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an engine");
    if (st == LX_OK)
        st = make_states(e, err);
    if (st == LX_OK)
        st = make_masks(e, err);
    if (st == LX_OK)
        st = lx_engine_prepare(e, err);
    if (st == LX_OK) {
        lx_runs_init(e);
        e->credit = options->n_slots;
        atomic_store(&metrics->slots_total, options->n_slots);
        atomic_store(&metrics->queue_limit, options->max_queue);
        st = start_thread(e, err);
    }
    if (st != LX_OK) {
        release(e);
        return st;
    }
    *out = e;
    return LX_OK;
}

void lx_engine_stop(lx_engine *e)
{
    if (e == NULL)
        return;
    (void)pthread_mutex_lock(&e->mutex);
    e->draining = e->stopping = true;
    (void)pthread_cond_signal(&e->changed);
    (void)pthread_mutex_unlock(&e->mutex);
    (void)pthread_join(e->thread, NULL);
    (void)pthread_cond_destroy(&e->changed);
    (void)pthread_mutex_destroy(&e->mutex);
    release(e);
}

/* --- any thread --- */

/* Under the mutex: takes a sure slot or a place in the queue. */
static lx_status reserve(lx_engine *e, const lx_job *job, lx_error *err)
{
    if (e->draining)
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the server is stopping");
    if (!atomic_load(&e->healthy))
        return lx_fail(err, LX_ERR_DEVICE, NULL, "the device this model runs on has failed");
    if (e->credit > 0) {
        int32_t n = lx_job_get_params(job)->n;
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
    (void)pthread_mutex_lock(&e->mutex);
    lx_status st = reserve(e, job, err);
    if (st == LX_OK) {
        lx_job_ref(job);
        lx_job_mark_submitted(job, atomic_load(&e->metrics->steps));
        lx_parties_enter(e, job);
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

void lx_engine_park(lx_engine *e)
{
    atomic_store(&e->parking, true);
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
