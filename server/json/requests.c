/* Readers of bodies (see requests.h): the table of fields reads each field, and the functions here
   check the fields that belong together. */
#include "server/json/requests.h"

#include <stdlib.h>
#include <string.h>

#include "server/json/fields.h"
#include "server/json/request_fields.h"

/* --- bodies --- */

/* Parses the body and reads the fields of r->route. r->root is the caller's to free, also after a
   failure. */
static lx_status read_body(const char *body, size_t bytes, lx_json_reading *r, lx_error *err)
{
    json_t *root = NULL;
    lx_status st = lx_json_parse(body, bytes, &root, err);
    r->root = root;
    return st == LX_OK ? lx_json_read_fields(r, err) : st;
}

static void end_reading(lx_json_reading *r)
{
    json_decref(r->root);
    r->root = NULL;
}

/* A route whose fields are checked by the table alone. */
static lx_status read_whole(const char *body, size_t bytes, lx_json_reading r, lx_error *err)
{
    lx_status st = read_body(body, bytes, &r, err);
    end_reading(&r);
    return st;
}

/* A form's files stay in the body. `needed`: a file that must be there, looked for before the
   fields; NULL: none. */
static lx_status read_form(const char *content_type, const char *body, size_t bytes,
                           const lx_form_file *files, int32_t n_files, const lx_upload *needed,
                           lx_json_reading *r, lx_error *err)
{
    r->root = json_object();
    lx_status st = lx_json_read_form(content_type, body, bytes, files, n_files, r->root, err);
    if (st == LX_OK && needed != NULL && needed->data == NULL)
        st = lx_fail(err, LX_ERR_INVALID, files[0].name, "%s is missing", files[0].name);
    return st == LX_OK ? lx_json_read_fields(r, err) : st;
}

/* --- completions, chats, responses --- */

static void task_fields_fini(lx_task_fields *fields)
{
    for (int32_t i = 0; i < LX_N_ASKED; i++)
        free((char *)fields->at[i].text);
    *fields = (lx_task_fields){0};
}

void lx_completion_params_init(lx_completion_params *p)
{
    *p = (lx_completion_params){.n = 1,
                                .max_tokens_field = "max_tokens",
                                .min_tokens_field = "min_tokens",
                                .sampling = {.temperature = 0.8, .top_p = 1},
                                .rank = true,
                                .draws = "the route",
                                .rules = true,
                                .normalize = true,
                                .store = true,
                                .begins_answer = true,
                                .n_logprobs = -1};
}

void lx_prompt_fini(lx_prompt *p)
{
    free(p->text);
    free(p->ids);
    free(p->borders);
}

void lx_completion_params_fini(lx_completion_params *p)
{
    for (int32_t i = 0; i < p->n_prompts; i++)
        lx_prompt_fini(&p->prompts[i]);
    free(p->prompts);
    for (int32_t i = 0; i < p->n_messages; i++) {
        free(p->messages[i].text);
        json_decref(p->messages[i].more);
    }
    free(p->messages);
    json_decref(p->variables);
    free(p->tool_name);
    lx_calls_unref(p->calls);
    free(p->instructions);
    free(p->biases);
    free(p->allowed);
    free(p->state);
    free(p->conversation);
    free(p->metadata);
    free(p->format);
    free((char *)p->shape.text);
    task_fields_fini(&p->fields);
    lx_completion_params_init(p);
}

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
    static const char *const kept[] = {
#define FIELD(task, name, kind) #name,
#include "model/tasks/fields.def"
#undef FIELD
        "rules", "normalize"};
    const json_t *prompt = lx_json_field(root, "prompt");
    if (prompt != NULL && (!json_is_string(prompt) || json_string_length(prompt) > 0))
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "a state continues its own prompt: leave prompt out or empty");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (lx_json_field(root, kept[i]) != NULL)
            return lx_fail(err, LX_ERR_INVALID, kept[i], "a state keeps its own %s: leave %s out",
                           kept[i], kept[i]);
    if (p->shape.kind != LX_SHAPE_NONE)
        return lx_fail(err, LX_ERR_INVALID, p->shape.field,
                       "a state keeps the shape of its answer: leave %s out", p->shape.field);
    if (prompt != NULL) { /* one without a text or tokens stands for the state's */
        free(p->prompts[0].text);
        p->prompts[0].text = NULL;
        return LX_OK;
    }
    p->prompts = calloc(1, sizeof *p->prompts);
    p->n_prompts = p->prompts != NULL;
    return p->prompts != NULL ? LX_OK
                              : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the prompt");
}

/* A request with one of these fields has its samples drawn as it says, and no pool. */
static lx_status check_draws(const json_t *root, lx_completion_params *p, lx_error *err)
{
    static const char *const fields[] = {"stream",
                                         "best_of",
                                         "temperature",
                                         "top_p",
                                         "top_k",
                                         "min_p",
                                         "typical_p",
                                         "frequency_penalty",
                                         "presence_penalty",
                                         "repetition_penalty",
                                         "logit_bias",
                                         "allowed_token_ids",
                                         "min_tokens",
                                         "min_new_tokens",
                                         "ignore_eos",
                                         "stop",
                                         "echo",
                                         "state",
                                         "return_state",
                                         "park",
                                         "suspend"};
    p->draws = NULL;
    for (size_t i = 0; p->draws == NULL && i < sizeof fields / sizeof *fields; i++) {
        const json_t *value = lx_json_field(root, fields[i]);
        if (value != NULL && !json_is_false(value))
            p->draws = fields[i];
    }
    if (p->draws != NULL && json_is_true(lx_json_field(root, "rank")))
        return lx_fail(
            err, LX_ERR_INVALID, "rank",
            "rank is true, but %s sets how the answers are drawn: leave out one of the two",
            p->draws);
    return LX_OK;
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

/* Checks the fields that ask for the likeliest tokens of a chat or a response. */
static lx_status check_top(lx_completion_params *p, const char *needs, lx_error *err)
{
    if (!p->wants_logprobs && p->n_top > 0)
        return lx_fail(err, LX_ERR_INVALID, "top_logprobs", "top_logprobs is only allowed with %s",
                       needs);
    p->n_logprobs = p->wants_logprobs ? p->n_top : -1;
    return LX_OK;
}

/* Of a chat, a response or a message. An answer goes on with a message's text, and calls come
   after the text: the prompt would lack them. */
static lx_status check_tools(lx_completion_params *p, lx_error *err)
{
    const char *field = p->response ? "input" : "messages";
    if (p->continues && lx_json_has(p->messages[p->n_messages - 1].more, "tool_calls"))
        return lx_fail(err, LX_ERR_INVALID, field,
                       "%s ends with calls: send their results, too, or leave the calls out",
                       field);
    if (p->tool_choice == LX_TOOLS_REQUIRED && !lx_json_has(p->variables, "tools"))
        return lx_fail(err, LX_ERR_INVALID, "tool_choice",
                       "tool_choice asks for a call, but tools has no tool");
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
                       "answer continues the last message, or begins a new message");
    bool said = lx_json_field(root, "continue_final_message") != NULL;
    if (!said && begins == NULL)
        p->continues = p->messages[p->n_messages - 1].role == LX_CHAT_ASSISTANT;
    lx_status st = check_tools(p, err);
    return st == LX_OK ? check_top(p, "logprobs: true", err) : st;
}

/* As bits LX_UNSAID_. */
static unsigned unsaid_fields(const json_t *root)
{
    static const char *const names[] = {"temperature", "top_p", "top_k", "min_p",
                                        "repetition_penalty"};
    unsigned bits = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (lx_json_field(root, names[i]) == NULL)
            bits |= 1U << i;
    return bits;
}

/* Fields that only make sense together are the caller's to check. */
static lx_status read_text_request(const char *body, size_t bytes, int32_t max_n,
                                   lx_completion_params *p, lx_json_reading *r, lx_error *err)
{
    lx_completion_params_init(p);
    r->max_n = max_n;
    r->params = p;
    r->notes = &p->notes;
    lx_status st = read_body(body, bytes, r, err);
    p->unsaid = unsaid_fields(r->root);
    p->stops.n_kept = p->keeps_stop ? p->stops.n : 0;
    p->sampling.top_k = p->sampling.top_k > 0 ? p->sampling.top_k : 0; /* -1: no limit, too */
    if (st == LX_OK && lx_json_field(r->root, "stream_options") != NULL && !p->stream)
        st = lx_fail(err, LX_ERR_INVALID, "stream_options",
                     "stream_options is only allowed with stream: true");
    return st;
}

lx_status lx_json_read_completion(const char *body, size_t bytes, int32_t max_n,
                                  lx_completion_params *p, lx_error *err)
{
    lx_json_reading r = {.route = LX_JSON_COMPLETIONS};
    lx_status st = read_text_request(body, bytes, max_n, p, &r, err);
    if (st == LX_OK)
        st = check_completion(r.root, p, err);
    if (st == LX_OK)
        st = check_draws(r.root, p, err);
    end_reading(&r);
    return st;
}

lx_status lx_json_read_chat(const char *body, size_t bytes, int32_t max_n, lx_completion_params *p,
                            lx_error *err)
{
    lx_json_reading r = {.route = LX_JSON_CHAT};
    lx_status st = read_text_request(body, bytes, max_n, p, &r, err);
    p->chat = true;
    if (st == LX_OK)
        st = check_chat(r.root, p, err);
    end_reading(&r);
    return st;
}

lx_status lx_json_read_template(const char *body, size_t bytes, lx_completion_params *p,
                                lx_error *err)
{
    lx_json_reading r = {.route = LX_JSON_TEMPLATE};
    lx_status st = read_text_request(body, bytes, 1, p, &r, err);
    p->chat = true;
    if (st == LX_OK)
        st = check_chat(r.root, p, err);
    end_reading(&r);
    return st;
}

lx_status lx_json_read_response(const char *body, size_t bytes, lx_completion_params *p,
                                lx_error *err)
{
    lx_json_reading r = {.route = LX_JSON_RESPONSES};
    lx_status st = read_text_request(body, bytes, 1, p, &r, err);
    p->chat = p->response = true;
    if (st == LX_OK && p->n_messages == 0)
        st = lx_fail(err, LX_ERR_INVALID, "input", "input is missing");
    if (st == LX_OK && p->conversation != NULL && p->state != NULL)
        st = lx_fail(err, LX_ERR_INVALID, "conversation",
                     "conversation and previous_response_id exclude each other: leave out one");
    if (st == LX_OK)
        p->continues = p->messages[p->n_messages - 1].role == LX_CHAT_ASSISTANT;
    if (st == LX_OK)
        st = check_tools(p, err);
    if (st == LX_OK)
        st = check_top(p, "include: [\"message.output_text.logprobs\"]", err);
    end_reading(&r);
    return st;
}

static lx_status read_message(const char *body, size_t bytes, lx_json_route route,
                              lx_completion_params *p, lx_error *err)
{
    lx_json_reading r = {.route = route};
    lx_status st = read_text_request(body, bytes, 1, p, &r, err);
    p->chat = p->message = true;
    if (st == LX_OK && p->n_prompts == 0)
        st = lx_fail(err, LX_ERR_INVALID, "messages", "messages is missing");
    if (st == LX_OK)
        p->continues = p->messages[p->n_messages - 1].role == LX_CHAT_ASSISTANT;
    if (st == LX_OK)
        st = check_tools(p, err);
    end_reading(&r);
    return st;
}

lx_status lx_json_read_message(const char *body, size_t bytes, lx_completion_params *p,
                               lx_error *err)
{
    return read_message(body, bytes, LX_JSON_MESSAGES, p, err);
}

lx_status lx_json_read_message_prompt(const char *body, size_t bytes, lx_completion_params *p,
                                      lx_error *err)
{
    return read_message(body, bytes, LX_JSON_MESSAGE_TOKENS, p, err);
}

/* --- conversations --- */

static lx_status read_conversation(const char *body, size_t bytes, lx_json_route route,
                                   lx_completion_params *p, lx_error *err)
{
    lx_completion_params_init(p);
    lx_json_reading r = {.route = route, .params = p, .notes = &p->notes};
    return bytes > 0 ? read_whole(body, bytes, r, err) : LX_OK;
}

lx_status lx_json_read_conversation(const char *body, size_t bytes, lx_completion_params *p,
                                    lx_error *err)
{
    return read_conversation(body, bytes, LX_JSON_CONVERSATION, p, err);
}

lx_status lx_json_read_metadata(const char *body, size_t bytes, lx_completion_params *p,
                                lx_error *err)
{
    lx_status st = read_conversation(body, bytes, LX_JSON_METADATA, p, err);
    if (st == LX_OK && p->metadata == NULL)
        st = lx_fail(err, LX_ERR_INVALID, "metadata", "metadata is missing");
    return st;
}

lx_status lx_json_read_items(const char *body, size_t bytes, lx_completion_params *p, lx_error *err)
{
    lx_status st = read_conversation(body, bytes, LX_JSON_ITEMS, p, err);
    if (st == LX_OK && p->n_messages == 0)
        st = lx_fail(err, LX_ERR_INVALID, "items", "items is missing");
    return st;
}

/* Moves the messages of `earlier` to p, whose instructions stay first; the list has room for all.
 */
static void insert(lx_completion_params *earlier, lx_completion_params *p, lx_chat_message *list)
{
    size_t first = p->instructions != NULL, n = (size_t)earlier->n_messages;
    memcpy(list, p->messages, first * sizeof *list);
    memcpy(list + first, earlier->messages, n * sizeof *list);
    memcpy(list + first + n, p->messages + first, ((size_t)p->n_messages - first) * sizeof *list);
    free(p->messages);
    p->messages = list;
    p->n_messages += earlier->n_messages;
    p->n_earlier = earlier->n_messages;
    p->input_is_text = false;
    earlier->n_messages = 0;
}

lx_status lx_json_add_earlier(const char *items, const uint32_t *item_bytes, uint32_t n,
                              lx_completion_params *p, lx_error *err)
{
    lx_completion_params earlier;
    if (n == 0)
        return LX_OK;
    lx_completion_params_init(&earlier);
    const lx_json_reading r = {.route = LX_JSON_RESPONSES,
                               .params = &earlier,
                               .notes = &earlier.notes,
                               .name = "conversation"};
    earlier.messages = calloc(n, sizeof *earlier.messages);
    lx_chat_message *list = calloc(n + (size_t)p->n_messages, sizeof *list);
    lx_status st = earlier.messages != NULL && list != NULL
                       ? LX_OK
                       : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the conversation");
    for (uint32_t i = 0; st == LX_OK && i < n; i++) {
        st = lx_json_keep_item(items, item_bytes[i], i, &r, err);
        items += item_bytes[i];
    }
    if (st == LX_OK)
        insert(&earlier, p, list);
    else
        free(list);
    lx_completion_params_fini(&earlier);
    return st;
}

/* --- images --- */

static void upload_fini(lx_upload *u)
{
    free(u->owned);
    *u = (lx_upload){.data = NULL};
}

void lx_image_params_init(lx_image_params *p)
{
    *p = (lx_image_params){.n = 1, .sampling = {.temperature = 1, .top_p = 1}};
}

void lx_image_params_fini(lx_image_params *p)
{
    upload_fini(&p->image);
    upload_fini(&p->mask);
    free(p->state);
    free(p->prompt);
    p->state = p->prompt = NULL;
}

/* Fields that do not go together. */
static lx_status check_together(const lx_image_params *p, lx_error *err)
{
    if (p->stream && p->contact_sheet)
        return lx_fail(err, LX_ERR_INVALID, "contact_sheet",
                       "contact_sheet is not allowed with stream: true");
    if (!p->stream && p->partial_images > 0)
        return lx_fail(err, LX_ERR_INVALID, "partial_images",
                       "partial_images is only allowed with stream: true");
    if (!p->stream && p->stream_unit != LX_STREAM_NO_VALUES)
        return lx_fail(err, LX_ERR_INVALID, "stream_unit",
                       "stream_unit is only allowed with stream: true");
    if (p->stream && p->return_state && p->n > 1)
        return lx_fail(err, LX_ERR_INVALID, "return_state",
                       "return_state with stream: true is for one picture: n must be 1");
    if (p->contact_sheet && p->max_tokens > 0)
        return lx_fail(err, LX_ERR_INVALID, "max_tokens", "a contact sheet shows whole images");
    return LX_OK;
}

static lx_json_reading reading_of(lx_json_route route, int32_t max_n, lx_image_params *p)
{
    lx_image_params_init(p);
    return (lx_json_reading){.route = route, .max_n = max_n, .params = p, .notes = &p->notes};
}

lx_status lx_json_read_generation(const char *body, size_t bytes, int32_t max_n, lx_image_params *p,
                                  lx_error *err)
{
    lx_status st = read_whole(body, bytes, reading_of(LX_JSON_GENERATIONS, max_n, p), err);
    return st == LX_OK ? check_together(p, err) : st;
}

lx_status lx_json_read_edit(const char *body, size_t bytes, int32_t max_n, lx_image_params *p,
                            lx_error *err)
{
    lx_status st = read_whole(body, bytes, reading_of(LX_JSON_EDITS, max_n, p), err);
    if (st == LX_OK)
        st = check_together(p, err);
    if (st == LX_OK && p->image.data == NULL)
        st = lx_fail(err, LX_ERR_INVALID, "images", "images is missing");
    return st;
}

lx_status lx_form_read_edit(const char *content_type, const char *body, size_t bytes, int32_t max_n,
                            lx_image_params *p, lx_error *err)
{
    const lx_form_file files[] = {{"image", &p->image}, {"mask", &p->mask}};
    lx_json_reading r = reading_of(LX_JSON_EDITS_FORM, max_n, p);
    lx_status st = read_form(content_type, body, bytes, files, 2, &p->image, &r, err);
    end_reading(&r);
    return st == LX_OK ? check_together(p, err) : st;
}

/* --- scores --- */

void lx_score_params_fini(lx_score_params *p)
{
    upload_fini(&p->image);
    free(p->prompt);
    free(p->completion);
    p->prompt = p->completion = NULL;
}

lx_status lx_json_read_score(const char *body, size_t bytes, lx_score_params *p, lx_error *err)
{
    *p = (lx_score_params){.timeout_ms = 0};
    return read_whole(body, bytes,
                      (lx_json_reading){.route = LX_JSON_SCORE, .params = p, .notes = &p->notes},
                      err);
}

lx_status lx_form_read_score(const char *content_type, const char *body, size_t bytes,
                             lx_score_params *p, lx_error *err)
{
    *p = (lx_score_params){.timeout_ms = 0};
    const lx_form_file file = {"image", &p->image};
    lx_json_reading r = {.route = LX_JSON_SCORE_FORM, .params = p, .notes = &p->notes};
    lx_status st = read_form(content_type, body, bytes, &file, 1, &p->image, &r, err);
    end_reading(&r);
    return st;
}

/* --- states --- */

lx_status lx_json_read_state_create(const char *body, size_t bytes, lx_state_create *p,
                                    lx_error *err)
{
    *p = (lx_state_create){
        .sampling = {.temperature = 1, .top_p = 1}, .rules = true, .normalize = true};
    return read_whole(body, bytes,
                      (lx_json_reading){.route = LX_JSON_STATES, .params = p, .notes = &p->notes},
                      err);
}

void lx_state_create_fini(lx_state_create *p)
{
    free(p->prompt);
    task_fields_fini(&p->fields);
    upload_fini(&p->image);
    upload_fini(&p->mask);
}

lx_status lx_json_read_state_fork(const char *body, size_t bytes, int32_t max_n, lx_state_fork *p,
                                  lx_error *err)
{
    *p = (lx_state_fork){.n = 0};
    lx_json_reading r = {.route = LX_JSON_FORK, .max_n = max_n, .params = p, .notes = &p->notes};
    lx_status st = bytes > 0 ? read_whole(body, bytes, r, err) : LX_OK;
    p->n = p->n > 0 ? p->n : 1;
    return st;
}

/* --- tokens --- */

lx_status lx_json_read_tokenize(const char *body, size_t bytes, lx_tokenize_params *p,
                                lx_error *err)
{
    *p = (lx_tokenize_params){.parse_special = true};
    lx_json_reading r = {.route = LX_JSON_TOKENIZE, .params = p, .notes = &p->notes};
    lx_status st = read_whole(body, bytes, r, err);
    if (st == LX_OK && p->content == NULL)
        st = lx_fail(err, LX_ERR_INVALID, "content", "content is missing");
    return st;
}

lx_status lx_json_read_detokenize(const char *body, size_t bytes, lx_detokenize_params *p,
                                  lx_error *err)
{
    *p = (lx_detokenize_params){.n = 0};
    lx_json_reading r = {.route = LX_JSON_DETOKENIZE, .params = p, .notes = &p->notes};
    lx_status st = read_whole(body, bytes, r, err);
    if (st == LX_OK && p->tokens == NULL)
        st = lx_fail(err, LX_ERR_INVALID, "tokens", "tokens is missing: a list of tokens");
    return st;
}

/* --- reloads --- */

lx_status lx_json_read_reload(const char *body, size_t bytes, lx_json_notes *notes, lx_error *err)
{
    if (bytes == 0)
        return LX_OK;
    char nowhere = 0; /* no row of the route has a target */
    lx_json_reading r = {.route = LX_JSON_RELOAD, .params = &nowhere, .notes = notes};
    return read_whole(body, bytes, r, err);
}

/* --- sounds --- */

/* A verbose answer has segments unless words alone are asked for. */
lx_status lx_form_read_transcription(const char *content_type, const char *body, size_t bytes,
                                     lx_transcription_params *p, lx_error *err)
{
    *p = (lx_transcription_params){.format = LX_TRANSCRIPT_JSON};
    const lx_form_file file = {"file", &p->file};
    lx_json_reading r = {.route = LX_JSON_TRANSCRIPTIONS, .params = p, .notes = &p->notes};
    lx_status st = read_form(content_type, body, bytes, &file, 1, NULL, &r, err);
    if (lx_json_field(r.root, "timestamp_granularities") == NULL)
        p->segments = p->format == LX_TRANSCRIPT_VERBOSE;
    end_reading(&r);
    if (st == LX_OK && p->stream && p->format != LX_TRANSCRIPT_JSON)
        st = lx_fail(err, LX_ERR_INVALID, "response_format",
                     "response_format must be json with stream: true");
    if (st == LX_OK && p->file.data == NULL)
        st = lx_fail(err, LX_ERR_INVALID, "file", "file is missing: the sound to be written down");
    return st;
}
