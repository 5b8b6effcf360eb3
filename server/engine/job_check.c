/* What the params of a job say: checks, and more (see job.h). */
#include "server/engine/job.h"

/* The history must fit the plan, and the state what it is said to have seen. */
static lx_status check_start(const lx_plan *plan, const lx_job_params *p, lx_error *err)
{
    const lx_job_start *s = &p->start;
    if (s->n_tokens < 0 || s->n_tokens > plan->n_new)
        return lx_fail(err, LX_ERR_INVALID, "state",
                       "the state holds %d tokens, but an answer has %d", s->n_tokens, plan->n_new);
    for (int32_t i = 0; i < s->n_tokens; i++) {
        if (s->tokens[i] < 0 || s->tokens[i] >= plan->model->config.n_values)
            return lx_fail(err, LX_ERR_INVALID, "state", "token %d is %d, not in 0 .. %d", i,
                           s->tokens[i], plan->model->config.n_values - 1);
    }
    int32_t most = plan->n_prompt + s->n_tokens - 1, least = s->n_tokens > 0 ? most : 0;
    if (s->rows < least || s->rows > most || (s->state == NULL) != (s->rows == 0))
        return lx_fail(err, LX_ERR_INVALID, "state", "the state has seen %d rows, not %d .. %d",
                       s->rows, least, most);
    if ((s->rows > 0 || s->n_tokens > 0) && p->targets != NULL)
        return lx_fail(err, LX_ERR_INVALID, "state", "a score starts from nothing");
    return LX_OK;
}

lx_status lx_job_check(const lx_plan *plan, const lx_job_params *p, lx_error *err)
{
    bool none = (p->keep_state || plan->scored) && p->n == 1; /* is enough */
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
        return lx_fail(err, LX_ERR_INVALID, "n", "n is %d, but what is scored is one answer", p->n);
    for (int32_t i = 0; i < p->n_targets; i++) {
        if (p->targets[i] < 0 || p->targets[i] >= plan->model->config.n_values)
            return lx_fail(err, LX_ERR_INVALID, "targets", "token %d is %d, not in 0 .. %d", i,
                           p->targets[i], plan->model->config.n_values - 1);
    }
    return LX_OK;
}

bool lx_job_penalizes(const lx_job_params *p)
{
    const lx_sampling_params *s = &p->sampling;
    return s->frequency_penalty != 0 || s->presence_penalty != 0 || lx_sampling_repeats(s);
}

lx_penalties_params lx_job_penalties(const lx_plan *plan, const lx_job_params *p)
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
