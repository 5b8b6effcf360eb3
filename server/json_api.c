/*
 * JSON in and out (see json_api.h), over jansson.
 *
 * Before the parser sees a body, a scan of its own limits the depth (the parser is recursive) and
 * notes where each key of the outermost object begins. So even a fault that only the parser finds,
 * such as NaN or a number out of range, is reported with the name of the field it stands in.
 */
#include "server/json_api.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WRITE_FLAGS = JSON_COMPACT | JSON_REAL_PRECISION(9) };

/* --- the scan
 * ------------------------------------------------------------------------------------- */

/* The position behind the string that begins at text[i] (a quote). */
static size_t skip_string(const char *text, size_t n, size_t i)
{
    for (i++; i < n && text[i] != '"'; i++)
        if (text[i] == '\\')
            i++;
    return i + 1;
}

static void copy_key(const char *text, size_t from, size_t to, lx_error *err)
{
    size_t n = to - from;
    if (n == 0 || n >= sizeof err->param)
        return;
    for (size_t i = 0; i < n; i++) { /* no field of ours has another name */
        unsigned char c = (unsigned char)text[from + i];
        if (c <= 0x20 || c >= 0x7f || c == '\\')
            return;
    }
    memcpy(err->param, text + from, n);
    err->param[n] = '\0';
}

/* The deepest nesting in text[0 .. n - 1]; err->param becomes the last outermost key before n. */
static int32_t scan(const char *text, size_t n, lx_error *err)
{
    int32_t depth = 0, deepest = 0;
    bool key_next = false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '"') {
            size_t end = skip_string(text, n, i);
            if (depth == 1 && key_next && end <= n)
                copy_key(text, i + 1, end - 1, err);
            key_next = false;
            i = end - 1;
        } else if (c == '{' || c == '[') {
            depth++;
            key_next = c == '{' && depth == 1;
            deepest = depth > deepest ? depth : deepest;
        } else if (c == '}' || c == ']') {
            depth--;
        } else if (c == ',' && depth == 1) {
            key_next = true;
        }
    }
    return deepest;
}

static lx_status fail_syntax(const char *body, size_t bytes, const json_error_t *e, lx_error *err)
{
    size_t at = e->position > 0 && (size_t)e->position < bytes ? (size_t)e->position : bytes;
    lx_error found = {.param = "body"};
    (void)scan(body, at, &found);
    /* the parser's text may quote a piece of the body; keep what is plain */
    char text[120];
    size_t n = strnlen(e->text, sizeof text - 1);
    for (size_t i = 0; i < n; i++)
        text[i] = e->text[i] >= 0x20 && e->text[i] < 0x7f ? e->text[i] : '?';
    text[n] = '\0';
    bool in_field = strcmp(found.param, "body") != 0;
    return lx_fail(err, LX_ERR_INVALID, found.param, "the body is not valid JSON%s%s: %s",
                   in_field ? " at " : "", in_field ? found.param : "", text);
}

static lx_status parse(const char *body, size_t bytes, json_t **out, lx_error *err)
{
    lx_error found = {.param = "body"};
    if (scan(body, bytes, &found) > LX_JSON_MAX_DEPTH)
        return lx_fail(err, LX_ERR_INVALID, found.param,
                       "the body's JSON is nested more than %d deep", LX_JSON_MAX_DEPTH);
    json_error_t e;
    json_t *root = json_loadb(body, bytes, JSON_REJECT_DUPLICATES, &e);
    if (root == NULL && json_error_code(&e) == json_error_out_of_memory)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory to read the body");
    if (root == NULL)
        return fail_syntax(body, bytes, &e, err);
    if (!json_is_object(root)) {
        json_decref(root);
        return lx_fail(err, LX_ERR_INVALID, "body", "the body must be a JSON object");
    }
    *out = root;
    return LX_OK;
}

/* --- fields
 * --------------------------------------------------------------------------------------- */

/* NULL when absent or null. */
static const json_t *field(const json_t *root, const char *name)
{
    const json_t *value = json_object_get(root, name);
    return json_is_null(value) ? NULL : value;
}

static lx_status read_int(const json_t *root, const char *name, int64_t min, int64_t max,
                          int64_t *out, lx_error *err)
{
    const json_t *value = field(root, name);
    if (value == NULL)
        return LX_OK;
    if (!json_is_integer(value))
        return lx_fail(err, LX_ERR_INVALID, name, "%s must be an integer", name);
    int64_t x = json_integer_value(value);
    if (x < min || x > max)
        return lx_fail(err, LX_ERR_INVALID, name, "%s must be from %lld to %lld", name,
                       (long long)min, (long long)max);
    *out = x;
    return LX_OK;
}

static lx_status read_int32(const json_t *root, const char *name, int32_t min, int32_t max,
                            int32_t *out, lx_error *err)
{
    int64_t x = *out;
    lx_status st = read_int(root, name, min, max, &x, err);
    *out = (int32_t)x;
    return st;
}

static lx_status read_real(const json_t *root, const char *name, double min, double max,
                           double *out, lx_error *err)
{
    const json_t *value = field(root, name);
    if (value == NULL)
        return LX_OK;
    if (!json_is_number(value))
        return lx_fail(err, LX_ERR_INVALID, name, "%s must be a number", name);
    double x = json_number_value(value);
    if (!(x >= min && x <= max))
        return lx_fail(err, LX_ERR_INVALID, name, "%s must be from %g to %g", name, min, max);
    *out = x;
    return LX_OK;
}

static lx_status read_bool(const json_t *root, const char *name, bool *out, lx_error *err)
{
    const json_t *value = field(root, name);
    if (value == NULL)
        return LX_OK;
    if (!json_is_boolean(value))
        return lx_fail(err, LX_ERR_INVALID, name, "%s must be true or false", name);
    *out = json_is_true(value);
    return LX_OK;
}

static lx_status read_model(const json_t *root, lx_completion_params *p, lx_error *err)
{
    const json_t *value = field(root, "model");
    if (value == NULL)
        return lx_fail(err, LX_ERR_INVALID, "model", "model is missing");
    if (!json_is_string(value))
        return lx_fail(err, LX_ERR_INVALID, "model", "model must be a string");
    if (json_string_length(value) >= sizeof p->model)
        return lx_fail(err, LX_ERR_NOT_FOUND, "model", "there is no model of that name");
    memcpy(p->model, json_string_value(value), json_string_length(value) + 1);
    return LX_OK;
}

static lx_status read_prompt(const json_t *root, lx_completion_params *p, lx_error *err)
{
    const json_t *value = field(root, "prompt");
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
    p->prompt_bytes = json_string_length(value);
    p->prompt = malloc(p->prompt_bytes + 1);
    if (p->prompt == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, "prompt", "no memory for the prompt");
    memcpy(p->prompt, json_string_value(value), p->prompt_bytes + 1);
    return LX_OK;
}

static lx_status read_sampling(const json_t *root, int32_t max_n, lx_completion_params *p,
                               lx_error *err)
{
    p->has_seed = field(root, "seed") != NULL;
    lx_status st = read_int32(root, "n", 1, max_n, &p->n, err);
    if (st == LX_OK)
        st = read_int32(root, "max_tokens", 1, 1000000, &p->max_tokens, err);
    if (st == LX_OK)
        st = read_int32(root, "top_k", 0, 1000000, &p->top_k, err);
    if (st == LX_OK)
        st = read_int(root, "seed", 0, LX_MAX_SEED, &p->seed, err);
    if (st == LX_OK)
        st = read_real(root, "temperature", 0, 10, &p->temperature, err);
    if (st == LX_OK)
        st = read_real(root, "top_p", 1e-6, 1, &p->top_p, err);
    return st;
}

static lx_status read_stream_options(const json_t *root, lx_completion_params *p, lx_error *err)
{
    const json_t *value = field(root, "stream_options");
    if (value == NULL)
        return LX_OK;
    if (!json_is_object(value))
        return lx_fail(err, LX_ERR_INVALID, "stream_options", "stream_options must be an object");
    lx_status st = read_bool(value, "include_usage", &p->include_usage, err);
    if (st != LX_OK)
        return lx_fail(err, st, "stream_options",
                       "stream_options.include_usage must be true or false");
    if (!p->stream)
        return lx_fail(err, LX_ERR_INVALID, "stream_options",
                       "stream_options is only allowed with stream: true");
    return LX_OK;
}

static lx_status read_answer_form(const json_t *root, lx_completion_params *p, lx_error *err)
{
    int32_t logprobs = 0;
    lx_status st = read_bool(root, "stream", &p->stream, err);
    if (st == LX_OK)
        st = read_bool(root, "rules", &p->rules, err);
    if (st == LX_OK)
        st = read_int(root, "timeout_ms", 1, INT64_C(86400000), &p->timeout_ms, err);
    if (st == LX_OK)
        st = read_stream_options(root, p, err);
    if (st == LX_OK)
        st = read_int32(root, "logprobs", 0, 5, &logprobs, err);
    if (st == LX_OK && logprobs > 0)
        st = lx_fail(err, LX_ERR_INVALID, "logprobs", "logprobs is not supported yet; leave it 0");
    return st;
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

lx_status lx_json_read_completion(const char *body, size_t bytes, int32_t max_n,
                                  lx_completion_params *p, lx_error *err)
{
    lx_completion_params_init(p);
    json_t *root = NULL;
    lx_status st = parse(body, bytes, &root, err);
    if (st != LX_OK)
        return st;
    st = read_model(root, p, err);
    if (st == LX_OK)
        st = read_prompt(root, p, err);
    if (st == LX_OK)
        st = read_sampling(root, max_n, p, err);
    if (st == LX_OK)
        st = read_answer_form(root, p, err);
    json_decref(root);
    return st;
}

/* --- writing
 * -------------------------------------------------------------------------------------- */

static int append_dumped(const char *text, size_t n, void *out)
{
    lx_buffer_append(out, text, n);
    return ((lx_buffer *)out)->status == LX_OK ? 0 : -1;
}

/* Writes and frees root; a value that could not be built leaves the buffer without memory. */
static void dump(json_t *root, lx_buffer *out)
{
    if (root == NULL || json_dump_callback(root, append_dumped, out, WRITE_FLAGS) != 0) {
        if (out->status == LX_OK)
            out->status = LX_ERR_NO_MEMORY;
    }
    json_decref(root);
}

static json_t *real_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *make_choice(const lx_json_choice *c)
{
    json_t *o = json_pack("{s:i, s:s%, s:n, s:s?}", "index", (int)c->index, "text", c->text,
                          c->text_bytes, "logprobs", "finish_reason", c->finish_reason);
    if (o != NULL && c->has_score &&
        json_object_set_new(o, "mean_logprob", real_or_null(c->mean_logprob)) != 0) {
        json_decref(o);
        o = NULL;
    }
    return o;
}

static json_t *make_choices(const lx_json_completion *c)
{
    json_t *list = json_array();
    for (int32_t i = 0; list != NULL && i < c->n_choices; i++) {
        if (json_array_append_new(list, make_choice(&c->choices[i])) != 0) {
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

static json_t *make_timings(const lx_json_timings *t)
{
    double per_second = t->predicted_ms > 0 ? (double)t->predicted_n * 1e3 / t->predicted_ms : 0;
    return json_pack("{s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "queue_ms", real_or_null(t->queue_ms),
                     "ttft_ms", real_or_null(t->ttft_ms), "prompt_n", (json_int_t)t->prompt_n,
                     "predicted_n", (json_int_t)t->predicted_n, "predicted_ms",
                     real_or_null(t->predicted_ms), "predicted_per_second",
                     real_or_null(per_second), "total_ms", real_or_null(t->total_ms));
}

void lx_json_write_completion(const lx_json_completion *c, lx_buffer *out)
{
    json_t *root =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:I, s:o}", "id", c->id, "object", "text_completion",
                  "created", (json_int_t)c->created, "model", c->model, "system_fingerprint",
                  c->fingerprint, "seed", (json_int_t)c->seed, "choices", make_choices(c));
    bool ok = root != NULL;
    if (ok && (c->usage != NULL || c->null_usage))
        ok = json_object_set_new(root, "usage",
                                 c->usage != NULL ? make_usage(c->usage) : json_null()) == 0;
    if (ok && c->timings != NULL)
        ok = json_object_set_new(root, "timings", make_timings(c->timings)) == 0;
    if (!ok) {
        json_decref(root);
        root = NULL;
    }
    dump(root, out);
}

void lx_json_write_error(const char *message, const char *type, const char *param, const char *code,
                         lx_buffer *out)
{
    const char *where = param != NULL && param[0] != '\0' ? param : NULL;
    dump(json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message", message, "type", type, "param",
                   where, "code", code),
         out);
}

static json_t *make_model(const lx_json_model *m)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:{s:[s], s:[s]}, s:{s:s, s:I, s:I, s:I, s:I, s:I, s:I, "
                     "s:I, s:I, s:s}}",
                     "id", m->id, "object", "model", "created", (json_int_t)m->created, "owned_by",
                     "linnet", "architecture", "input_modalities", "text", "output_modalities",
                     "text", "meta", "task", m->task, "n_params", (json_int_t)m->n_parameters,
                     "n_vocab", (json_int_t)m->n_vocab, "n_embd", (json_int_t)m->n_embd, "n_layers",
                     (json_int_t)m->n_layers, "n_heads", (json_int_t)m->n_heads, "state_bytes",
                     (json_int_t)m->state_bytes, "max_chars", (json_int_t)m->max_chars, "slots",
                     (json_int_t)m->slots, "fingerprint", m->fingerprint);
}

void lx_json_write_model(const lx_json_model *model, lx_buffer *out)
{
    dump(make_model(model), out);
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
    dump(json_pack("{s:s, s:o}", "object", "list", "data", list), out);
}

void lx_json_write_health(const lx_json_health *h, lx_buffer *out)
{
    dump(json_pack("{s:s, s:s, s:s, s:I}", "status", h->status, "version", h->version, "backend",
                   h->backend, "uptime_s", (json_int_t)h->uptime_s),
         out);
}
