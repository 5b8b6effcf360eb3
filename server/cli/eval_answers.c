/* Answers for linnet eval (see eval_answers.h), as many at a time as there are slots. */
#include "server/cli/eval_answers.h"

#include "server/cli/eval.h"
#include "server/engine/engine.h"

enum { N_SLOTS = 128 };

static lx_status submit(lx_engine *engine, const lx_eval_answers *a, int32_t i, lx_job **out,
                        lx_error *err)
{
    lx_plan *plan = NULL;
    lx_status st = a->plan(a->context, i, &plan, err);
    if (st != LX_OK)
        return st;
    lx_job_params params = {
        .n = 1, .max_new = plan->n_new, .sampling = a->sampling, .deadline_ns = INT64_MAX};
    st = lx_job_new(plan, &params, NULL, NULL, out, err); /* takes the plan */
    return st == LX_OK ? lx_engine_submit(engine, *out, err) : st;
}

/* Answers first .. first + n - 1. */
static lx_status answer_some(lx_engine *engine, const lx_eval_answers *a, int32_t first, int32_t n,
                             lx_error *err)
{
    lx_job *jobs[N_SLOTS] = {0};
    lx_status st = LX_OK;
    for (int32_t i = 0; i < n && st == LX_OK; i++)
        st = submit(engine, a, first + i, &jobs[i], err);
    for (int32_t i = 0; i < n && jobs[i] != NULL && st == LX_OK; i++) {
        lx_job_wait(jobs[i]);
        st = lx_job_status(jobs[i], err);
        if (st == LX_OK)
            a->judge(a->context, first + i, jobs[i]);
    }
    for (int32_t i = 0; i < n; i++)
        lx_job_unref(jobs[i]);
    return st;
}

lx_status lx_eval_answer(const lx_cli_model *local, const lx_eval_answers *a, lx_error *err)
{
    static lx_metrics metrics;
    lx_engine_options limits = {.n_slots = N_SLOTS,
                                .max_queue = N_SLOTS,
                                .max_tokens = LX_EVAL_ROWS,
                                .prompt_chunk = 64,
                                .prompt_beside = LX_EVAL_ROWS};
    lx_engine *engine = NULL;
    lx_status st = lx_engine_start(local->transformer, &limits, &metrics, &engine, err);
    for (int32_t i = 0; i < a->n && st == LX_OK; i += N_SLOTS)
        st = answer_some(engine, a, i, a->n - i < N_SLOTS ? a->n - i : N_SLOTS, err);
    lx_engine_stop(engine);
    return st;
}
