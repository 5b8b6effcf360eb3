/* Completions, models, health and errors as JSON (see json_api.h). */
#include "server/json_api.h"

#include <stdlib.h>
#include <string.h>

#include "server/json_fields.h"

/* --- reading
 * -------------------------------------------------------------------------------------- */

enum { MAX_MESSAGES = 1024, MAX_TOKENS = 1000000 };

static lx_status keep_prompt(const json_t *value, lx_completion_params *p, lx_error *err)
{
    p->prompt_bytes = json_string_length(value);
    p->prompt = malloc(p->prompt_bytes + 1);
    if (p->prompt == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the prompt");
    memcpy(p->prompt, json_string_value(value), p->prompt_bytes + 1);
    return LX_OK;
}

static lx_status read_prompt(const json_t *root, lx_completion_params *p, lx_error *err)
{
    const json_t *value = lx_json_field(root, "prompt");
    if (value == NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "prompt is missing");
    if (json_is_array(value)) {
        if (json_array_size(value) != 1)
            return lx_fail(err, LX_ERR_INVALID, "prompt",
                           "prompt must be a string or a list of one string");
        value = json_array_get(value, 0);
        if (json_is_integer(value) || json_is_array(value))
            return lx_fail(err, LX_ERR_INVALID, "prompt",
                           "prompt must be text; lists of tokens are not supported");
    }
    if (!json_is_string(value))
        return lx_fail(err, LX_ERR_INVALID, "prompt", "prompt must be a string");
    return keep_prompt(value, p, err);
}

/* A message's content: a string, or a list of parts of which exactly one is there and is text. */
static const json_t *content_text(const json_t *message)
{
    const json_t *content = lx_json_field(message, "content");
    if (!json_is_array(content))
        return json_is_string(content) ? content : NULL;
    const json_t *part = json_array_size(content) == 1 ? json_array_get(content, 0) : NULL;
    const char *type = json_string_value(lx_json_field(part, "type"));
    const json_t *text = lx_json_field(part, "text");
    return type != NULL && strcmp(type, "text") == 0 && json_is_string(text) ? text : NULL;
}

static lx_status read_messages(const json_t *root, lx_completion_params *p, lx_error *err)
{
    const json_t *list = lx_json_field(root, "messages");
    size_t n = json_array_size(list); /* 0 for what is no array */
    if (n < 1 || n > MAX_MESSAGES)
        return lx_fail(err, LX_ERR_INVALID, "messages",
                       "messages must be a list of 1 to %d messages", MAX_MESSAGES);
    for (size_t i = 0; i < n; i++) {
        const json_t *message = json_array_get(list, i);
        if (json_string_value(lx_json_field(message, "role")) == NULL ||
            content_text(message) == NULL)
            return lx_fail(err, LX_ERR_INVALID, "messages",
                           "messages[%zu] must have a role and a content of one text", i);
    }
    const json_t *last = json_array_get(list, n - 1);
    if (strcmp(json_string_value(lx_json_field(last, "role")), "user") != 0)
        return lx_fail(err, LX_ERR_INVALID, "messages",
                       "the last message must be the user's: it is the upper line");
    return keep_prompt(content_text(last), p, err);
}

static lx_status read_sampling(const json_t *root, int32_t max_n, lx_completion_params *p,
                               lx_error *err)
{
    p->has_seed = lx_json_field(root, "seed") != NULL;
    lx_status st = lx_json_read_int32(root, "n", 1, max_n, &p->n, err);
    if (st == LX_OK)
        st = lx_json_read_int32(root, "max_tokens", 1, MAX_TOKENS, &p->max_tokens, err);
    if (st == LX_OK)
        st = lx_json_read_int32(root, "top_k", 0, MAX_TOKENS, &p->top_k, err);
    if (st == LX_OK)
        st = lx_json_read_int(root, "seed", 0, LX_MAX_SEED, &p->seed, err);
    if (st == LX_OK)
        st = lx_json_read_real(root, "temperature", 0, 10, &p->temperature, err);
    if (st == LX_OK)
        st = lx_json_read_real(root, "top_p", 1e-6, 1, &p->top_p, err);
    return st;
}

static lx_status read_stream_options(const json_t *root, lx_completion_params *p, lx_error *err)
{
    const json_t *value = lx_json_field(root, "stream_options");
    if (value == NULL)
        return LX_OK;
    if (!json_is_object(value))
        return lx_fail(err, LX_ERR_INVALID, "stream_options", "stream_options must be an object");
    lx_status st = lx_json_read_bool(value, "include_usage", &p->include_usage, err);
    if (st != LX_OK)
        return lx_fail(err, st, "stream_options",
                       "stream_options.include_usage must be true or false");
    if (!p->stream)
        return lx_fail(err, LX_ERR_INVALID, "stream_options",
                       "stream_options is only allowed with stream: true");
    return LX_OK;
}

static lx_status refuse_logprobs(const json_t *root, bool chat, lx_error *err)
{
    int32_t number = 0;
    bool wanted = false;
    lx_status st = chat ? lx_json_read_bool(root, "logprobs", &wanted, err)
                        : lx_json_read_int32(root, "logprobs", 0, 5, &number, err);
    if (st == LX_OK && (wanted || number > 0))
        st = lx_fail(err, LX_ERR_INVALID, "logprobs", "logprobs is not supported yet; leave it %s",
                     chat ? "false" : "0");
    return st;
}

static lx_status read_answer_form(const json_t *root, lx_completion_params *p, lx_error *err)
{
    lx_status st = lx_json_read_bool(root, "stream", &p->stream, err);
    if (st == LX_OK)
        st = lx_json_read_bool(root, "rules", &p->rules, err);
    if (st == LX_OK)
        st = lx_json_read_int(root, "timeout_ms", 1, INT64_C(86400000), &p->timeout_ms, err);
    if (st == LX_OK)
        st = read_stream_options(root, p, err);
    return st == LX_OK ? refuse_logprobs(root, p->chat, err) : st;
}

void lx_completion_params_init(lx_completion_params *p)
{
    *p = (lx_completion_params){.n = 1, .temperature = 0.8, .top_p = 1, .rules = true};
}

void lx_completion_params_fini(lx_completion_params *p)
{
    free(p->prompt);
    p->prompt = NULL;
}

/* Everything but where the prompt comes from. */
static lx_status read_rest(const json_t *root, int32_t max_n, lx_completion_params *p,
                           lx_error *err)
{
    lx_status st = lx_json_read_model(root, true, p->model, err);
    if (st == LX_OK)
        st = p->chat ? read_messages(root, p, err) : read_prompt(root, p, err);
    if (st == LX_OK)
        st = read_sampling(root, max_n, p, err);
    if (st == LX_OK && p->chat) /* the newer name of max_tokens */
        st = lx_json_read_int32(root, "max_completion_tokens", 1, MAX_TOKENS, &p->max_tokens, err);
    return st == LX_OK ? read_answer_form(root, p, err) : st;
}

static lx_status read_request(const char *body, size_t bytes, int32_t max_n, bool chat,
                              lx_completion_params *p, lx_error *err)
{
    lx_completion_params_init(p);
    p->chat = chat;
    json_t *root = NULL;
    lx_status st = lx_json_parse(body, bytes, &root, err);
    if (st == LX_OK)
        st = read_rest(root, max_n, p, err);
    json_decref(root);
    return st;
}

lx_status lx_json_read_completion(const char *body, size_t bytes, int32_t max_n,
                                  lx_completion_params *p, lx_error *err)
{
    return read_request(body, bytes, max_n, false, p, err);
}

lx_status lx_json_read_chat(const char *body, size_t bytes, int32_t max_n, lx_completion_params *p,
                            lx_error *err)
{
    return read_request(body, bytes, max_n, true, p, err);
}

/* --- writing
 * -------------------------------------------------------------------------------------- */

/* "message", or in a chunk "delta", which tells the role once. */
static json_t *make_message(const lx_json_choice *c, bool chunk)
{
    if (chunk && !c->first)
        return json_pack("{s:s%}", "content", c->text, c->text_bytes);
    return json_pack("{s:s, s:s%}", "role", "assistant", "content", c->text, c->text_bytes);
}

static json_t *make_choice(const lx_json_completion *f, const lx_json_choice *c)
{
    json_t *o = f->chat
                    ? json_pack("{s:i, s:o, s:n, s:s?}", "index", (int)c->index,
                                f->chunk ? "delta" : "message", make_message(c, f->chunk),
                                "logprobs", "finish_reason", c->finish_reason)
                    : json_pack("{s:i, s:s%, s:n, s:s?}", "index", (int)c->index, "text", c->text,
                                c->text_bytes, "logprobs", "finish_reason", c->finish_reason);
    if (o != NULL && c->has_score &&
        json_object_set_new(o, "mean_logprob", lx_json_real_or_null(c->mean_logprob)) != 0) {
        json_decref(o);
        o = NULL;
    }
    return o;
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
    return json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)u->prompt_tokens,
                     "completion_tokens", (json_int_t)u->completion_tokens, "total_tokens",
                     (json_int_t)(u->prompt_tokens + u->completion_tokens));
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
    bool ok = root != NULL;
    if (ok && (c->usage != NULL || c->null_usage))
        ok = json_object_set_new(root, "usage",
                                 c->usage != NULL ? make_usage(c->usage) : json_null()) == 0;
    if (ok && c->timings != NULL)
        ok = json_object_set_new(root, "timings", lx_json_make_timings(c->timings)) == 0;
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

/* What only models of one modality have; false when there was no memory. */
static bool add_own_meta(json_t *meta, const lx_json_model *m)
{
    json_t *own = m->width > 0
                      ? json_pack("{s:I, s:I, s:I}", "width", (json_int_t)m->width, "height",
                                  (json_int_t)m->height, "channels", (json_int_t)m->channels)
                      : json_pack("{s:I}", "max_chars", (json_int_t)m->max_chars);
    bool ok = own != NULL && json_object_update(meta, own) == 0;
    json_decref(own);
    return ok;
}

static json_t *make_model(const lx_json_model *m)
{
    const char *modality = m->width > 0 ? "image" : "text";
    json_t *root = json_pack(
        "{s:s, s:s, s:I, s:s, s:{s:[s], s:[s]}, s:{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}}",
        "id", m->id, "object", "model", "created", (json_int_t)m->created, "owned_by", "linnet",
        "architecture", "input_modalities", modality, "output_modalities", modality, "meta", "task",
        m->task, "n_params", (json_int_t)m->n_parameters, "n_vocab", (json_int_t)m->n_vocab,
        "n_embd", (json_int_t)m->n_embd, "n_layers", (json_int_t)m->n_layers, "n_heads",
        (json_int_t)m->n_heads, "state_bytes", (json_int_t)m->state_bytes, "slots",
        (json_int_t)m->slots, "fingerprint", m->fingerprint);
    if (root != NULL && !add_own_meta(json_object_get(root, "meta"), m)) {
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
    lx_json_dump(json_pack("{s:s, s:s, s:s, s:I}", "status", h->status, "version", h->version,
                           "backend", h->backend, "uptime_s", (json_int_t)h->uptime_s),
                 out);
}
