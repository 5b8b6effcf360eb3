/* Pools of samples (see pool.h). */
#include "server/api/pool.h"

#include <stdlib.h>

#include "common/clock.h"

bool lx_pool_is_drawn(const lx_served_model *served, const lx_completion_params *p)
{
    const lx_task_ops *task = served->model->task;
    if (!p->rank || p->draws != NULL || task->pool == NULL || p->n >= task->pool->n_samples)
        return false;
    int32_t longest = task->max_rows(served->model) / 2; /* half of a couplet's rows: the answer */
    return task->ends != NULL || p->max_tokens == 0 || p->max_tokens >= longest;
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
    lx_key_load load = {.n_tokens = tokens * n_samples, .n_samples = n_samples * p->n_prompts};
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

lx_status lx_pool_choose(const lx_job *job, int32_t k, int32_t *chosen, lx_error *err)
{
    const lx_plan *plan = lx_job_plan(job);
    int32_t n = lx_job_get_params(job)->n;
    lx_pool_sample *samples = calloc((size_t)n, sizeof *samples);
    if (samples == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    for (int32_t i = 0; i < n; i++) {
        samples[i].n_tokens = lx_job_tokens(job, i, &samples[i].tokens, NULL);
        samples[i].score = (double)lx_job_mean_logprob(job, i);
    }
    plan->model->task->pool->choose(plan, samples, n, k, chosen);
    free(samples);
    return LX_OK;
}
