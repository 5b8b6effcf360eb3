/*
 * Requests for completions and chats (see answers.h). Fields of both are read by the same code;
 * only the place of the prompt and the fields for log-probabilities differ.
 */
#include <stdlib.h>
#include <string.h>

#include "server/json/answers.h"
#include "server/json/completion_fields.h"
#include "server/json/fields.h"

enum { MAX_TOKENS = LX_MAX_ASKED_TOKENS, MAX_LOGPROBS = 5, MAX_PENALTY = 2, MAX_REPETITION = 10 };

/* --- prompts --- */

lx_status lx_json_keep_text(const json_t *value, lx_prompt *p, lx_error *err)
{
    p->bytes = json_string_length(value);
    p->text = malloc(p->bytes + 1);
    if (p->text == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the prompt");
    memcpy(p->text, json_string_value(value), p->bytes + 1);
    return LX_OK;
}

static lx_status keep_prompt(const json_t *value, lx_completion_params *p, lx_error *err)
{
    if (json_is_string(value))
        return lx_json_keep_text(value, &p->prompts[p->n_prompts++], err);
    if (json_is_array(value)) {
        lx_prompt *prompt = &p->prompts[p->n_prompts++];
        size_t n = 0;
        lx_status st = lx_json_keep_ids(value, "prompt", &prompt->ids, &n, err);
        prompt->n_ids = (int32_t)n; /* a body has fewer values: scan.h */
        return st;
    }
    return lx_fail(err, LX_ERR_INVALID, "prompt",
                   "prompt must be a string, a list of strings, a list of tokens or a list of such "
                   "lists");
}

lx_status lx_json_reserve_prompts(size_t n, lx_completion_params *p, lx_error *err)
{
    if (n < 1 || n > LX_MAX_PROMPTS)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "prompt must be 1 to %d prompts",
                       LX_MAX_PROMPTS);
    p->prompts = calloc(n, sizeof *p->prompts);
    return p->prompts != NULL ? LX_OK
                              : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the prompts");
}

/* A list of numbers is one prompt, any other list is as many as it has elements. */
static lx_status read_prompt(const json_t *root, lx_completion_params *p, lx_error *err)
{
    const json_t *value = lx_json_field(root, "prompt");
    if (value == NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "prompt is missing");
    bool many = json_is_array(value) && !json_is_number(json_array_get(value, 0));
    size_t n = many ? json_array_size(value) : 1;
    lx_status st = lx_json_reserve_prompts(n, p, err);
    for (size_t i = 0; st == LX_OK && i < n; i++) {
        const json_t *one = many ? json_array_get(value, i) : value;
        bool alike = !many || json_typeof(one) == json_typeof(json_array_get(value, 0));
        st = alike ? keep_prompt(one, p, err)
                   : lx_fail(err, LX_ERR_INVALID, "prompt",
                             "prompt: strings and lists of tokens do not mix");
    }
    return st;
}

/* --- fields --- */

/* What OpenAI has not, and llama.cpp, Hugging Face and others have. */
static lx_status read_cuts(const json_t *root, lx_sampling_params *s, lx_error *err)
{
    lx_status st = lx_json_read_real(root, "repetition_penalty", 0.01, MAX_REPETITION,
                                     &s->repetition_penalty, err);
    if (st == LX_OK)
        st = lx_json_read_real(root, "min_p", 0, 1, &s->min_p, err);
    return st == LX_OK ? lx_json_read_real(root, "typical_p", 1e-6, 1, &s->typical_p, err) : st;
}

static lx_status read_max_tokens(const json_t *root, lx_completion_params *p, lx_error *err)
{
    p->max_tokens = 1;
    lx_status st =
        lx_json_read_int32(root, "max_tokens", p->chat ? 1 : 0, MAX_TOKENS, &p->max_tokens, err);
    p->no_tokens = p->max_tokens == 0;
    if (lx_json_field(root, "max_tokens") == NULL)
        p->max_tokens = 0;
    return st;
}

lx_status lx_json_read_sampling(const json_t *root, lx_sampling_params *s, lx_error *err)
{
    lx_status st = lx_json_read_int32(root, "top_k", 0, MAX_TOKENS, &s->top_k, err);
    if (st == LX_OK)
        st = lx_json_read_seed(root, s, err);
    if (st == LX_OK)
        st = lx_json_read_draft(root, s, err);
    if (st == LX_OK)
        st = lx_json_read_real(root, "temperature", 0, 10, &s->temperature, err);
    if (st == LX_OK)
        st = lx_json_read_real(root, "top_p", 1e-6, 1, &s->top_p, err);
    if (st == LX_OK)
        st = lx_json_read_real(root, "frequency_penalty", -MAX_PENALTY, MAX_PENALTY,
                               &s->frequency_penalty, err);
    if (st == LX_OK)
        st = lx_json_read_real(root, "presence_penalty", -MAX_PENALTY, MAX_PENALTY,
                               &s->presence_penalty, err);
    return st == LX_OK ? read_cuts(root, s, err) : st;
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

/* Completions have one field for the number of likeliest tokens, a chat has two. */
static lx_status read_logprobs(const json_t *root, lx_completion_params *p, lx_error *err)
{
    if (!p->chat)
        return lx_json_read_int32(root, "logprobs", 0, MAX_LOGPROBS, &p->n_logprobs, err);
    bool wanted = false;
    int32_t n = 0;
    lx_status st = lx_json_read_bool(root, "logprobs", &wanted, err);
    if (st == LX_OK)
        st = lx_json_read_int32(root, "top_logprobs", 0, LX_MAX_TOP, &n, err);
    if (st == LX_OK && !wanted && n > 0)
        st = lx_fail(err, LX_ERR_INVALID, "top_logprobs",
                     "top_logprobs is only allowed with logprobs: true");
    p->n_logprobs = wanted ? n : -1;
    return st;
}

static lx_status keep_stop(const json_t *value, lx_stops *stops, lx_error *err)
{
    size_t n = json_string_length(value); /* 0 for what is no string */
    if (n < 1 || n > LX_MAX_STOP_BYTES)
        return lx_fail(err, LX_ERR_INVALID, "stop",
                       "stop must be a string of 1 to %d bytes or a list of at most %d of them",
                       LX_MAX_STOP_BYTES, LX_MAX_STOPS);
    struct lx_stop *stop = &stops->stop[stops->n++];
    stop->bytes = n;
    memcpy(stop->text, json_string_value(value), n);
    return LX_OK;
}

lx_status lx_json_read_stop(const json_t *root, lx_stops *stops, lx_error *err)
{
    const json_t *value = lx_json_field(root, "stop");
    if (value == NULL || !json_is_array(value))
        return value == NULL ? LX_OK : keep_stop(value, stops, err);
    size_t n = json_array_size(value);
    if (n > LX_MAX_STOPS)
        return lx_fail(err, LX_ERR_INVALID, "stop", "stop has %zu strings, at most %d are allowed",
                       n, LX_MAX_STOPS);
    lx_status st = LX_OK;
    for (size_t i = 0; st == LX_OK && i < n; i++)
        st = keep_stop(json_array_get(value, i), stops, err);
    return st;
}

/* What is known, and not done here, must not be asked for: an answer that silently did without
   would be a wrong one. */
static lx_status refuse_unsupported(const json_t *root, bool chat, lx_error *err)
{
    const char *text = NULL;
    size_t bytes = 0;
    lx_status st = lx_json_read_string(root, "user", false, &text, &bytes, err);
    if (st == LX_OK && !chat)
        st = lx_json_read_string(root, "suffix", false, &text, &bytes, err);
    if (st == LX_OK && !chat && bytes > 0)
        st = lx_fail(err, LX_ERR_INVALID, "suffix", "suffix is not supported: leave it out");
    return st;
}

static lx_status read_response_format(const json_t *root, lx_error *err)
{
    const json_t *format = lx_json_field(root, "response_format");
    const char *type = json_string_value(lx_json_field(format, "type"));
    if (format == NULL || (type != NULL && strcmp(type, "text") == 0))
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, "response_format",
                   "response_format must be {\"type\": \"text\"}: answers are text");
}

static lx_status read_best_of(const json_t *root, int32_t max_n, lx_completion_params *p,
                              lx_error *err)
{
    lx_status st = lx_json_read_int32(root, "best_of", 1, max_n, &p->best_of, err);
    if (st != LX_OK || p->best_of == 0)
        return st;
    if (p->best_of < p->n)
        return lx_fail(err, LX_ERR_INVALID, "best_of", "best_of is %d, but n is %d", p->best_of,
                       p->n);
    if (p->best_of > p->n && p->stream)
        return lx_fail(err, LX_ERR_INVALID, "best_of",
                       "best_of is not allowed with stream: true, as the best is known at the end");
    return LX_OK;
}

/* A state has its own poem. */
static lx_status read_poem(const json_t *root, lx_completion_params *p, lx_error *err)
{
    lx_status st = lx_json_read_poem(root, &p->poem, err);
    const char *field = p->poem.form != NULL       ? "form"
                        : p->poem.acrostic != NULL ? "acrostic"
                        : p->poem.rhyme            ? "rhyme"
                                                   : NULL;
    if (st == LX_OK && field != NULL && p->state != NULL)
        return lx_fail(err, LX_ERR_INVALID, field, "a state continues its own poem: leave %s out",
                       field);
    return st;
}

/* What only completions have, or only a chat has. */
static lx_status read_own_fields(const json_t *root, int32_t max_n, lx_completion_params *p,
                                 lx_error *err)
{
    if (p->chat)
        return read_response_format(root, err);
    lx_status st = lx_json_read_bool(root, "echo", &p->echo, err);
    if (st == LX_OK && p->no_tokens && !p->echo)
        return lx_fail(err, LX_ERR_INVALID, "max_tokens",
                       "max_tokens must be at least 1; 0 is only allowed with echo: true");
    if (st == LX_OK)
        st = read_poem(root, p, err);
    return st == LX_OK ? read_best_of(root, max_n, p, err) : st;
}

static lx_status read_answer_form(const json_t *root, lx_completion_params *p, lx_error *err)
{
    lx_status st = lx_json_read_bool(root, "stream", &p->stream, err);
    if (st == LX_OK)
        st = lx_json_read_bool(root, "rules", &p->rules, err);
    if (st == LX_OK)
        st = lx_json_read_bool(root, "normalize", &p->normalize, err);
    if (st == LX_OK)
        st = lx_json_read_bool(root, "ignore_eos", &p->ignore_eos, err);
    if (st == LX_OK)
        st = lx_json_read_timeout(root, &p->timeout_ms, err);
    if (st == LX_OK)
        st = read_stream_options(root, p, err);
    if (st == LX_OK)
        st = read_logprobs(root, p, err);
    return st == LX_OK ? lx_json_read_stop(root, &p->stops, err) : st;
}

void lx_completion_params_init(lx_completion_params *p)
{
    *p = (lx_completion_params){.n = 1,
                                .sampling = {.temperature = 0.8, .top_p = 1},
                                .rules = true,
                                .normalize = true,
                                .n_logprobs = -1};
}

void lx_completion_params_fini(lx_completion_params *p)
{
    for (int32_t i = 0; i < p->n_prompts; i++) {
        free(p->prompts[i].text);
        free(p->prompts[i].ids);
    }
    free(p->prompts);
    for (int32_t i = 0; i < p->n_messages; i++)
        free(p->messages[i].text);
    free(p->messages);
    free(p->biases);
    free(p->state);
    lx_poem_fields_fini(&p->poem);
    p->messages = NULL;
    p->n_messages = 0;
    p->state = NULL;
    p->prompts = NULL;
    p->biases = NULL;
    p->n_prompts = p->n_biases = 0;
}

/* With a state the prompt is the state's own; the SDKs of others insist on sending one. */
static lx_status read_state(const json_t *root, lx_completion_params *p, lx_error *err)
{
    lx_status st = lx_json_read_bool(root, "return_state", &p->return_state, err);
    if (st == LX_OK)
        st = lx_json_read_suspend(root, &p->suspend, err);
    if (st == LX_OK)
        st = lx_json_read_state(root, &p->state, err);
    if (st != LX_OK || p->state == NULL)
        return st;
    const json_t *prompt = lx_json_field(root, "prompt");
    if (p->chat)
        return lx_fail(err, LX_ERR_INVALID, "state",
                       "a chat cannot continue from a state: use /v1/completions");
    if (prompt != NULL && (!json_is_string(prompt) || json_string_length(prompt) > 0))
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "a state continues its own prompt: leave prompt out or empty");
    return LX_OK;
}

static lx_status read_what(const json_t *root, lx_completion_params *p, lx_error *err)
{
    lx_status st = read_state(root, p, err);
    if (st != LX_OK)
        return st;
    if (p->state != NULL) {
        st = lx_json_reserve_prompts(1, p, err);
        p->n_prompts = st == LX_OK; /* an empty one stands for the state's */
        return st;
    }
    return p->chat ? lx_json_read_messages(root, p, err) : read_prompt(root, p, err);
}

/* Everything but where the prompt comes from. */
static lx_status read_rest(const json_t *root, int32_t max_n, lx_completion_params *p,
                           lx_error *err)
{
    bool named = lx_json_field(root, "state") == NULL; /* a state knows its model */
    lx_status st = lx_json_read_model(root, named, p->model, err);
    if (st == LX_OK)
        st = read_what(root, p, err);
    if (st == LX_OK)
        st = lx_json_read_int32(root, "n", 1, max_n, &p->n, err);
    if (st == LX_OK)
        st = read_max_tokens(root, p, err);
    if (st == LX_OK)
        st = lx_json_read_sampling(root, &p->sampling, err);
    if (st == LX_OK && p->chat) /* the newer name of max_tokens */
        st = lx_json_read_int32(root, "max_completion_tokens", 1, MAX_TOKENS, &p->max_tokens, err);
    if (st == LX_OK)
        st = lx_json_read_biases(root, p, err);
    if (st == LX_OK)
        st = read_answer_form(root, p, err);
    if (st == LX_OK)
        st = read_own_fields(root, max_n, p, err);
    return st == LX_OK ? refuse_unsupported(root, p->chat, err) : st;
}

static lx_status read_request(const char *body, size_t bytes, int32_t max_n, bool chat,
                              lx_completion_params *p, lx_error *err)
{
    lx_completion_params_init(p);
    p->chat = chat;
    json_t *root = NULL;
    lx_status st = lx_json_parse(body, bytes, &root, err);
    if (st == LX_OK) {
        lx_json_note_fields(root, &p->notes);
        st = read_rest(root, max_n, p, err);
    }
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
