/*
 * POST /v1/responses: a completion whose answer has the form of OpenAI's responses. A response and
 * its conversation are stored before its end is sent (conversation.h). Whole: one object. Streamed:
 * events that build it up, and at the end the whole text four times more, as clients of the API
 * expect. These last events are written one by one from an answer that is read a second time, and
 * each is sent before the next is made.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/log.h"
#include "common/random.h"
#include "server/api/responding.h"
#include "server/http/sse.h"
#include "server/json/answers.h"

enum { EVENT_HEAD = 256 };

/* --- the end --- */

/* The client has its answer also when the store does not take it. */
static void note_unstored(lx_responding *r, const lx_error *why)
{
    r->store = false;
    lx_json_note(&r->c->notes, "store", "the response is not stored, and no response can follow it",
                 NULL);
    lx_log(LX_LOG_WARN, "response %s is not stored: %s", r->c->id, why->text);
}

/* Stores the conversation with the input and the answer, all of which the state has read. */
static lx_status begin_talk(lx_responding *r, lx_error *err)
{
    lx_json_choice choice = r->choice;
    choice.logprobs = NULL; /* they would fill the conversation */
    lx_input_items answer = {.item_bytes =
                                 calloc((size_t)choice.n_calls + 1, sizeof *answer.item_bytes)};
    if (answer.item_bytes == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer's items");
    lx_buffer_init(&answer.text, r->c->max_text);
    answer.n = lx_responding_write_items(r, &choice, answer.item_bytes, &answer.text);
    lx_status st = answer.text.status == LX_OK
                       ? lx_conversation_add(&r->talk, &r->items, err)
                       : lx_fail(err, answer.text.status, NULL, "the answer does not fit");
    if (st == LX_OK)
        st = lx_conversation_add(&r->talk, &answer, err);
    lx_input_items_fini(&answer);
    lx_stored *s = &r->talk.stored;
    s->n_read = s->n_items;
    s->tail_bytes = 0;
    s->instructions_sum = r->instructions_sum;
    s->instructions_bytes = r->instructions_kept;
    if (st == LX_OK)
        st = lx_conversation_store(r->c, &r->whole, r->talk.id, s, &r->talk_call, err);
    return st;
}

/* The stored answer is the one that is sent. */
static void begin_store(lx_responding *r)
{
    lx_error err = {0};
    lx_buffer answer;
    lx_buffer_init(&answer, r->c->max_text);
    lx_responding_write(r, &r->choice, &answer);
    const lx_stored stored = {.kind = LX_STORED_RESPONSE,
                              .instructions_sum = r->instructions_sum,
                              .instructions_bytes = r->instructions_kept,
                              .answer = answer.data,
                              .answer_bytes = answer.length,
                              .items = r->items.text.data,
                              .items_bytes = r->items.text.length,
                              .item_bytes = r->items.item_bytes,
                              .n_items = r->items.n};
    lx_status st = answer.status == LX_OK
                       ? lx_conversation_store(r->c, &r->whole, r->c->id, &stored, &r->call, &err)
                       : lx_fail(&err, answer.status, NULL, "the answer does not fit");
    lx_buffer_fini(&answer);
    if (st != LX_OK)
        note_unstored(r, &err);
}

/* The text is complete: it is read as a whole, and stored. */
static void end(lx_responding *r)
{
    lx_completion *c = r->c;
    r->ended = true;
    r->status = lx_completion_finish(c, &r->err);
    lx_completion_begin_answer(c, 0, 0, &r->whole);
    if (r->status == LX_OK)
        r->status = lx_answer_read(&r->whole, INT32_MAX, &r->err);
    if (r->status != LX_OK)
        return;
    lx_answer_take(&r->whole, r->whole.n_ready, &r->choice);
    lx_thinking_init(&r->parts, LX_THINKS_NOT, c->works[0].pending.served->model, c->calls,
                     r->whole.text.max);
    r->status = lx_thinking_split(&r->parts, true, &r->choice, &r->err);
    if (r->status != LX_OK)
        return;
    r->choice.finish_reason = lx_completion_finish_reason(c, 0, &r->whole);
    r->choice.has_score = true;
    r->choice.mean_logprob = lx_answer_mean_logprob(&r->whole);
    if (r->store)
        begin_store(r);
    if (r->talk.id[0] != '\0')
        r->status = begin_talk(r, &r->err);
}

/* Whether the store has answered all calls. */
static bool is_stored(const lx_responding *r)
{
    return (r->call == NULL || lx_store_call_done(r->call)) &&
           (r->talk_call == NULL || lx_store_call_done(r->talk_call));
}

/* A conversation that the store has not taken is an error, as the turn would be lost. */
static void take_store(lx_responding *r)
{
    lx_error err = {0};
    if (r->call != NULL && lx_store_call_status(r->call, &err) != LX_OK)
        note_unstored(r, &err);
    if (r->talk_call != NULL)
        r->status = lx_store_call_status(r->talk_call, &r->err);
    lx_store_call_free(r->call);
    lx_store_call_free(r->talk_call);
    r->call = r->talk_call = NULL;
    lx_conversation_fini(&r->talk);
}

/* --- whole --- */

static void advance(void *context)
{
    lx_responding *r = context;
    lx_completion_advance(r->c);
    if (!r->ended && lx_completion_is_done(r->c))
        end(r);
}

static bool is_done(const void *context)
{
    const lx_responding *r = context;
    return r->ended && is_stored(r);
}

static void finish_whole(void *context, lx_response *rs)
{
    lx_responding *r = context;
    lx_buffer body;
    take_store(r);
    lx_buffer_init(&body, r->c->max_text);
    if (r->status == LX_OK)
        lx_responding_write(r, &r->choice, &body);
    if (r->status == LX_OK && body.status != LX_OK)
        r->status = lx_fail(&r->err, body.status, NULL, "the answer does not fit");
    lx_respond_whole(rs, r->status, &r->err, &body);
}

/* --- streamed --- */

static void write_error(lx_responding *r, lx_status st, const lx_error *err)
{
    lx_sse_begin_named(&r->pending, "error");
    lx_api_write_error(LX_ENVELOPE_OPENAI, st, err, &r->pending);
    lx_sse_end(&r->pending);
    r->over = true;
    lx_conversation_fini(&r->talk); /* the client may try again at once */
}

static void begin_message(lx_responding *r)
{
    if (r->has_message)
        return;
    r->has_message = true;
    lx_responding_write_event(r, ITEM_ADDED, NULL);
    lx_responding_write_event(r, PART_ADDED, NULL);
}

/* Text and calls that are new; a message stands before all calls. */
static void write_new(lx_responding *r, const lx_json_choice *c)
{
    bool without_text = r->c->calls == NULL || r->has_message; /* else it may have calls alone */
    if (c->text_bytes > 0 || (c->logprobs != NULL && without_text)) {
        begin_message(r);
        lx_responding_write_event(r, DELTA, c);
    }
    for (r->at_call = 0; r->at_call < c->n_calls; r->at_call++) {
        if (c->calls[r->at_call].is_new)
            lx_responding_write_event(r, CALL_ADDED, c);
        if (c->calls[r->at_call].bytes > 0)
            lx_responding_write_event(r, CALL_DELTA, c);
    }
}

/* The new part of the answer. False when there is none now. */
static bool write_delta(lx_responding *r)
{
    lx_error err = {0};
    lx_json_choice choice;
    lx_answer *a = &r->c->choices[0].answer;
    lx_status st = lx_answer_read(a, LX_STREAM_TOKENS, &err);
    if (st != LX_OK) {
        write_error(r, st, &err);
        return true;
    }
    if (a->n_ready == 0)
        return a->behind; /* then there is more to read */
    lx_answer_take(a, 1, &choice);
    st = lx_thinking_split(&r->c->choices[0].thinking, false, &choice, &err);
    if (st != LX_OK)
        write_error(r, st, &err);
    else
        write_new(r, &choice);
    return true;
}

/* A text that was held back, as it could have become a mark of calls. */
static void write_held(lx_responding *r)
{
    lx_error err = {0};
    lx_json_choice rest = {.text = ""};
    lx_status st = lx_thinking_split(&r->c->choices[0].thinking, true, &rest, &err);
    if (st == LX_OK)
        write_new(r, &rest);
}

static void begin_end(lx_responding *r)
{
    write_held(r);
    end(r);
    r->next = TEXT_DONE;
    r->at_call = 0;
    if (r->status != LX_OK)
        write_error(r, r->status, &r->err);
    else if (lx_responding_has_message(&r->choice))
        begin_message(r);
    else
        r->next = CALL_DONE;
}

static void write_last(lx_responding *r)
{
    lx_responding_write_event(r, r->next, &r->choice);
    r->over = r->next == ENDED;
    r->next += !r->over;
    if (r->next == ENDED && !r->over) { /* the last events of a call came */
        r->at_call++;
        r->next = r->at_call < r->choice.n_calls ? CALL_DONE : ENDED;
    }
    if (r->next == CALL_DONE && r->choice.n_calls == 0)
        r->next = ENDED;
}

/* Makes the next event. False when that is not there yet; `done`: no more tokens come. */
static bool make_event(lx_responding *r, bool done)
{
    if (r->next == DELTA) {
        bool made = write_delta(r);
        if (!made && done)
            begin_end(r);
        return made || done;
    }
    if (r->next == ENDED && !is_stored(r))
        return false;
    if (r->next > DELTA) {
        if (r->next == ENDED)
            take_store(r);
        if (r->status == LX_OK)
            write_last(r);
        else
            write_error(r, r->status, &r->err);
    } else {
        lx_responding_write_event(r, r->next, NULL);
        r->next = r->next == CREATED ? IN_PROGRESS : DELTA;
        if (r->next == DELTA && r->c->calls == NULL) /* all of the answer is a message */
            begin_message(r);
    }
    return true;
}

static bool pull(void *context, lx_buffer *out)
{
    lx_responding *r = context;
    lx_completion_advance(r->c);
    bool done = lx_completion_is_done(r->c); /* before the tokens are read */
    while (lx_pending_hand_out(&r->pending, &r->sent, out) && !r->over)
        if (!make_event(r, done))
            break;
    return r->over && r->pending.length == 0;
}

/* --- the route --- */

static void release(void *context)
{
    lx_responding *r = context;
    lx_store_call_free(r->call);
    lx_store_call_free(r->talk_call);
    lx_conversation_fini(&r->talk);
    lx_answer_fini(&r->whole);
    lx_buffer_fini(&r->pending);
    lx_input_items_fini(&r->items);
    lx_thinking_fini(&r->parts);
    lx_buffer_fini(&r->tools);
    free(r->tool_name);
    free(r->metadata);
    free(r->format);
    if (r->c != NULL)
        lx_completion_release(r->c);
    free(r->instructions);
    free(r);
}

static void defer(lx_responding *r, bool stream, lx_response *rs)
{
    lx_buffer_init(&r->pending, r->c->max_text + EVENT_HEAD);
    rs->deferred = (lx_deferred){
        .context = r,
        .advance = stream ? lx_completion_held_advance : advance,
        .is_done = stream ? lx_completion_held_is_done : is_done,
        .finish = finish_whole,
        .pull = stream ? pull : NULL,
        .cancel = lx_completion_held_cancel,
        .release = release,
        .ping = LX_SSE_PING,
        .failure = LX_SSE_NAMED_FAILURE,
        .deadline_ns = r->c->works[0].deadline_ns,
    };
    if (stream)
        lx_sse_start(rs);
    else
        lx_completion_await_end(r->c);
}

/* Instructions that are not said again stay those of the conversation. */
static void note_instructions(lx_responding *r, const lx_completion_params *p,
                              const lx_saved_state *from)
{
    bool said = p->instructions != NULL;
    if (said) {
        r->instructions_sum = lx_crc32c(0, p->instructions, p->instructions_bytes);
        r->instructions_kept = (uint32_t)p->instructions_bytes;
    } else if (from != NULL) {
        r->instructions_sum = from->stored.instructions_sum;
        r->instructions_kept = from->stored.instructions_bytes;
    }
}

/* Takes the instructions out of the request, and the conversation, where there is one. */
static lx_status new_responding(lx_completion_params *p, const lx_saved_state *from,
                                lx_conversation *talk, lx_responding **out, lx_error *err)
{
    lx_responding *r = calloc(1, sizeof *r);
    if (r == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory");
    *out = r;
    (void)snprintf(r->item_id, sizeof r->item_id, "msg_%016llx",
                   (unsigned long long)lx_random_bits());
    (void)snprintf(r->previous, sizeof r->previous, "%s", p->state != NULL ? p->state : "");
    r->max_output_tokens = p->max_tokens;
    r->store = p->store;
    r->truncates = p->truncates;
    if (talk != NULL) {
        r->talk = *talk;
        *talk = (lx_conversation){.front = NULL};
    }
    note_instructions(r, p, from);
    lx_status st = p->return_state ? lx_input_items_init(&r->items, p, err) : LX_OK;
    r->instructions = p->instructions;
    r->instructions_bytes = p->instructions_bytes;
    p->instructions = NULL;
    r->tool_choice = p->tool_choice;
    r->tool_name = p->tool_name;
    r->metadata = p->metadata != NULL ? strdup(p->metadata) : NULL; /* p counts its bytes */
    r->format = p->format != NULL ? strdup(p->format) : NULL;       /* and those */
    r->serial_calls = p->serial_calls;
    p->tool_name = NULL;
    lx_buffer_init(&r->tools, 2 * lx_json_indented_bytes(p->variables) + EVENT_HEAD);
    if (lx_json_has(p->variables, "tools"))
        lx_json_write_tools(p->variables, &r->tools);
    if (st == LX_OK && r->tools.status != LX_OK)
        st = lx_fail(err, r->tools.status, NULL, "no memory for tools");
    if (st == LX_OK &&
        ((p->metadata != NULL && r->metadata == NULL) || (p->format != NULL && r->format == NULL)))
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for metadata or text.format");
    return st;
}

/* A state of fixed size has no need of a cut. */
static lx_status check_truncation(const lx_model *model, const lx_completion_params *p,
                                  lx_error *err)
{
    if (!p->truncates || model->state.page_floats == 0)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, "truncation",
                   "truncation must be disabled: the state of model %s grows, and the server cuts "
                   "no conversation",
                   model->name);
}

/* `from`: the state that it continues, NULL: none; `talk`: the conversation that it belongs to, or
   NULL. */
static void start(lx_api *api, lx_served_model *served, lx_completion_params *p,
                  const lx_saved_state *from, lx_conversation *talk, const lx_request *rq,
                  lx_response *rs)
{
    lx_error err = {0};
    int32_t retry_after_s = 0;
    lx_responding *r = NULL;
    p->return_state = p->store || talk != NULL;
    lx_status st = check_truncation(served->model, p, &err);
    if (st == LX_OK)
        st = new_responding(p, from, talk, &r, &err);
    if (st == LX_OK)
        st = lx_completion_start(api, served, p, rq, &r->c, &retry_after_s, &err);
    if (strcmp(err.param, "prompt") == 0) /* where the text came from */
        (void)snprintf(err.param, sizeof err.param, "input");
    if (st == LX_OK) {
        r->c->works[0].return_state = false; /* the state is stored with the response */
        defer(r, p->stream, rs);
        return;
    }
    if (r != NULL)
        release(r);
    lx_respond_unstarted(rs, st, &err, retry_after_s);
}

/* The store has answered with the response that this one follows. */
static void follow(lx_api *api, void *params, lx_status st, lx_error *err,
                   const lx_saved_state *state, const lx_request *rq, lx_response *rs)
{
    lx_completion_params *p = params;
    lx_served_model *served = NULL;
    if (st == LX_ERR_NOT_FOUND) {
        lx_respond_missing(rs, LX_MISSING_PREVIOUS, p->state);
        return;
    }
    if (st == LX_OK && p->model[0] != '\0')
        st = lx_serving_find_model(api->serving, p->model, LX_TEXT, &served, err);
    if (st == LX_OK && served == NULL)
        st = lx_state_model(api, state, &served, err);
    else if (st == LX_OK)
        st = lx_state_check(state, served->model, err);
    if (st == LX_OK)
        st = lx_conversation_prompt(served, state, p, err);
    if (strcmp(err->param, "state") == 0)
        (void)snprintf(err->param, sizeof err->param, "previous_response_id");
    if (st == LX_OK)
        start(api, served, p, state, NULL, rq, rs);
    else
        lx_api_refuse(api, p->model, st, err, rs);
    p->ahead = NULL;
}

static void fini_params(void *params)
{
    lx_completion_params_fini(params);
}

/* Takes all that p holds. */
static void find_previous(lx_api *api, lx_completion_params *p, const lx_request *rq,
                          lx_response *rs)
{
    if (!lx_state_id_has(LX_RESPONSE_PREFIX, p->state)) { /* a state or a conversation */
        lx_respond_missing(rs, LX_MISSING_PREVIOUS, p->state);
        return;
    }
    lx_state_source source = {.text = p->state,
                              .bytes = strlen(p->state),
                              .then = follow,
                              .params = p,
                              .params_bytes = sizeof *p,
                              .fini_params = fini_params};
    lx_state_resolve(api, &source, rq, rs);
    lx_completion_params_init(p);
}

/* --- in a conversation --- */

typedef struct talk_request {
    lx_completion_params p;
    lx_conversation talk;
} talk_request;

static void fini_talk(void *params)
{
    talk_request *r = params;
    lx_completion_params_fini(&r->p);
    lx_conversation_fini(&r->talk);
}

/* The named model, or else the one that made the state, or else the one that a request without a
   name gets. */
static lx_status choose_model(lx_api *api, const lx_completion_params *p,
                              const lx_saved_state *state, lx_served_model **out, lx_error *err)
{
    if (p->model[0] != '\0')
        return lx_serving_find_model(api->serving, p->model, LX_TEXT, out, err);
    if (state->memory != NULL && lx_state_model(api, state, out, NULL) == LX_OK)
        return LX_OK;
    return lx_serving_choose_model(api->serving, p->model, LX_TEXT, out, err);
}

/* Makes the prompt: from the state where the model continues from it, otherwise from all items.
 *from is the state or NULL. */
static lx_status talk_prompt(const lx_served_model *served, const lx_saved_state *state,
                             const lx_stored *s, lx_completion_params *p,
                             const lx_saved_state **from, lx_error *err)
{
    lx_error why;
    bool can = state->memory != NULL && lx_state_check(state, served->model, &why) == LX_OK &&
               lx_conversation_can_follow(served, state, &why) == LX_OK;
    uint32_t first = can ? s->n_read : 0;
    const char *items = s->items;
    for (uint32_t i = 0; i < first; i++)
        items += s->item_bytes[i];
    *from = can ? state : NULL;
    lx_status st = lx_json_add_earlier(items, s->item_bytes + first, s->n_items - first, p, err);
    if (st != LX_OK)
        return st;
    return can ? lx_conversation_prompt(served, state, p, err)
               : lx_chat_prompt(served->model, p, err);
}

/* Refuses lines, and a conversation that is full. */
static lx_status check_talk(const lx_served_model *served, const lx_stored *s,
                            const lx_completion_params *p, lx_error *err)
{
    const lx_model *m = served->model;
    int64_t bytes = 0;
    for (int32_t i = 0; i < p->n_messages; i++)
        bytes += (int64_t)p->messages[i].bytes;
    if (m->task->ends == NULL || m->config.n_inputs != 1)
        return lx_fail(err, LX_ERR_INVALID, "conversation",
                       "model %s answers single lines and has no conversations", m->name);
    return lx_conversation_check_room(s, bytes, p->n_messages + 1, err);
}

static void start_talk(lx_api *api, talk_request *r, const lx_stored *s, const void *bytes,
                       const lx_saved_state *state, const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    lx_completion_params *p = &r->p;
    lx_served_model *served = NULL;
    const lx_saved_state *from = NULL;
    lx_status st = choose_model(api, p, state, &served, &err);
    if (st == LX_OK)
        st = check_talk(served, s, p, &err);
    if (st == LX_OK)
        st = lx_conversation_keep(s, bytes, &r->talk, &err);
    if (st == LX_OK)
        st = talk_prompt(served, state, s, p, &from, &err);
    if (strcmp(err.param, "previous_response_id") == 0)
        (void)snprintf(err.param, sizeof err.param, "conversation");
    p->kept_bytes = (int64_t)s->items_bytes + (int64_t)s->answer_bytes;
    if (st == LX_OK)
        start(api, served, p, from, &r->talk, rq, rs);
    else
        lx_api_refuse(api, p->model, st, &err, rs);
    p->ahead = NULL;
}

/* The store has answered with the conversation. A state that cannot be read is one that is not
   there. */
static void follow_talk(lx_api *api, void *params, lx_status st, lx_error *err, const void *bytes,
                        size_t n, const lx_request *rq, lx_response *rs)
{
    talk_request *r = params;
    lx_stored s;
    lx_saved_state state = {0};
    if (st == LX_ERR_NOT_FOUND ||
        (st == LX_OK && lx_stored_kind_of(bytes, n) != LX_STORED_CONVERSATION)) {
        lx_respond_missing(rs, LX_MISSING_TALK, r->talk.id);
        lx_conversation_fini(&r->talk);
        return;
    }
    if (st == LX_OK)
        st = lx_stored_read(bytes, n, &s, err);
    if (st == LX_OK && lx_state_from_blob(api, bytes, n, &state, err) == LX_ERR_NO_MEMORY)
        st = LX_ERR_NO_MEMORY;
    if (st == LX_OK)
        start_talk(api, r, &s, bytes, &state, rq, rs);
    else
        lx_api_refuse(api, r->p.model, st, err, rs);
    lx_state_fini(&state);
    lx_conversation_fini(
        &r->talk); /* before a refusal is sent, as the client may try again at once */
}

/* Takes all that p holds. */
static void find_talk(lx_api *api, lx_completion_params *p, const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    talk_request r = {.talk = {.front = NULL}};
    if (!lx_state_id_has(LX_CONVERSATION_PREFIX, p->conversation)) {
        lx_respond_missing(rs, LX_MISSING_TALK, p->conversation);
        return;
    }
    (void)snprintf(r.talk.id, sizeof r.talk.id, "%s", p->conversation);
    lx_status st = lx_claim_take(api, rq->owner, r.talk.id, &r.talk.claim, &err);
    if (st != LX_OK) {
        lx_respond_claimed(rs, st, &err);
        return;
    }
    r.p = *p;
    lx_completion_params_init(p);
    lx_state_source source = {.text = r.talk.id,
                              .bytes = strlen(r.talk.id),
                              .raw = follow_talk,
                              .op = LX_STORE_GET,
                              .text_bytes = LX_MAX_CONVERSATION_BYTES,
                              .params = &r,
                              .params_bytes = sizeof r,
                              .fini_params = fini_talk};
    lx_state_resolve(api, &source, rq, rs);
}

void lx_handle_responses(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_request_begins(api, rq, "application/json", rs))
        return;
    lx_error err = {0};
    lx_completion_params p;
    lx_served_model *served = NULL;
    lx_status st = lx_json_read_response(rq->body, rq->body_bytes, &p, &err);
    if (st == LX_OK && p.state != NULL) {
        find_previous(api, &p, rq, rs);
        lx_completion_params_fini(&p);
        return;
    }
    if (st == LX_OK && p.conversation != NULL) {
        find_talk(api, &p, rq, rs);
        lx_completion_params_fini(&p);
        return;
    }
    if (st == LX_OK)
        st = lx_serving_choose_model(api->serving, p.model, LX_TEXT, &served, &err);
    if (st == LX_OK)
        st = lx_chat_prompt(served->model, &p, &err);
    if (st == LX_OK)
        start(api, served, &p, NULL, NULL, rq, rs);
    else
        lx_api_refuse(api, p.model, st, &err, rs);
    lx_completion_params_fini(&p);
}
