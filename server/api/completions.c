/*
 * POST /v1/completions and /v1/chat/completions, which differ in the place of the prompt and in the
 * form of the answer. Whole: each prompt's choices, the best first, when all are done.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tasks/couplet.h"
#include "server/api/chat.h"
#include "server/api/completion.h"
#include "server/api/state_flow.h"
#include "server/http/sse.h"

/* --- whole --- */

static void free_lines(const lx_completion *c, lx_json_line *lines)
{
    for (int32_t i = 0; lines != NULL && i < c->n_prompts; i++)
        lx_buffer_fini(&lines[i].text);
    free(lines);
}

/* Of couplets: the prompts as they were read, [n_prompts]. NULL where the answer has none. */
static lx_status list_lines(const lx_completion *c, lx_json_line **out, lx_error *err)
{
    const lx_task_ops *task = lx_job_plan(c->works[0].job)->model->task;
    *out = NULL;
    if (task != &lx_couplet_task || c->chat)
        return LX_OK;
    *out = calloc((size_t)c->n_prompts, sizeof **out);
    lx_status st = *out != NULL ? LX_OK : LX_ERR_NO_MEMORY;
    for (int32_t i = 0; st == LX_OK && i < c->n_prompts; i++) {
        const lx_plan *plan = lx_job_plan(c->works[i].job);
        lx_json_line *line = &(*out)[i];
        line->backward = plan->backward;
        lx_buffer_init(&line->text, (size_t)plan->n_pieces * (size_t)plan->model->token_bytes);
        for (int32_t k = 0; k < plan->n_pieces; k++)
            task->render_prompt(plan, k, &line->text);
        st = line->text.status;
    }
    if (st == LX_OK)
        return LX_OK;
    free_lines(c, *out);
    *out = NULL;
    return lx_fail(err, st, NULL, "no memory for the answer");
}

static lx_status read_choices(lx_completion *c, lx_json_choice *json, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; st == LX_OK && i < c->n_prompts; i++)
        st = lx_completion_read_all(c, i, err);
    for (int32_t k = 0; st == LX_OK && k < c->n_prompts * c->n; k++) {
        lx_answer *a = &c->choices[k].answer;
        lx_answer_take(a, a->n_ready, &json[k]);
        st = lx_thinking_split(&c->choices[k].thinking, true, &json[k], err);
        lx_choice_end(c, k, &json[k]);
        lx_choice_add_prompt_ids(c, k, &json[k]);
        json[k].tones = lx_job_plan(a->work->job)->model->task == &lx_couplet_task && !c->chat;
    }
    return st;
}

static lx_status write_choices(lx_completion *c, lx_json_choice *json, lx_buffer *out,
                               lx_error *err)
{
    lx_status st = read_choices(c, json, err);
    if (st != LX_OK)
        return st;
    lx_json_usage usage = lx_completion_usage(c);
    lx_json_timings timings = lx_completion_timings(c);
    lx_json_completion whole = lx_completion_frame(c);
    whole.choices = json;
    whole.n_choices = c->n_prompts * c->n;
    whole.usage = &usage;
    whole.timings = &timings;
    c->notes.unkept = lx_works_unkept(c->works, c->n_prompts);
    whole.notes = &c->notes;
    lx_json_line *lines = NULL;
    st = list_lines(c, &lines, err);
    if (st != LX_OK)
        return st;
    whole.lines = lines;
    whole.n_lines = c->n_prompts;
    lx_buffer kept;
    whole.states = lx_completion_states(c, &kept);
    lx_json_write_completion(&whole, out);
    lx_buffer_fini(&kept);
    free_lines(c, lines);
    return out->status == LX_OK ? LX_OK
                                : lx_fail(err, out->status, NULL, "the answer does not fit");
}

static lx_status write_whole(lx_completion *c, lx_buffer *out, lx_error *err)
{
    lx_status st = lx_completion_finish(c, err);
    if (st != LX_OK)
        return st;
    lx_json_choice *json = calloc((size_t)c->n_prompts * (size_t)c->n, sizeof *json);
    if (json == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    st = write_choices(c, json, out, err);
    free(json);
    return st;
}

static void finish_whole(void *context, lx_response *rs)
{
    lx_error err = {0};
    lx_buffer body;
    lx_buffer_init(&body, ((const lx_completion *)context)->max_text);
    lx_status st = write_whole(context, &body, &err);
    lx_respond_whole(rs, st, &err, &body);
}

/* --- streamed: an event for each new token of any choice, marked with the choice's index, and
   before them one with the prompt where it is to be echoed. A choice's last event has its
   finish_reason and mean_logprob; it has no text when a stop string ended the choice --- */

static void write_chunk(lx_completion *c, const lx_json_choice *choice, lx_buffer *out)
{
    lx_json_completion chunk = lx_completion_frame(c);
    chunk.choices = choice;
    chunk.n_choices = 1;
    lx_json_usage usage;
    chunk.null_usage = c->include_usage;
    if (c->usage_always) { /* it counts the tokens of all choices */
        usage = lx_completion_usage_so_far(c, choice->index);
        chunk.usage = &usage;
    }
    chunk.chunk = true;
    chunk.notes = c->warned ? NULL : &c->notes;
    c->warned = true;
    lx_sse_begin(out);
    lx_json_write_completion(&chunk, out);
    lx_sse_end(out);
}

/* The event of the text taken of the choice. */
static void write_event(lx_completion *c, int32_t index, lx_json_choice *json, lx_buffer *out)
{
    lx_choice *choice = &c->choices[index];
    json->index = index;
    json->first = !choice->begun;
    if (json->first)
        lx_choice_add_prompt_ids(c, index, json);
    write_chunk(c, json, out);
    choice->begun = true;
}

/* The prompt is an answer of its own that stands before the tokens. */
static lx_status write_prompt(lx_completion *c, int32_t index, lx_buffer *out, lx_error *err)
{
    lx_answer prompt;
    lx_json_choice json;
    lx_answer *a = &c->choices[index].answer;
    lx_answer_init(&prompt, a->work, a->sample, a->wants_logprobs);
    lx_status st = lx_answer_add_prompt(&prompt, err);
    if (st == LX_OK) {
        lx_answer_take(&prompt, prompt.n_ready, &json);
        write_event(c, index, &json, out);
        a->chars = prompt.chars;
    }
    lx_answer_fini(&prompt);
    return st;
}

static lx_status write_token(lx_completion *c, int32_t index, lx_buffer *out, lx_error *err)
{
    lx_choice *choice = &c->choices[index];
    lx_answer *a = &choice->answer;
    lx_json_choice json;
    lx_answer_take(a, a->n_ready > 0, &json);
    choice->ended = a->ended && a->n_ready == 0;
    lx_status st = lx_thinking_split(&choice->thinking, choice->ended, &json, err);
    if (st != LX_OK)
        return st;
    if (choice->ended)
        lx_choice_end(c, index, &json);
    write_event(c, index, &json, out);
    return LX_OK;
}

/* Events for the text read of a choice; *more when there was no room for all of it. */
static lx_status write_ready(lx_completion *c, int32_t index, lx_buffer *out, bool *more,
                             lx_error *err)
{
    lx_choice *choice = &c->choices[index];
    const lx_answer *a = &choice->answer;
    lx_status st = LX_OK;
    if (c->echo && !choice->begun && a->n_ready + a->ended > 0)
        st = write_prompt(c, index, out, err);
    while (st == LX_OK && !choice->ended && a->n_ready + a->ended > 0) {
        *more = out->length >= LX_PULL_BYTES;
        if (*more)
            break;
        st = write_token(c, index, out, err);
    }
    return st;
}

static lx_status write_choice(lx_completion *c, int32_t index, lx_buffer *out, bool *more)
{
    lx_error err;
    lx_choice *choice = &c->choices[index];
    lx_status st = LX_OK;
    do {
        st = lx_answer_read(&choice->answer, LX_STREAM_TOKENS, &err);
        if (st == LX_OK)
            st = write_ready(c, index, out, more, &err);
    } while (st == LX_OK && !*more && choice->answer.behind);
    return st;
}

static void write_end(lx_completion *c, lx_buffer *out)
{
    lx_error err = {0};
    lx_status st = lx_completion_finish(c, &err);
    if (st != LX_OK) {
        lx_sse_begin(out);
        lx_api_write_error(LX_ENVELOPE_OPENAI, st, &err, out);
        lx_sse_end(out);
        return;
    }
    lx_buffer kept;
    const char *states = lx_completion_states(c, &kept);
    if (c->include_usage || states != NULL) {
        lx_json_usage usage = lx_completion_usage(c);
        lx_json_timings timings = lx_completion_timings(c);
        lx_json_completion last = lx_completion_frame(c);
        last.chunk = true;
        last.usage = c->include_usage ? &usage : NULL;
        last.timings = &timings;
        last.states = states;
        lx_json_notes late = {.unkept = lx_works_unkept(c->works, c->n_prompts)};
        last.notes = &late;
        lx_sse_begin(out);
        lx_json_write_completion(&last, out);
        lx_sse_end(out);
    }
    lx_buffer_fini(&kept);
    lx_sse_done(out);
}

/* Events for a prompt's choices. Samples begin in their order, so after the first one without a
   token there are none, unless all are done. A request may have thousands. */
static void write_samples(lx_completion *c, int32_t prompt, bool done, lx_buffer *out, bool *more)
{
    int32_t first = prompt * c->n, end = first + c->n;
    for (int32_t i = first > c->n_ended ? first : c->n_ended; i < end && !*more; i++) {
        const lx_choice *choice = &c->choices[i];
        lx_status st = write_choice(c, i, out, more);
        if (st != LX_OK)
            out->status = out->status == LX_OK ? st : out->status;
        if (!done && !choice->ended && choice->answer.n_read == 0)
            break;
    }
    while (c->n_ended < end && c->choices[c->n_ended].ended)
        c->n_ended++;
}

bool lx_completion_pull(void *context, lx_buffer *out)
{
    lx_completion *c = context;
    lx_completion_advance(c);
    bool done = lx_completion_is_done(c),
         more = false; /* before the tokens are read: no more come */
    for (int32_t i = 0; i < c->n_prompts && !more; i++)
        write_samples(c, i, done, out, &more);
    if (done && !more)
        write_end(c, out);
    return done && !more;
}

/* --- the route --- */

static void defer(lx_completion *c, bool stream, lx_response *rs)
{
    rs->deferred = (lx_deferred){
        .context = c,
        .advance = lx_completion_advance,
        .is_done = lx_completion_is_done,
        .finish = finish_whole,
        .pull = stream ? lx_completion_pull : NULL,
        .costly = c->works[0].return_state || c->works[0].suspend != NULL, /* states are saved */
        .cancel = lx_completion_cancel,
        .release = lx_completion_release,
        .ping = LX_SSE_PING,
        .failure = LX_SSE_FAILURE,
        .deadline_ns = c->works[0].deadline_ns,
    };
    if (stream)
        lx_sse_start(rs);
    else
        lx_completion_await_end(c);
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

/* The model is the state's; a request may only name this model. */
static void start_from(lx_api *api, lx_served_model *served, void *params,
                       const lx_saved_state *state, const lx_request *rq, lx_response *rs)
{
    lx_completion_params *p = params;
    p->from = state;
    start(api, served, p, rq, rs);
    p->from = NULL;
}

static void fini_params(void *params)
{
    lx_completion_params_fini(params);
}

/* Takes what p holds. */
static void resolve_state(lx_api *api, lx_completion_params *p, const lx_request *rq,
                          lx_response *rs)
{
    lx_state_source source = {.text = p->state,
                              .bytes = strlen(p->state),
                              .start = start_from,
                              .modality = LX_TEXT,
                              .params = p,
                              .params_bytes = sizeof *p,
                              .fini_params = fini_params};
    memcpy(source.model, p->model, sizeof source.model);
    lx_state_resolve(api, &source, rq, rs);
    lx_completion_params_init(p);
}

typedef lx_status (*read_function)(const char *body, size_t bytes, int32_t max_n,
                                   lx_completion_params *p, lx_error *err);

static void handle(lx_api *api, const lx_request *rq, read_function read, lx_response *rs)
{
    if (!lx_request_begins(api, rq, "application/json", rs))
        return;
    lx_error err = {0};
    lx_completion_params p;
    lx_served_model *served = NULL;
    lx_status st = read(rq->body, rq->body_bytes, api->max_n, &p, &err);
    bool from_state = st == LX_OK && p.state != NULL;
    if (st == LX_OK && !from_state)
        st = lx_serving_choose_model(api->serving, p.model, LX_TEXT, &served, &err);
    if (st == LX_OK && p.chat && served != NULL)
        st = lx_chat_prompt(served->model, &p, &err);
    if (from_state)
        resolve_state(api, &p, rq, rs);
    else if (st == LX_OK)
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
