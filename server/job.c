/*
 * A job's memory and its two sides.
 *
 * Each sample has its own row of tokens and a count. The engine stores the token first and then the
 * count with release order; a reader that loads the count with acquire order sees every token below
 * it, so reading needs no lock. `finished` works the same way for status and times.
 *
 * Waking a reader costs more than computing a token, so it says from which count on it has
 * something to do. What it says only grows and never passes what it really waits for, so the
 * engine, whichever of the values it sees, wakes it in time; no order is needed between the two.
 *
 * One mutex guards the wake callback: it is held while wake runs, which is what makes detach wait
 * for a running one. The condition variable serves lx_job_wait only.
 */
#include "server/job.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

typedef struct sample {
    _Atomic int32_t n, wanted; /* no wake while n < wanted */
    double sum;                /* of the log-probabilities; the engine's until finished */
} sample;

struct lx_job {
    _Atomic int32_t refs;
    atomic_bool cancelled, finished;
    lx_plan *plan;
    lx_job_params params;
    sample *samples;  /* [n] */
    int32_t *targets; /* [max_new], NULL: generate */
    int32_t *tokens;  /* [n, max_new] */
    float *logprobs;  /* [n, max_new] */
    _Atomic int64_t submitted, started, first_token, ended;
    lx_status status; /* these two: final once finished */
    lx_error err;
    pthread_mutex_t mutex;
    pthread_cond_t done;
    lx_job_wake wake;
    void *context;
};

static lx_status check_params(const lx_plan *plan, const lx_job_params *p, lx_error *err)
{
    if (p->max_new < 1 || p->max_new > plan->n_new)
        return lx_fail(err, LX_ERR_INVALID, "max_tokens", "max_tokens is %d, not in 1 .. %d",
                       p->max_new, plan->n_new);
    if (p->n < 1 || p->n > LX_MAX_JOB_TOKENS / p->max_new)
        return lx_fail(err, LX_ERR_INVALID, "n", "n is %d, not in 1 .. %d", p->n,
                       LX_MAX_JOB_TOKENS / p->max_new);
    if (p->targets == NULL)
        return LX_OK;
    if (p->n != 1)
        return lx_fail(err, LX_ERR_INVALID, "n", "n is %d, but what is scored is one answer", p->n);
    for (int32_t i = 0; i < p->max_new; i++) {
        if (p->targets[i] < 0 || p->targets[i] >= plan->model->config.n_values)
            return lx_fail(err, LX_ERR_INVALID, "targets", "token %d is %d, not in 0 .. %d", i,
                           p->targets[i], plan->model->config.n_values - 1);
    }
    return LX_OK;
}

static void destroy(lx_job *job)
{
    lx_plan_free(job->plan);
    free(job->samples);
    free(job->targets);
    free(job->tokens);
    free(job->logprobs);
    free(job);
}

lx_status lx_job_new(lx_plan *plan, const lx_job_params *params, lx_job_wake wake, void *context,
                     lx_job **out, lx_error *err)
{
    lx_status st = check_params(plan, params, err);
    lx_job *job = st == LX_OK ? calloc(1, sizeof *job) : NULL;
    if (job == NULL) {
        lx_plan_free(plan);
        return st != LX_OK ? st : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a job");
    }
    size_t n_tokens = (size_t)params->n * (size_t)params->max_new;
    job->plan = plan;
    job->params = *params;
    job->wake = wake;
    job->context = context;
    job->samples = calloc((size_t)params->n, sizeof *job->samples);
    job->tokens = calloc(n_tokens, sizeof *job->tokens);
    job->logprobs = calloc(n_tokens, sizeof *job->logprobs);
    atomic_init(&job->refs, 1);
    bool scored = params->targets != NULL;
    if (scored && job->samples != NULL && job->tokens != NULL) {
        job->targets = malloc(n_tokens * sizeof *job->targets);
        if (job->targets != NULL)
            memcpy(job->targets, params->targets, n_tokens * sizeof *job->targets);
        job->params.targets = job->targets;
    }
    if (job->samples == NULL || job->tokens == NULL || job->logprobs == NULL ||
        (scored && job->targets == NULL)) {
        destroy(job);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %zu tokens", n_tokens);
    }
    if (pthread_mutex_init(&job->mutex, NULL) != 0 || pthread_cond_init(&job->done, NULL) != 0) {
        destroy(job);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a lock");
    }
    *out = job;
    return LX_OK;
}

void lx_job_ref(lx_job *job)
{
    atomic_fetch_add_explicit(&job->refs, 1, memory_order_relaxed);
}

void lx_job_unref(lx_job *job)
{
    if (job == NULL || atomic_fetch_sub_explicit(&job->refs, 1, memory_order_acq_rel) != 1)
        return;
    (void)pthread_mutex_destroy(&job->mutex);
    (void)pthread_cond_destroy(&job->done);
    destroy(job);
}

/* --- reader's side ---------------------------------------------------------------------------- */

const lx_plan *lx_job_plan(const lx_job *job)
{
    return job->plan;
}

const lx_job_params *lx_job_get_params(const lx_job *job)
{
    return &job->params;
}

static int64_t row_of(const lx_job *job, int32_t i)
{
    return (int64_t)i * job->params.max_new;
}

int32_t lx_job_tokens(const lx_job *job, int32_t i, const int32_t **tokens, const float **logprobs)
{
    if (tokens != NULL)
        *tokens = job->tokens + row_of(job, i);
    if (logprobs != NULL)
        *logprobs = job->logprobs + row_of(job, i);
    return atomic_load_explicit(&job->samples[i].n, memory_order_acquire);
}

void lx_job_want(lx_job *job, int32_t i, int32_t count)
{
    atomic_store_explicit(&job->samples[i].wanted, count, memory_order_relaxed);
}

bool lx_job_finished(const lx_job *job)
{
    return atomic_load_explicit(&job->finished, memory_order_acquire);
}

lx_status lx_job_status(const lx_job *job, lx_error *err)
{
    if (job->status != LX_OK && err != NULL)
        *err = job->err;
    return job->status;
}

lx_job_times lx_job_get_times(const lx_job *job)
{
    return (lx_job_times){.submitted = atomic_load(&job->submitted),
                          .started = atomic_load(&job->started),
                          .first_token = atomic_load(&job->first_token),
                          .finished = atomic_load(&job->ended)};
}

void lx_job_cancel(lx_job *job)
{
    atomic_store(&job->cancelled, true);
}

bool lx_job_cancelled(const lx_job *job)
{
    return atomic_load(&job->cancelled);
}

void lx_job_detach(lx_job *job)
{
    (void)pthread_mutex_lock(&job->mutex);
    job->wake = NULL;
    (void)pthread_mutex_unlock(&job->mutex);
}

void lx_job_wait(lx_job *job)
{
    (void)pthread_mutex_lock(&job->mutex);
    while (!lx_job_finished(job))
        (void)pthread_cond_wait(&job->done, &job->mutex);
    (void)pthread_mutex_unlock(&job->mutex);
}

float lx_job_mean_logprob(const lx_job *job, int32_t i)
{
    int32_t n = lx_job_tokens(job, i, NULL, NULL);
    return n > 0 ? (float)(job->samples[i].sum / n) : -__builtin_inff();
}

/* Better mean first; equal ones keep the order of their numbers. */
static bool ranks_before(const lx_job *job, int32_t a, int32_t b)
{
    float x = lx_job_mean_logprob(job, a), y = lx_job_mean_logprob(job, b);
    return x > y || (x == y && a < b);
}

void lx_job_rank(const lx_job *job, int32_t *order)
{
    int32_t n = job->params.n;
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    for (int32_t gap = n / 2; gap > 0; gap /= 2) { /* shell sort: no memory, and n is small */
        for (int32_t i = gap; i < n; i++) {
            int32_t moved = order[i], k = i;
            for (; k >= gap && ranks_before(job, moved, order[k - gap]); k -= gap)
                order[k] = order[k - gap];
            order[k] = moved;
        }
    }
}

/* --- engine's side ---------------------------------------------------------------------------- */

void lx_job_mark_submitted(lx_job *job)
{
    atomic_store(&job->submitted, lx_now_ns());
}

void lx_job_mark_started(lx_job *job)
{
    atomic_store(&job->started, lx_now_ns());
}

bool lx_job_push(lx_job *job, int32_t i, int32_t token, float logprob)
{
    sample *s = &job->samples[i];
    int32_t n = atomic_load_explicit(&s->n, memory_order_relaxed);
    job->tokens[row_of(job, i) + n] = token;
    job->logprobs[row_of(job, i) + n] = logprob;
    s->sum += (double)logprob;
    if (atomic_load_explicit(&job->first_token, memory_order_relaxed) == 0)
        atomic_store(&job->first_token, lx_now_ns());
    atomic_store_explicit(&s->n, n + 1, memory_order_release);
    return n + 1 >= atomic_load_explicit(&s->wanted, memory_order_relaxed);
}

void lx_job_finish(lx_job *job, lx_status status, const lx_error *err)
{
    job->status = status;
    if (err != NULL)
        job->err = *err;
    atomic_store(&job->ended, lx_now_ns());
    (void)pthread_mutex_lock(&job->mutex);
    atomic_store_explicit(&job->finished, true, memory_order_release);
    (void)pthread_cond_broadcast(&job->done);
    (void)pthread_mutex_unlock(&job->mutex);
}

void lx_job_notify(lx_job *job)
{
    (void)pthread_mutex_lock(&job->mutex);
    if (job->wake != NULL)
        job->wake(job->context);
    (void)pthread_mutex_unlock(&job->mutex);
}
