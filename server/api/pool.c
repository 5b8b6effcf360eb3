/* Pools of samples (see pool.h). */
#include "server/api/pool.h"

#include <assert.h>
#include <stdlib.h>

#include "common/clock.h"
#include "model/tasks/choose.h"
#include "server/api/review.h"

bool lx_pool_is_drawn(const lx_served_model *served, const lx_completion_params *p)
{
    const lx_task_ops *task = served->model->task;
    if (!p->rank || p->draws != NULL || task->pool == NULL || p->n >= task->pool->n_samples)
        return false;
    int32_t longest = task->max_rows(served->model) / 2; /* half of a couplet's rows: the answer */
    return task->ends != NULL || p->max_tokens == 0 || p->max_tokens >= longest;
}

/* A pool that is no larger than its answers has no review: all of its samples are answered. */
static int32_t reviews_of(const lx_model *model, int32_t n_answers, int32_t n_samples)
{
    const lx_task_pool *pool = model->task->pool;
    assert(pool->n_reviewed <= LX_MOST_REVIEWED);
    if (n_samples <= n_answers || pool->n_reviewed == 0 || !pool->may_review(model))
        return 0;
    return pool->n_reviewed < n_samples ? pool->n_reviewed : n_samples;
}

int32_t lx_pool_reviews(const lx_model *model, const lx_completion_params *p)
{
    return p->pooled ? reviews_of(model, p->n, p->best_of) : 0;
}

/* Whether so many samples for each prompt fit: the pools of all requests at work fit the slots at
   once, and the request's key may have them now. A request with a seed has the same answer under
   any load, so for one only this request counts. */
static bool fits(const lx_api *api, const lx_served_model *served, const lx_request *rq,
                 const lx_completion_params *p, int64_t tokens, int32_t n_samples)
{
    bool seeded = p->sampling.has_seed;
    int64_t requests = (seeded ? 0 : lx_engine_jobs(served->engine)) + p->n_prompts;
    lx_key *key = lx_key_of(&rq->client);
    int32_t n_scored = n_samples + reviews_of(served->model, p->n, n_samples);
    lx_key_load load = {.n_tokens = tokens * n_scored,
                        .n_samples = (int64_t)n_samples * p->n_prompts};
    return n_samples <= api->max_n &&
           n_samples * requests <= atomic_load(&served->metrics.slots_total) &&
           (key == NULL || lx_key_has_room(key, &load, seeded, lx_now_ns()));
}

void lx_pool_set_size(const lx_api *api, const lx_served_model *served, const lx_request *rq,
                      int64_t tokens, lx_completion_params *p)
{
    const lx_task_pool *pool = served->model->task->pool;
    int32_t n = pool->n_samples;
    while (n > p->n && !fits(api, served, rq, p, tokens, n))
        n /= 2;
    p->best_of = n > p->n ? n : p->n;
    p->sampling.temperatures = pool->temperatures;
    if (p->best_of == pool->n_samples)
        return;
    p->notes.pool = p->best_of;
    p->notes.full_pool = pool->n_samples;
}

lx_status lx_pool_choose(const lx_work *w, int32_t k, int32_t *chosen, lx_error *err)
{
    const lx_task_pool *pool = lx_job_plan(w->job)->model->task->pool;
    int32_t n = w->params->n;
    lx_pool_sample *samples = lx_review_samples(w->job, err);
    if (samples == NULL)
        return LX_ERR_NO_MEMORY;
    if (w->review != NULL)
        lx_review_note(w->review, samples);
    lx_judge_reviews(samples, n, pool->review_weight);
    lx_choose_diverse(samples, n, k, chosen);
    free(samples);
    return LX_OK;
}
