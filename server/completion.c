/* One completion on its way (see completion.h). */
#include "server/completion.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "common/clock.h"

/* How long after the job's own deadline a slow reader may take. */
enum { READ_GRACE_S = 60 };

static uint64_t random_bits(void)
{
    uint64_t x = 0;
    if (getrandom(&x, sizeof x, 0) != (ssize_t)sizeof x)
        x = (uint64_t)lx_now_ns();
    return x;
}

static lx_job_params job_params(const lx_api *api, const lx_completion_params *p, int32_t n_new)
{
    int64_t timeout = api->timeout_ns;
    if (p->timeout_ms > 0 && p->timeout_ms * LX_NS_PER_MS < timeout)
        timeout = p->timeout_ms * LX_NS_PER_MS;
    return (lx_job_params){
        .n = p->n,
        .max_new = p->max_tokens > 0 && p->max_tokens < n_new ? p->max_tokens : n_new,
        .seed = p->has_seed ? (uint64_t)p->seed : random_bits() & (uint64_t)LX_MAX_SEED,
        .temperature = (float)p->temperature,
        .top_p = (float)p->top_p,
        .top_k = p->top_k,
        .deadline_ns = lx_now_ns() + timeout,
    };
}

static lx_status make_job(lx_completion *c, const lx_completion_params *p, const lx_request *rq,
                          lx_error *err)
{
    lx_task_request request = {.text = p->prompt, .text_bytes = p->prompt_bytes, .rules = p->rules};
    lx_plan *plan = NULL;
    lx_status st = lx_plan_new(c->served->model, &request, &plan, err);
    if (st != LX_OK)
        return st;
    lx_job_params params = job_params(c->api, p, plan->n_new);
    st = lx_job_new(plan, &params, rq->wake, rq->wake_context, &c->job, err); /* takes the plan */
    if (st != LX_OK)
        return st;
    c->params = lx_job_get_params(c->job);
    c->deadline_ns = params.deadline_ns + READ_GRACE_S * LX_NS_PER_S;
    return LX_OK;
}

lx_status lx_completion_start(lx_api *api, lx_served_model *served, const lx_completion_params *p,
                              const lx_request *rq, lx_completion **out, int32_t *retry_after_s,
                              lx_error *err)
{
    lx_completion *c = calloc(1, sizeof *c + (size_t)p->n * sizeof *c->cursor);
    if (c == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    c->api = api;
    c->served = served;
    c->created = (int64_t)time(NULL);
    c->include_usage = p->include_usage;
    (void)snprintf(c->id, sizeof c->id, "cmpl-%016llx", (unsigned long long)random_bits());
    lx_status st = make_job(c, p, rq, err);
    if (st == LX_OK)
        st = lx_serving_submit(served, c->job, err);
    if (st == LX_OK) {
        *out = c;
        return LX_OK;
    }
    if (st == LX_ERR_BUSY)
        *retry_after_s = lx_engine_retry_after_s(served->engine);
    lx_count_outcome(served, st);
    lx_completion_release(c);
    return st;
}

static lx_outcome outcome_of(lx_status status)
{
    switch (status) {
    case LX_OK:
        return LX_OUTCOME_OK;
    case LX_ERR_INVALID:
    case LX_ERR_NOT_FOUND:
    case LX_ERR_TOO_LARGE:
        return LX_OUTCOME_INVALID;
    case LX_ERR_BUSY:
        return LX_OUTCOME_BUSY;
    case LX_ERR_CANCELLED:
        return LX_OUTCOME_CANCELLED;
    case LX_ERR_TIMEOUT:
        return LX_OUTCOME_TIMEOUT;
    default:
        return LX_OUTCOME_ERROR;
    }
}

void lx_count_outcome(lx_served_model *served, lx_status status)
{
    atomic_fetch_add(&served->metrics.requests[outcome_of(status)], 1);
}

void lx_completion_count(lx_completion *c, lx_status status)
{
    if (atomic_exchange(&c->counted, true))
        return;
    lx_count_outcome(c->served, status);
    lx_histogram_observe(&c->served->metrics.request_time,
                         lx_now_ns() - lx_job_get_times(c->job).submitted);
}

bool lx_completion_ready(void *context)
{
    const lx_completion *c = context;
    return lx_job_finished(c->job);
}

void lx_completion_cancel(void *context)
{
    lx_completion *c = context;
    lx_completion_count(c, LX_ERR_CANCELLED); /* unless its answer is complete */
    if (lx_job_finished(c->job))
        return;
    lx_job_cancel(c->job);
    lx_engine_poke(c->served->engine);
}

void lx_completion_release(void *context)
{
    lx_completion *c = context;
    if (c->job != NULL) {
        lx_job_detach(c->job);
        lx_job_unref(c->job);
    }
    free(c);
}

lx_status lx_completion_status(const lx_completion *c, lx_error *err)
{
    lx_status st = lx_job_status(c->job, err);
    if (st == LX_ERR_CANCELLED && lx_serving_get_state(c->api->serving) == LX_SERVING_DRAINING)
        return lx_fail(err, LX_ERR_UNAVAILABLE, NULL,
                       "the server is shutting down and could not finish this answer");
    return st;
}

lx_status lx_completion_answers(const lx_completion *c, lx_answer *answers, lx_buffer *text,
                                lx_error *err)
{
    int32_t n = c->params->n;
    int32_t *order = calloc((size_t)n, sizeof *order);
    if (order == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    lx_job_rank(c->job, order);
    for (int32_t i = 0; i < n; i++) {
        const int32_t *tokens = NULL;
        int32_t count = lx_job_tokens(c->job, order[i], &tokens, NULL);
        answers[i].begin = text->length;
        lx_plan_text(lx_job_plan(c->job), tokens, count, text);
        answers[i].bytes = text->length - answers[i].begin;
        answers[i].mean_logprob = (double)lx_job_mean_logprob(c->job, order[i]);
    }
    free(order);
    if (text->status != LX_OK)
        return lx_fail(err, text->status, NULL, "the answer does not fit");
    return LX_OK;
}

const char *lx_completion_finish_reason(const lx_completion *c)
{
    return c->params->max_new < lx_job_plan(c->job)->n_new ? "length" : "stop";
}

lx_json_usage lx_completion_usage(const lx_completion *c)
{
    lx_json_usage u = {.prompt_tokens = lx_job_plan(c->job)->n_prompt};
    for (int32_t i = 0; i < c->params->n; i++)
        u.completion_tokens += lx_job_tokens(c->job, i, NULL, NULL);
    return u;
}

static double ms_between(int64_t from, int64_t to)
{
    return from != 0 && to >= from ? (double)(to - from) / (double)LX_NS_PER_MS : 0;
}

lx_json_timings lx_completion_timings(const lx_completion *c)
{
    lx_job_times t = lx_job_get_times(c->job);
    lx_json_usage u = lx_completion_usage(c);
    return (lx_json_timings){
        .queue_ms = ms_between(t.submitted, t.started),
        .ttft_ms = ms_between(t.submitted, t.first_token),
        .predicted_ms = ms_between(t.started, t.finished),
        .total_ms = ms_between(t.submitted, t.finished),
        .prompt_n = u.prompt_tokens,
        .predicted_n = u.completion_tokens,
    };
}
