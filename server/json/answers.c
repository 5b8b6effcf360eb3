/* Completions, models, health and errors as JSON (see answers.h). */
#include "server/json/answers.h"

#include <string.h>

#include "model/formats/json_memory.h"
#include "server/json/fields.h"
#include "server/json/parts.h"

/* "message", or in a chunk "delta", which tells the role once. */
static json_t *make_message(const lx_json_choice *c, bool chunk)
{
    if (chunk && !c->first)
        return json_pack("{s:s%}", "content", c->text, c->text_bytes);
    return json_pack("{s:s, s:s%}", "role", "assistant", "content", c->text, c->text_bytes);
}

/* Lists of ids; NULL without memory. */
static json_t *make_ids(const int32_t *ids, int32_t n)
{
    json_t *list = json_array();
    for (int32_t i = 0; list != NULL && i < n; i++) {
        if (json_array_append_new(list, json_integer(ids[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static json_t *make_token_ids(const lx_json_choice *c)
{
    json_t *list = json_array();
    for (int32_t i = 0; list != NULL && i < c->n_tokens; i++) {
        if (c->tokens[i].id >= 0 &&
            json_array_append_new(list, json_integer(c->tokens[i].id)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static bool add_prompt_ids(json_t *o, const lx_json_choice *c)
{
    return c->prompt_ids == NULL ||
           json_object_set_new(o, "prompt_token_ids", make_ids(c->prompt_ids, c->n_prompt_ids)) ==
               0;
}

static json_t *make_choice(const lx_json_completion *f, const lx_json_choice *c)
{
    json_t *logprobs =
        c->logprobs != NULL ? lx_json_make_logprobs(c->logprobs, f->chat) : json_null();
    json_t *o =
        f->chat ? json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)c->index,
                            f->chunk ? "delta" : "message", make_message(c, f->chunk), "logprobs",
                            logprobs, "finish_reason", c->finish_reason)
                : json_pack("{s:i, s:s%, s:o, s:s?}", "index", (int)c->index, "text", c->text,
                            c->text_bytes, "logprobs", logprobs, "finish_reason", c->finish_reason);
    bool ok = o != NULL;
    if (ok && f->token_ids)
        ok = json_object_set_new(o, "token_ids", make_token_ids(c)) == 0;
    if (ok && f->token_ids && !f->chat)
        ok = add_prompt_ids(o, c);
    if (ok && c->has_score)
        ok = json_object_set_new(o, "mean_logprob", lx_json_real_or_null(c->mean_logprob)) == 0;
    if (ok)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *make_choices(const lx_json_completion *c)
{
    json_t *list = json_array();
    for (int32_t i = 0; list != NULL && i < c->n_choices; i++) {
        if (json_array_append_new(list, make_choice(c, &c->choices[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
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
    json_t *root =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:I, s:o}", "id", c->id, "object", object, "created",
                  (json_int_t)c->created, "model", c->model, "system_fingerprint", c->fingerprint,
                  "seed", (json_int_t)c->seed, "choices", make_choices(c));
    json_error_t e;
    bool ok = root != NULL;
    if (ok && (c->usage != NULL || c->null_usage))
        ok = json_object_set_new(root, "usage",
                                 c->usage != NULL ? make_usage(c->usage) : json_null()) == 0;
    if (ok && c->token_ids && c->chat && c->n_choices > 0) /* one prompt for all choices */
        ok = add_prompt_ids(root, &c->choices[0]);
    if (ok && c->timings != NULL)
        ok = json_object_set_new(root, "timings", lx_json_make_timings(c->timings)) == 0;
    if (ok && c->notes != NULL && lx_json_count_notes(c->notes) > 0)
        ok = json_object_set_new(root, "warnings", lx_json_make_notes(c->notes)) == 0;
    if (ok && c->states != NULL)
        ok = json_object_set_new(root, "states",
                                 lx_json_load(c->states, strlen(c->states), 0, &e)) == 0;
    if (!ok) {
        json_decref(root);
        root = NULL;
    }
    lx_json_dump(root, out);
}

void lx_json_write_error(const char *message, const char *type, const char *param, const char *code,
                         lx_buffer *out)
{
    const char *where = param != NULL && param[0] != '\0' ? param : NULL;
    lx_json_dump(json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message", message, "type", type,
                           "param", where, "code", code),
                 out);
}

static json_t *make_kinds(const lx_json_model *m)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (int32_t i = 0; i < m->n_kinds && ok; i++)
        ok = json_array_append_new(list, json_string(m->kinds[i])) == 0;
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *make_words(const lx_card_field *f)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < f->n; i++) {
        const char *text = f->text + (size_t)i * f->apart;
        json_t *word = json_stringn(text, strcspn(text, " "));
        if (json_array_append_new(list, word) != 0) {
            json_decref(list);
            return NULL;
        }
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
    json_t *list = json_array();
    bool ok = list != NULL;
    for (int32_t i = 0; ok && i < n; i++)
        ok = json_array_append_new(list, make_model(&models[i])) == 0;
    if (!ok) {
        json_decref(list);
        list = NULL;
    }
    lx_json_dump(json_pack("{s:s, s:o}", "object", "list", "data", list), out);
}

void lx_json_write_health(const lx_json_health *h, lx_buffer *out)
{
    lx_json_dump(json_pack("{s:s, s:s, s:s, s:I, s:I}", "status", h->status, "version", h->version,
                           "backend", h->backend, "uptime_s", (json_int_t)h->uptime_s,
                           "last_step_ms", (json_int_t)h->last_step_ms),
                 out);
}
