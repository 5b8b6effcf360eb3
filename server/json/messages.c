/* The messages of a chat, and the input of a response, which is a chat by other names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/json/completion_fields.h"
#include "server/json/field_readers.h"

enum { MAX_MESSAGES = 1024 };

/* A list of parts, each a text; an earlier response's output may be put in again. */
static bool is_text_part(const json_t *part, bool response)
{
    const json_t *type = lx_json_field(part, "type");
    bool known = response ? lx_json_is(type, "input_text") || lx_json_is(type, "output_text")
                          : lx_json_is(type, "text");
    return known && json_is_string(lx_json_field(part, "text"));
}

/* The bytes that the texts have with a line feed between each two, as the peers join them; -1 where
   one is none. */
static int64_t joined_bytes(const json_t *parts, bool response)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        if (!is_text_part(part, response))
            return -1;
        bytes += (i > 0) + (int64_t)json_string_length(json_object_get(part, "text"));
    }
    return json_array_size(parts) > 0 ? bytes : -1;
}

static void join(const json_t *parts, char *to)
{
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *text = json_object_get(json_array_get(parts, i), "text");
        if (i > 0)
            *to++ = '\n';
        memcpy(to, json_string_value(text), json_string_length(text));
        to += json_string_length(text);
    }
    *to = '\0';
}

static bool read_role(const json_t *name, lx_chat_role *out)
{
    static const char *const names[] = {"system", "user", "assistant", "developer"};
    static const lx_chat_role roles[] = {LX_CHAT_SYSTEM, LX_CHAT_USER, LX_CHAT_ASSISTANT,
                                         LX_CHAT_SYSTEM};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (lx_json_is(name, names[i])) {
            *out = roles[i];
            return true;
        }
    }
    return false;
}

/* Takes the text, which may be NULL: no memory. */
static lx_status add_message(lx_chat_role role, char *text, size_t bytes, lx_completion_params *p,
                             lx_error *err)
{
    if (text == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the messages");
    p->messages[p->n_messages++] = (lx_chat_message){.role = role, .text = text, .bytes = bytes};
    return LX_OK;
}

static char *copy_of(const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    if (copy != NULL)
        memcpy(copy, text, bytes + 1);
    return copy;
}

/* Members of a message and of its parts that change nothing. What an answer has in it may be sent
   back: the marks of an output's item and part say nothing here. */
static void note_others(const json_t *message, size_t i, const lx_json_reading *r)
{
    static const char *const chat[] = {"role", "content", NULL};
    static const char *const item[] = {"role", "content", "type", "id", "status", NULL};
    static const char *const part[] = {"type", "text", "annotations", "logprobs", NULL};
    char prefix[64];
    const json_t *content = json_object_get(message, "content");
    (void)snprintf(prefix, sizeof prefix, "%s[%zu]", r->name, i);
    lx_json_note_members(message, prefix, r->route == LX_JSON_CHAT ? chat : item, r->notes);
    for (size_t k = 0; k < json_array_size(content); k++) {
        (void)snprintf(prefix, sizeof prefix, "%s[%zu].content[%zu]", r->name, i, k);
        lx_json_note_members(json_array_get(content, k), prefix, part, r->notes);
    }
}

static lx_status keep_message(const json_t *message, size_t i, const lx_json_reading *r,
                              lx_error *err)
{
    bool response = r->route == LX_JSON_RESPONSES;
    const json_t *type = response ? lx_json_field(message, "type") : NULL;
    const json_t *content = lx_json_field(message, "content");
    int64_t bytes = json_is_string(content) ? (int64_t)json_string_length(content)
                                            : joined_bytes(content, response);
    lx_chat_role role = LX_CHAT_USER;
    if (type != NULL && !lx_json_is(type, "message"))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s[%zu] has a type that is not message: nothing else is read here", r->name,
                       i);
    if (!read_role(lx_json_field(message, "role"), &role) || bytes < 0)
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s[%zu] must have a role, system, user or assistant, and a content that is "
                       "a text or a list of texts",
                       r->name, i);
    note_others(message, i, r);
    if (json_is_string(content))
        return add_message(role, copy_of(json_string_value(content), (size_t)bytes), (size_t)bytes,
                           r->params, err);
    char *text = malloc((size_t)bytes + 1);
    if (text != NULL)
        join(content, text);
    return add_message(role, text, (size_t)bytes, r->params, err);
}

static lx_status reserve_messages(size_t n, lx_completion_params *p, lx_error *err)
{
    p->messages = calloc(n, sizeof *p->messages);
    return p->messages != NULL ? LX_OK
                               : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the messages");
}

/* The last message's text is what is answered. */
static lx_status keep_last(lx_completion_params *p, lx_error *err)
{
    const lx_chat_message *last = &p->messages[p->n_messages - 1];
    lx_status st = lx_json_reserve_prompts(1, p, err);
    if (st != LX_OK)
        return st;
    p->prompts[0] = (lx_prompt){.text = copy_of(last->text, last->bytes), .bytes = last->bytes};
    p->n_prompts = 1;
    return p->prompts[0].text != NULL
               ? LX_OK
               : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the prompt");
}

/* The messages of a list, after those that are there. */
static lx_status keep_list(const json_t *list, const lx_json_reading *r, lx_error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        lx_status st = keep_message(json_array_get(list, i), i, r, err);
        if (st != LX_OK)
            return st;
    }
    return keep_last(r->params, err);
}

LX_READER(messages)
{
    size_t n = json_array_size(value); /* 0 for what is no array */
    if (n < 1 || n > MAX_MESSAGES)
        return lx_fail(err, LX_ERR_INVALID, r->name, "messages must be a list of 1 to %d messages",
                       MAX_MESSAGES);
    lx_status st = reserve_messages(n, r->params, err);
    return st == LX_OK ? keep_list(value, r, err) : st;
}

LX_READER(input)
{
    lx_completion_params *p = r->params;
    size_t n = json_is_string(value) ? 1 : json_array_size(value);
    if (n < 1 || n > MAX_MESSAGES)
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "input must be a text or a list of 1 to %d messages", MAX_MESSAGES);
    lx_status st = reserve_messages(n + (p->instructions != NULL), p, err);
    if (st == LX_OK && p->instructions != NULL)
        st = add_message(LX_CHAT_SYSTEM, copy_of(p->instructions, p->instructions_bytes),
                         p->instructions_bytes, p, err);
    if (st != LX_OK || json_is_array(value))
        return st == LX_OK ? keep_list(value, r, err) : st;
    size_t bytes = json_string_length(value);
    p->input_is_text = true;
    st = add_message(LX_CHAT_USER, copy_of(json_string_value(value), bytes), bytes, p, err);
    return st == LX_OK ? keep_last(p, err) : st;
}
