/*
 * Conversations of stored responses (see conversation.h).
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
#include "model/tasks/text.h"
#include "server/api/chat.h"

/* --- input items --- */

lx_status lx_input_items_init(lx_input_items *items, const lx_completion_params *p, lx_error *err)
{
    int32_t first = (p->instructions != NULL && !p->knows_instructions) + p->n_earlier;
    lx_buffer_init(&items->text, (size_t)lx_cost_messages(p) + 1);
    size_t n = 0;
    for (int32_t i = first; i < p->n_messages; i++)
        n += (size_t)lx_json_count_items(&p->messages[i]);
    items->item_bytes = calloc(n + 1, sizeof *items->item_bytes);
    for (int32_t i = first; items->item_bytes != NULL && i < p->n_messages; i++) {
        for (int32_t k = 0; k < lx_json_count_items(&p->messages[i]); k++) {
            size_t begin = items->text.length;
            lx_json_write_item(&p->messages[i], k, &items->text);
            items->item_bytes[items->n++] = (uint32_t)(items->text.length - begin);
        }
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

lx_status lx_conversation_can_follow(const lx_served_model *served, const lx_saved_state *state,
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
    for (int32_t i = 0; i < prompt->n_borders; i++)
        prompt->borders[i] += (int32_t)before;
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
    lx_status st = lx_conversation_can_follow(served, state, err);
    if (st == LX_OK)
        st = lx_state_plan(state, served->model, false, &plan, err);
    if (st == LX_OK)
        st = make_prompt(plan, state, p, err);
    lx_plan_free(plan);
    return st;
}

/* --- storing --- */

lx_status lx_conversation_store(const lx_completion *c, const lx_answer *whole, const char *id,
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
                       : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a conversation");
    lx_store_waiter waiter = lx_api_waiter(&w->rq);
    waiter.reserve = lx_job_get_params(w->job)->reserve;
    waiter.droppable = s.kind == LX_STORED_RESPONSE;
    if (st == LX_OK)
        st = lx_store_call_start(api->states, LX_STORE_PUT, id, blob.data, blob.length,
                                 api->state_ttl_ms, &waiter, out, err);
    lx_buffer_fini(&blob);
    return st;
}

void lx_conversation_fini(lx_conversation *v)
{
    lx_claim_free(v->claim);
    free(v->front);
    v->claim = NULL;
    v->front = NULL;
}

lx_status lx_conversation_keep(const lx_stored *s, const void *bytes, lx_conversation *v,
                               lx_error *err)
{
    size_t n = (size_t)((const char *)s->state - (const char *)bytes);
    v->front = malloc(n + 1);
    if (v->front == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the conversation");
    memcpy(v->front, bytes, n);
    return lx_stored_read(v->front, n, &v->stored, err);
}

lx_status lx_conversation_check_room(const lx_stored *s, int64_t bytes, int64_t n, lx_error *err)
{
    if ((int64_t)s->n_items + n <= LX_MAX_CONVERSATION_ITEMS &&
        (int64_t)s->items_bytes + bytes <= LX_MAX_CONVERSATION_BYTES)
        return LX_OK;
    return lx_fail(err, LX_ERR_TOO_LARGE, "conversation",
                   "the conversation has %u items with %zu bytes and takes no more like these (at "
                   "most %d items, %d bytes)",
                   s->n_items, s->items_bytes, LX_MAX_CONVERSATION_ITEMS,
                   LX_MAX_CONVERSATION_BYTES);
}

lx_status lx_conversation_add(lx_conversation *v, const lx_input_items *items, lx_error *err)
{
    lx_stored *s = &v->stored;
    size_t old = s->items_bytes, n = (size_t)s->n_items + items->n;
    size_t sizes = n * sizeof *s->item_bytes, bytes = old + items->text.length;
    char *memory = malloc(sizes + s->answer_bytes + bytes + 1);
    if (memory == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the conversation");
    uint32_t *item_bytes = (uint32_t *)(void *)memory;
    char *answer = memory + sizes, *text = answer + s->answer_bytes;
    memcpy(item_bytes, s->item_bytes, s->n_items * sizeof *item_bytes);
    memcpy(item_bytes + s->n_items, items->item_bytes, items->n * sizeof *item_bytes);
    memcpy(answer, s->answer, s->answer_bytes);
    memcpy(text, s->items, old);
    memcpy(text + old, items->text.data, items->text.length);
    s->item_bytes = item_bytes;
    s->n_items = (uint32_t)n;
    s->answer = answer;
    s->items = text;
    s->items_bytes = bytes;
    free(v->front);
    v->front = memory;
    return LX_OK;
}
