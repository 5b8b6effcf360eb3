/* Responses as JSON (see answers.h). A response here puts out one message of one part, a text. */
#include "server/json/answers.h"

#include <string.h>

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

static void write_item(const lx_json_response *r, lx_buffer *out)
{
    lx_json_put(out, "{'id':%s,'type':'message','status':%s,'role':'assistant','content':[",
                r->item_id, status_of(r));
    if (r->choice != NULL)
        write_part(r->choice, out);
    lx_buffer_puts(out, "]}");
}

static void write_usage(const lx_json_usage *u, lx_buffer *out)
{
    if (u == NULL)
        lx_json_put(out, ",'usage':null");
    else
        lx_json_put(out,
                    ",'usage':{'input_tokens':%jd,'input_tokens_details':{'cached_tokens':%jd},"
                    "'output_tokens':%jd,'output_tokens_details':{'reasoning_tokens':0},"
                    "'total_tokens':%jd}",
                    u->prompt_tokens, u->cached_tokens, u->completion_tokens,
                    u->prompt_tokens + u->completion_tokens);
}

/* The request's fields, with defaults for fields that it left out. */
static void write_request(const lx_json_response *r, lx_buffer *out)
{
    if (r->instructions != NULL)
        lx_json_put(out, ",'instructions':%.*s", (int)r->instructions_bytes, r->instructions);
    else
        lx_json_put(out, ",'instructions':null");
    if (r->max_output_tokens > 0)
        lx_json_put(out, ",'max_output_tokens':%d", r->max_output_tokens);
    else
        lx_json_put(out, ",'max_output_tokens':null");
    lx_json_put(out,
                ",'temperature':%f,'top_p':%f,'top_logprobs':%d,'text':{'format':{'type':'text'}},"
                "'truncation':'disabled','parallel_tool_calls':false,'tool_choice':'none',"
                "'tools':[],'store':false,'metadata':{},'previous_response_id':null,"
                "'background':false",
                r->temperature, r->top_p, r->n_logprobs > 0 ? r->n_logprobs : 0);
}

/* Members that only our answers have. */
static void write_own(const lx_json_response *r, lx_buffer *out)
{
    lx_json_put(out, ",'system_fingerprint':%s,'seed':%jd", r->fingerprint, r->seed);
    if (r->choice != NULL && r->choice->has_score)
        lx_json_put(out, ",'mean_logprob':%f", r->choice->mean_logprob);
    if (r->timings != NULL)
        lx_json_write_timings(r->timings, out);
    lx_json_write_notes(r->notes, out);
}

void lx_json_write_response(const lx_json_response *r, lx_buffer *out)
{
    lx_json_put(out,
                "{'id':%s,'object':'response','created_at':%jd,'status':%s,'model':%s,"
                "'error':null,'incomplete_details':",
                r->id, r->created, status_of(r), r->model);
    lx_json_put(out, is_cut(r) ? "{'reason':'max_output_tokens'},'output':[" : "null,'output':[");
    if (r->choice != NULL)
        write_item(r, out);
    lx_buffer_puts(out, "]");
    write_usage(r->usage, out);
    write_request(r, out);
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

/* The place of the part that a text belongs to, then its content. */
static void write_part_event(const lx_json_response *r, lx_response_event event, lx_buffer *out)
{
    lx_json_put(out, ",'item_id':%s,'output_index':0,'content_index':0", r->item_id);
    if (event == LX_RESPONSE_DELTA || event == LX_RESPONSE_TEXT_DONE) {
        write_text(event == LX_RESPONSE_DELTA ? "delta" : "text", r->choice, out);
        lx_json_put(out, ",'logprobs':");
        lx_json_write_entries(logprobs_of(r->choice), out);
    } else {
        lx_json_put(out, ",'part':");
        write_part(r->choice, out);
    }
}

void lx_json_write_response_event(const lx_json_response *r, lx_response_event event,
                                  int64_t number, lx_buffer *out)
{
    lx_json_put(out, "{'type':%s,'sequence_number':%jd", lx_json_response_event_name(r, event),
                number);
    switch (event) {
    case LX_RESPONSE_CREATED:
    case LX_RESPONSE_IN_PROGRESS:
    case LX_RESPONSE_ENDED:
        lx_json_put(out, ",'response':");
        lx_json_write_response(r, out);
        break;
    case LX_RESPONSE_ITEM_ADDED:
    case LX_RESPONSE_ITEM_DONE:
        lx_json_put(out, ",'output_index':0,'item':");
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
