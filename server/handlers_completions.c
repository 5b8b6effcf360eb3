/*
 * POST /v1/completions and /v1/chat/completions, which differ in where the prompt stands and how
 * an answer is wrapped. Whole: the best answer first, when all are done. Streamed: one event per
 * new token of any sample, marked with the sample's index; a sample's last event carries its
 * finish_reason and mean_logprob.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/completion.h"
#include "server/sse.h"

enum {
    MAX_ANSWER = 8 << 20,
    MAX_EVENT_TEXT = 4096,
    PULL_BYTES =
        16 * 1024 /* a pull stops here, so that a slow reader's backlog is made piecewise */
};

static lx_json_completion frame(const lx_completion *c)
{
    return (lx_json_completion){
        .id = c->id,
        .model = c->work.served->model->name,
        .fingerprint = c->work.served->fingerprint,
        .created = c->work.created,
        .seed = (int64_t)c->work.params->seed,
        .chat = c->chat,
    };
}

/* --- whole
 * ---------------------------------------------------------------------------------------- */

static void write_choices(const lx_completion *c, const lx_answer *answers, const char *text,
                          lx_json_choice *choices, lx_buffer *out)
{
    lx_json_usage usage = lx_completion_usage(c);
    lx_json_timings timings = lx_work_timings(&c->work);
    for (int32_t i = 0; i < c->work.params->n; i++)
        choices[i] = (lx_json_choice){
            .index = i,
            .text = text + answers[i].begin,
            .text_bytes = answers[i].bytes,
            .finish_reason = lx_completion_finish_reason(c),
            .has_score = true,
            .mean_logprob = answers[i].mean_logprob,
        };
    lx_json_completion whole = frame(c);
    whole.choices = choices;
    whole.n_choices = c->work.params->n;
    whole.usage = &usage;
    whole.timings = &timings;
    lx_json_write_completion(&whole, out);
}

static lx_status write_whole(lx_completion *c, lx_buffer *out, lx_error *err)
{
    lx_status st = lx_work_status(&c->work, err);
    lx_work_count(&c->work, st);
    if (st != LX_OK)
        return st;
    size_t n = (size_t)c->work.params->n;
    lx_answer *answers = calloc(n, sizeof *answers);
    lx_json_choice *choices = calloc(n, sizeof *choices);
    lx_buffer text;
    lx_buffer_init(&text, MAX_ANSWER);
    lx_buffer_append(&text, "", 0);
    if (answers == NULL || choices == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    else
        st = lx_completion_answers(c, answers, &text, err);
    if (st == LX_OK)
        write_choices(c, answers, text.data, choices, out);
    if (st == LX_OK && out->status != LX_OK)
        st = lx_fail(err, out->status, NULL, "the answer does not fit");
    lx_buffer_fini(&text);
    free(answers);
    free(choices);
    return st;
}

static void finish_whole(void *context, lx_response *rs)
{
    lx_error err = {0};
    lx_buffer body;
    lx_buffer_init(&body, MAX_ANSWER);
    lx_status st = write_whole(context, &body, &err);
    if (st == LX_OK) {
        lx_response_take(rs, 200, "application/json", &body);
    } else {
        lx_buffer_fini(&body);
        lx_respond_status(rs, st, &err);
    }
}

/* --- streamed
 * ------------------------------------------------------------------------------------- */

static void write_chunk(const lx_completion *c, const lx_json_choice *choice, lx_buffer *out)
{
    lx_json_completion chunk = frame(c);
    chunk.choices = choice;
    chunk.n_choices = 1;
    chunk.null_usage = c->include_usage;
    chunk.chunk = true;
    lx_sse_begin(out);
    lx_json_write_completion(&chunk, out);
    lx_sse_end(out);
}

/* The mean over a sample whose tokens are all there, while the job as a whole may still run. */
static double mean_logprob(const lx_completion *c, int32_t i)
{
    const float *logprobs = NULL;
    int32_t n = lx_job_tokens(c->work.job, i, NULL, &logprobs);
    double sum = 0;
    for (int32_t k = 0; k < n; k++)
        sum += (double)logprobs[k];
    return n > 0 ? (double)(float)(sum / n) : 0; /* as lx_job_mean_logprob rounds */
}

static void write_token(const lx_completion *c, int32_t i, int32_t step, const int32_t *tokens,
                        lx_buffer *out)
{
    const lx_plan *plan = lx_job_plan(c->work.job);
    lx_buffer text;
    lx_buffer_init(&text, MAX_EVENT_TEXT);
    lx_buffer_append(&text, "", 0);
    plan->model->task->render(plan, step, tokens, &text);
    lx_json_choice choice = {
        .index = i, .first = step == 0, .text = text.data, .text_bytes = text.length};
    if (step + 1 == c->work.params->max_new) {
        choice.finish_reason = lx_completion_finish_reason(c);
        choice.has_score = true;
        choice.mean_logprob = mean_logprob(c, i);
    }
    if (text.status == LX_OK)
        write_chunk(c, &choice, out);
    else
        out->status = text.status;
    lx_buffer_fini(&text);
}

static void write_end(lx_completion *c, lx_buffer *out)
{
    lx_error err = {0};
    lx_status st = lx_work_status(&c->work, &err);
    lx_work_count(&c->work, st);
    if (st != LX_OK) {
        lx_sse_begin(out);
        lx_api_write_error(st, &err, out);
        lx_sse_end(out);
        return;
    }
    if (c->include_usage) {
        lx_json_usage usage = lx_completion_usage(c);
        lx_json_timings timings = lx_work_timings(&c->work);
        lx_json_completion last = frame(c);
        last.chunk = true;
        last.usage = &usage;
        last.timings = &timings;
        lx_sse_begin(out);
        lx_json_write_completion(&last, out);
        lx_sse_end(out);
    }
    lx_sse_done(out);
}

static bool pull(void *context, lx_buffer *out)
{
    lx_completion *c = context;
    bool finished = lx_job_finished(c->work.job); /* asked first: all its tokens are seen below */
    for (int32_t i = 0; i < c->work.params->n; i++) {
        const int32_t *tokens = NULL;
        int32_t count = lx_job_tokens(c->work.job, i, &tokens, NULL);
        while (c->cursor[i] < count) {
            if (out->length >= PULL_BYTES)
                return false;
            write_token(c, i, c->cursor[i]++, tokens, out);
        }
    }
    if (finished)
        write_end(c, out);
    return finished;
}

/* --- the route
 * ------------------------------------------------------------------------------------ */

static void defer(lx_completion *c, bool stream, lx_response *rs)
{
    rs->deferred = (lx_deferred){
        .context = c,
        .ready = lx_work_ready,
        .finish = finish_whole,
        .pull = stream ? pull : NULL,
        .cancel = lx_work_cancel,
        .release = lx_completion_release,
        .ping = LX_SSE_PING,
        .deadline_ns = c->work.deadline_ns,
    };
    if (stream)
        lx_sse_start(rs);
}

static void start(lx_api *api, lx_served_model *served, const lx_completion_params *p,
                  const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    lx_completion *c = NULL;
    int32_t retry_after_s = 0;
    lx_status st = lx_completion_start(api, served, p, rq, &c, &retry_after_s, &err);
    if (p->chat && strcmp(err.param, "prompt") == 0) /* where the line came from */
        (void)snprintf(err.param, sizeof err.param, "messages");
    if (st == LX_OK)
        defer(c, p->stream, rs);
    else
        lx_respond_unstarted(rs, st, &err, retry_after_s);
}

typedef lx_status (*read_function)(const char *body, size_t bytes, int32_t max_n,
                                   lx_completion_params *p, lx_error *err);

static void handle(lx_api *api, const lx_request *rq, read_function read, lx_response *rs)
{
    if (!lx_request_is_json(rq)) {
        lx_respond_unread(rs, "application/json");
        return;
    }
    lx_error err = {0};
    lx_completion_params p;
    lx_completion_params_init(&p);
    lx_served_model *served = NULL;
    lx_status st = lx_api_check_ready(api, &err);
    if (st == LX_OK)
        st = read(rq->body, rq->body_bytes, api->max_n, &p, &err);
    if (st == LX_OK)
        st = lx_api_find_model(api, p.model, LX_TEXT, &served, &err);
    if (st == LX_OK)
        start(api, served, &p, rq, rs);
    else
        lx_api_refuse(api, p.model, st, &err, rs);
    lx_completion_params_fini(&p);
}

void lx_handle_completions(lx_api *api, const lx_request *rq, lx_response *rs)
{
    handle(api, rq, lx_json_read_completion, rs);
}

void lx_handle_chat(lx_api *api, const lx_request *rq, lx_response *rs)
{
    handle(api, rq, lx_json_read_chat, rs);
}
