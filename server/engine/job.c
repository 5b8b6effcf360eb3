/*
 * A job's memory and its two sides.
 *
 * Each sample has its own tokens and a count. The engine stores the token first and then the count,
 * with release order. A reader that loads the count with acquire order sees all tokens below it, so
 * reading needs no lock. `finished` publishes status and times, and `ended` a sample's last count.
 *
 * Waking a reader costs more than computing a token, so the reader says from which count on it
 * wants tokens (`wanted`). That number only grows and never exceeds the count that the reader waits
 * for. So the engine wakes it in time whichever value it sees, without a memory order.
 *
 * The mutex is held while `wake` runs, so lx_job_detach waits for a running one. The condition
 * variable is for lx_job_wait only.
 */
#include "server/engine/job.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/lock.h"
#include "server/engine/penalties.h"

/* Most bytes that a task notes of a row of the prompt, without its ids. */
enum { PLAN_ROW_BYTES = 64 };

typedef struct sample {
    _Atomic int32_t n, wanted; /* no wake while n < wanted */
    atomic_bool ended;
    double sum;         /* of the log-probabilities; the engine's until finished */
    int32_t state_rows; /* rows that its kept state has absorbed; the engine's until finished */
} sample;

struct lx_job {
    _Atomic int32_t refs;
    atomic_bool cancelled, finished;
    lx_plan *plan;
    lx_job_params params;
    sample *samples;         /* [n] */
    int32_t *targets;        /* [max_new], NULL: generate */
    int32_t *tokens;         /* [n, max_new] */
    float *logprobs;         /* [n, max_new] */
    float *states;           /* [n, state_floats], NULL: none is kept */
    float *start;            /* [start_floats], NULL: from nothing */
    bool suspended;          /* final once finished */
    lx_sample *top;          /* [n, max_new, n_top] */
    lx_bias *biases;         /* [n_biases], NULL: none */
    lx_penalties *penalties; /* the engine's, NULL: none */
    lx_stops *stops;         /* NULL: none */
    lx_stop_tails *tails;    /* the engine's, NULL: no stops */
    _Atomic int64_t at_ns[LX_JOB_ENDED + 1], first_token, last_token;
    _Atomic uint64_t at_step[LX_JOB_ENDED + 1];
    int32_t request_note; /* the engine's, of a request's first job */
    _Atomic int32_t cached_rows, kept_rows;
    _Atomic int64_t drafted, accepted;
    lx_status status; /* these two: final once finished */
    lx_error err;
    pthread_mutex_t mutex;
    pthread_cond_t done;
    lx_job_wake wake;
    void *context;
};

/* --- its params --- */

static lx_status check_tokens(const lx_plan *plan, const char *field, const int32_t *tokens,
                              int32_t n, lx_error *err)
{
    int32_t n_values = plan->model->config.n_values;
    for (int32_t i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= n_values)
            return lx_fail(err, LX_ERR_INVALID, field, "token %d is %d, not in 0 .. %d", i,
                           tokens[i], n_values - 1);
    }
    return LX_OK;
}

/* The history must fit the plan, and the state the rows that it has absorbed. */
static lx_status check_start(const lx_plan *plan, const lx_job_params *p, lx_error *err)
{
    const lx_job_start *s = &p->start;
    if (s->n_tokens < 0 || s->n_tokens > plan->n_new)
        return lx_fail(err, LX_ERR_INVALID, "state",
                       "the state holds %d tokens, but an answer has %d", s->n_tokens, plan->n_new);
    lx_status st = check_tokens(plan, "state", s->tokens, s->n_tokens, err);
    if (st != LX_OK)
        return st;
    int32_t most = plan->n_prompt + s->n_tokens - 1, least = s->n_tokens > 0 ? most : 0;
    if (s->rows < least || s->rows > most || (s->state == NULL) != (s->rows == 0))
        return lx_fail(err, LX_ERR_INVALID, "state", "the state has seen %d rows, not %d .. %d",
                       s->rows, least, most);
    if ((s->rows > 0 || s->n_tokens > 0) && p->targets != NULL)
        return lx_fail(err, LX_ERR_INVALID, "state", "a score starts from nothing");
    return LX_OK;
}

static lx_status check(const lx_plan *plan, const lx_job_params *p, lx_error *err)
{
    bool none = (p->keep_state || plan->scored) && p->n == 1; /* no new token is enough */
    int32_t least = p->start.n_tokens + !none;
    lx_status st = check_start(plan, p, err);
    if (st != LX_OK)
        return st;
    if (p->max_new < least || p->max_new > plan->n_new)
        return lx_fail(err, LX_ERR_INVALID, "max_tokens", "max_tokens is %d, not in %d .. %d",
                       p->max_new, least, plan->n_new);
    if (p->n < 1 || (int64_t)p->n * p->max_new > LX_MAX_JOB_TOKENS)
        return lx_fail(err, LX_ERR_INVALID, "n", "n is %d, not in 1 .. %d", p->n,
                       LX_MAX_JOB_TOKENS / (p->max_new > 0 ? p->max_new : 1));
    if (p->suspendable && p->n != 1)
        return lx_fail(err, LX_ERR_INVALID, "park", "suspend is for one sample: n must be 1");
    if (p->n_top < 0 || p->n_top > LX_MAX_TOP ||
        (int64_t)p->n * p->max_new * p->n_top > LX_MAX_JOB_TOKENS)
        return lx_fail(err, LX_ERR_INVALID, "logprobs",
                       "%d likeliest tokens for each of %d x %d tokens are too many", p->n_top,
                       p->n, p->max_new);
    if (p->stops != NULL && plan->model->task->render == NULL)
        return lx_fail(err, LX_ERR_INVALID, "stop", "stop strings are for text");
    if (p->n_targets < 0 || p->n_targets > p->max_new ||
        (p->targets == NULL) != (p->n_targets == 0))
        return lx_fail(err, LX_ERR_INVALID, "targets", "%d targets for at most %d tokens",
                       p->n_targets, p->max_new);
    if (p->targets == NULL)
        return LX_OK;
    if (p->n != 1)
        return lx_fail(err, LX_ERR_INVALID, "n", "n is %d, but a score has one answer", p->n);
    return check_tokens(plan, "targets", p->targets, p->n_targets, err);
}

bool lx_job_penalizes(const lx_job_params *p)
{
    const lx_sampling_params *s = &p->sampling;
    return s->frequency_penalty != 0 || s->presence_penalty != 0 || lx_sampling_repeats(s);
}

static lx_penalties_params penalties_of(const lx_plan *plan, const lx_job_params *p)
{
    const lx_sampling_params *s = &p->sampling;
    bool text = plan->model->config.n_inputs == 1; /* so the prompt's rows are tokens */
    return (lx_penalties_params){.n = p->n,
                                 .max_new = p->max_new,
                                 .frequency = (float)s->frequency_penalty,
                                 .presence = (float)s->presence_penalty,
                                 .repetition =
                                     lx_sampling_repeats(s) ? (float)s->repetition_penalty : 1.0f,
                                 .biases = p->biases,
                                 .n_biases = p->n_biases,
                                 .prompt = plan->prompt_ids,
                                 .n_prompt = text ? plan->n_prompt + plan->n_given : 0};
}

/* --- its memory --- */

static void destroy(lx_job *job)
{
    lx_plan_free(job->plan);
    free(job->samples);
    free(job->targets);
    free(job->tokens);
    free(job->logprobs);
    free(job->top);
    free(job->biases);
    lx_penalties_free(job->penalties);
    free(job->stops);
    lx_stop_tails_free(job->tails);
    lx_job_unref(job->params.first);
    free(job->states);
    free(job->start);
    lx_reserve_unref(job->params.reserve);
    free(job);
}

/* A copy of n elements; *ok turns false without memory. n 0: NULL. */
static void *copy_of(const void *from, size_t n, size_t size, bool *ok)
{
    void *p = n > 0 ? malloc(n * size) : NULL;
    *ok = *ok && (n == 0 || p != NULL);
    if (p != NULL)
        memcpy(p, from, n * size);
    return p;
}

int64_t lx_job_rows(const lx_plan *plan, const lx_job_params *params)
{
    return (int64_t)plan->n_prompt + params->max_new - 1;
}

/* Floats of the state with which a sample ends. */
static int64_t final_floats(const lx_plan *plan, const lx_job_params *p)
{
    return lx_model_state_floats(plan->model, lx_job_rows(plan, p));
}

static size_t state_floats(const lx_job *job)
{
    return (size_t)final_floats(job->plan, &job->params);
}

static size_t start_floats(const lx_job *job)
{
    int32_t rows = job->params.start.rows;
    return rows > 0 ? (size_t)lx_model_state_floats(job->plan->model, rows) : 0;
}

static bool has_stops(const lx_job_params *p)
{
    return p->stops != NULL && p->stops->n > 0;
}

/* The bytes of allocate(), and those of the plan with the notes of its task (model/tasks/task.h). A
   growing buffer may have room for twice its contents. */
int64_t lx_job_bytes(const lx_plan *plan, const lx_job_params *p)
{
    const lx_model *model = plan->model;
    int64_t n = p->n, tokens = n * p->max_new + 1;
    int64_t state = final_floats(plan, p) * (int64_t)sizeof(float);
    int64_t row = model->config.n_inputs * (int64_t)sizeof(int32_t) + PLAN_ROW_BYTES;
    int64_t bytes = (int64_t)(sizeof(lx_job) + sizeof *plan) + (plan->n_prompt + 2) * row;
    bytes += lx_plan_shape_bytes(plan);
    bytes += n * (int64_t)sizeof(sample) + tokens * (int64_t)(sizeof(int32_t) + sizeof(float));
    bytes += p->keep_state || p->suspendable ? n * state : 0;
    bytes += p->start.rows > 0 ? state : 0;
    bytes += p->targets != NULL ? tokens * (int64_t)sizeof(int32_t) : 0;
    bytes += tokens * p->n_top * (int64_t)sizeof(lx_sample);
    bytes += p->n_biases * (int64_t)sizeof(lx_bias);
    lx_penalties_params penalties = penalties_of(plan, p);
    if (lx_job_penalizes(p))
        bytes += lx_penalties_bytes(&penalties);
    if (has_stops(p))
        bytes += (int64_t)sizeof(lx_stops) + lx_stop_tails_bytes(plan, p->n, p->stops);
    return bytes;
}

/* The penalties and the ends of texts, made now as the engine must not run out of memory. */
static bool make_followers(lx_job *job)
{
    const lx_job_params *p = &job->params;
    lx_penalties_params penalties = penalties_of(job->plan, p);
    if (lx_job_penalizes(p))
        job->penalties = lx_penalties_new(&penalties);
    if (job->stops != NULL)
        job->tails = lx_stop_tails_new(job->plan, p->n, job->stops);
    return (job->penalties != NULL || !lx_job_penalizes(p)) &&
           (job->tails != NULL || job->stops == NULL);
}

const lx_bias *lx_job_biases(const lx_job *job, int32_t i, int32_t *n)
{
    if (job->penalties != NULL)
        return lx_penalties_biases(job->penalties, i, n);
    *n = job->params.n_biases;
    return job->params.biases;
}

/* The job owns a copy of all that its params borrow. */
static bool allocate(lx_job *job)
{
    lx_job_params *p = &job->params;
    size_t n = (size_t)p->n, n_tokens = n * (size_t)p->max_new;
    bool ok = true, keeps = p->keep_state || p->suspendable;
    job->samples = calloc(n, sizeof *job->samples);
    job->tokens = calloc(n_tokens + 1, sizeof *job->tokens);
    job->logprobs = calloc(n_tokens + 1, sizeof *job->logprobs);
    job->states = keeps ? malloc(n * state_floats(job) * sizeof *job->states) : NULL;
    job->targets = copy_of(p->targets, (size_t)p->n_targets, sizeof *job->targets, &ok);
    job->start = copy_of(p->start.state, start_floats(job), sizeof *job->start, &ok);
    job->biases = copy_of(p->biases, (size_t)p->n_biases, sizeof *job->biases, &ok);
    job->stops = copy_of(p->stops, has_stops(p), sizeof *job->stops, &ok);
    job->top = calloc(n_tokens * (size_t)p->n_top + 1, sizeof *job->top);
    if (!ok || !make_followers(job) || job->top == NULL || job->samples == NULL ||
        job->tokens == NULL || job->logprobs == NULL || (keeps && job->states == NULL))
        return false;
    p->targets = job->targets;
    p->biases = job->biases;
    p->stops = job->stops;
    p->start.state = job->start;
    return true;
}

/* Every sample begins with the history. */
static void fill_history(lx_job *job)
{
    lx_job_start *s = &job->params.start;
    for (int32_t i = 0; i < job->params.n && s->n_tokens > 0; i++) {
        size_t row = (size_t)i * (size_t)job->params.max_new;
        memcpy(job->tokens + row, s->tokens, (size_t)s->n_tokens * sizeof *job->tokens);
        for (int32_t k = 0; k < s->n_tokens; k++) {
            job->logprobs[row + (size_t)k] = __builtin_nanf("");
            if (job->penalties != NULL)
                lx_penalties_count(job->penalties, i, s->tokens[k]);
        }
        atomic_init(&job->samples[i].n, s->n_tokens);
    }
    s->tokens = job->tokens;
}

lx_status lx_job_new(lx_plan *plan, const lx_job_params *params, lx_job_wake wake, void *context,
                     lx_job **out, lx_error *err)
{
    lx_status st = check(plan, params, err);
    lx_job *job = st == LX_OK ? calloc(1, sizeof *job) : NULL;
    if (job == NULL) {
        lx_plan_free(plan);
        return st != LX_OK ? st : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a job");
    }
    job->plan = plan;
    job->params = *params;
    (void)lx_reserve_ref(params->reserve);
    job->wake = wake;
    job->context = context;
    job->request_note = -1;
    atomic_init(&job->refs, 1);
    if (params->first != NULL)
        lx_job_ref(params->first);
    if (!allocate(job)) {
        destroy(job);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d times %d tokens", params->n,
                       params->max_new);
    }
    fill_history(job);
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

/* --- reader's side --- */

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

const lx_sample *lx_job_top(const lx_job *job, int32_t i)
{
    return job->params.n_top > 0 ? job->top + row_of(job, i) * job->params.n_top : NULL;
}

bool lx_job_sample_ended(const lx_job *job, int32_t i)
{
    return atomic_load_explicit(&job->samples[i].ended, memory_order_acquire);
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
    return (lx_job_times){.submitted = atomic_load(&job->at_ns[LX_JOB_SUBMITTED]),
                          .started = atomic_load(&job->at_ns[LX_JOB_STARTED]),
                          .first_token = atomic_load(&job->first_token),
                          .last_token = atomic_load(&job->last_token),
                          .finished = atomic_load(&job->at_ns[LX_JOB_ENDED]),
                          .submitted_step = atomic_load(&job->at_step[LX_JOB_SUBMITTED]),
                          .started_step = atomic_load(&job->at_step[LX_JOB_STARTED]),
                          .finished_step = atomic_load(&job->at_step[LX_JOB_ENDED])};
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
    LX_HOLD(&job->mutex);
    job->wake = NULL;
}

void lx_job_wait(lx_job *job)
{
    LX_HOLD(&job->mutex);
    while (!lx_job_finished(job))
        (void)pthread_cond_wait(&job->done, &job->mutex);
}

float lx_job_mean_logprob(const lx_job *job, int32_t i)
{
    int32_t n = lx_job_tokens(job, i, NULL, NULL) - job->params.start.n_tokens - job->plan->n_given;
    return n > 0 ? (float)(job->samples[i].sum / n) : -__builtin_inff();
}

/* Better mean first; equal ones keep the order of their numbers. */
static int compare_samples(const void *a, const void *b, void *context)
{
    const lx_job *job = *(const lx_job **)context;
    int32_t i = *(const int32_t *)a, k = *(const int32_t *)b;
    float x = lx_job_mean_logprob(job, i), y = lx_job_mean_logprob(job, k);
    return x != y ? (x < y) - (x > y) : (i > k) - (i < k);
}

void lx_job_rank(const lx_job *job, int32_t *order)
{
    for (int32_t i = 0; i < job->params.n; i++)
        order[i] = i;
    qsort_r(order, (size_t)job->params.n, sizeof *order, compare_samples, &job);
}

const float *lx_job_state(const lx_job *job, int32_t i, int32_t *rows)
{
    *rows = job->samples[i].state_rows;
    return *rows > 0 ? job->states + (size_t)i * state_floats(job) : NULL;
}

bool lx_job_suspended(const lx_job *job)
{
    return job->suspended;
}

/* --- engine's side --- */

int32_t *lx_job_request_note(lx_job *job)
{
    return job->params.first != NULL ? &job->params.first->request_note : &job->request_note;
}

void lx_job_mark(lx_job *job, lx_job_event event, uint64_t step)
{
    atomic_store(&job->at_step[event], step);
    if (event != LX_JOB_ENDED)
        atomic_store(&job->at_ns[event], lx_now_ns());
}

void lx_job_mark_cached(lx_job *job, int32_t rows)
{
    atomic_store(&job->cached_rows, rows);
}

int32_t lx_job_cached_rows(const lx_job *job)
{
    return atomic_load(&job->cached_rows);
}

void lx_job_mark_kept(lx_job *job, int32_t rows)
{
    atomic_store(&job->kept_rows, rows);
}

int32_t lx_job_kept_rows(const lx_job *job)
{
    return atomic_load(&job->kept_rows);
}

void lx_job_count_drafted(lx_job *job, int32_t drafted, int32_t accepted)
{
    atomic_fetch_add_explicit(&job->drafted, drafted, memory_order_relaxed);
    atomic_fetch_add_explicit(&job->accepted, accepted, memory_order_relaxed);
}

void lx_job_drafted(const lx_job *job, int64_t *drafted, int64_t *accepted)
{
    *drafted = atomic_load_explicit(&job->drafted, memory_order_relaxed);
    *accepted = atomic_load_explicit(&job->accepted, memory_order_relaxed);
}

float *lx_job_state_room(lx_job *job, int32_t i, int32_t rows)
{
    if (job->states == NULL)
        return NULL;
    job->samples[i].state_rows = rows;
    return job->states + (size_t)i * state_floats(job);
}

void lx_job_mark_suspended(lx_job *job)
{
    int32_t rows = job->params.start.rows;
    if (rows > 0 && job->samples[0].state_rows == 0) /* it never began */
        memcpy(lx_job_state_room(job, 0, rows), job->start, start_floats(job) * sizeof *job->start);
    job->suspended = true;
}

lx_sample *lx_job_top_room(lx_job *job, int32_t i, int32_t step)
{
    return job->params.n_top > 0 ? job->top + (row_of(job, i) + step) * job->params.n_top : NULL;
}

void lx_job_expect(lx_job *job, int32_t i, int32_t step, int32_t stand_in)
{
    job->tokens[row_of(job, i) + step] = stand_in;
}

bool lx_job_may_suspend(lx_job *job)
{
    return job->tails == NULL || lx_stop_tails_settled(job->tails, 0);
}

/* Whether the token is the last one, without regard to stop strings. */
static bool is_last(const lx_job *job, int32_t token, int32_t n)
{
    const lx_task_ops *task = job->plan->model->task;
    if (n == job->params.max_new)
        return true;
    return n > job->params.n_targets && task->ends != NULL && task->ends(job->plan, token);
}

bool lx_job_push(lx_job *job, int32_t i, int32_t token, float logprob)
{
    sample *s = &job->samples[i];
    int32_t n = atomic_load_explicit(&s->n, memory_order_relaxed);
    job->tokens[row_of(job, i) + n] = token;
    job->logprobs[row_of(job, i) + n] = logprob;
    bool own = n >= job->plan->n_given; /* no part of the prompt */
    s->sum += own ? (double)logprob : 0;
    if (job->penalties != NULL && own)
        lx_penalties_count(job->penalties, i, token);
    if (atomic_load_explicit(&job->first_token, memory_order_relaxed) == 0)
        atomic_store(&job->first_token, lx_now_ns());
    bool ended = is_last(job, token, n + 1);
    if (job->tails != NULL && own && n >= job->plan->n_open)
        ended |= lx_stop_tails_follow(job->tails, i, n, job->tokens + row_of(job, i));
    atomic_store_explicit(&s->n, n + 1, memory_order_release);
    if (ended) {
        atomic_store(&job->last_token, lx_now_ns());
        atomic_store_explicit(&s->ended, true, memory_order_release);
    }
    return n + 1 >= atomic_load_explicit(&s->wanted, memory_order_relaxed);
}

void lx_job_finish(lx_job *job, lx_status status, const lx_error *err)
{
    job->status = status;
    if (err != NULL)
        job->err = *err;
    atomic_store(&job->at_ns[LX_JOB_ENDED], lx_now_ns());
    LX_HOLD(&job->mutex);
    atomic_store_explicit(&job->finished, true, memory_order_release);
    (void)pthread_cond_broadcast(&job->done);
}

void lx_job_notify(lx_job *job)
{
    LX_HOLD(&job->mutex);
    if (job->wake != NULL)
        job->wake(job->context);
}
