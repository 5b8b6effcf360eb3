/* One completion on its way (see completion.h). */
#include "server/completion.h"

#include <stdio.h>
#include <stdlib.h>

static lx_status start_work(lx_completion *c, lx_api *api, lx_served_model *served,
                            const lx_completion_params *p, const lx_request *rq,
                            int32_t *retry_after_s, lx_error *err)
{
    lx_task_request request = {.text = p->prompt, .text_bytes = p->prompt_bytes, .rules = p->rules};
    lx_work_params params = {
        .n = p->n,
        .max_new = p->max_tokens,
        .top_k = p->top_k,
        .temperature = p->temperature,
        .top_p = p->top_p,
        .has_seed = p->has_seed,
        .seed = p->seed,
        .timeout_ms = p->timeout_ms,
    };
    lx_plan *plan = NULL;
    lx_status st = lx_work_plan(served, &request, &plan, err);
    if (st == LX_OK)
        st = lx_work_start(&c->work, api, served, plan, &params, rq, retry_after_s, err);
    return st;
}

lx_status lx_completion_start(lx_api *api, lx_served_model *served, const lx_completion_params *p,
                              const lx_request *rq, lx_completion **out, int32_t *retry_after_s,
                              lx_error *err)
{
    lx_completion *c = calloc(1, sizeof *c + (size_t)p->n * sizeof *c->cursor);
    if (c == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    c->include_usage = p->include_usage;
    c->chat = p->chat;
    (void)snprintf(c->id, sizeof c->id, "%s-%016llx", p->chat ? "chatcmpl" : "cmpl",
                   (unsigned long long)lx_work_random_bits());
    lx_status st = start_work(c, api, served, p, rq, retry_after_s, err);
    if (st == LX_OK)
        *out = c;
    else
        free(c);
    return st;
}

void lx_completion_release(void *context)
{
    lx_completion *c = context;
    lx_work_fini(&c->work);
    free(c);
}

lx_status lx_completion_answers(const lx_completion *c, lx_answer *answers, lx_buffer *text,
                                lx_error *err)
{
    int32_t n = c->work.params->n;
    int32_t *order = calloc((size_t)n, sizeof *order);
    if (order == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    lx_job_rank(c->work.job, order);
    for (int32_t i = 0; i < n; i++) {
        const int32_t *tokens = NULL;
        int32_t count = lx_job_tokens(c->work.job, order[i], &tokens, NULL);
        answers[i].begin = text->length;
        lx_plan_text(lx_job_plan(c->work.job), tokens, count, text);
        answers[i].bytes = text->length - answers[i].begin;
        answers[i].mean_logprob = (double)lx_job_mean_logprob(c->work.job, order[i]);
    }
    free(order);
    if (text->status != LX_OK)
        return lx_fail(err, text->status, NULL, "the answer does not fit");
    return LX_OK;
}

const char *lx_completion_finish_reason(const lx_completion *c)
{
    return c->work.params->max_new < lx_job_plan(c->work.job)->n_new ? "length" : "stop";
}

lx_json_usage lx_completion_usage(const lx_completion *c)
{
    return (lx_json_usage){
        .prompt_tokens = lx_job_plan(c->work.job)->n_prompt,
        .completion_tokens = lx_work_tokens(&c->work),
    };
}
