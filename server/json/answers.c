/* Answers that are text, and errors, as JSON (see answers.h). */
#include "server/json/answers.h"

#include <jansson.h>

#include "model/tones.h"

/* --- completions --- */

enum { MARK_BYTES = 3 }; /* of a tone's mark, for a character of at least one byte */

/* In a chunk, a call that goes on has its index and its arguments alone. */
static void write_calls(const lx_json_completion *f, const lx_json_choice *c, lx_buffer *out)
{
    lx_json_put(out, "'tool_calls':[");
    for (int32_t i = 0; i < c->n_calls; i++) {
        const lx_json_call *call = &c->calls[i];
        lx_buffer_puts(out, i > 0 ? ",{" : "{");
        if (f->chunk)
            lx_json_put(out, "'index':%d,", call->index);
        if (call->is_new)
            lx_json_put(out, "'id':%s,'type':'function','function':{'name':%.*s,", call->id,
                        (int)call->name_bytes, call->name);
        else
            lx_json_put(out, "'function':{");
        lx_json_put(out, "'arguments':%.*s}}", (int)call->bytes, call->arguments);
    }
    lx_buffer_puts(out, "]");
}

/* A chat's "message", or in a chunk "delta", which names the role once. Thoughts and calls have
   members of their own, where there are any. */
static void write_text(const lx_json_completion *f, const lx_json_choice *c, lx_buffer *out)
{
    int bytes = (int)c->text_bytes;
    if (!f->chat) {
        lx_json_put(out, ",'text':%.*s", bytes, c->text);
        return;
    }
    bool thinks = c->thought_bytes > 0, calls = c->n_calls > 0;
    bool speaks = !f->chunk || !(thinks || calls) || bytes > 0, named = !f->chunk || c->first;
    lx_json_put(out, f->chunk ? ",'delta':{" : ",'message':{");
    if (named)
        lx_json_put(out, "'role':'assistant'");
    if (thinks)
        lx_json_put(out, named ? ",'reasoning_content':%.*s" : "'reasoning_content':%.*s",
                    (int)c->thought_bytes, c->thought);
    if (speaks && calls && bytes == 0)
        lx_json_put(out, ",'content':null");
    else if (speaks)
        lx_json_put(out, named || thinks ? ",'content':%.*s" : "'content':%.*s", bytes, c->text);
    if (calls) {
        lx_buffer_puts(out, named || thinks || speaks ? "," : "");
        write_calls(f, c, out);
    }
    lx_buffer_puts(out, "}");
}

static void write_prompt_ids(const lx_json_choice *c, lx_buffer *out)
{
    if (c->prompt_ids == NULL)
        return;
    lx_json_put(out, ",'prompt_token_ids':");
    lx_json_put_ids(c->prompt_ids, c->n_prompt_ids, out);
}

/* Tokens of the prompt have no id here. */
static void write_token_ids(const lx_json_choice *c, lx_buffer *out)
{
    const char *comma = "";
    lx_json_put(out, ",'token_ids':[");
    for (int32_t i = 0; i < c->n_tokens; i++) {
        if (c->tokens[i].id < 0)
            continue;
        lx_buffer_printf(out, "%s%d", comma, c->tokens[i].id);
        comma = ",";
    }
    lx_buffer_puts(out, "]");
}

/* A text of the tones' marks. */
static void put_tones(const char *text, size_t bytes, lx_buffer *out)
{
    lx_buffer marks;
    lx_buffer_init(&marks, MARK_BYTES * bytes + 1);
    lx_buffer_puts(&marks, "");
    lx_tones_write(text, bytes, &marks);
    if (marks.status == LX_OK)
        lx_json_put(out, "%.*s", (int)marks.length, marks.data);
    else
        out->status = marks.status;
    lx_buffer_fini(&marks);
}

static void write_lines(const lx_json_line *lines, int32_t n, lx_buffer *out)
{
    lx_json_put(out, ",'prompt_tones':");
    for (int32_t i = 0; i < n; i++) {
        lx_buffer_puts(out, n == 1 ? "" : i == 0 ? "[" : ",");
        put_tones(lines[i].text.data, lines[i].text.length, out);
    }
    lx_json_put(out, n == 1 ? ",'answered':" : "],'answered':");
    for (int32_t i = 0; i < n; i++) {
        lx_buffer_puts(out, n == 1 ? "" : i == 0 ? "[" : ",");
        lx_json_put(out, "%s", lines[i].backward ? "upper" : "lower");
    }
    lx_buffer_puts(out, n == 1 ? "" : "]");
}

static void write_choice(const lx_json_completion *f, const lx_json_choice *c, lx_buffer *out)
{
    lx_json_put(out, "{'index':%d", c->index);
    write_text(f, c, out);
    lx_json_put(out, ",'logprobs':");
    lx_json_write_logprobs(c->logprobs, f->chat, out);
    lx_json_put(out, ",'finish_reason':%s", c->finish_reason);
    if (f->token_ids)
        write_token_ids(c, out);
    if (f->token_ids && !f->chat)
        write_prompt_ids(c, out);
    if (c->tones) {
        lx_json_put(out, ",'tones':");
        put_tones(c->text, c->text_bytes, out);
    }
    if (c->has_score)
        lx_json_put(out, ",'mean_logprob':%f", c->mean_logprob);
    lx_buffer_puts(out, "}");
}

static void write_usage(const lx_json_usage *u, lx_buffer *out)
{
    lx_json_put(out,
                ",'usage':{'prompt_tokens':%jd,'completion_tokens':%jd,'total_tokens':%jd,"
                "'prompt_tokens_details':{'cached_tokens':%jd}}",
                u->prompt_tokens, u->completion_tokens, u->prompt_tokens + u->completion_tokens,
                u->cached_tokens);
}

void lx_json_write_completion(const lx_json_completion *c, lx_buffer *out)
{
    const char *object = !c->chat   ? "text_completion"
                         : c->chunk ? "chat.completion.chunk"
                                    : "chat.completion";
    lx_json_put(out,
                "{'id':%s,'object':%s,'created':%jd,'model':%s,'system_fingerprint':%s,'seed':%jd,"
                "'choices':[",
                c->id, object, c->created, c->model, c->fingerprint, c->seed);
    for (int32_t i = 0; i < c->n_choices; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        write_choice(c, &c->choices[i], out);
    }
    lx_buffer_puts(out, "]");
    if (c->usage != NULL)
        write_usage(c->usage, out);
    else if (c->null_usage)
        lx_json_put(out, ",'usage':null");
    if (c->token_ids && c->chat && c->n_choices > 0) /* one prompt for all choices */
        write_prompt_ids(&c->choices[0], out);
    if (c->timings != NULL)
        lx_json_write_timings(c->timings, out);
    lx_json_write_notes(c->notes, out);
    if (c->lines != NULL)
        write_lines(c->lines, c->n_lines, out);
    if (c->states != NULL)
        lx_buffer_printf(out, ",\"states\":%s", c->states);
    lx_buffer_puts(out, "}");
}

/* An empty text becomes null in JSON. */
static const char *text_or_null(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
}

void lx_json_write_error(const char *message, const char *type, const char *param, const char *code,
                         lx_buffer *out)
{
    lx_json_put(out, "{'error':{'message':%s,'type':%s,'param':%s,'code':%s}}", message, type,
                text_or_null(param), code);
}

void lx_json_write_message_error(const char *message, const char *type, const char *param,
                                 const char *code, lx_buffer *out)
{
    lx_json_put(out, "{'type':'error','error':{'type':%s,'message':%s,'param':%s,'code':%s}}", type,
                message, text_or_null(param), code);
}

/* --- states --- */

void lx_json_append_kept(const lx_json_kept *k, lx_buffer *out)
{
    if (k->code != NULL)
        lx_json_put(out, "{'index':%d,'id':null,'error':{'message':%s,'code':%s}}", k->index,
                    k->why, k->code);
    else
        lx_json_put(out,
                    "{'index':%d,'id':%s,'object':'state','tokens':%d,'position':%d,'bytes':%jd,"
                    "'memory_bytes':%jd}",
                    k->index, k->id, k->tokens, k->rows, (int64_t)k->bytes, k->memory_bytes);
}

/* --- tokens --- */

static void write_piece(const lx_tokenizer *t, int32_t id, lx_buffer *out)
{
    size_t n = 0;
    const char *text = lx_tokenizer_token(t, id, &n);
    json_t *piece = text != NULL ? json_stringn(text, n) : json_string("");
    lx_json_put(out, "{'id':%d,'piece':", id);
    if (piece != NULL)
        lx_json_dump(piece, out);
    else /* it is not UTF-8 */
        lx_json_put_bytes(text, n, out);
    lx_buffer_puts(out, "}");
}

void lx_json_write_tokens(const lx_tokenizer *t, const lx_token_list *list, bool with_pieces,
                          lx_buffer *out)
{
    lx_json_put(out, with_pieces ? "{'tokens':[" : "{'tokens':");
    if (!with_pieces)
        lx_json_put_ids(list->ids, (int64_t)list->n, out);
    for (size_t i = 0; with_pieces && i < list->n; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        write_piece(t, list->ids[i], out);
    }
    lx_buffer_puts(out, with_pieces ? "]}" : "}");
}

void lx_json_write_prompt(const lx_buffer *text, lx_buffer *out)
{
    lx_json_put(out, "{'prompt':%.*s}", (int)text->length, text->data != NULL ? text->data : "");
}
