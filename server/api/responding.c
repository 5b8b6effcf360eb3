#include <assert.h>
#include <string.h>

#include "server/api/responding.h"
#include "server/http/sse.h"

/* Whether the choice is the whole answer. NULL: in progress. */
static bool is_whole(const lx_json_choice *c)
{
    return c != NULL && c->finish_reason != NULL;
}

static bool is_cut(const lx_json_choice *c)
{
    return c != NULL && c->finish_reason != NULL && strcmp(c->finish_reason, "length") == 0;
}

static const char *status_of(const lx_json_choice *c)
{
    return is_cut(c) ? "incomplete" : is_whole(c) ? "completed" : "in_progress";
}

static void write_text(const char *name, const lx_json_choice *c, lx_buffer *out)
{
    lx_json_put(out, ",%s:%.*s", name, c != NULL ? (int)c->text_bytes : 0,
                c != NULL ? c->text : "");
}

static const lx_json_logprobs *logprobs_of(const lx_json_choice *c)
{
    return c != NULL ? c->logprobs : NULL;
}

/* Its text is the choice's; NULL: none yet. */
static void write_part(const lx_json_choice *c, lx_buffer *out)
{
    lx_json_put(out, "{'type':'output_text','annotations':[],'logprobs':");
    lx_json_write_entries(logprobs_of(c), out);
    write_text("text", c, out);
    lx_buffer_puts(out, "}");
}

static void write_item(const lx_responding *r, const lx_json_choice *c, lx_buffer *out)
{
    lx_json_put(out, "{'id':%s,'type':'message','status':%s,'role':'assistant','content':[",
                r->item_id, status_of(c));
    if (c != NULL)
        write_part(c, out);
    lx_buffer_puts(out, "]}");
}

bool lx_responding_has_message(const lx_json_choice *c)
{
    return c->text_bytes > 0 || c->n_calls == 0;
}

static void write_call(const lx_json_call *call, const lx_json_choice *c, bool whole,
                       lx_buffer *out)
{
    const char *status = is_whole(c) && !call->ended ? "incomplete" : status_of(c);
    lx_json_put(out,
                "{'id':%s,'type':'function_call','status':%s,'call_id':%s,'name':%.*s,"
                "'arguments':%.*s}",
                call->id, status, call->id, (int)call->name_bytes, call->name,
                whole ? (int)call->bytes : 0, call->arguments);
}

static void write_usage(const lx_json_usage *u, lx_buffer *out)
{
    lx_json_put(out,
                ",'usage':{'input_tokens':%jd,'input_tokens_details':{'cached_tokens':%jd},"
                "'output_tokens':%jd,'output_tokens_details':{'reasoning_tokens':0},"
                "'total_tokens':%jd}",
                u->prompt_tokens, u->cached_tokens, u->completion_tokens,
                u->prompt_tokens + u->completion_tokens);
}

/* The request's fields, with defaults for fields that it left out. */
static void write_request(const lx_responding *r, lx_buffer *out)
{
    const lx_sampling_params *s = &r->c->works[0].params->sampling;
    if (r->instructions != NULL)
        lx_json_put(out, ",'instructions':%.*s", (int)r->instructions_bytes, r->instructions);
    else
        lx_json_put(out, ",'instructions':null");
    if (r->max_output_tokens > 0)
        lx_json_put(out, ",'max_output_tokens':%d", r->max_output_tokens);
    else
        lx_json_put(out, ",'max_output_tokens':null");
    lx_json_put(out,
                ",'temperature':%f,'top_p':%f,'top_logprobs':%d,'text':{'format':", s->temperature,
                s->top_p, r->c->n_logprobs > 0 ? r->c->n_logprobs : 0);
    lx_buffer_puts(out, r->format != NULL ? r->format : "{\"type\":\"text\"}");
    lx_json_put(out, "},'truncation':%s,'store':%i,'metadata':", r->truncates ? "auto" : "disabled",
                r->store);
    lx_buffer_puts(out, r->metadata != NULL ? r->metadata : "{}");
    lx_json_put(
        out, ",'previous_response_id':%s,'background':false,'parallel_tool_calls':%i,'tools':",
        r->previous[0] != '\0' ? r->previous : NULL, r->c->calls != NULL && !r->serial_calls);
    lx_buffer_puts(out, r->tools.length > 0 ? r->tools.data : "[]");
    if (r->tool_name != NULL)
        lx_json_put(out, ",'tool_choice':{'type':'function','name':%s}", r->tool_name);
    else
        lx_json_put(out, ",'tool_choice':%s",
                    r->tools.length == 0                  ? "none"
                    : r->tool_choice == LX_TOOLS_REQUIRED ? "required"
                                                          : "auto");
    if (r->talk.id[0] != '\0')
        lx_json_put(out, ",'conversation':{'id':%s}", r->talk.id);
    else
        lx_json_put(out, ",'conversation':null");
}

uint32_t lx_responding_write_items(const lx_responding *r, const lx_json_choice *c,
                                   uint32_t *item_bytes, lx_buffer *out)
{
    uint32_t n = 0;
    for (int32_t i = -1; c != NULL && i < c->n_calls; i++) {
        if (i < 0 && !lx_responding_has_message(c))
            continue;
        if (n > 0 && item_bytes == NULL)
            lx_buffer_puts(out, ",");
        size_t before = out->length;
        if (i < 0)
            write_item(r, c, out);
        else
            write_call(&c->calls[i], c, true, out);
        if (item_bytes != NULL)
            item_bytes[n] = (uint32_t)(out->length - before);
        n++;
    }
    return n;
}

void lx_responding_write(const lx_responding *r, const lx_json_choice *c, lx_buffer *out)
{
    lx_json_completion f = lx_completion_frame(r->c);
    lx_json_put(out,
                "{'id':%s,'object':'response','created_at':%jd,'status':%s,'model':%s,"
                "'error':null,'incomplete_details':",
                f.id, f.created, status_of(c), f.model);
    lx_json_put(out, is_cut(c) ? "{'reason':'max_output_tokens'},'output':[" : "null,'output':[");
    (void)lx_responding_write_items(r, c, NULL, out);
    lx_buffer_puts(out, "]");
    lx_json_usage usage = lx_completion_usage(r->c);
    lx_json_timings timings = lx_completion_timings(r->c);
    if (is_whole(c))
        write_usage(&usage, out);
    else
        lx_json_put(out, ",'usage':null");
    write_request(r, out);
    lx_json_put(out, ",'system_fingerprint':%s,'seed':%jd", f.fingerprint, f.seed);
    if (c != NULL && c->has_score)
        lx_json_put(out, ",'mean_logprob':%f", c->mean_logprob);
    if (is_whole(c))
        lx_json_write_timings(&timings, out);
    lx_json_write_notes(&r->c->notes, out);
    lx_buffer_puts(out, "}");
}

static const char *event_name(const lx_json_choice *c, response_event event)
{
    static const char *const names[] = {
        [CREATED] = "response.created",
        [IN_PROGRESS] = "response.in_progress",
        [ITEM_ADDED] = "response.output_item.added",
        [PART_ADDED] = "response.content_part.added",
        [DELTA] = "response.output_text.delta",
        [TEXT_DONE] = "response.output_text.done",
        [PART_DONE] = "response.content_part.done",
        [ITEM_DONE] = "response.output_item.done",
        [CALL_ADDED] = "response.output_item.added",
        [CALL_DELTA] = "response.function_call_arguments.delta",
        [CALL_DONE] = "response.function_call_arguments.done",
        [CALL_ITEM_DONE] = "response.output_item.done",
        [ENDED] = "response.completed",
    };
    return event == ENDED && is_cut(c) ? "response.incomplete" : names[event];
}

/* --- events --- */

/* The place of the part that a text belongs to, then its content. */
static void write_part_event(const lx_responding *r, response_event event, const lx_json_choice *c,
                             lx_buffer *out)
{
    lx_json_put(out, ",'item_id':%s,'output_index':0,'content_index':0", r->item_id);
    if (event == DELTA || event == TEXT_DONE) {
        write_text(event == DELTA ? "delta" : "text", c, out);
        lx_json_put(out, ",'logprobs':");
        lx_json_write_entries(logprobs_of(c), out);
    } else {
        lx_json_put(out, ",'part':");
        write_part(c, out);
    }
}

/* The place of a call among the items, then its content. */
static void write_call_event(const lx_responding *r, response_event event, const lx_json_call *call,
                             const lx_json_choice *c, lx_buffer *out)
{
    lx_json_put(out, ",'output_index':%d", call->index + r->has_message);
    if (event == CALL_ADDED || event == CALL_ITEM_DONE) {
        lx_json_put(out, ",'item':");
        write_call(call, c, event == CALL_ITEM_DONE, out);
    } else if (event == CALL_DELTA) {
        lx_json_put(out, ",'item_id':%s,'delta':%.*s", call->id, (int)call->bytes, call->arguments);
    } else {
        lx_json_put(out, ",'item_id':%s,'name':%.*s,'arguments':%.*s", call->id,
                    (int)call->name_bytes, call->name, (int)call->bytes, call->arguments);
    }
}

void lx_responding_write_event(lx_responding *r, response_event event, const lx_json_choice *c)
{
    lx_buffer *out = &r->pending;
    const char *name = event_name(c, event);
    lx_sse_begin_named(out, name);
    lx_json_put(out, "{'type':%s,'sequence_number':%jd", name, r->number++);
    switch (event) {
    case CREATED:
    case IN_PROGRESS:
    case ENDED:
        lx_json_put(out, ",'response':");
        lx_responding_write(r, c, out);
        break;
    case ITEM_ADDED:
    case ITEM_DONE:
        lx_json_put(out, ",'output_index':0,'item':");
        write_item(r, c, out);
        break;
    case PART_ADDED:
    case DELTA:
    case TEXT_DONE:
    case PART_DONE:
        write_part_event(r, event, c, out);
        break;
    case CALL_ADDED:
    case CALL_DELTA:
    case CALL_DONE:
    case CALL_ITEM_DONE:
        assert(c != NULL); /* a call is in an answer that has begun */
        write_call_event(r, event, &c->calls[r->at_call], c, out);
        break;
    }
    lx_buffer_puts(out, "}");
    lx_sse_end(out);
}
