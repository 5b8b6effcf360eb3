/* Answers that are text, and those of the server's own state, as JSON (see answers.h). */
#include "server/json/answers.h"

#include <string.h>

#include "server/json/fields.h"
#include "server/json/parts.h"

/* --- completions --- */

/* "message", or in a chunk "delta", which tells the role once. Thoughts have a member of their own,
   where there are any. */
static json_t *make_message(const lx_json_choice *c, bool chunk)
{
    bool ok = true, thinks = c->thought_bytes > 0;
    json_t *message = json_object();
    if (!chunk || c->first)
        ok = json_object_set_new(message, "role", json_string("assistant")) == 0;
    if (ok && thinks)
        ok = json_object_set_new(message, "reasoning_content",
                                 json_stringn(c->thought, c->thought_bytes)) == 0;
    if (ok && (!chunk || !thinks || c->text_bytes > 0))
        ok = json_object_set_new(message, "content", json_stringn(c->text, c->text_bytes)) == 0;
    if (ok)
        return message;
    json_decref(message);
    return NULL;
}

static void write_ids(const char *name, const int32_t *ids, int32_t n, lx_buffer *out)
{
    lx_buffer_printf(out, ",\"%s\":[", name);
    for (int32_t i = 0; i < n; i++)
        lx_buffer_printf(out, "%s%d", i > 0 ? "," : "", ids[i]);
    lx_buffer_puts(out, "]");
}

static void write_prompt_ids(const lx_json_choice *c, lx_buffer *out)
{
    if (c->prompt_ids != NULL)
        write_ids("prompt_token_ids", c->prompt_ids, c->n_prompt_ids, out);
}

/* Tokens of the prompt have no id here. */
static void write_token_ids(const lx_json_choice *c, lx_buffer *out)
{
    const char *comma = "";
    lx_buffer_puts(out, ",\"token_ids\":[");
    for (int32_t i = 0; i < c->n_tokens; i++) {
        if (c->tokens[i].id < 0)
            continue;
        lx_buffer_printf(out, "%s%d", comma, c->tokens[i].id);
        comma = ",";
    }
    lx_buffer_puts(out, "]");
}

static void write_choice(const lx_json_completion *f, const lx_json_choice *c, lx_buffer *out)
{
    lx_json_open(
        f->chat ? json_pack("{s:i, s:o}", "index", (int)c->index, f->chunk ? "delta" : "message",
                            make_message(c, f->chunk))
                : json_pack("{s:i, s:s%}", "index", (int)c->index, "text", c->text, c->text_bytes),
        out);
    lx_buffer_puts(out, ",\"logprobs\":");
    lx_json_write_logprobs(c->logprobs, f->chat, out);
    lx_json_members(json_pack("{s:s?}", "finish_reason", c->finish_reason), out);
    if (f->token_ids)
        write_token_ids(c, out);
    if (f->token_ids && !f->chat)
        write_prompt_ids(c, out);
    if (c->has_score)
        lx_json_members(json_pack("{s:o}", "mean_logprob", lx_json_real_or_null(c->mean_logprob)),
                        out);
    lx_buffer_puts(out, "}");
}

static json_t *make_usage(const lx_json_usage *u)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)u->prompt_tokens,
                     "completion_tokens", (json_int_t)u->completion_tokens, "total_tokens",
                     (json_int_t)(u->prompt_tokens + u->completion_tokens), "prompt_tokens_details",
                     "cached_tokens", (json_int_t)u->cached_tokens);
}

void lx_json_write_completion(const lx_json_completion *c, lx_buffer *out)
{
    const char *object = !c->chat   ? "text_completion"
                         : c->chunk ? "chat.completion.chunk"
                                    : "chat.completion";
    lx_json_open(json_pack("{s:s, s:s, s:I, s:s, s:s, s:I}", "id", c->id, "object", object,
                           "created", (json_int_t)c->created, "model", c->model,
                           "system_fingerprint", c->fingerprint, "seed", (json_int_t)c->seed),
                 out);
    lx_buffer_puts(out, ",\"choices\":[");
    for (int32_t i = 0; i < c->n_choices; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        write_choice(c, &c->choices[i], out);
    }
    lx_buffer_puts(out, "]");
    if (c->usage != NULL || c->null_usage)
        lx_json_members(
            json_pack("{s:o}", "usage", c->usage != NULL ? make_usage(c->usage) : json_null()),
            out);
    if (c->token_ids && c->chat && c->n_choices > 0) /* one prompt for all choices */
        write_prompt_ids(&c->choices[0], out);
    if (c->timings != NULL)
        lx_json_write_timings(c->timings, out);
    lx_json_write_notes(c->notes, out);
    if (c->states != NULL)
        lx_buffer_printf(out, ",\"states\":%s", c->states);
    lx_buffer_puts(out, "}");
}

void lx_json_write_error(const char *message, const char *type, const char *param, const char *code,
                         lx_buffer *out)
{
    const char *where = param != NULL && param[0] != '\0' ? param : NULL;
    lx_json_dump(json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message", message, "type", type,
                           "param", where, "code", code),
                 out);
}

/* --- models --- */

static json_t *make_kinds(const lx_json_model *m)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < m->n_kinds; i++)
        list = lx_json_add(list, json_string(m->kinds[i]));
    return list;
}

static json_t *make_words(const lx_card_field *f)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < f->n; i++) {
        const char *text = f->text + (size_t)i * f->apart;
        list = lx_json_add(list, json_stringn(text, strcspn(text, " ")));
    }
    return list;
}

static json_t *make_field(const lx_card_field *f)
{
    switch (f->kind) {
    case LX_CARD_INT:
        return json_integer((json_int_t)f->number);
    case LX_CARD_FLAG:
        return json_boolean(f->number > 0);
    case LX_CARD_REAL:
        return json_real(f->number);
    case LX_CARD_WORD:
        return json_string(f->text);
    case LX_CARD_WORDS:
        break;
    }
    return make_words(f);
}

/* Adds the task's own fields; false when there was no memory. */
static bool add_card(json_t *meta, const lx_task_card *card)
{
    bool ok = true;
    for (int32_t i = 0; i < card->n && ok; i++)
        ok = json_object_set_new(meta, card->fields[i].name, make_field(&card->fields[i])) == 0;
    return ok;
}

static json_t *make_model(const lx_json_model *m)
{
    const char *made = m->modality == LX_IMAGE ? "image" : "text";
    const char *read = m->modality == LX_SPEECH ? "audio" : made;
    json_t *root = json_pack(
        "{s:s, s:s, s:I, s:s, s:{s:[s], s:[s]}, s:{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, "
        "s:o, s:b}}",
        "id", m->id, "object", "model", "created", (json_int_t)m->created, "owned_by", "linnet",
        "architecture", "input_modalities", read, "output_modalities", made, "meta", "task",
        m->task, "n_params", (json_int_t)m->n_parameters, "n_vocab", (json_int_t)m->n_vocab,
        "n_embd", (json_int_t)m->n_embd, "n_layers", (json_int_t)m->n_layers, "n_heads",
        (json_int_t)m->n_heads, "state_bytes", (json_int_t)m->state_bytes, "slots",
        (json_int_t)m->slots, "fingerprint", m->fingerprint, "attention", make_kinds(m),
        "state_grows", (int)m->state_grows);
    if (root != NULL && !add_card(json_object_get(root, "meta"), &m->card)) {
        json_decref(root);
        root = NULL;
    }
    return root;
}

void lx_json_write_model(const lx_json_model *model, lx_buffer *out)
{
    lx_json_dump(make_model(model), out);
}

void lx_json_write_models(const lx_json_model *models, int32_t n, lx_buffer *out)
{
    lx_buffer_puts(out, "{\"object\":\"list\",\"data\":[");
    for (int32_t i = 0; i < n; i++)
        lx_json_item(i, make_model(&models[i]), out);
    lx_buffer_puts(out, "]}");
}

/* --- the server --- */

void lx_json_write_health(const lx_json_health *h, lx_buffer *out)
{
    lx_json_dump(json_pack("{s:s, s:s, s:s, s:I, s:I}", "status", h->status, "version", h->version,
                           "backend", h->backend, "uptime_s", (json_int_t)h->uptime_s,
                           "last_step_ms", (json_int_t)h->last_step_ms),
                 out);
}

static json_t *make_capacity(const lx_json_capacity *c)
{
    return json_pack("{s:s, s:{s:I, s:I, s:I}, s:{s:I, s:I}, s:I, s:f, s:f}", "id", c->id, "slots",
                     "total", (json_int_t)c->slots, "used", (json_int_t)c->slots_used, "free",
                     (json_int_t)(c->slots - c->slots_used), "queue", "length",
                     (json_int_t)c->queue_length, "limit", (json_int_t)c->queue_limit,
                     "state_bytes", (json_int_t)c->state_bytes, "estimated_wait_s", c->wait_s,
                     "step_s", c->step_s);
}

static void write_budget(const char *name, lx_json_budget b, lx_buffer *out)
{
    lx_json_members(json_pack("{s:{s:I, s:I, s:I}}", name, "limit", (json_int_t)b.limit, "used",
                              (json_int_t)b.used, "free", (json_int_t)(b.limit - b.used)),
                    out);
}

void lx_json_write_capacity(const char *status, const lx_json_capacity *models, int32_t n,
                            lx_json_budget answers, lx_json_budget bodies, lx_buffer *out)
{
    lx_json_open(json_pack("{s:s, s:s}", "object", "capacity", "status", status), out);
    lx_buffer_puts(out, ",\"models\":[");
    for (int32_t i = 0; i < n; i++)
        lx_json_item(i, make_capacity(&models[i]), out);
    lx_buffer_puts(out, "]");
    write_budget("answer_bytes", answers, out);
    write_budget("body_bytes", bodies, out);
    lx_buffer_puts(out, "}");
}

void lx_json_write_reload(const lx_json_reloaded *models, int32_t n, lx_buffer *out)
{
    lx_buffer_puts(out, "{\"object\":\"reload\",\"status\":\"done\",\"models\":[");
    for (int32_t i = 0; i < n; i++)
        lx_json_item(i,
                     json_pack("{s:s, s:s, s:b}", "id", models[i].id, "system_fingerprint",
                               models[i].fingerprint, "changed", models[i].changed),
                     out);
    lx_buffer_puts(out, "]}");
}

/* --- tokens --- */

static json_t *make_bytes(const char *text, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        list = lx_json_add(list, json_integer((unsigned char)text[i]));
    return list;
}

static void write_piece(const lx_tokenizer *t, int32_t id, lx_buffer *out)
{
    size_t n = 0;
    const char *text = lx_tokenizer_token(t, id, &n);
    if (text == NULL) {
        text = "";
        n = 0;
    }
    json_t *piece = json_stringn(text, n); /* NULL when that is not UTF-8 */
    lx_json_dump(json_pack("{s:i, s:o}", "id", (int)id, "piece",
                           piece != NULL ? piece : make_bytes(text, n)),
                 out);
}

void lx_json_write_tokens(const lx_tokenizer *t, const lx_token_list *list, bool with_pieces,
                          lx_buffer *out)
{
    lx_buffer_puts(out, "{\"tokens\":[");
    for (size_t i = 0; i < list->n; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        if (with_pieces)
            write_piece(t, list->ids[i], out);
        else
            lx_buffer_printf(out, "%d", list->ids[i]);
    }
    lx_buffer_puts(out, "]}");
}

static void write_text(const char *name, const lx_buffer *text, lx_buffer *out)
{
    lx_json_dump(json_pack("{s:s%}", name, text->data != NULL ? text->data : "", text->length),
                 out);
}

void lx_json_write_content(const lx_buffer *text, lx_buffer *out)
{
    write_text("content", text, out);
}

void lx_json_write_prompt(const lx_buffer *text, lx_buffer *out)
{
    write_text("prompt", text, out);
}
