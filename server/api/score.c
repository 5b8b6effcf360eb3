/*
 * POST /v1/score: how well a model predicts the values that a client sends. The answer comes from
 * the engine's own forward pass, as a job whose tokens are given.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tasks/image.h"
#include "server/api/generation.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

/* 2^20 values of 14 bytes at most, and the rest of the object. */
enum { MAX_ANSWER = 16 << 20 };

/* --- the answer --- */

static void write_answer(const lx_work *w, lx_buffer *out)
{
    const lx_task_ops *task = w->pending.served->model->task;
    lx_json_timings timings = lx_work_timings(w);
    lx_json_score answer = {
        .model = w->pending.served->model->name,
        .fingerprint = w->pending.served->fingerprint,
        .mean_name = task->score_name,
        .n_prompt = lx_job_plan(w->job)->n_prompt,
        .unit = task->score_unit,
        .timings = &timings,
    };
    answer.n = lx_job_tokens(w->job, 0, NULL, &answer.logprobs);
    lx_json_write_score(&answer, out);
    if (w->notes != NULL)
        lx_json_append_notes(w->notes, out);
}

static void finish(void *context, lx_response *rs)
{
    lx_work *w = context;
    lx_error err = {0};
    lx_status st = lx_work_status(w, &err);
    (void)lx_work_count(w, st);
    if (st != LX_OK) {
        lx_respond_status(rs, st, &err);
        return;
    }
    lx_buffer body;
    lx_buffer_init(&body, MAX_ANSWER);
    write_answer(w, &body);
    lx_response_take(rs, 200, "application/json", &body);
}

/* --- the scored values --- */

typedef struct scored {
    lx_plan *plan;    /* until its job has it */
    int32_t *targets; /* [n], owned */
    int32_t n;
} scored;

static lx_status allocate_targets(scored *s, int32_t n, lx_error *err)
{
    s->targets = malloc((size_t)n * sizeof *s->targets + 1); /* never of size 0 */
    s->n = n;
    return s->targets != NULL ? LX_OK
                              : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d values", n);
}

/* A picture is scored whole: nothing of it is given. */
static lx_status image_targets(lx_served_model *served, const lx_score_params *p, scored *out,
                               lx_error *err)
{
    const lx_config *c = &served->model->config;
    uint8_t *values = NULL;
    const lx_task_request request = {.text = NULL};
    const char *unread = p->prompt != NULL ? "prompt" : p->completion != NULL ? "completion" : NULL;
    if (p->image.data == NULL)
        return lx_fail(err, LX_ERR_INVALID, "image", "image is missing: model %s scores a PNG",
                       served->model->name);
    if (unread != NULL)
        return lx_fail(err, LX_ERR_INVALID, unread, "model %s scores a PNG: leave %s out",
                       served->model->name, unread);
    lx_status st = lx_picture_read(c, (lx_png_file){p->image.data, p->image.bytes}, &values, err);
    if (st == LX_OK)
        st = allocate_targets(out, lx_image_size(c), err);
    for (int32_t i = 0; st == LX_OK && i < out->n; i++)
        out->targets[i] = lx_image_level(c, values[i]);
    free(values);
    return st == LX_OK ? lx_plan_new(served->model, &request, &out->plan, err) : st;
}

/* The completion's own tokens, as if it had been generated. */
static lx_status text_targets(const lx_score_params *p, scored *out, lx_error *err)
{
    lx_token_list list;
    lx_token_list_init(&list, (size_t)out->plan->n_new);
    lx_status st = out->plan->model->task->read_answer(out->plan, p->completion,
                                                       p->completion_bytes, &list, err);
    if (st == LX_OK && list.status != LX_OK)
        st = lx_fail(err, list.status, NULL, "no memory for a completion");
    if (st != LX_OK) {
        lx_token_list_fini(&list);
        return st;
    }
    out->targets = list.ids;
    out->n = (int32_t)list.n;
    return LX_OK;
}

static lx_status line_targets(const lx_api *api, lx_served_model *served, const lx_score_params *p,
                              scored *out, lx_error *err)
{
    const char *missing = p->prompt == NULL ? "prompt" : "completion";
    if (p->prompt == NULL || p->completion == NULL)
        return lx_fail(err, LX_ERR_INVALID, missing,
                       "%s is missing: model %s scores a completion of a prompt", missing,
                       served->model->name);
    if (p->image.data != NULL)
        return lx_fail(err, LX_ERR_INVALID, "image",
                       "model %s scores a completion of a prompt: leave image out",
                       served->model->name);
    lx_task_request request = {.text = p->prompt,
                               .text_bytes = p->prompt_bytes,
                               .max_prompt = api->max_prompt,
                               .rules = false};
    lx_status st = lx_plan_new(served->model, &request, &out->plan, err);
    return st == LX_OK ? text_targets(p, out, err) : st;
}

/* --- the route --- */

static lx_status find_model(lx_api *api, const lx_score_params *p, lx_served_model **out,
                            lx_error *err)
{
    if (p->model[0] == '\0' && p->image.data == NULL)
        return lx_serving_choose_model(api->serving, p->model, LX_TEXT, out, err);
    return lx_serving_find_model(api->serving, p->model,
                                 lx_serving_made_by(api->serving, p->model, LX_IMAGE), out, err);
}

static void start(lx_api *api, lx_served_model *served, scored *s, const lx_score_params *p,
                  const lx_request *rq, lx_response *rs)
{
    lx_work_params params = {.n = 1,
                             .max_new = s->n,
                             .sampling = {.temperature = 1, .top_p = 1, .has_seed = true},
                             .targets = s->targets,
                             .timeout_ms = p->timeout_ms,
                             .notes = &p->notes};
    lx_work_defer(api, served, s->plan, &params,
                  LX_COST_GROWN * (LX_COST_HEAD + s->n * (int64_t)LX_COST_REAL), rq, finish, rs);
}

static void answer(lx_api *api, const lx_score_params *p, lx_status st, lx_error *err,
                   const lx_request *rq, lx_response *rs)
{
    lx_served_model *served = NULL;
    scored s = {0};
    if (st == LX_OK)
        st = find_model(api, p, &served, err);
    if (st == LX_OK)
        st = served->model->task->modality == LX_IMAGE ? image_targets(served, p, &s, err)
                                                       : line_targets(api, served, p, &s, err);
    if (st == LX_OK) {
        start(api, served, &s, p, rq, rs);
    } else {
        lx_plan_free(s.plan);
        lx_api_refuse(api, p->model, st, err, rs);
    }
    free(s.targets);
}

void lx_handle_score(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_request_begins(api, rq, "application/json or multipart/form-data", rs))
        return;
    bool form = lx_request_is_multipart(rq);
    lx_error err = {0};
    lx_score_params p;
    lx_status st = form ? lx_form_read_score(rq->content_type, rq->body, rq->body_bytes, &p, &err)
                        : lx_json_read_score(rq->body, rq->body_bytes, &p, &err);
    answer(api, &p, st, &err, rq, rs);
    lx_score_params_fini(&p);
}
