/* Requests for completions and chats (see answers.h), and the fields of text that are more than a
   number. */
#include <stdlib.h>
#include <string.h>

#include "server/json/answers.h"
#include "server/json/completion_fields.h"
#include "server/json/field_readers.h"

/* --- prompts --- */

static lx_status keep_text(const json_t *value, lx_prompt *p, lx_error *err)
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
        return keep_text(value, &p->prompts[p->n_prompts++], err);
    if (json_is_array(value)) {
        lx_prompt *prompt = &p->prompts[p->n_prompts++];
        size_t n = 0;
        lx_status st = lx_json_keep_ids(value, "prompt", &prompt->ids, &n, err);
        prompt->n_ids = (int32_t)n; /* a body has fewer bytes than 2^31 */
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
LX_READER(prompt)
{
    lx_completion_params *p = r->params;
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

LX_READER(stream_options)
{
    static const char *const known[] = {"include_usage", "continuous_usage_stats", NULL};
    lx_completion_params *p = r->params;
    if (!json_is_object(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "stream_options must be an object");
    for (int i = 0; known[i] != NULL; i++) {
        const json_t *wanted = lx_json_field(value, known[i]);
        if (wanted != NULL && !json_is_boolean(wanted))
            return lx_fail(err, LX_ERR_INVALID, r->name, "stream_options.%s must be true or false",
                           known[i]);
        *(i == 0 ? &p->include_usage : &p->usage_always) = json_is_true(wanted);
    }
    if (p->usage_always && !p->include_usage)
        lx_json_note(r->notes, "stream_options.continuous_usage_stats",
                     "it needs include_usage: true");
    lx_json_note_members(value, r->name, known, r->notes);
    return LX_OK;
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

LX_READER(stop)
{
    lx_stops *stops = r->to;
    if (!json_is_array(value))
        return keep_stop(value, stops, err);
    size_t n = json_array_size(value);
    if (n > LX_MAX_STOPS)
        return lx_fail(err, LX_ERR_INVALID, "stop", "stop has %zu strings, at most %d are allowed",
                       n, LX_MAX_STOPS);
    lx_status st = LX_OK;
    for (size_t i = 0; st == LX_OK && i < n; i++)
        st = keep_stop(json_array_get(value, i), stops, err);
    return st;
}

lx_status lx_json_check_format(const json_t *format, const char *name, const lx_json_reading *r,
                               lx_error *err)
{
    static const char *const known[] = {"type", NULL};
    if (!lx_json_is(lx_json_field(format, known[0]), "text"))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s must be {\"type\": \"text\"}: answers are text", name);
    lx_json_note_members(format, name, known, r->notes);
    return LX_OK;
}

LX_READER(text_format)
{
    return lx_json_check_format(value, r->name, r, err);
}

void lx_poem_fields_fini(lx_poem_request *p)
{
    free((char *)p->form);
    free((char *)p->acrostic);
    *p = (lx_poem_request){0};
}

void lx_completion_params_init(lx_completion_params *p)
{
    *p = (lx_completion_params){.n = 1,
                                .max_tokens_field = "max_tokens",
                                .min_tokens_field = "min_tokens",
                                .sampling = {.temperature = 0.8, .top_p = 1},
                                .rules = true,
                                .normalize = true,
                                .begins_answer = true,
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
    free(p->instructions);
    free(p->biases);
    free(p->allowed);
    free(p->state);
    lx_poem_fields_fini(&p->poem);
    lx_completion_params_init(p);
}

/* --- fields that belong together --- */

static lx_status check_best_of(const lx_completion_params *p, lx_error *err)
{
    if (p->best_of == 0)
        return LX_OK;
    if (p->best_of < p->n)
        return lx_fail(err, LX_ERR_INVALID, "best_of", "best_of is %d, but n is %d", p->best_of,
                       p->n);
    if (p->best_of > p->n && p->stream)
        return lx_fail(err, LX_ERR_INVALID, "best_of",
                       "best_of is not allowed with stream: true, as the best is known at the end");
    return LX_OK;
}

/* A state keeps its prompt, its form and its rules, so a request that continues from the state may
   not name them again. An empty prompt passes, because some SDKs always send a prompt. */
static lx_status check_state(const json_t *root, lx_completion_params *p, lx_error *err)
{
    static const char *const kept[] = {"form", "acrostic", "rhyme", "rules", "normalize"};
    const json_t *prompt = lx_json_field(root, "prompt");
    if (prompt != NULL && (!json_is_string(prompt) || json_string_length(prompt) > 0))
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "a state continues its own prompt: leave prompt out or empty");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (lx_json_field(root, kept[i]) != NULL)
            return lx_fail(err, LX_ERR_INVALID, kept[i], "a state keeps its own %s: leave %s out",
                           kept[i], kept[i]);
    if (prompt != NULL) { /* one without a text or tokens stands for the state's */
        free(p->prompts[0].text);
        p->prompts[0].text = NULL;
        return LX_OK;
    }
    lx_status st = lx_json_reserve_prompts(1, p, err);
    p->n_prompts = st == LX_OK;
    return st;
}

static lx_status check_completion(const json_t *root, lx_completion_params *p, lx_error *err)
{
    lx_status st = p->state != NULL ? check_state(root, p, err) : LX_OK;
    if (st == LX_OK && p->n_prompts == 0)
        st = lx_fail(err, LX_ERR_INVALID, "prompt", "prompt is missing");
    p->no_tokens = lx_json_field(root, "max_tokens") != NULL && p->max_tokens == 0;
    if (st == LX_OK && p->no_tokens && !p->echo)
        st = lx_fail(err, LX_ERR_INVALID, "max_tokens",
                     "max_tokens must be at least 1; 0 is only allowed with echo: true");
    return st == LX_OK ? check_best_of(p, err) : st;
}

lx_status lx_json_check_top(lx_completion_params *p, const char *needs, lx_error *err)
{
    if (!p->wants_logprobs && p->n_top > 0)
        return lx_fail(err, LX_ERR_INVALID, "top_logprobs", "top_logprobs is only allowed with %s",
                       needs);
    p->n_logprobs = p->wants_logprobs ? p->n_top : -1;
    return LX_OK;
}

static lx_status check_chat(const json_t *root, lx_completion_params *p, lx_error *err)
{
    if (p->n_messages == 0)
        return lx_fail(err, LX_ERR_INVALID, "messages", "messages is missing");
    const json_t *begins = lx_json_field(root, "add_generation_prompt");
    if (p->continues && json_is_true(begins))
        return lx_fail(err, LX_ERR_INVALID, "continue_final_message",
                       "continue_final_message and add_generation_prompt cannot both be true: the "
                       "answer goes on with the last message, or begins a new one");
    bool said = lx_json_field(root, "continue_final_message") != NULL;
    if (!said && begins == NULL)
        p->continues = p->messages[p->n_messages - 1].role == LX_CHAT_ASSISTANT;
    return lx_json_check_top(p, "logprobs: true", err);
}

/* --- requests --- */

lx_status lx_json_read_text_request(const char *body, size_t bytes, lx_json_route route,
                                    int32_t max_n, lx_completion_params *p, json_t **root,
                                    lx_error *err)
{
    lx_completion_params_init(p);
    *root = NULL;
    lx_status st = lx_json_parse(body, bytes, root, err);
    lx_json_reading r = {
        .root = *root, .route = route, .max_n = max_n, .params = p, .notes = &p->notes};
    if (st == LX_OK)
        st = lx_json_read_fields(&r, err);
    p->stops.n_kept = p->keeps_stop ? p->stops.n : 0;
    p->sampling.top_k = p->sampling.top_k > 0 ? p->sampling.top_k : 0; /* -1: no limit, too */
    if (st == LX_OK && lx_json_field(*root, "stream_options") != NULL && !p->stream)
        st = lx_fail(err, LX_ERR_INVALID, "stream_options",
                     "stream_options is only allowed with stream: true");
    return st;
}

lx_status lx_json_read_completion(const char *body, size_t bytes, int32_t max_n,
                                  lx_completion_params *p, lx_error *err)
{
    json_t *root = NULL;
    lx_status st =
        lx_json_read_text_request(body, bytes, LX_JSON_COMPLETIONS, max_n, p, &root, err);
    if (st == LX_OK)
        st = check_completion(root, p, err);
    json_decref(root);
    return st;
}

lx_status lx_json_read_chat(const char *body, size_t bytes, int32_t max_n, lx_completion_params *p,
                            lx_error *err)
{
    json_t *root = NULL;
    lx_status st = lx_json_read_text_request(body, bytes, LX_JSON_CHAT, max_n, p, &root, err);
    p->chat = true;
    if (st == LX_OK)
        st = check_chat(root, p, err);
    json_decref(root);
    return st;
}
