/* The messages of a chat, and the input of a response, which is a chat by other names (see
   completion_fields.h). */
#include <stdlib.h>
#include <string.h>

#include "server/json/completion_fields.h"

enum { MAX_MESSAGES = 1024 };

static bool is_one_of(const char *text, const char *const *list)
{
    for (; text != NULL && *list != NULL; list++)
        if (strcmp(text, *list) == 0)
            return true;
    return false;
}

/* A message's content: a string, or a list of parts of which exactly one is there and is text. What
   an earlier response has put out may be put in again. */
static const json_t *content_text(const json_t *message, bool response)
{
    static const char *const chat_types[] = {"text", NULL};
    static const char *const response_types[] = {"input_text", "output_text", NULL};
    const json_t *content = lx_json_field(message, "content");
    if (!json_is_array(content))
        return json_is_string(content) ? content : NULL;
    const json_t *part = json_array_size(content) == 1 ? json_array_get(content, 0) : NULL;
    const char *type = json_string_value(lx_json_field(part, "type"));
    const json_t *text = lx_json_field(part, "text");
    bool known = is_one_of(type, response ? response_types : chat_types);
    return known && json_is_string(text) ? text : NULL;
}

static bool read_role(const char *name, lx_chat_role *out)
{
    static const char *const names[] = {"system", "user", "assistant", "developer"};
    static const lx_chat_role roles[] = {LX_CHAT_SYSTEM, LX_CHAT_USER, LX_CHAT_ASSISTANT,
                                         LX_CHAT_SYSTEM};
    for (size_t i = 0; name != NULL && i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) {
            *out = roles[i];
            return true;
        }
    }
    return false;
}

static const char *field_of(const lx_completion_params *p)
{
    return p->response ? "input" : "messages";
}

static lx_status add_message(lx_chat_role role, const json_t *text, lx_completion_params *p,
                             lx_error *err)
{
    lx_chat_message *m = &p->messages[p->n_messages];
    m->role = role;
    m->bytes = json_string_length(text);
    m->text = malloc(m->bytes + 1);
    if (m->text == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the messages");
    memcpy(m->text, json_string_value(text), m->bytes + 1);
    p->n_messages++;
    return LX_OK;
}

/* An item of a response's input is a message, or something else that says what it is. */
static bool is_message(const json_t *item, const lx_completion_params *p)
{
    const json_t *type = p->response ? lx_json_field(item, "type") : NULL;
    return type == NULL ||
           (json_is_string(type) && strcmp(json_string_value(type), "message") == 0);
}

static lx_status keep_message(const json_t *message, size_t i, lx_completion_params *p,
                              lx_error *err)
{
    const json_t *content = content_text(message, p->response);
    lx_chat_role role = LX_CHAT_USER;
    if (!is_message(message, p))
        return lx_fail(err, LX_ERR_INVALID, "input",
                       "input[%zu] has a type that is not message: nothing else is read here", i);
    if (!read_role(json_string_value(lx_json_field(message, "role")), &role) || content == NULL)
        return lx_fail(err, LX_ERR_INVALID, field_of(p),
                       "%s[%zu] must have a role, system, user or assistant, and a content of one "
                       "text",
                       field_of(p), i);
    return add_message(role, content, p, err);
}

static lx_status reserve_messages(size_t n, lx_completion_params *p, lx_error *err)
{
    p->messages = calloc(n, sizeof *p->messages);
    return p->messages != NULL ? LX_OK
                               : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the messages");
}

/* Its text is what is answered. */
static lx_status keep_last(const json_t *text, lx_completion_params *p, lx_error *err)
{
    lx_status st = lx_json_reserve_prompts(1, p, err);
    return st == LX_OK ? lx_json_keep_text(text, &p->prompts[p->n_prompts++], err) : st;
}

/* A list of messages behind those that are there. */
static lx_status keep_list(const json_t *list, lx_completion_params *p, lx_error *err)
{
    size_t n = json_array_size(list); /* 0 for what is no array */
    for (size_t i = 0; i < n; i++) {
        lx_status st = keep_message(json_array_get(list, i), i, p, err);
        if (st != LX_OK)
            return st;
    }
    const json_t *last = json_array_get(list, n - 1);
    if (strcmp(json_string_value(lx_json_field(last, "role")), "user") != 0)
        return lx_fail(err, LX_ERR_INVALID, field_of(p),
                       "the last message must be the user's: it is what is answered");
    return keep_last(content_text(last, p->response), p, err);
}

lx_status lx_json_read_messages(const json_t *root, lx_completion_params *p, lx_error *err)
{
    const json_t *list = lx_json_field(root, "messages");
    size_t n = json_array_size(list); /* 0 for what is no array */
    if (n < 1 || n > MAX_MESSAGES)
        return lx_fail(err, LX_ERR_INVALID, "messages",
                       "messages must be a list of 1 to %d messages", MAX_MESSAGES);
    lx_status st = reserve_messages(n, p, err);
    return st == LX_OK ? keep_list(list, p, err) : st;
}

lx_status lx_json_read_input(const json_t *root, lx_completion_params *p, lx_error *err)
{
    const json_t *input = lx_json_field(root, "input");
    const json_t *instructions = lx_json_field(root, "instructions");
    size_t n = json_is_string(input) ? 1 : json_array_size(input);
    if (n < 1 || n > MAX_MESSAGES)
        return lx_fail(err, LX_ERR_INVALID, "input",
                       "input must be a text or a list of 1 to %d messages", MAX_MESSAGES);
    if (instructions != NULL && !json_is_string(instructions))
        return lx_fail(err, LX_ERR_INVALID, "instructions", "instructions must be a text");
    p->instructions = instructions != NULL;
    lx_status st = reserve_messages(n + p->instructions, p, err);
    if (st == LX_OK && p->instructions)
        st = add_message(LX_CHAT_SYSTEM, instructions, p, err);
    if (st != LX_OK || json_is_array(input))
        return st == LX_OK ? keep_list(input, p, err) : st;
    st = add_message(LX_CHAT_USER, input, p, err);
    return st == LX_OK ? keep_last(input, p, err) : st;
}
