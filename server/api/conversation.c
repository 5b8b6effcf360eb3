/*
 * Conversations of stored responses (see conversation.h), and the routes of one stored response.
 *
 * The prompt of a response that follows another is that response's prompt, its answer as the model
 * drew it, and the tokens of the new messages. The state has read all tokens of the first two but
 * the last, so only the new messages are computed. A stop string is no part of the answer, but the
 * state may have read some of it. If the new messages do not begin with these tokens, the state is
 * of no use and the whole prompt is computed.
 */
#include "server/api/conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/random.h"
#include "model/tasks/text.h"
#include "server/api/chat.h"

enum { USUAL_ITEMS = 20, MOST_ITEMS = 100, AROUND_LIST = 512 };

/* --- input items --- */

static void write_item(const lx_chat_message *m, lx_buffer *out)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    bool said = m->role == LX_CHAT_ASSISTANT;
    char id[32];
    (void)snprintf(id, sizeof id, "msg_%016llx", (unsigned long long)lx_random_bits());
    lx_json_put(out, "{'id':%s,'type':'message','status':'completed','role':%s,'content':[", id,
                roles[m->role]);
    lx_json_put(out,
                said ? "{'type':'output_text','annotations':[],'text':%.*s}]}"
                     : "{'type':'input_text','text':%.*s}]}",
                (int)m->bytes, m->text);
}

lx_status lx_input_items_init(lx_input_items *items, const lx_completion_params *p, lx_error *err)
{
    int32_t first = p->instructions != NULL && !p->knows_instructions;
    lx_buffer_init(&items->text, (size_t)lx_cost_messages(p) + 1);
    items->n = (uint32_t)(p->n_messages - first);
    items->item_bytes = calloc(items->n + 1, sizeof *items->item_bytes);
    for (int32_t i = first; items->item_bytes != NULL && i < p->n_messages; i++) {
        size_t begin = items->text.length;
        write_item(&p->messages[i], &items->text);
        items->item_bytes[i - first] = (uint32_t)(items->text.length - begin);
    }
    if (items->item_bytes != NULL && items->text.status == LX_OK)
        return LX_OK;
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the input");
}

void lx_input_items_fini(lx_input_items *items)
{
    lx_buffer_fini(&items->text);
    free(items->item_bytes);
    *items = (lx_input_items){0};
}

/* --- continuing --- */

/* The precision that a fingerprint ends with, int8 or int4: states of different ones do not go
   together. Empty: another precision. */
static const char *precision_of(const char *fingerprint)
{
    const char *last = strrchr(fingerprint, '-');
    for (lx_precision p = LX_PRECISION_INT8; last != NULL && lx_precision_name(p) != NULL; p++) {
        if (strcmp(last + 1, lx_precision_name(p)) == 0)
            return last + 1;
    }
    return "";
}

static lx_status check_model(const lx_served_model *served, const lx_saved_state *state,
                             lx_error *err)
{
    static const char field[] = "previous_response_id";
    const lx_model *m = served->model;
    if (m->task->ends == NULL || m->config.n_inputs != 1)
        return lx_fail(err, LX_ERR_INVALID, field,
                       "model %s answers single lines and has no conversations", m->name);
    if (strcmp(precision_of(state->made_by), precision_of(served->fingerprint)) != 0)
        return lx_fail(err, LX_ERR_INVALID, field,
                       "the response was made with another precision (%s) than model %s has now "
                       "(%s)",
                       state->made_by, m->name, served->fingerprint);
    return LX_OK;
}

/* The instructions that the conversation has already are no new message. */
static void drop_known_instructions(const lx_stored *s, lx_completion_params *p)
{
    if (p->instructions == NULL || p->instructions_bytes != s->instructions_bytes ||
        lx_crc32c(0, p->instructions, p->instructions_bytes) != s->instructions_sum)
        return;
    free(p->messages[0].text);
    p->n_messages--;
    memmove(p->messages, p->messages + 1, (size_t)p->n_messages * sizeof *p->messages);
    p->knows_instructions = true;
}

/* The tokens of the conversation so far, then those of the new messages, in place of the latter. */
static lx_status join(const lx_plan *plan, const lx_saved_state *state, lx_completion_params *p,
                      lx_error *err)
{
    lx_prompt *prompt = &p->prompts[0];
    const int32_t *answer = state->start.tokens;
    int32_t n_answer = state->stored.n_kept;
    if (n_answer > 0 && lx_text_is_end(&plan->model->config, answer[n_answer - 1]))
        n_answer--; /* the template has an end of its own */
    size_t before = (size_t)plan->n_prompt + (size_t)n_answer, n = before + (size_t)prompt->n_ids;
    int32_t *ids = n < LX_MAX_JOB_TOKENS ? malloc(n * sizeof *ids) : NULL;
    if (ids == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the conversation");
    memcpy(ids, plan->prompt_ids, (size_t)plan->n_prompt * sizeof *ids);
    memcpy(ids + plan->n_prompt, answer, (size_t)n_answer * sizeof *ids);
    memcpy(ids + before, prompt->ids, (size_t)prompt->n_ids * sizeof *ids);
    free(prompt->ids);
    prompt->ids = ids;
    prompt->n_ids = (int32_t)n;
    return LX_OK;
}

/* Whether the rows that the state has read are the first rows of the prompt, but for its last row,
   which must be computed. */
static bool is_ahead(const lx_plan *plan, const lx_saved_state *state, const lx_prompt *prompt)
{
    int32_t rows = state->start.rows;
    if (rows >= prompt->n_ids || rows > plan->n_prompt + state->start.n_tokens)
        return false;
    for (int32_t i = plan->n_prompt; i < rows; i++)
        if (prompt->ids[i] != state->start.tokens[i - plan->n_prompt])
            return false;
    return true;
}

static lx_status make_prompt(const lx_plan *plan, const lx_saved_state *state,
                             lx_completion_params *p, lx_error *err)
{
    p->follows = true;
    p->tail = state->stored.tail;
    p->tail_bytes = state->stored.tail_bytes;
    char *instructions = p->instructions;
    drop_known_instructions(&state->stored, p);
    if (p->knows_instructions) /* messages[0] is none */
        p->instructions = NULL;
    lx_status st = lx_chat_prompt(plan->model, p, err);
    p->instructions = instructions;
    if (st == LX_OK)
        st = join(plan, state, p, err);
    if (st == LX_OK && is_ahead(plan, state, &p->prompts[0]))
        p->ahead = state;
    return st;
}

lx_status lx_conversation_prompt(const lx_served_model *served, const lx_saved_state *state,
                                 lx_completion_params *p, lx_error *err)
{
    lx_plan *plan = NULL;
    lx_status st = check_model(served, state, err);
    if (st == LX_OK)
        st = lx_state_plan(state, served->model, false, &plan, err);
    if (st == LX_OK)
        st = make_prompt(plan, state, p, err);
    lx_plan_free(plan);
    return st;
}

/* --- storing --- */

lx_status lx_conversation_store(const lx_completion *c, const lx_answer *whole,
                                const lx_stored *stored, lx_store_call **out, lx_error *err)
{
    const lx_work *w = &c->works[0];
    const lx_api *api = w->pending.api;
    lx_stored s = *stored;
    const lx_json_token *last = whole->taken > 0 ? &whole->tokens[whole->taken - 1] : NULL;
    s.n_kept = whole->stopped ? whole->first + whole->taken : INT32_MAX;
    if (whole->divided && last != NULL && last->bytes <= sizeof s.tail) {
        s.n_kept--;
        s.tail_bytes = (uint32_t)last->bytes;
        memcpy(s.tail, last->text, last->bytes);
    }
    lx_buffer blob;
    lx_buffer_init(&blob, SIZE_MAX / 2);
    lx_stored_write(&s, &blob);
    lx_status st = blob.status == LX_OK
                       ? lx_state_of_job(api, w->pending.served, w->job, 0, &blob, err)
                       : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a stored response");
    lx_store_waiter waiter = lx_api_waiter(&w->rq);
    waiter.reserve = lx_job_get_params(w->job)->reserve;
    waiter.droppable = true;
    if (st == LX_OK)
        st = lx_store_call_start(api->states, LX_STORE_PUT, c->id, blob.data, blob.length,
                                 api->state_ttl_ms, &waiter, out, err);
    lx_buffer_fini(&blob);
    return st;
}

/* --- the routes of a stored response --- */

void lx_respond_no_response(lx_response *rs, const char *id, bool previous)
{
    char text[200];
    (void)snprintf(text, sizeof text, "%s with id '%s' not found.",
                   previous ? "Previous response" : "Response", id);
    lx_respond_error(rs, 404, previous ? "previous_response_not_found" : "not_found",
                     previous ? "previous_response_id" : "response_id", text);
}

typedef struct stored_request {
    char id[LX_STATE_ID_MAX + 1];
    lx_store_op op;
    bool items, ascending;
    int32_t limit;
    char after[LX_STATE_ID_MAX + 1];
} stored_request;

static void respond_json(lx_buffer *body, lx_response *rs)
{
    lx_response_take(rs, 200, "application/json", body);
    lx_buffer_fini(body);
}

/* The id of an item, which write_item has put first; "" for other text. */
static void read_item_id(const char *item, uint32_t bytes, char out[LX_STATE_ID_MAX + 1])
{
    static const char begin[] = "{\"id\":\"";
    size_t n = sizeof begin - 1;
    const char *end =
        bytes > n && memcmp(item, begin, n) == 0 ? memchr(item + n, '"', bytes - n) : NULL;
    (void)snprintf(out, LX_STATE_ID_MAX + 1, "%.*s", end != NULL ? (int)(end - item - (long)n) : 0,
                   item + n);
}

static void write_items(const stored_request *r, const lx_stored *s, lx_buffer *out)
{
    size_t *at = calloc(s->n_items + 1U, sizeof *at);
    char id[LX_STATE_ID_MAX + 1], first[LX_STATE_ID_MAX + 1] = "";
    bool begun = r->after[0] == '\0', more = false;
    int32_t n = 0;
    if (at == NULL) {
        out->status = LX_ERR_NO_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < s->n_items; i++)
        at[i + 1] = at[i] + s->item_bytes[i];
    id[0] = '\0';
    lx_json_put(out, "{'object':'list','data':[");
    for (uint32_t k = 0; k < s->n_items && !more; k++) {
        uint32_t i = r->ascending ? k : s->n_items - 1 - k;
        const char *item = s->items + at[i];
        char own[LX_STATE_ID_MAX + 1];
        read_item_id(item, s->item_bytes[i], own);
        more = begun && n == r->limit;
        if (begun && !more) {
            lx_buffer_puts(out, n > 0 ? "," : "");
            lx_buffer_append(out, item, s->item_bytes[i]);
            memcpy(id, own, sizeof id);
            if (n++ == 0)
                memcpy(first, own, sizeof first);
        }
        begun = begun || strcmp(own, r->after) == 0;
    }
    lx_json_put(out, "],'first_id':%s,'last_id':%s,'has_more':%i}", n > 0 ? first : NULL,
                n > 0 ? id : NULL, more);
    free(at);
}

static void respond_stored(const stored_request *r, const lx_stored *s, lx_response *rs)
{
    lx_buffer body;
    lx_buffer_init(&body, s->answer_bytes + s->items_bytes + s->n_items + AROUND_LIST);
    if (r->items)
        write_items(r, s, &body);
    else
        lx_buffer_append(&body, s->answer, s->answer_bytes);
    respond_json(&body, rs);
}

/* The store has answered. */
static void finish_stored(lx_api *api, void *params, lx_status st, lx_error *err, const void *bytes,
                          size_t n, lx_response *rs)
{
    (void)api;
    const stored_request *r = params;
    lx_stored s;
    bool found = st == LX_OK && (r->op == LX_STORE_REMOVE || lx_stored_begins(bytes, n));
    if (st == LX_ERR_NOT_FOUND || (st == LX_OK && !found)) {
        lx_respond_no_response(rs, r->id, false);
        return;
    }
    if (found && r->op == LX_STORE_REMOVE) {
        lx_buffer body;
        lx_buffer_init(&body, AROUND_LIST);
        lx_json_put(&body, "{'id':%s,'object':'response','deleted':%i}", r->id, true);
        respond_json(&body, rs);
        return;
    }
    if (st == LX_OK)
        st = lx_stored_read(bytes, n, &s, err);
    if (st == LX_OK)
        respond_stored(r, &s, rs);
    else
        lx_respond_status(rs, st, err);
}

/* The id is the tail's first segment. An id that no response can have is one that is not there. */
static void ask_store(lx_api *api, stored_request *r, const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    size_t n = strcspn(rq->tail, "/");
    lx_status st = lx_api_check_ready(api, &err);
    if (st != LX_OK) {
        lx_respond_status(rs, st, &err);
        return;
    }
    (void)snprintf(r->id, sizeof r->id, "%.*s", (int)n, rq->tail);
    if (n > LX_STATE_ID_MAX || !lx_response_id_ok(r->id)) {
        lx_respond_no_response(rs, r->id, false);
        return;
    }
    lx_state_source source = {.text = r->id,
                              .bytes = n,
                              .raw = finish_stored,
                              .op = r->op,
                              .params = r,
                              .params_bytes = sizeof *r};
    lx_state_resolve(api, &source, rq, rs);
}

void lx_handle_response_get(lx_api *api, const lx_request *rq, lx_response *rs)
{
    stored_request r = {.op = LX_STORE_GET};
    const char *stream = rq->argument(rq->query, "stream");
    if (stream != NULL && strcmp(stream, "false") != 0) {
        lx_error err = {0};
        lx_respond_status(rs,
                          lx_fail(&err, LX_ERR_INVALID, "stream",
                                  "stream must be false: a stored response is sent as a whole"),
                          &err);
        return;
    }
    ask_store(api, &r, rq, rs);
}

void lx_handle_response_delete(lx_api *api, const lx_request *rq, lx_response *rs)
{
    stored_request r = {.op = LX_STORE_REMOVE};
    ask_store(api, &r, rq, rs);
}

static lx_status read_page(const lx_request *rq, stored_request *r, lx_error *err)
{
    const char *limit = rq->argument(rq->query, "limit"), *order = rq->argument(rq->query, "order");
    const char *after = rq->argument(rq->query, "after");
    char *end = NULL;
    long most = limit != NULL ? strtol(limit, &end, 10) : USUAL_ITEMS;
    if (most < 1 || most > MOST_ITEMS || (end != NULL && *end != '\0'))
        return lx_fail(err, LX_ERR_INVALID, "limit", "limit must be from 1 to %d", MOST_ITEMS);
    if (order != NULL && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return lx_fail(err, LX_ERR_INVALID, "order", "order must be asc or desc");
    r->limit = (int32_t)most;
    r->ascending = order != NULL && strcmp(order, "asc") == 0;
    (void)snprintf(r->after, sizeof r->after, "%s", after != NULL ? after : "");
    return LX_OK;
}

void lx_handle_response_items(lx_api *api, const lx_request *rq, lx_response *rs)
{
    stored_request r = {.op = LX_STORE_GET, .items = true};
    lx_error err = {0};
    lx_status st = read_page(rq, &r, &err);
    if (st == LX_OK)
        ask_store(api, &r, rq, rs);
    else
        lx_respond_status(rs, st, &err);
}
