/* Responses as JSON (see answers.h). A response here puts out one message of one part, a text. */
#include "server/json/answers.h"

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

static const lx_json_logprobs *logprobs_of(const lx_json_choice *c)
{
    return c != NULL ? c->logprobs : NULL;
}

/* Its text is the choice's; NULL: none yet. */
static void write_part(const lx_json_choice *c, lx_buffer *out)
{
    lx_buffer_puts(out, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":");
    lx_json_write_entries(logprobs_of(c), out);
    lx_json_members(json_pack("{s:o}", "text", make_text(c)), out);
    lx_buffer_puts(out, "}");
}

static void write_item(const lx_json_response *r, lx_buffer *out)
{
    lx_json_open(json_pack("{s:s, s:s, s:s, s:s}", "id", r->item_id, "type", "message", "status",
                           status_of(r), "role", "assistant"),
                 out);
    lx_buffer_puts(out, ",\"content\":[");
    if (r->choice != NULL)
        write_part(r->choice, out);
    lx_buffer_puts(out, "]}");
}

static json_t *make_usage(const lx_json_usage *u)
{
    return json_pack("{s:I, s:{s:I}, s:I, s:{s:i}, s:I}", "input_tokens",
                     (json_int_t)u->prompt_tokens, "input_tokens_details", "cached_tokens",
                     (json_int_t)u->cached_tokens, "output_tokens",
                     (json_int_t)u->completion_tokens, "output_tokens_details", "reasoning_tokens",
                     0, "total_tokens", (json_int_t)(u->prompt_tokens + u->completion_tokens));
}

/* What the request said, or was taken for what it did not say. */
static json_t *make_request(const lx_json_response *r)
{
    json_t *limit = r->max_output_tokens > 0 ? json_integer(r->max_output_tokens) : json_null();
    json_t *instructions = r->instructions != NULL
                               ? json_stringn(r->instructions, r->instructions_bytes)
                               : json_null();
    return json_pack(
        "{s:o, s:o, s:f, s:f, s:i, s:{s:{s:s}}, s:s, s:b, s:s, s:[], s:b, s:{}, s:n, s:b}",
        "instructions", instructions, "max_output_tokens", limit, "temperature", r->temperature,
        "top_p", r->top_p, "top_logprobs", r->n_logprobs > 0 ? (int)r->n_logprobs : 0, "text",
        "format", "type", "text", "truncation", "disabled", "parallel_tool_calls", 0, "tool_choice",
        "none", "tools", "store", 0, "metadata", "previous_response_id", "background", 0);
}

/* Members that only our answers have. */
static void write_own(const lx_json_response *r, lx_buffer *out)
{
    lx_json_members(
        json_pack("{s:s, s:I}", "system_fingerprint", r->fingerprint, "seed", (json_int_t)r->seed),
        out);
    if (r->choice != NULL && r->choice->has_score)
        lx_json_members(
            json_pack("{s:o}", "mean_logprob", lx_json_real_or_null(r->choice->mean_logprob)), out);
    if (r->timings != NULL)
        lx_json_write_timings(r->timings, out);
    lx_json_write_notes(r->notes, out);
}

void lx_json_write_response(const lx_json_response *r, lx_buffer *out)
{
    json_t *why = is_cut(r) ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null();
    lx_json_open(json_pack("{s:s, s:s, s:I, s:s, s:s, s:n, s:o}", "id", r->id, "object", "response",
                           "created_at", (json_int_t)r->created, "status", status_of(r), "model",
                           r->model, "error", "incomplete_details", why),
                 out);
    lx_buffer_puts(out, ",\"output\":[");
    if (r->choice != NULL)
        write_item(r, out);
    lx_buffer_puts(out, "]");
    lx_json_members(
        json_pack("{s:o}", "usage", r->usage != NULL ? make_usage(r->usage) : json_null()), out);
    lx_json_members(make_request(r), out);
    write_own(r, out);
    lx_buffer_puts(out, "}");
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
static void write_part_event(const lx_json_response *r, lx_response_event event, lx_buffer *out)
{
    lx_json_members(
        json_pack("{s:s, s:i, s:i}", "item_id", r->item_id, "output_index", 0, "content_index", 0),
        out);
    if (event == LX_RESPONSE_DELTA || event == LX_RESPONSE_TEXT_DONE) {
        lx_json_members(
            json_pack("{s:o}", event == LX_RESPONSE_DELTA ? "delta" : "text", make_text(r->choice)),
            out);
        lx_buffer_puts(out, ",\"logprobs\":");
        lx_json_write_entries(logprobs_of(r->choice), out);
    } else {
        lx_buffer_puts(out, ",\"part\":");
        write_part(r->choice, out);
    }
}

void lx_json_write_response_event(const lx_json_response *r, lx_response_event event,
                                  int64_t number, lx_buffer *out)
{
    lx_json_open(json_pack("{s:s, s:I}", "type", lx_json_response_event_name(r, event),
                           "sequence_number", (json_int_t)number),
                 out);
    switch (event) {
    case LX_RESPONSE_CREATED:
    case LX_RESPONSE_IN_PROGRESS:
    case LX_RESPONSE_ENDED:
        lx_buffer_puts(out, ",\"response\":");
        lx_json_write_response(r, out);
        break;
    case LX_RESPONSE_ITEM_ADDED:
    case LX_RESPONSE_ITEM_DONE:
        lx_buffer_puts(out, ",\"output_index\":0,\"item\":");
        write_item(r, out);
        break;
    case LX_RESPONSE_PART_ADDED:
    case LX_RESPONSE_DELTA:
    case LX_RESPONSE_TEXT_DONE:
    case LX_RESPONSE_PART_DONE:
        write_part_event(r, event, out);
        break;
    }
    lx_buffer_puts(out, "}");
}
