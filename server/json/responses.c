/* Responses as JSON (see responses.h). A response here puts out one message of one part, a text. */
#include "server/json/responses.h"

#include <string.h>

#include "server/json/fields.h"

static const char *status_of(const lx_json_response *r)
{
    if (r->choice == NULL || r->choice->finish_reason == NULL)
        return "in_progress";
    return strcmp(r->choice->finish_reason, "length") == 0 ? "incomplete" : "completed";
}

static bool is_cut(const lx_json_response *r)
{
    return strcmp(status_of(r), "incomplete") == 0;
}

static json_t *make_text(const lx_json_choice *c)
{
    return c != NULL ? json_stringn(c->text, c->text_bytes) : json_string("");
}

static json_t *make_logprobs(const lx_json_choice *c)
{
    return c != NULL && c->logprobs != NULL ? lx_json_make_entries(c->logprobs) : json_array();
}

/* Its text is the choice's; NULL: none yet. */
static json_t *make_part(const lx_json_choice *c)
{
    return json_pack("{s:s, s:[], s:o, s:o}", "type", "output_text", "annotations", "logprobs",
                     make_logprobs(c), "text", make_text(c));
}

static json_t *make_item(const lx_json_response *r)
{
    json_t *content = json_array();
    if (r->choice != NULL && json_array_append_new(content, make_part(r->choice)) != 0) {
        json_decref(content);
        content = NULL;
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", r->item_id, "type", "message", "status",
                     status_of(r), "role", "assistant", "content", content);
}

static json_t *make_output(const lx_json_response *r)
{
    json_t *list = json_array();
    if (r->choice != NULL && json_array_append_new(list, make_item(r)) != 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *make_usage(const lx_json_usage *u)
{
    return json_pack("{s:I, s:{s:I}, s:I, s:{s:i}, s:I}", "input_tokens",
                     (json_int_t)u->prompt_tokens, "input_tokens_details", "cached_tokens",
                     (json_int_t)u->cached_tokens, "output_tokens",
                     (json_int_t)u->completion_tokens, "output_tokens_details", "reasoning_tokens",
                     0, "total_tokens", (json_int_t)(u->prompt_tokens + u->completion_tokens));
}

/* What the request said, or was taken for what it did not say; false without memory. */
static bool add_request(json_t *o, const lx_json_response *r)
{
    json_t *limit = r->max_output_tokens > 0 ? json_integer(r->max_output_tokens) : json_null();
    json_t *instructions = r->instructions != NULL
                               ? json_stringn(r->instructions, r->instructions_bytes)
                               : json_null();
    json_t *told = json_pack(
        "{s:o, s:o, s:f, s:f, s:i, s:{s:{s:s}}, s:s, s:b, s:s, s:[], s:b, s:{}, s:n, s:b}",
        "instructions", instructions, "max_output_tokens", limit, "temperature", r->temperature,
        "top_p", r->top_p, "top_logprobs", r->n_logprobs > 0 ? (int)r->n_logprobs : 0, "text",
        "format", "type", "text", "truncation", "disabled", "parallel_tool_calls", 0, "tool_choice",
        "none", "tools", "store", 0, "metadata", "previous_response_id", "background", 0);
    bool ok = told != NULL && json_object_update(o, told) == 0;
    json_decref(told);
    return ok;
}

/* What only our answers have. */
static bool add_own(json_t *o, const lx_json_response *r)
{
    bool ok = json_object_set_new(o, "system_fingerprint", json_string(r->fingerprint)) == 0 &&
              json_object_set_new(o, "seed", json_integer((json_int_t)r->seed)) == 0;
    if (ok && r->choice != NULL && r->choice->has_score)
        ok = json_object_set_new(o, "mean_logprob",
                                 lx_json_real_or_null(r->choice->mean_logprob)) == 0;
    if (ok && r->timings != NULL)
        ok = json_object_set_new(o, "timings", lx_json_make_timings(r->timings)) == 0;
    if (ok && r->notes != NULL && lx_json_count_notes(r->notes) > 0)
        ok = json_object_set_new(o, "warnings", lx_json_make_notes(r->notes)) == 0;
    return ok;
}

static json_t *make_response(const lx_json_response *r)
{
    json_t *why = is_cut(r) ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null();
    json_t *o =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:n, s:o, s:o, s:o}", "id", r->id, "object",
                  "response", "created_at", (json_int_t)r->created, "status", status_of(r), "model",
                  r->model, "error", "incomplete_details", why, "output", make_output(r), "usage",
                  r->usage != NULL ? make_usage(r->usage) : json_null());
    if (o != NULL && add_request(o, r) && add_own(o, r))
        return o;
    json_decref(o);
    return NULL;
}

void lx_json_write_response(const lx_json_response *r, lx_buffer *out)
{
    lx_json_dump(make_response(r), out);
}

/* --- events --- */

const char *lx_json_response_event_name(const lx_json_response *r, lx_response_event event)
{
    static const char *const names[] = {
        [LX_RESPONSE_CREATED] = "response.created",
        [LX_RESPONSE_IN_PROGRESS] = "response.in_progress",
        [LX_RESPONSE_ITEM_ADDED] = "response.output_item.added",
        [LX_RESPONSE_PART_ADDED] = "response.content_part.added",
        [LX_RESPONSE_DELTA] = "response.output_text.delta",
        [LX_RESPONSE_TEXT_DONE] = "response.output_text.done",
        [LX_RESPONSE_PART_DONE] = "response.content_part.done",
        [LX_RESPONSE_ITEM_DONE] = "response.output_item.done",
        [LX_RESPONSE_ENDED] = "response.completed",
    };
    return event == LX_RESPONSE_ENDED && is_cut(r) ? "response.incomplete" : names[event];
}

/* The place of the part that a text belongs to, then what is said of it. */
static json_t *make_part_event(const lx_json_response *r, lx_response_event event)
{
    json_t *o =
        json_pack("{s:s, s:i, s:i}", "item_id", r->item_id, "output_index", 0, "content_index", 0);
    bool ok = false;
    if (event == LX_RESPONSE_DELTA || event == LX_RESPONSE_TEXT_DONE)
        ok = json_object_set_new(o, event == LX_RESPONSE_DELTA ? "delta" : "text",
                                 make_text(r->choice)) == 0 &&
             json_object_set_new(o, "logprobs", make_logprobs(r->choice)) == 0;
    else
        ok = json_object_set_new(o, "part", make_part(r->choice)) == 0;
    if (ok)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *make_event(const lx_json_response *r, lx_response_event event)
{
    switch (event) {
    case LX_RESPONSE_CREATED:
    case LX_RESPONSE_IN_PROGRESS:
    case LX_RESPONSE_ENDED:
        return json_pack("{s:o}", "response", make_response(r));
    case LX_RESPONSE_ITEM_ADDED:
    case LX_RESPONSE_ITEM_DONE:
        return json_pack("{s:i, s:o}", "output_index", 0, "item", make_item(r));
    case LX_RESPONSE_PART_ADDED:
    case LX_RESPONSE_DELTA:
    case LX_RESPONSE_TEXT_DONE:
    case LX_RESPONSE_PART_DONE:
        break;
    }
    return make_part_event(r, event);
}

void lx_json_write_response_event(const lx_json_response *r, lx_response_event event,
                                  int64_t number, lx_buffer *out)
{
    json_t *o = make_event(r, event);
    json_t *head = json_pack("{s:s, s:I}", "type", lx_json_response_event_name(r, event),
                             "sequence_number", (json_int_t)number);
    bool ok = o != NULL && head != NULL && json_object_update(head, o) == 0;
    json_decref(o);
    if (!ok) {
        json_decref(head);
        head = NULL;
    }
    lx_json_dump(head, out);
}
