/*
 * Readers of Anthropic's Messages API (see request_fields.h). Its messages have blocks of content.
 * Here they become the messages of a chat, because templates know those. A tool_use becomes a call
 * of the assistant's message. A tool_result becomes a message of the role tool. A block of thinking
 * becomes reasoning_content. cache_control is accepted and unused: the server keeps states anyway.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/json/chat_fields.h"
#include "server/json/fields.h"

enum { WHERE_BYTES = 64 };

static lx_status no_memory(lx_error *err)
{
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the messages");
}

static bool has_type(const json_t *value, const char *type)
{
    return lx_json_is(lx_json_field(value, "type"), type);
}

/* Kept states have times of their own, so a ttl changes nothing. */
static lx_status check_ephemeral(const json_t *value, const char *where, const lx_json_reading *r,
                                 lx_error *err)
{
    static const char *const known[] = {"type", "ttl", NULL};
    const json_t *ttl = lx_json_field(value, "ttl");
    if (!has_type(value, "ephemeral"))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s must be an object with the type ephemeral",
                       where);
    if (ttl != NULL && !lx_json_is(ttl, "5m") && !lx_json_is(ttl, "1h"))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s.ttl must be 5m or 1h", where);
    lx_json_note_members(value, where, known, r->notes);
    return LX_OK;
}

static lx_status check_cache_control(const json_t *object, const char *where,
                                     const lx_json_reading *r, lx_error *err)
{
    const json_t *value = lx_json_field(object, "cache_control");
    char member[6 * WHERE_BYTES];
    (void)snprintf(member, sizeof member, "%s.cache_control", where);
    return value != NULL ? check_ephemeral(value, member, r, err) : LX_OK;
}

LX_READER(cache_control)
{
    return check_ephemeral(value, r->name, r, err);
}

/* --- blocks --- */

/* A block that the message may not have. */
static lx_status refuse_block(const json_t *block, const char *where, const char *allowed,
                              const lx_json_reading *r, lx_error *err)
{
    if (has_type(block, "image") || has_type(block, "document"))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s has the type %s: the server reads no pictures and documents in messages",
                       where, json_string_value(lx_json_field(block, "type")));
    return lx_fail(err, LX_ERR_INVALID, r->name, "%s must be an object with the type %s", where,
                   allowed);
}

static lx_status check_text(const json_t *block, const char *where, const lx_json_reading *r,
                            lx_error *err)
{
    static const char *const known[] = {"type", "text", "cache_control", NULL};
    if (!json_is_string(lx_json_field(block, "text")))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s.text must be a string", where);
    lx_json_note_members(block, where, known, r->notes);
    return check_cache_control(block, where, r, err);
}

/* Adds a block of text to the texts. */
static lx_status keep_text(json_t *block, const char *where, const lx_json_reading *r,
                           json_t *texts, lx_error *err)
{
    lx_status st = check_text(block, where, r, err);
    return st != LX_OK || json_array_append(texts, block) == 0 ? st : no_memory(err);
}

/* A list of blocks of text alone, as system and the content of a result may be. */
static lx_status check_texts(const json_t *list, const char *where, const lx_json_reading *r,
                             lx_error *err)
{
    char block[4 * WHERE_BYTES];
    lx_status st = LX_OK;
    if (!json_is_array(list))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s must be a string or a list of blocks of the type text", where);
    for (size_t i = 0; st == LX_OK && i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        (void)snprintf(block, sizeof block, "%s[%zu]", where, i);
        st = has_type(one, "text") ? check_text(one, block, r, err)
                                   : refuse_block(one, block, "text", r, err);
    }
    return st;
}

/* Appends a message with the content, which is NULL, a string or a list that was checked. */
static lx_status add(const json_t *content, lx_chat_role role, const lx_json_reading *r,
                     lx_error *err)
{
    bool listed = json_is_array(content) && json_array_size(content) > 0;
    int64_t bytes =
        listed ? lx_chat_joined_bytes(content, false) : (int64_t)json_string_length(content);
    const json_t *kept = listed || json_is_string(content) ? content : NULL;
    return lx_chat_keep_content(kept, (size_t)bytes, role, r, err);
}

/* Appends a message with the texts, which are emptied. */
static lx_status flush(json_t *texts, lx_chat_role role, const lx_json_reading *r, lx_error *err)
{
    lx_status st = add(texts, role, r, err);
    (void)json_array_clear(texts);
    return st;
}

/* The result of a call. No template knows of errors, so is_error is a warning. */
static lx_status keep_result(const json_t *block, const char *where, const lx_json_reading *r,
                             lx_error *err)
{
    static const char *const known[] = {"type",     "tool_use_id",   "content",
                                        "is_error", "cache_control", NULL};
    lx_completion_params *p = r->params;
    const json_t *id = lx_json_field(block, "tool_use_id");
    const json_t *content = lx_json_field(block, "content");
    const json_t *failed = lx_json_field(block, "is_error");
    char field[3 * WHERE_BYTES];
    if (!json_is_string(id))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s.tool_use_id must be a string", where);
    if (failed != NULL && !json_is_boolean(failed))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s.is_error must be true or false", where);
    (void)snprintf(field, sizeof field, "%s.is_error", where);
    if (json_is_true(failed))
        lx_json_note(r->notes, field, "the model reads the content alone", NULL);
    lx_json_note_members(block, where, known, r->notes);
    lx_status st = check_cache_control(block, where, r, err);
    (void)snprintf(field, sizeof field, "%s.content", where);
    if (st == LX_OK && content != NULL && !json_is_string(content))
        st = check_texts(content, field, r, err);
    if (st == LX_OK)
        st = add(content, LX_CHAT_TOOL, r, err);
    return st == LX_OK ? lx_chat_set_call(&p->messages[p->n_messages - 1], id, err) : st;
}

/* A call of the assistant's message that is made last. */
static lx_status keep_use(const json_t *block, const char *where, const lx_json_reading *r,
                          lx_chat_message *m, lx_error *err)
{
    static const char *const known[] = {"type", "id", "name", "input", "cache_control", NULL};
    const json_t *id = lx_json_field(block, "id"), *name = lx_json_field(block, "name");
    const json_t *input = lx_json_field(block, "input");
    if (!json_is_string(id) || !lx_chat_is_name(name) || !json_is_object(input))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s must have an id, a name and an object input, as it is a tool_use",
                       where);
    lx_json_note_members(block, where, known, r->notes);
    lx_status st = check_cache_control(block, where, r, err);
    return st == LX_OK ? lx_chat_add_call(m, id, name, input, err) : st;
}

/* Thoughts are of this server or another one, so no signature is checked. */
static lx_status check_thought(const json_t *block, const char *where, const lx_json_reading *r,
                               lx_error *err)
{
    static const char *const known[] = {"type", "thinking", "signature", NULL};
    const json_t *signature = lx_json_field(block, "signature");
    if (!json_is_string(lx_json_field(block, "thinking")) ||
        (signature != NULL && !json_is_string(signature)))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s must have strings as thinking and signature", where);
    lx_json_note_members(block, where, known, r->notes);
    return LX_OK;
}

/* The thoughts of the blocks, which were checked, with a line feed after each. */
static void join_thoughts(const json_t *blocks, lx_buffer *out)
{
    for (size_t i = 0; i < json_array_size(blocks); i++) {
        const json_t *one = json_array_get(blocks, i), *thought = lx_json_field(one, "thinking");
        if (!has_type(one, "thinking"))
            continue;
        lx_buffer_append(out, json_string_value(thought), json_string_length(thought));
        lx_buffer_puts(out, "\n");
    }
}

/* Thoughts before an answer. */
static lx_status keep_thoughts(const json_t *blocks, lx_chat_message *m, lx_error *err)
{
    lx_buffer all;
    lx_buffer_init(&all, SIZE_MAX / 2);
    join_thoughts(blocks, &all);
    bool ok = all.status == LX_OK;
    if (ok && all.length > 0) {
        if (m->more == NULL)
            m->more = json_object();
        ok = json_object_set_new(m->more, "reasoning_content",
                                 json_stringn_nocheck(all.data, all.length - 1)) == 0;
    }
    lx_buffer_fini(&all);
    return ok ? LX_OK : no_memory(err);
}

/* --- messages --- */

/* The user's results become messages of their own, the texts between them the user's. */
static lx_status keep_user(const json_t *blocks, const char *where, const lx_json_reading *r,
                           json_t *texts, lx_error *err)
{
    char block[2 * WHERE_BYTES];
    size_t n = json_array_size(blocks);
    lx_status st = LX_OK;
    for (size_t i = 0; st == LX_OK && i < n; i++) {
        json_t *one = json_array_get(blocks, i);
        (void)snprintf(block, sizeof block, "%s.content[%zu]", where, i);
        bool result = has_type(one, "tool_result");
        if (result && json_array_size(texts) > 0)
            st = flush(texts, LX_CHAT_USER, r, err);
        if (st == LX_OK && result)
            st = keep_result(one, block, r, err);
        else if (st == LX_OK && has_type(one, "text"))
            st = keep_text(one, block, r, texts, err);
        else if (st == LX_OK)
            st = refuse_block(one, block, "text or tool_result", r, err);
    }
    if (st == LX_OK && json_array_size(texts) > 0)
        st = flush(texts, LX_CHAT_USER, r, err);
    return st;
}

/* The assistant's texts, calls and thoughts. */
static lx_status keep_assistant(const json_t *blocks, const char *where, const lx_json_reading *r,
                                json_t *texts, lx_error *err)
{
    lx_completion_params *p = r->params;
    char block[2 * WHERE_BYTES];
    size_t n = json_array_size(blocks), n_calls = 0;
    lx_status st = LX_OK;
    for (size_t i = 0; st == LX_OK && i < n; i++) {
        json_t *one = json_array_get(blocks, i);
        (void)snprintf(block, sizeof block, "%s.content[%zu]", where, i);
        if (has_type(one, "text"))
            st = keep_text(one, block, r, texts, err);
        else if (has_type(one, "thinking"))
            st = check_thought(one, block, r, err);
        else if (!has_type(one, "tool_use"))
            st = refuse_block(one, block, "text, tool_use or thinking", r, err);
    }
    if (st == LX_OK)
        st = flush(texts, LX_CHAT_ASSISTANT, r, err);
    for (size_t i = 0; st == LX_OK && i < n; i++) {
        const json_t *one = json_array_get(blocks, i);
        lx_chat_message *m = &p->messages[p->n_messages - 1];
        (void)snprintf(block, sizeof block, "%s.content[%zu]", where, i);
        if (has_type(one, "tool_use") && n_calls++ == LX_CHAT_CALLS)
            st = lx_fail(err, LX_ERR_INVALID, r->name, "%s has more than %d blocks tool_use", where,
                         LX_CHAT_CALLS);
        else if (has_type(one, "tool_use"))
            st = keep_use(one, block, r, m, err);
    }
    return st == LX_OK ? keep_thoughts(blocks, &p->messages[p->n_messages - 1], err) : st;
}

static lx_status keep_blocks(const json_t *blocks, lx_chat_role role, const char *where,
                             const lx_json_reading *r, lx_error *err)
{
    char content[WHERE_BYTES + 16];
    json_t *texts = json_array();
    lx_status st = texts != NULL ? LX_OK : no_memory(err);
    (void)snprintf(content, sizeof content, "%s.content", where);
    if (st == LX_OK && role == LX_CHAT_USER)
        st = keep_user(blocks, where, r, texts, err);
    else if (st == LX_OK && role == LX_CHAT_ASSISTANT)
        st = keep_assistant(blocks, where, r, texts, err);
    else if (st == LX_OK && (st = check_texts(blocks, content, r, err)) == LX_OK)
        st = add(blocks, role, r, err);
    json_decref(texts);
    return st;
}

static lx_status keep_message(const json_t *message, size_t i, const lx_json_reading *r,
                              lx_error *err)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    static const char *const known[] = {"role", "content", NULL};
    const json_t *role = lx_json_field(message, "role");
    const json_t *content = lx_json_field(message, "content");
    char where[WHERE_BYTES];
    int k = 0;
    (void)snprintf(where, sizeof where, "%s[%zu]", r->name, i);
    while (k < 3 && !lx_json_is(role, roles[k]))
        k++;
    /* an answer may have no block, and is sent back so */
    bool listed =
        json_is_array(content) && (json_array_size(content) > 0 || k == (int)LX_CHAT_ASSISTANT);
    if (k == 3 || (!json_is_string(content) && !listed))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s must have a role, user, assistant or system, and a content that is a "
                       "string or a list of blocks",
                       where);
    lx_json_note_members(message, where, known, r->notes);
    return listed ? keep_blocks(content, (lx_chat_role)k, where, r, err)
                  : add(content, (lx_chat_role)k, r, err);
}

/* The most messages that the list becomes. */
static size_t count_messages(const json_t *list)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *content = lx_json_field(json_array_get(list, i), "content");
        n++;
        for (size_t k = 0; k < json_array_size(content); k++)
            n += 2 * (size_t)has_type(json_array_get(content, k), "tool_result");
    }
    return n;
}

/* In front of all messages, as the instructions of a response are. */
LX_READER(system)
{
    lx_completion_params *p = r->params;
    if (json_is_array(value) && json_array_size(value) == 0)
        return LX_OK;
    lx_status st = json_is_string(value) ? LX_OK : check_texts(value, r->name, r, err);
    if (st == LX_OK)
        st = lx_chat_reserve_messages(1, p, err);
    if (st == LX_OK)
        st = add(value, LX_CHAT_SYSTEM, r, err);
    p->has_system = st == LX_OK;
    return st;
}

LX_READER(blocks)
{
    lx_completion_params *p = r->params;
    size_t n = json_array_size(value); /* 0 for other values */
    if (n < 1 || n > LX_CHAT_MESSAGES)
        return lx_fail(err, LX_ERR_INVALID, r->name, "messages must be a list of 1 to %d messages",
                       LX_CHAT_MESSAGES);
    size_t there = (size_t)p->n_messages, most = there + count_messages(value);
    lx_chat_message *list = realloc(p->messages, most * sizeof *list);
    if (list == NULL)
        return no_memory(err);
    p->messages = list;
    for (size_t i = 0; i < n; i++) {
        lx_status st = keep_message(json_array_get(value, i), i, r, err);
        if (st != LX_OK)
            return st;
        for (; there < (size_t)p->n_messages; there++)
            p->messages[there].at = (int32_t)i;
    }
    return lx_chat_keep_last(p, err);
}

/* --- tools --- */

/* A tool of the client. The server has no tools of its own. */
static lx_status check_tool(const json_t *tool, const char *where, const lx_json_reading *r,
                            lx_error *err)
{
    static const char *const known[] = {"type",   "name",          "description", "input_schema",
                                        "strict", "cache_control", NULL};
    const json_t *type = lx_json_field(tool, "type");
    const json_t *description = lx_json_field(tool, "description");
    if (type != NULL && !lx_json_is(type, "custom"))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s must have the type custom or none: the server has no tools of its own",
                       where);
    if (!lx_chat_is_name(lx_json_field(tool, "name")))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s.name must be a string that is not empty",
                       where);
    if (description != NULL && !json_is_string(description))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s.description must be a string", where);
    if (!json_is_object(lx_json_field(tool, "input_schema")))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s.input_schema must be an object, a JSON schema", where);
    lx_json_note_members(tool, where, known, r->notes);
    return check_cache_control(tool, where, r, err);
}

static lx_status make_tools(const json_t *value, const lx_json_reading *r, json_t *out,
                            lx_error *err)
{
    char where[WHERE_BYTES];
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *tool = json_array_get(value, i);
        (void)snprintf(where, sizeof where, "tools[%zu]", i);
        lx_status st = check_tool(tool, where, r, err);
        if (st != LX_OK)
            return st;
        if (json_array_append_new(out, lx_chat_tool(tool, "input_schema")) != 0)
            return no_memory(err);
    }
    return LX_OK;
}

LX_READER(message_tools)
{
    return lx_chat_keep_tools(value, r, make_tools, err);
}

LX_READER(message_tool_choice)
{
    static const char *const types[] = {"auto", "none", "any"};
    static const char *const known[] = {"type", "name", "disable_parallel_tool_use", NULL};
    lx_completion_params *p = r->params;
    const json_t *name = lx_json_field(value, "name");
    const json_t *serial = lx_json_field(value, "disable_parallel_tool_use");
    int k = 0;
    while (k < 3 && !has_type(value, types[k]))
        k++;
    bool named = has_type(value, "tool") && lx_chat_is_name(name);
    if (k == 3 && !named)
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "tool_choice must be an object with the type auto, any, none, or tool and "
                       "the name of a tool");
    if (name != NULL && !lx_chat_is_name(name))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "tool_choice.name must be a string that is not empty");
    if (serial != NULL && !json_is_boolean(serial))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "tool_choice.disable_parallel_tool_use must be true or false");
    lx_json_note_members(value, r->name, known, r->notes);
    p->serial_calls = json_is_true(serial);
    if (named)
        return lx_chat_require_tool(p, json_string_value(name), err);
    p->tool_choice = (lx_tool_choice)k;
    return LX_OK;
}

/* --- other fields --- */

LX_READER(thinking)
{
    static const char *const known[] = {"type", NULL};
    bool off = has_type(value, "disabled");
    if (!off && !has_type(value, "enabled") && !has_type(value, "adaptive"))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "thinking must be an object with the type enabled, adaptive or disabled");
    lx_json_note_members(value, r->name, known, r->notes);
    return lx_chat_set_variable(r->params, "enable_thinking", json_boolean(!off), err);
}

LX_READER(message_metadata)
{
    static const char *const known[] = {"user_id", NULL};
    const json_t *user = lx_json_field(value, "user_id");
    if (!json_is_object(value) || (user != NULL && !json_is_string(user)))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "metadata must be an object, whose user_id is a string");
    lx_json_note_members(value, r->name, known, r->notes);
    return LX_OK;
}
