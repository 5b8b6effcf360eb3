/* Reviews of a pool's samples (see review.h). */
#include "server/api/review.h"

#include <stdlib.h>

#include "model/tasks/choose.h"

static lx_job_params review_params(int32_t *answer, int32_t n)
{
    return (lx_job_params){
        .n = 1,
        .max_new = n,
        .targets = answer,
        .n_targets = n,
        .follows = true,
        .sampling = {.temperature = 1, .top_p = 1, .has_seed = true},
    };
}

int64_t lx_review_bytes(const lx_plan *plan, int32_t n_reviews, int32_t max_new)
{
    int32_t none = 0;
    lx_job_params params = review_params(&none, max_new);
    return (int64_t)sizeof(lx_review) + n_reviews * lx_job_bytes(plan, &params);
}

lx_pool_sample *lx_review_samples(const lx_job *job, lx_error *err)
{
    const lx_plan *plan = lx_job_plan(job);
    int32_t n = lx_job_get_params(job)->n;
    lx_pool_sample *samples = calloc((size_t)n, sizeof *samples);
    if (samples == NULL) {
        (void)lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
        return NULL;
    }
    for (int32_t i = 0; i < n; i++) {
        samples[i].n_tokens = lx_job_tokens(job, i, &samples[i].tokens, NULL);
        samples[i].score = (double)lx_job_mean_logprob(job, i);
    }
    plan->model->task->pool->judge(plan, samples, n);
    return samples;
}

/* Makes the plan its job and submits it. Takes the plan. */
static lx_status submit(lx_review *r, const lx_pending *pending, lx_plan *plan,
                        const lx_token_list *answer, lx_error *err)
{
    lx_job_params params = review_params(answer->ids, (int32_t)answer->n);
    lx_job *job = NULL;
    const lx_job_params *of_pool = lx_job_get_params(r->pool);
    params.deadline_ns = of_pool->deadline_ns;
    params.client = of_pool->client;
    params.reserve = of_pool->reserve;
    params.first = of_pool->first != NULL ? of_pool->first : r->pool;
    lx_status st = lx_job_new(plan, &params, r->wake, r->wake_context, &job, err);
    if (st != LX_OK)
        return st;
    lx_job_want(job, 0, INT32_MAX);
    st = lx_serving_submit(pending->served, job, err);
    if (st != LX_OK) {
        lx_job_detach(job);
        lx_job_unref(job);
        return st;
    }
    atomic_store(&r->jobs[r->n++], job);
    if (atomic_load(&r->cancelled)) /* lx_review_cancel may have missed it */
        lx_job_cancel(job);
    return LX_OK;
}

static lx_status review_sample(lx_review *r, const lx_pending *pending,
                               const lx_pool_sample *sample, int32_t number, lx_error *err)
{
    const lx_plan *of_pool = lx_job_plan(r->pool);
    lx_plan *plan = NULL;
    lx_token_list answer;
    lx_token_list_init(&answer, (size_t)of_pool->n_new);
    lx_status st = of_pool->model->task->pool->review(of_pool, sample, &plan, &answer, err);
    if (st == LX_OK && answer.status != LX_OK) {
        lx_plan_free(plan);
        plan = NULL;
        st = lx_fail(err, answer.status, NULL, "no memory for a review");
    }
    r->samples[r->n] = number;
    if (st == LX_OK && plan != NULL)
        st = submit(r, pending, plan, &answer, err);
    lx_token_list_fini(&answer);
    return st;
}

static lx_status begin(lx_review *r, const lx_pending *pending, lx_error *err)
{
    int32_t chosen[LX_MOST_REVIEWED];
    lx_pool_sample *samples = lx_review_samples(r->pool, err);
    if (samples == NULL)
        return LX_ERR_NO_MEMORY;
    int32_t n = lx_choose_distinct(samples, lx_job_get_params(r->pool)->n, r->most, chosen);
    lx_status st = LX_OK;
    for (int32_t i = 0; st == LX_OK && i < n; i++)
        st = review_sample(r, pending, &samples[chosen[i]], chosen[i], err);
    free(samples);
    return st;
}

void lx_review_advance(lx_review *r, const lx_pending *pending)
{
    if (r->begun || !lx_job_finished(r->pool))
        return;
    if (r->most > 0 && lx_job_status(r->pool, NULL) == LX_OK)
        r->status = begin(r, pending, &r->err);
    r->begun = true;
}

bool lx_review_is_done(const lx_review *r)
{
    for (int32_t i = 0; i < r->n; i++) {
        if (!lx_job_finished(atomic_load(&r->jobs[i])))
            return false;
    }
    return r->begun;
}

bool lx_review_cancel(lx_review *r)
{
    bool any = false;
    atomic_store(&r->cancelled, true);
    for (int32_t i = 0; i < r->most; i++) {
        lx_job *job = atomic_load(&r->jobs[i]);
        if (job == NULL || lx_job_finished(job))
            continue;
        lx_job_cancel(job);
        any = true;
    }
    return any;
}

lx_status lx_review_status(const lx_review *r, lx_error *err)
{
    lx_status st = r->status;
    if (st != LX_OK)
        *err = r->err;
    for (int32_t i = 0; st == LX_OK && i < r->n; i++)
        st = lx_job_status(atomic_load(&r->jobs[i]), err);
    return st;
}

void lx_review_add_end(const lx_review *r, lx_job_times *times)
{
    for (int32_t i = 0; i < r->n; i++) {
        lx_job_times t = lx_job_get_times(atomic_load(&r->jobs[i]));
        times->finished = t.finished > times->finished ? t.finished : times->finished;
        if (t.finished_step > times->finished_step)
            times->finished_step = t.finished_step;
    }
}

void lx_review_note(const lx_review *r, lx_pool_sample *samples)
{
    for (int32_t i = 0; i < r->n; i++) {
        lx_pool_sample *s = &samples[r->samples[i]];
        s->reviewed = true;
        s->review = (double)lx_job_mean_logprob(atomic_load(&r->jobs[i]), 0);
    }
}

void lx_review_fini(lx_review *r)
{
    for (int32_t i = 0; i < r->n; i++) {
        lx_job *job = atomic_load(&r->jobs[i]);
        lx_job_detach(job);
        lx_job_unref(job);
    }
    r->n = 0;
}
