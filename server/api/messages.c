/*
 * POST /v1/messages: a chat in the form of Anthropic's Messages API, and the number of tokens of
 * its prompt (/v1/messages/count_tokens). An answer has blocks: thoughts, then a text, then calls
 * of tools. Whole: one object. Streamed: events that begin, extend and end each
 * block in turn. The first event has the usage, so it waits for the first token, when all rows of
 * the prompt are known as computed, reused or kept.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/chat.h"
#include "server/api/completion.h"
#include "server/http/sse.h"
#include "server/json/answers.h"

enum { TOKENS_BYTES = 256 }; /* of an answer with a number of tokens, but for its warnings */

static const char ping[] = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
static const char failure[] =
    "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\","
    "\"message\":\"the rest of the answer could not be made\",\"param\":null,"
    "\"code\":\"internal_error\"}}\n\n";

typedef enum block { NO_BLOCK, THINKING, TEXT, TOOL_USE } block;

typedef struct messaging {
    lx_completion *c; /* first: see lx_completion_held_advance */
    int32_t n_stops;  /* the client's; the template adds others after them */
    /* of a stream */
    block open;      /* the block that was begun and not ended */
    int32_t n_ended; /* blocks */
    const char *finish_reason;
} messaging;

/* --- JSON --- */

/* The client's stop string that ended the answer; NULL: none did. */
static const struct lx_stop *stop_of(const messaging *m)
{
    const lx_answer *a = &m->c->choices[0].answer;
    return a->stopped && a->stop < m->n_stops ? &a->work->params->stops->stop[a->stop] : NULL;
}

static void write_stop(const messaging *m, const char *finish_reason, lx_buffer *out)
{
    const struct lx_stop *stop = stop_of(m);
    const char *reason = strcmp(finish_reason, "tool_calls") == 0 ? "tool_use"
                         : strcmp(finish_reason, "length") == 0   ? "max_tokens"
                         : stop != NULL                           ? "stop_sequence"
                                                                  : "end_turn";
    bool told = stop != NULL && strcmp(reason, "stop_sequence") == 0;
    lx_json_put(out, "'stop_reason':%s,'stop_sequence':", reason);
    if (told)
        lx_json_put(out, "%.*s", (int)stop->bytes, stop->text);
    else
        lx_buffer_puts(out, "null");
}

/* Each row of the prompt is in one of three counts: read from a kept state, kept with a state for
   later requests, or neither. */
static void write_usage(const lx_json_usage *u, lx_buffer *out)
{
    lx_json_put(out,
                ",'usage':{'input_tokens':%jd,'cache_creation_input_tokens':%jd,"
                "'cache_read_input_tokens':%jd,'output_tokens':%jd}",
                u->prompt_tokens - u->cached_tokens - u->kept_tokens, u->kept_tokens,
                u->cached_tokens, u->completion_tokens);
}

/* A message up to its blocks. */
static void write_head(const messaging *m, lx_buffer *out)
{
    lx_json_completion f = lx_completion_frame(m->c);
    lx_json_put(out,
                "{'id':%s,'type':'message','role':'assistant','model':%s,"
                "'system_fingerprint':%s,'seed':%jd,'content':[",
                f.id, f.model, f.fingerprint, f.seed);
}

/* A call that was cut has no whole arguments, and so an empty input. */
static void write_call(const lx_json_call *call, bool with_input, lx_buffer *out)
{
    lx_json_put(out, "{'type':'tool_use','id':%s,'name':%.*s,'input':", call->id,
                (int)call->name_bytes, call->name);
    if (with_input && call->ended)
        lx_buffer_append(out, call->arguments, call->bytes);
    else
        lx_buffer_puts(out, "{}");
    lx_buffer_puts(out, "}");
}

static void write_blocks(const lx_json_choice *json, lx_buffer *out)
{
    const char *comma = "";
    if (json->thought_bytes > 0) {
        lx_json_put(out, "{'type':'thinking','thinking':%.*s,'signature':''}",
                    (int)json->thought_bytes, json->thought);
        comma = ",";
    }
    if (json->text_bytes > 0) {
        lx_buffer_puts(out, comma);
        lx_json_put(out, "{'type':'text','text':%.*s}", (int)json->text_bytes, json->text);
        comma = ",";
    }
    for (int32_t i = 0; i < json->n_calls; i++) {
        lx_buffer_puts(out, comma);
        write_call(&json->calls[i], true, out);
        comma = ",";
    }
}

/* --- whole --- */

static lx_status read_whole(messaging *m, lx_json_choice *json, lx_error *err)
{
    lx_completion *c = m->c;
    lx_answer *a = &c->choices[0].answer;
    lx_status st = lx_completion_finish(c, err);
    if (st == LX_OK)
        st = lx_completion_read_all(c, 0, err);
    if (st != LX_OK)
        return st;
    lx_answer_take(a, a->n_ready, json);
    st = lx_thinking_split(&c->choices[0].thinking, true, json, err);
    lx_choice_end(c, 0, json);
    return st;
}

static void write_whole(messaging *m, const lx_json_choice *json, lx_buffer *out)
{
    lx_json_usage usage = lx_completion_usage(m->c);
    lx_json_timings timings = lx_completion_timings(m->c);
    write_head(m, out);
    write_blocks(json, out);
    lx_buffer_puts(out, "],");
    write_stop(m, json->finish_reason, out);
    write_usage(&usage, out);
    lx_json_write_timings(&timings, out);
    lx_json_write_notes(&m->c->notes, out);
    lx_buffer_puts(out, "}");
}

static void finish_whole(void *context, lx_response *rs)
{
    messaging *m = context;
    lx_error err = {0};
    lx_json_choice json = {.text = ""};
    lx_buffer body;
    lx_buffer_init(&body, m->c->max_text);
    rs->envelope = LX_ENVELOPE_ANTHROPIC;
    lx_status st = read_whole(m, &json, &err);
    if (st == LX_OK)
        write_whole(m, &json, &body);
    if (st == LX_OK && body.status != LX_OK)
        st = lx_fail(&err, body.status, NULL, "the answer does not fit");
    lx_respond_whole(rs, st, &err, &body);
}

/* --- streamed --- */

static void write_start(messaging *m, lx_buffer *out)
{
    lx_json_usage usage = lx_completion_usage_so_far(m->c, 0);
    lx_sse_begin_named(out, "message_start");
    lx_json_put(out, "{'type':'message_start','message':");
    write_head(m, out);
    lx_json_put(out, "],'stop_reason':null,'stop_sequence':null");
    write_usage(&usage, out);
    lx_json_write_notes(&m->c->notes, out);
    lx_buffer_puts(out, "}}");
    lx_sse_end(out);
    lx_buffer_puts(out, ping);
    m->c->choices[0].begun = true;
}

static void end_block(messaging *m, lx_buffer *out)
{
    if (m->open == NO_BLOCK)
        return;
    lx_sse_begin_named(out, "content_block_stop");
    lx_json_put(out, "{'type':'content_block_stop','index':%d}", m->n_ended++);
    lx_sse_end(out);
    m->open = NO_BLOCK;
}

/* Each call is a block of its own; texts that follow each other are one. */
static void begin_block(messaging *m, block kind, const lx_json_call *call, lx_buffer *out)
{
    if (m->open == kind && kind != TOOL_USE)
        return;
    end_block(m, out);
    m->open = kind;
    lx_sse_begin_named(out, "content_block_start");
    lx_json_put(out, "{'type':'content_block_start','index':%d,'content_block':", m->n_ended);
    if (kind == TOOL_USE)
        write_call(call, false, out);
    else if (kind == TEXT)
        lx_json_put(out, "{'type':'text','text':''}");
    else
        lx_json_put(out, "{'type':'thinking','thinking':'','signature':''}");
    lx_buffer_puts(out, "}");
    lx_sse_end(out);
}

static void write_delta(const messaging *m, const char *text, size_t bytes, lx_buffer *out)
{
    static const char *const types[] = {
        [THINKING] = "thinking_delta", [TEXT] = "text_delta", [TOOL_USE] = "input_json_delta"};
    static const char *const members[] = {
        [THINKING] = "thinking", [TEXT] = "text", [TOOL_USE] = "partial_json"};
    lx_sse_begin_named(out, "content_block_delta");
    lx_json_put(out, "{'type':'content_block_delta','index':%d,'delta':{'type':%s,%s:%.*s}}",
                m->n_ended, types[m->open], members[m->open], (int)bytes, text);
    lx_sse_end(out);
}

/* The parts of the answer that are new. */
static void write_parts(messaging *m, const lx_json_choice *json, lx_buffer *out)
{
    if (json->thought_bytes > 0) {
        begin_block(m, THINKING, NULL, out);
        write_delta(m, json->thought, json->thought_bytes, out);
    }
    if (json->text_bytes > 0) {
        begin_block(m, TEXT, NULL, out);
        write_delta(m, json->text, json->text_bytes, out);
    }
    for (int32_t i = 0; i < json->n_calls; i++) {
        const lx_json_call *call = &json->calls[i];
        if (call->is_new)
            begin_block(m, TOOL_USE, call, out);
        if (call->bytes > 0)
            write_delta(m, call->arguments, call->bytes, out);
    }
}

/* The next token of the answer that was read, or its end. */
static lx_status write_token(messaging *m, lx_buffer *out, lx_error *err)
{
    lx_choice *choice = &m->c->choices[0];
    lx_answer *a = &choice->answer;
    lx_json_choice json;
    lx_answer_take(a, a->n_ready > 0, &json);
    choice->ended = a->ended && a->n_ready == 0;
    lx_status st = lx_thinking_split(&choice->thinking, choice->ended, &json, err);
    if (st != LX_OK)
        return st;
    write_parts(m, &json, out);
    if (choice->ended) {
        lx_choice_end(m->c, 0, &json);
        m->finish_reason = json.finish_reason;
        end_block(m, out);
    }
    return LX_OK;
}

/* Events of the tokens that are there, as far as there is room. */
static lx_status write_tokens(messaging *m, lx_buffer *out, lx_error *err)
{
    lx_choice *choice = &m->c->choices[0];
    lx_answer *a = &choice->answer;
    lx_status st = LX_OK;
    while (st == LX_OK && !choice->ended && out->length < LX_PULL_BYTES) {
        if (a->n_ready + a->ended == 0)
            st = lx_answer_read(a, LX_STREAM_TOKENS, err);
        if (st == LX_OK && a->n_ready + a->ended > 0)
            st = write_token(m, out, err);
        else if (!a->behind)
            break;
    }
    return st;
}

static void write_error(lx_status st, const lx_error *err, lx_buffer *out)
{
    lx_sse_begin_named(out, "error");
    lx_api_write_error(LX_ENVELOPE_ANTHROPIC, st, err, out);
    lx_sse_end(out);
}

static void write_end(const messaging *m, lx_buffer *out)
{
    lx_json_usage usage = lx_completion_usage(m->c);
    lx_json_timings timings = lx_completion_timings(m->c);
    lx_sse_begin_named(out, "message_delta");
    lx_json_put(out, "{'type':'message_delta','delta':{");
    write_stop(m, m->finish_reason, out);
    lx_buffer_puts(out, "}");
    write_usage(&usage, out);
    lx_json_write_timings(&timings, out);
    lx_buffer_puts(out, "}");
    lx_sse_end(out);
    lx_sse_begin_named(out, "message_stop");
    lx_json_put(out, "{'type':'message_stop'}");
    lx_sse_end(out);
}

static bool pull(void *context, lx_buffer *out)
{
    messaging *m = context;
    lx_completion *c = m->c;
    lx_error err = {0};
    lx_completion_advance(c);
    bool done = lx_completion_is_done(c); /* before the tokens are read: no more come */
    if (!done && lx_work_tokens(&c->works[0]) == 0)
        return false;
    lx_status st = done ? lx_completion_finish(c, &err) : LX_OK;
    if (st == LX_OK && !c->choices[0].begun)
        write_start(m, out);
    if (st == LX_OK)
        st = write_tokens(m, out, &err);
    if (st != LX_OK)
        write_error(st, &err, out);
    else if (done && c->choices[0].ended)
        write_end(m, out);
    return st != LX_OK || (done && c->choices[0].ended);
}

/* --- the route --- */

static void release(void *context)
{
    messaging *m = context;
    if (m->c != NULL)
        lx_completion_release(m->c);
    free(m);
}

static void defer(messaging *m, bool stream, lx_response *rs)
{
    rs->deferred = (lx_deferred){
        .context = m,
        .advance = lx_completion_held_advance,
        .is_done = lx_completion_held_is_done,
        .finish = finish_whole,
        .pull = stream ? pull : NULL,
        .cancel = lx_completion_held_cancel,
        .release = release,
        .ping = ping,
        .failure = failure,
        .deadline_ns = m->c->works[0].deadline_ns,
    };
    if (stream)
        lx_sse_start(rs);
    else
        lx_completion_await_end(m->c);
}

/* The prompt's text came from the messages. */
static void name_messages(lx_error *err)
{
    if (strcmp(err->param, "prompt") == 0)
        (void)snprintf(err->param, sizeof err->param, "messages");
}

static void start(lx_api *api, lx_served_model *served, const lx_completion_params *p,
                  int32_t n_stops, const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    int32_t retry_after_s = 0;
    messaging *m = calloc(1, sizeof *m);
    lx_status st = m != NULL ? LX_OK : lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory");
    if (st == LX_OK)
        st = lx_completion_start(api, served, p, rq, &m->c, &retry_after_s, &err);
    name_messages(&err);
    if (st == LX_OK) {
        m->n_stops = n_stops;
        defer(m, p->stream, rs);
        return;
    }
    free(m);
    lx_respond_unstarted(rs, st, &err, retry_after_s);
}

/* The two versions have the same answers. The newer one has no sampling parameters, which the
   server reads as own fields. A client may leave the version out. */
static bool knows_version(const lx_request *rq, lx_response *rs)
{
    static const char *const versions[] = {"", "2023-06-01", "2026-10-21"};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (strcmp(rq->anthropic_version, versions[i]) == 0)
            return true;
    lx_respond_error(rs, 400, "invalid_value", "anthropic-version",
                     "anthropic-version must be 2023-06-01 or 2026-10-21: the answers of other "
                     "versions are not known here");
    return false;
}

typedef lx_status (*read_function)(const char *body, size_t bytes, lx_completion_params *p,
                                   lx_error *err);

/* Reads a request, chooses its model and makes its prompt. *n_stops is the number of stop strings
   of the client. */
static lx_status begin(lx_api *api, const lx_request *rq, read_function read,
                       lx_completion_params *p, lx_served_model **served, int32_t *n_stops,
                       lx_error *err)
{
    lx_status st = read(rq->body, rq->body_bytes, p, err);
    *n_stops = p->stops.n;
    if (st == LX_OK)
        st = lx_serving_choose_model(api->serving, p->model, LX_TEXT, served, err);
    return st == LX_OK ? lx_chat_prompt((*served)->model, p, err) : st;
}

void lx_handle_messages(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_request_begins(api, rq, "application/json", rs) || !knows_version(rq, rs))
        return;
    lx_error err = {0};
    lx_completion_params p;
    lx_served_model *served = NULL;
    int32_t n_stops = 0;
    lx_status st = begin(api, rq, lx_json_read_message, &p, &served, &n_stops, &err);
    if (st == LX_OK)
        start(api, served, &p, n_stops, rq, rs);
    else
        lx_api_refuse(api, p.model, st, &err, rs);
    lx_completion_params_fini(&p);
}

/* --- the number of tokens --- */

/* The rows of the prompt, as the usage of an answer counts them. */
static lx_status count_rows(const lx_served_model *served, const lx_completion_params *p,
                            int64_t *rows, lx_error *err)
{
    const lx_prompt *prompt = &p->prompts[0];
    lx_task_request request = {.text = prompt->text,
                               .text_bytes = prompt->bytes,
                               .ids = prompt->ids,
                               .n_ids = prompt->n_ids,
                               .n_answers = 1,
                               .rules = p->rules,
                               .normalize = p->normalize,
                               .fields = &p->fields};
    lx_plan *plan = NULL;
    lx_status st = lx_plan_new(served->model, &request, &plan, err);
    if (st == LX_OK)
        *rows = plan->n_prompt + plan->n_given;
    lx_plan_free(plan);
    name_messages(err);
    return st;
}

void lx_handle_message_tokens(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_request_begins(api, rq, "application/json", rs) || !knows_version(rq, rs))
        return;
    lx_error err = {0};
    lx_completion_params p;
    lx_served_model *served = NULL;
    int32_t n_stops = 0;
    int64_t rows = 0;
    lx_buffer body;
    lx_status st = begin(api, rq, lx_json_read_message_prompt, &p, &served, &n_stops, &err);
    if (st == LX_OK)
        st = count_rows(served, &p, &rows, &err);
    if (st == LX_OK) {
        lx_buffer_init(&body, TOKENS_BYTES + (size_t)lx_cost_notes(&p.notes));
        lx_json_put(&body, "{'input_tokens':%jd", rows);
        lx_json_write_notes(&p.notes, &body);
        lx_buffer_puts(&body, "}");
        lx_respond_whole(rs, LX_OK, &err, &body);
    } else {
        lx_api_refuse(api, p.model, st, &err, rs);
    }
    lx_completion_params_fini(&p);
}
