/*
 * Requests for responses (see answers.h): a chat by other names. What OpenAI's API has there and
 * nothing here could do as it is asked is refused by its name.
 */
#include <string.h>

#include "server/json/completion_fields.h"

static bool is_text(const json_t *value, const char *text)
{
    const char *s = json_string_value(value);
    return s != NULL && strcmp(s, text) == 0;
}

/* Fields that would make it another answer, and what to do instead. */
static lx_status refuse_others(const json_t *root, lx_error *err)
{
    static const struct {
        const char *name, *instead;
    } others[] = {
        {"previous_response_id", "responses are not kept: send the conversation as input"},
        {"conversation", "conversations are not kept: send the messages as input"},
        {"background", "an answer comes on the connection that asks for it"},
        {"prompt", "prompts are not kept: send the text as input"},
        {"messages", "send them as input"},
        {"max_tokens", "it is max_output_tokens here"},
        {"max_completion_tokens", "it is max_output_tokens here"},
        {"logprobs", "it is include: [\"message.output_text.logprobs\"] here"},
        {"n", "a response is one answer: use /v1/chat/completions"},
        {"best_of", "use /v1/completions"},
        {"echo", "use /v1/completions"},
        {"suffix", "leave it out"},
        {"response_format", "it is text.format here"},
        {"state", "use /v1/completions"},
        {"return_state", "use /v1/completions"},
        {"suspend", "use /v1/completions"},
        {"park", "use /v1/completions"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const json_t *value = lx_json_field(root, others[i].name);
        if (value != NULL && !json_is_false(value))
            return lx_fail(err, LX_ERR_INVALID, others[i].name,
                           "%s is not a field of responses here: %s", others[i].name,
                           others[i].instead);
    }
    const json_t *truncation = lx_json_field(root, "truncation");
    if (truncation != NULL && !is_text(truncation, "disabled"))
        return lx_fail(err, LX_ERR_INVALID, "truncation",
                       "truncation must be disabled: nothing of the input is dropped");
    return LX_OK;
}

static lx_status read_text(const json_t *root, lx_completion_params *p, lx_error *err)
{
    const json_t *text = lx_json_field(root, "text");
    const json_t *format = lx_json_field(text, "format");
    if (text != NULL && !json_is_object(text))
        return lx_fail(err, LX_ERR_INVALID, "text", "text must be an object");
    if (format != NULL && !is_text(lx_json_field(format, "type"), "text"))
        return lx_fail(err, LX_ERR_INVALID, "text",
                       "text.format must be {\"type\": \"text\"}: answers are text");
    lx_json_note_fields(text, &p->notes);
    return LX_OK;
}

static lx_status read_logprobs(const json_t *root, lx_completion_params *p, lx_error *err)
{
    const json_t *include = lx_json_field(root, "include");
    bool wanted = false;
    int32_t n = 0;
    if (include != NULL && !json_is_array(include))
        return lx_fail(err, LX_ERR_INVALID, "include", "include must be a list");
    for (size_t i = 0; i < json_array_size(include); i++) {
        if (!is_text(json_array_get(include, i), "message.output_text.logprobs"))
            return lx_fail(err, LX_ERR_INVALID, "include",
                           "include[%zu] must be message.output_text.logprobs: there is nothing "
                           "else to include",
                           i);
        wanted = true;
    }
    lx_status st = lx_json_read_int32(root, "top_logprobs", 0, LX_MAX_TOP, &n, err);
    if (st == LX_OK && !wanted && n > 0)
        st = lx_fail(err, LX_ERR_INVALID, "top_logprobs",
                     "top_logprobs is only allowed with include: "
                     "[\"message.output_text.logprobs\"]");
    p->n_logprobs = wanted ? n : -1;
    return st;
}

/* OpenAI's streams may be padded against those who watch their lengths; these are not. */
static lx_status read_stream(const json_t *root, lx_completion_params *p, lx_error *err)
{
    const json_t *options = lx_json_field(root, "stream_options");
    bool obfuscation = false;
    lx_status st = lx_json_read_bool(root, "stream", &p->stream, err);
    if (st != LX_OK || options == NULL)
        return st;
    if (!json_is_object(options) || !p->stream)
        return lx_fail(err, LX_ERR_INVALID, "stream_options",
                       "stream_options must be an object, and is only allowed with stream: true");
    st = lx_json_read_bool(options, "include_obfuscation", &obfuscation, err);
    if (st != LX_OK || obfuscation)
        return lx_fail(err, LX_ERR_INVALID, "stream_options",
                       "stream_options.include_obfuscation must be false");
    return LX_OK;
}

/* What every route for text has, by the same names. */
static lx_status read_own(const json_t *root, lx_completion_params *p, lx_error *err)
{
    lx_status st = lx_json_read_sampling(root, &p->sampling, err);
    if (st == LX_OK)
        st = lx_json_read_biases(root, p, err);
    if (st == LX_OK)
        st = lx_json_read_stop(root, &p->stops, err);
    if (st == LX_OK)
        st = lx_json_read_bool(root, "rules", &p->rules, err);
    if (st == LX_OK)
        st = lx_json_read_bool(root, "normalize", &p->normalize, err);
    if (st == LX_OK)
        st = lx_json_read_bool(root, "ignore_eos", &p->ignore_eos, err);
    if (st == LX_OK)
        st = lx_json_read_poem(root, &p->poem, err);
    return st == LX_OK ? lx_json_read_timeout(root, &p->timeout_ms, err) : st;
}

static lx_status read_fields(const json_t *root, lx_completion_params *p, lx_error *err)
{
    lx_status st = lx_json_read_model(root, true, p->model, err);
    if (st == LX_OK)
        st = refuse_others(root, err);
    if (st == LX_OK)
        st = lx_json_read_input(root, p, err);
    if (st == LX_OK)
        st = lx_json_read_int32(root, "max_output_tokens", 1, LX_MAX_ASKED_TOKENS, &p->max_tokens,
                                err);
    if (st == LX_OK)
        st = read_stream(root, p, err);
    if (st == LX_OK)
        st = read_text(root, p, err);
    if (st == LX_OK)
        st = read_logprobs(root, p, err);
    return st == LX_OK ? read_own(root, p, err) : st;
}

lx_status lx_json_read_response(const char *body, size_t bytes, lx_completion_params *p,
                                lx_error *err)
{
    lx_completion_params_init(p);
    p->chat = p->response = true;
    json_t *root = NULL;
    lx_status st = lx_json_parse(body, bytes, &root, err);
    if (st == LX_OK) {
        lx_json_note_fields(root, &p->notes);
        st = read_fields(root, p, err);
    }
    json_decref(root);
    return st;
}
