/*
 * Jobs come, wait in the queue, and end. This file also counts what clients and their requests use.
 *
 * The queue's bound counts jobs that must wait. A job that comes while a slot is free and unclaimed
 * (credit) is sure of a slot in the next turn and is not counted. So which jobs are accepted does
 * not depend on how fast the engine's thread wakes, and max_queue = 0 means "only if there is
 * room". A job that follows another passes this bound, because its request was accepted before; it
 * may use the other half of the queue's memory.
 *
 * Wake callbacks run without the mutex: a callback may take a lock that its owner holds while it
 * calls lx_engine_submit.
 */
#include "common/clock.h"
#include "server/engine/internal.h"

/* --- usage --- */

/* The new clock is 0, which counts as the level. */
static int32_t take_usage(lx_usage_table *p, int32_t weight)
{
    int32_t i = p->n_unused > 0 ? p->unused[--p->n_unused] : p->n_used++;
    p->at[i] = (lx_usage){0};
    p->clocks[i] = (lx_fair_clock){.weight = weight};
    return i;
}

static int32_t find_client(lx_engine *e, const lx_client *c)
{
    for (int32_t i = 0; i < e->clients.n_used; i++)
        if (e->clients.at[i].n_jobs > 0 && e->clients.at[i].key == c->key)
            return i;
    int32_t weight = c->weight < 1 ? 1 : c->weight > LX_MAX_WEIGHT ? LX_MAX_WEIGHT : c->weight;
    int32_t i = take_usage(&e->clients, weight);
    e->clients.at[i].key = c->key;
    e->total_weight += weight;
    return i;
}

static void enter(lx_engine *e, lx_job *job)
{
    int32_t *note = lx_job_request_note(job);
    if (*note < 0) {
        int32_t client = find_client(e, &lx_job_get_params(job)->client);
        *note = take_usage(&e->requests, 1);
        e->requests.at[*note].client = client;
        e->clients.at[client].n_requests++;
    }
    lx_usage *request = &e->requests.at[*note];
    request->n_jobs++;
    e->clients.at[request->client].n_jobs++;
}

static void leave(lx_engine *e, lx_job *job)
{
    int32_t *note = lx_job_request_note(job), r = *note, c = e->requests.at[r].client;
    lx_usage *client = &e->clients.at[c];
    if (--e->requests.at[r].n_jobs == 0) {
        *note = -1;
        e->requests.unused[e->requests.n_unused++] = r;
        client->n_requests--;
    }
    if (--client->n_jobs == 0) {
        e->clients.unused[e->clients.n_unused++] = c;
        e->total_weight -= e->clients.clocks[c].weight;
    }
}

void lx_usage_count(lx_engine *e, int32_t request, int32_t n_active, int32_t n_prompt_slots)
{
    lx_usage *r = &e->requests.at[request], *c = &e->clients.at[r->client];
    r->active += n_active;
    c->active += n_active;
    e->n_active += n_active;
    r->prompt_slots += n_prompt_slots;
    c->prompt_slots += n_prompt_slots;
    e->n_prompt_slots += n_prompt_slots;
}

/* --- the needs of a job, and whether it goes on --- */

int32_t lx_job_pages(const lx_engine *e, const lx_job *job)
{
    return lx_model_state_pages(e->model, lx_job_rows(lx_job_plan(job), lx_job_get_params(job)));
}

/* Samples begin after the rows of the prompt slot: the history's, or the prompt's but the last. */
int32_t lx_job_shared_pages(const lx_engine *e, const lx_job *job)
{
    const lx_job_start *start = &lx_job_get_params(job)->start;
    int32_t rows = start->n_tokens > 0 ? start->rows : lx_job_plan(job)->n_prompt - 1;
    bool shares = lx_job_get_params(job)->n > 1 && lx_engine_page_bytes(e) > 0;
    return shares ? rows / LX_PAGE_TOKENS : 0;
}

/* Pages of a prompt slot and of one sample, so that a run that began can always end. */
int32_t lx_job_first_pages(const lx_engine *e, const lx_job *job)
{
    int32_t n = lx_job_pages(e, job);
    return lx_job_get_params(job)->n > 1 ? 2 * n - lx_job_shared_pages(e, job) : n;
}

lx_status lx_engine_check_job(const lx_engine *e, lx_job *job, int64_t now, lx_error *err)
{
    const lx_job_params *p = lx_job_get_params(job);
    lx_job_times t = lx_job_get_times(job);
    if (lx_job_cancelled(job))
        return lx_fail(err, LX_ERR_CANCELLED, NULL, "the request was cancelled");
    if (now >= p->deadline_ns)
        return lx_fail(err, LX_ERR_TIMEOUT, NULL,
                       "the request timed out before its answer was complete");
    if (p->queue_deadline_ns != 0 && now >= p->queue_deadline_ns && t.started == 0)
        return lx_fail(err, LX_ERR_BUSY, NULL,
                       "all slots were in use for as long as a request may wait: try again later");
    if (p->first_deadline_ns != 0 && now >= p->first_deadline_ns && t.first_token == 0)
        return lx_fail(err, LX_ERR_TIMEOUT, NULL,
                       "no token was generated within the time for the first one");
    if (p->suspendable && atomic_load(&e->suspending) && lx_job_may_suspend(job))
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL,
                       "the server is stopping and has suspended this request");
    return LX_OK;
}

/* --- counts that other threads read --- */

void lx_engine_publish_slots(lx_engine *e)
{
    int32_t used = e->n_active < e->options.n_slots ? e->n_active : e->options.n_slots;
    atomic_store(&e->metrics->slots_used, used);
    int64_t pages = e->pages.n - atomic_load(&e->pages.left);
    atomic_store(&e->metrics->pool_used, pages * lx_engine_page_bytes(e));
    pages = e->pages.n_used[LX_PAGES_KEPT];
    atomic_store(&e->metrics->pool_kept, pages * lx_engine_page_bytes(e));
}

/* Under the mutex: jobs that wait for a slot or take turns. */
static int32_t n_waiting(const lx_engine *e)
{
    return e->n_queue - e->n_sure + e->n_beyond;
}

/* Under the mutex. */
static void publish_queue(lx_engine *e)
{
    atomic_store(&e->metrics->queue_length, n_waiting(e));
}

void lx_engine_count_beyond(lx_engine *e)
{
    int32_t n = e->n_active - e->options.n_slots, n_runs = e->n_runs + e->n_admitted;
    e->n_beyond = n < n_runs ? n : n_runs - 1;
    if (e->n_beyond < 0)
        e->n_beyond = 0;
    publish_queue(e);
}

/* --- jobs come and end --- */

/* Its tokens in work_left if it has made n_made of them. */
static int64_t work_of(const lx_job *job, int64_t n_made)
{
    const lx_job_params *p = lx_job_get_params(job);
    return p->follows ? 0 : (int64_t)p->n * (p->max_new - p->start.n_tokens) - n_made;
}

static _Atomic int64_t *count_of(lx_engine *e, const lx_job *job)
{
    return lx_job_get_params(job)->follows ? &e->n_follows : &e->n_jobs;
}

static lx_status busy(const lx_engine *e, lx_error *err)
{
    return lx_fail(err, LX_ERR_BUSY, NULL,
                   "all slots are in use and %d requests are waiting: try again later",
                   n_waiting(e));
}

/* Under the mutex: claims a slot, or room in the queue. */
static lx_status reserve(lx_engine *e, const lx_job *job, lx_error *err)
{
    const lx_job_params *p = lx_job_get_params(job);
    if (e->stopping || (e->draining && !p->follows))
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "the server is stopping");
    if (!atomic_load(&e->healthy))
        return lx_fail(err, LX_ERR_DEVICE, NULL, "the device this model runs on has failed");
    if (e->n_queue == e->n_room)
        return busy(e, err);
    int32_t n_pages = lx_job_first_pages(e, job);
    bool large = lx_fair_is_large(e->pages.n, lx_job_pages(e, job));
    int32_t kept_back = large ? e->pages.n - lx_fair_most_pages(e->pages.n) : 0;
    if (e->credit > 0 && e->page_credit >= n_pages + kept_back) {
        e->page_credit -= n_pages;
        e->credit = p->n < e->credit ? e->credit - p->n : 0;
        e->n_sure++;
        return LX_OK;
    }
    return p->follows || n_waiting(e) < e->options.max_queue ? LX_OK : busy(e, err);
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
    LX_HOLD(&e->mutex);
    lx_status st = reserve(e, job, err);
    if (st != LX_OK)
        return st;
    lx_job_ref(job);
    lx_job_mark(job, LX_JOB_SUBMITTED, atomic_load(&e->metrics->steps));
    enter(e, job);
    bool follows = lx_job_get_params(job)->follows; /* its request is older than all that wait */
    e->queue[e->n_queue++] = (lx_queued){.job = job, .order = follows ? 0 : e->next_order++};
    publish_queue(e);
    atomic_fetch_add(count_of(e, job), 1);
    atomic_fetch_add(&e->work_left, work_of(job, 0));
    (void)pthread_cond_signal(&e->changed);
    return LX_OK;
}

void lx_engine_end_job(lx_engine *e, lx_job *job, int64_t n_tokens, lx_status status,
                       const lx_error *err)
{
    atomic_fetch_sub(&e->work_left, work_of(job, n_tokens));
    atomic_fetch_sub(count_of(e, job), 1);
    lx_engine_publish_slots(e); /* before the reader is woken, who may look at them */
    lx_job_mark(job, LX_JOB_ENDED, atomic_load(&e->metrics->steps));
    (void)pthread_mutex_lock(&e->mutex);
    leave(e, job);
    lx_engine_count_beyond(e);
    (void)pthread_mutex_unlock(&e->mutex);
    lx_job_finish(job, status, err);
    lx_job_notify(job);
    lx_job_unref(job);
}

void lx_engine_end_queued(lx_engine *e, lx_status status, const lx_error *err)
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
