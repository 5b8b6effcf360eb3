/*
 * Readers of a chat's messages, tools and variables (see request_fields.h). The model's template
 * gets them as the client wrote them, so their shape and size are checked here.
 */
#include "server/json/chat_fields.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "model/formats/json_memory.h"
#include "server/json/fields.h"
#include "server/json/scan.h"

enum { MAX_ITEMS = 20, ITEM_ID = 32 };

static lx_status no_memory(const char *field, lx_error *err)
{
    return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %s", field);
}

lx_status lx_chat_set_variable(lx_completion_params *p, const char *name, json_t *value,
                               lx_error *err)
{
    if (p->variables == NULL)
        p->variables = json_object();
    if (p->variables == NULL)
        json_decref(value);
    bool ok = p->variables != NULL && json_object_set_new(p->variables, name, value) == 0;
    return ok ? LX_OK : no_memory(name, err);
}

static lx_status check_bytes(const json_t *value, const char *field, size_t most, lx_error *err)
{
    if (json_dumpb(value, NULL, 0, JSON_COMPACT) <= most)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, field, "%s has more than %zu bytes", field, most);
}

/* --- tools --- */

bool lx_chat_is_name(const json_t *value)
{
    return json_string_length(value) > 0 &&
           memchr(json_string_value(value), '\0', json_string_length(value)) == NULL;
}

static bool is_object_or_absent(const json_t *value)
{
    return value == NULL || json_is_object(value);
}

/* `inner`: where the request has a tool's members, ".function" or "". */
static lx_status check_tool(const json_t *tool, size_t i, const char *inner, lx_error *err)
{
    const json_t *function = lx_json_field(tool, "function");
    const json_t *description = lx_json_field(function, "description");
    const json_t *strict = lx_json_field(function, "strict");
    if (!lx_json_is(lx_json_field(tool, "type"), "function") || !json_is_object(function))
        return lx_fail(err, LX_ERR_INVALID, "tools",
                       "tools[%zu] must have the type function and an object function", i);
    if (!lx_chat_is_name(lx_json_field(function, "name")))
        return lx_fail(err, LX_ERR_INVALID, "tools",
                       "tools[%zu]%s.name must be a string that is not empty", i, inner);
    if (strict != NULL && !json_is_boolean(strict))
        return lx_fail(err, LX_ERR_INVALID, "tools", "tools[%zu]%s.strict must be true or false", i,
                       inner);
    if (description != NULL && !json_is_string(description))
        return lx_fail(err, LX_ERR_INVALID, "tools", "tools[%zu]%s.description must be a string", i,
                       inner);
    if (!is_object_or_absent(lx_json_field(function, "parameters")))
        return lx_fail(err, LX_ERR_INVALID, "tools",
                       "tools[%zu]%s.parameters must be an object, a JSON schema", i, inner);
    return LX_OK;
}

/* A call names its tool, so two tools of one name could not be told apart. */
static lx_status check_name_is_new(const json_t *tools, size_t i, const char *inner, lx_error *err)
{
    const json_t *function = lx_json_field(json_array_get(tools, i), "function");
    const json_t *name = lx_json_field(function, "name");
    for (size_t k = 0; k < i; k++) {
        const json_t *earlier = lx_json_field(json_array_get(tools, k), "function");
        if (json_equal(lx_json_field(earlier, "name"), name))
            return lx_fail(err, LX_ERR_INVALID, "tools",
                           "tools[%zu]%s.name is the name of tools[%zu] too: names of tools must "
                           "be unique",
                           i, inner, k);
    }
    return LX_OK;
}

json_t *lx_chat_tool(const json_t *tool, const char *parameters)
{
    static const char *const names[] = {"name", "description", "parameters", "strict"};
    json_t *function = json_object();
    bool ok = function != NULL;
    for (size_t i = 0; ok && i < sizeof names / sizeof *names; i++) {
        const char *name = strcmp(names[i], "parameters") == 0 ? parameters : names[i];
        json_t *member = (json_t *)(uintptr_t)lx_json_field(tool, name);
        ok = member == NULL || json_object_set(function, names[i], member) == 0;
    }
    json_t *whole = ok ? json_pack("{s:s, s:o}", "type", "function", "function", function) : NULL;
    if (!ok)
        json_decref(function);
    return whole;
}

/* The tools as chats have them: templates expect that form. */
static lx_status read_response_tools(const json_t *value, const lx_json_reading *r, json_t *out,
                                     lx_error *err)
{
    (void)r;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *tool = json_array_get(value, i);
        if (!lx_json_is(lx_json_field(tool, "type"), "function"))
            return lx_fail(err, LX_ERR_INVALID, "tools",
                           "tools[%zu] must have the type function: no other tool is known here",
                           i);
        if (json_array_append_new(out, lx_chat_tool(tool, "parameters")) != 0)
            return no_memory("tools", err);
    }
    return LX_OK;
}

lx_status lx_chat_keep_tools(const json_t *value, const lx_json_reading *r,
                             lx_status (*make)(const json_t *value, const lx_json_reading *r,
                                               json_t *out, lx_error *err),
                             lx_error *err)
{
    size_t n = json_array_size(value);
    if (!json_is_array(value) || n > LX_MAX_TOOLS)
        return lx_fail(err, LX_ERR_INVALID, r->name, "tools must be a list of at most %d tools",
                       LX_MAX_TOOLS);
    json_t *tools = make != NULL ? json_array() : json_incref((json_t *)(uintptr_t)value);
    lx_status st = tools != NULL ? check_bytes(value, r->name, LX_MAX_TOOLS_BYTES, err)
                                 : no_memory(r->name, err);
    if (st == LX_OK && make != NULL)
        st = make(value, r, tools, err);
    const char *inner = make == NULL ? ".function" : "";
    for (size_t i = 0; st == LX_OK && i < n; i++) {
        st = check_tool(json_array_get(tools, i), i, inner, err);
        if (st == LX_OK)
            st = check_name_is_new(tools, i, inner, err);
    }
    if (st == LX_OK && n > 0)
        return lx_chat_set_variable(r->params, "tools", tools, err);
    json_decref(tools);
    return st;
}

LX_READER(tools)
{
    bool response = r->route == LX_JSON_RESPONSES;
    return lx_chat_keep_tools(value, r, response ? read_response_tools : NULL, err);
}

/* The name of the tool that must be called, where the choice is one; NULL: it is none. */
static const char *named_tool(const json_t *value)
{
    const json_t *function = lx_json_field(value, "function");
    const json_t *name = lx_json_field(function != NULL ? function : value, "name");
    return lx_json_is(lx_json_field(value, "type"), "function") && lx_chat_is_name(name)
               ? json_string_value(name)
               : NULL;
}

lx_status lx_chat_require_tool(lx_completion_params *p, const char *name, lx_error *err)
{
    p->tool_choice = LX_TOOLS_REQUIRED;
    p->tool_name = strdup(name);
    return p->tool_name != NULL ? LX_OK : no_memory("tool_choice", err);
}

LX_READER(tool_choice)
{
    static const char *const names[] = {"auto", "none", "required"};
    lx_completion_params *p = r->params;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (lx_json_is(value, names[i])) {
            p->tool_choice = (lx_tool_choice)i;
            return LX_OK;
        }
    }
    const char *name = named_tool(value);
    if (name == NULL)
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "tool_choice must be auto, none, required, or an object with the type "
                       "function and the name of a tool");
    return lx_chat_require_tool(p, name, err);
}

/* --- variables of the template --- */

static bool is_reserved(const char *name)
{
    static const char *const names[] = {"messages",  "tools",     "add_generation_prompt",
                                        "bos_token", "eos_token", NULL};
    for (const char *const *n = names; *n != NULL; n++)
        if (strcmp(*n, name) == 0)
            return true;
    return false;
}

LX_READER(template_variables)
{
    const char *name;
    json_t *item;
    lx_status st = LX_OK;
    if (!json_is_object(value) || json_object_size(value) > LX_MAX_VARIABLES)
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s must be an object of at most %d members",
                       r->name, LX_MAX_VARIABLES);
    st = check_bytes(value, r->name, LX_MAX_VARIABLES_BYTES, err);
    json_object_foreach((json_t *)(uintptr_t)value, name, item)
    {
        if (st == LX_OK && is_reserved(name))
            st = lx_fail(err, LX_ERR_INVALID, r->name,
                         "%s.%s is reserved: the request's own fields and the model set it",
                         r->name, name);
        if (st == LX_OK)
            st = lx_chat_set_variable(r->params, name, json_incref(item), err);
    }
    return st;
}

LX_READER(enable_thinking)
{
    const lx_completion_params *p = r->params;
    const json_t *other = json_object_get(p->variables, r->name);
    if (!json_is_boolean(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s must be true or false", r->name);
    if (other != NULL && !json_equal(other, value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s has another value in chat_template_kwargs",
                       r->name);
    return lx_chat_set_variable(r->params, r->name, json_incref((json_t *)(uintptr_t)value), err);
}

/* --- members of messages --- */

static lx_status read_call(const json_t *call, const char *where, const lx_json_reading *r,
                           json_t *out, lx_error *err)
{
    static const char *const known[] = {"id", "type", "function", "index", NULL};
    const json_t *function = lx_json_field(call, "function"), *id = lx_json_field(call, "id");
    const json_t *type = lx_json_field(call, "type"), *name = lx_json_field(function, "name");
    char field[128];
    json_t *arguments = NULL;
    (void)snprintf(field, sizeof field, "%s.function.arguments", where);
    if (!lx_chat_is_name(name) || (type != NULL && !lx_json_is(type, "function")) ||
        (id != NULL && !json_is_string(id)))
        return lx_fail(err, LX_ERR_INVALID, "messages",
                       "%s must have a function with a name; its id and type are strings, the type "
                       "is function",
                       where);
    lx_json_note_members(call, where, known, r->notes);
    lx_status st =
        lx_chat_read_arguments(lx_json_field(function, "arguments"), field, r, &arguments, err);
    if (st != LX_OK)
        return st;
    json_t *made = json_pack("{s:s, s:{s:O, s:o}}", "type", "function", "function", "name", name,
                             "arguments", arguments);
    bool ok = made != NULL &&
              (id == NULL || json_object_set(made, "id", (json_t *)(uintptr_t)id) == 0) &&
              json_array_append(out, made) == 0;
    json_decref(made);
    return ok ? LX_OK : no_memory(where, err);
}

/* In any message; the assistant's are kept. */
static lx_status read_calls(const json_t *value, const char *where, bool keep,
                            const lx_json_reading *r, json_t *more, lx_error *err)
{
    size_t n = json_array_size(value);
    char call[80];
    if (!json_is_array(value) || n > LX_CHAT_CALLS)
        return lx_fail(err, LX_ERR_INVALID, "messages", "%s must be a list of at most %d calls",
                       where, LX_CHAT_CALLS);
    json_t *calls = json_array();
    lx_status st = calls != NULL ? LX_OK : no_memory(where, err);
    for (size_t i = 0; st == LX_OK && i < n; i++) {
        (void)snprintf(call, sizeof call, "%s[%zu]", where, i);
        st = read_call(json_array_get(value, i), call, r, calls, err);
    }
    if (st == LX_OK && keep && n > 0 && json_object_set(more, "tool_calls", calls) != 0)
        st = no_memory(where, err);
    json_decref(calls);
    return st;
}

/* A string of any message, kept under its own name in those of one role. */
static lx_status copy_string(const json_t *message, const char *name, bool keep, size_t i,
                             json_t *more, lx_error *err)
{
    json_t *value = (json_t *)(uintptr_t)lx_json_field(message, name);
    if (value != NULL && !json_is_string(value))
        return lx_fail(err, LX_ERR_INVALID, "messages", "messages[%zu].%s must be a string", i,
                       name);
    bool ok = value == NULL || !keep || json_object_set(more, name, value) == 0;
    return ok ? LX_OK : no_memory(name, err);
}

/* The members of message i except role and content, for lx_chat_message.more; NULL: none.
   The caller frees *out. */
static lx_status read_more(const json_t *message, lx_chat_role role, size_t i,
                           const lx_json_reading *r, json_t **out, lx_error *err)
{
    static const struct {
        const char *name;
        lx_chat_role role;
    } strings[] = {{"reasoning_content", LX_CHAT_ASSISTANT},
                   {"tool_call_id", LX_CHAT_TOOL},
                   {"name", LX_CHAT_TOOL}};
    char where[64];
    const json_t *calls = lx_json_field(message, "tool_calls");
    json_t *more = json_object();
    lx_status st = more != NULL ? LX_OK : no_memory("a message", err);
    (void)snprintf(where, sizeof where, "messages[%zu].tool_calls", i);
    if (st == LX_OK && calls != NULL)
        st = read_calls(calls, where, role == LX_CHAT_ASSISTANT, r, more, err);
    for (size_t k = 0; st == LX_OK && k < sizeof strings / sizeof *strings; k++)
        st = copy_string(message, strings[k].name, role == strings[k].role, i, more, err);
    if (st == LX_OK && json_object_size(more) > 0)
        *out = json_incref(more);
    json_decref(more);
    return st;
}

/* --- messages --- */

/* Whether messages have the form of items, as the input of a response has. */
static bool reads_items(const lx_json_reading *r)
{
    return r->route == LX_JSON_RESPONSES || r->route == LX_JSON_CONVERSATION ||
           r->route == LX_JSON_ITEMS;
}

/* A list of parts, each a text; an earlier response's output may be put in again. */
static bool is_text_part(const json_t *part, bool response)
{
    const json_t *type = lx_json_field(part, "type");
    bool known = response ? lx_json_is(type, "input_text") || lx_json_is(type, "output_text")
                          : lx_json_is(type, "text");
    return known && json_is_string(lx_json_field(part, "text"));
}

int64_t lx_chat_joined_bytes(const json_t *parts, bool response)
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

/* A list of parts of which one is no text. */
static lx_status refuse_parts(const json_t *parts, const char *where, const lx_json_reading *r,
                              lx_error *err)
{
    bool response = reads_items(r);
    size_t k = 0;
    while (is_text_part(json_array_get(parts, k), response))
        k++;
    return lx_fail(err, LX_ERR_INVALID, r->name,
                   "%s[%zu] must have the type %s and a string as text: pictures, sounds and files "
                   "are not read here",
                   where, k, response ? "input_text" : "text");
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

static bool read_role(const json_t *name, bool response, lx_chat_role *out)
{
    static const char *const names[] = {"system", "user", "assistant", "developer", "tool"};
    static const lx_chat_role roles[] = {LX_CHAT_SYSTEM, LX_CHAT_USER, LX_CHAT_ASSISTANT,
                                         LX_CHAT_SYSTEM, LX_CHAT_TOOL};
    size_t n = sizeof names / sizeof *names - response; /* whose inputs have no tool */
    for (size_t i = 0; i < n; i++) {
        if (lx_json_is(name, names[i])) {
            *out = roles[i];
            return true;
        }
    }
    return false;
}

lx_status lx_chat_add_message(lx_chat_role role, char *text, size_t bytes, lx_completion_params *p,
                              lx_error *err)
{
    if (text == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the messages");
    assert(p->messages != NULL); /* the caller has reserved them */
    p->messages[p->n_messages++] = (lx_chat_message){.role = role, .text = text, .bytes = bytes};
    return LX_OK;
}

char *lx_chat_copy(const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    if (copy != NULL)
        memcpy(copy, text, bytes + 1);
    return copy;
}

/* Members of a message and of its parts that change nothing. An answer's items and parts may be
   sent back with their marks, which say nothing here. */
static void note_others(const json_t *message, lx_chat_role role, size_t i,
                        const lx_json_reading *r)
{
    static const char *const user[] = {"role", "content", NULL};
    static const char *const assistant[] = {"role", "content", "tool_calls", "reasoning_content",
                                            NULL};
    static const char *const tool[] = {"role", "content", "tool_call_id", "name", NULL};
    static const char *const item[] = {"role", "content", "type", "id", "status", NULL};
    static const char *const part[] = {"type", "text", "annotations", "logprobs", NULL};
    char prefix[64];
    const json_t *content = json_object_get(message, "content");
    (void)snprintf(prefix, sizeof prefix, "%s[%zu]", r->name, i);
    lx_json_note_members(message, prefix,
                         reads_items(r)              ? item
                         : role == LX_CHAT_ASSISTANT ? assistant
                         : role == LX_CHAT_TOOL      ? tool
                                                     : user,
                         r->notes);
    for (size_t k = 0; k < json_array_size(content); k++) {
        (void)snprintf(prefix, sizeof prefix, "%s[%zu].content[%zu]", r->name, i, k);
        lx_json_note_members(json_array_get(content, k), prefix, part, r->notes);
    }
}

lx_status lx_chat_keep_content(const json_t *content, size_t bytes, lx_chat_role role,
                               const lx_json_reading *r, lx_error *err)
{
    if (!json_is_array(content)) {
        const char *text = content != NULL ? json_string_value(content) : "";
        return lx_chat_add_message(role, lx_chat_copy(text, bytes), bytes, r->params, err);
    }
    char *text = malloc(bytes + 1);
    if (text != NULL)
        join(content, text);
    return lx_chat_add_message(role, text, bytes, r->params, err);
}

lx_status lx_chat_add_call(lx_chat_message *m, const json_t *id, const json_t *name,
                           const json_t *arguments, lx_error *err)
{
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", arguments);
    if (m->more == NULL)
        m->more = json_object();
    json_t *calls = json_object_get(m->more, "tool_calls");
    if (calls == NULL) {
        calls = json_array();
        if (json_object_set_new(m->more, "tool_calls", calls) != 0)
            calls = NULL;
    }
    bool ok = call != NULL && json_array_append(calls, call) == 0;
    json_decref(call);
    return ok ? LX_OK : no_memory("a call", err);
}

/* A call of an earlier answer joins the assistant's message before it; otherwise it makes one. */
static lx_status keep_call(const json_t *item, size_t i, const lx_json_reading *r, lx_error *err)
{
    lx_completion_params *p = r->params;
    lx_chat_message *last = p->n_messages > 0 ? &p->messages[p->n_messages - 1] : NULL;
    char where[64];
    (void)snprintf(where, sizeof where, "%s[%zu].arguments", r->name, i);
    const json_t *name = lx_json_field(item, "name"), *id = lx_json_field(item, "call_id");
    if (!lx_chat_is_name(name) || !json_is_string(id))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s[%zu] must have a name and a call_id, as it is a function_call", r->name,
                       i);
    json_t *arguments = NULL;
    lx_status st =
        lx_chat_read_arguments(lx_json_field(item, "arguments"), where, r, &arguments, err);
    if (st != LX_OK)
        return st;
    if (last == NULL || last->role != LX_CHAT_ASSISTANT)
        st = lx_chat_add_message(LX_CHAT_ASSISTANT, lx_chat_copy("", 0), 0, p, err);
    if (st == LX_OK)
        st = lx_chat_add_call(&p->messages[p->n_messages - 1], id, name, arguments, err);
    json_decref(arguments);
    return st;
}

lx_status lx_chat_set_call(lx_chat_message *m, const json_t *id, lx_error *err)
{
    m->more = json_pack("{s:O}", "tool_call_id", id);
    return m->more != NULL ? LX_OK : no_memory("a message", err);
}

/* The result of a call, as a message of the tool's. */
static lx_status keep_result(const json_t *item, size_t i, const lx_json_reading *r, lx_error *err)
{
    lx_completion_params *p = r->params;
    const json_t *output = lx_json_field(item, "output"), *id = lx_json_field(item, "call_id");
    int64_t bytes = json_is_string(output) ? (int64_t)json_string_length(output)
                                           : lx_chat_joined_bytes(output, true);
    char where[64];
    (void)snprintf(where, sizeof where, "%s[%zu].output", r->name, i);
    if (json_is_string(id) && bytes < 0 && json_array_size(output) > 0)
        return refuse_parts(output, where, r, err);
    if (bytes < 0 || !json_is_string(id))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s[%zu] must have a call_id and an output that is a text or a list of "
                       "texts, as it is a function_call_output",
                       r->name, i);
    lx_status st = lx_chat_keep_content(output, (size_t)bytes, LX_CHAT_TOOL, r, err);
    return st == LX_OK ? lx_chat_set_call(&p->messages[p->n_messages - 1], id, err) : st;
}

static lx_status keep_message(const json_t *message, size_t i, const lx_json_reading *r,
                              lx_error *err)
{
    bool response = reads_items(r);
    const json_t *type = response ? lx_json_field(message, "type") : NULL;
    const json_t *content = lx_json_field(message, "content");
    int64_t bytes = json_is_string(content) ? (int64_t)json_string_length(content)
                                            : lx_chat_joined_bytes(content, response);
    lx_chat_role role = LX_CHAT_USER;
    json_t *more = NULL;
    char where[64];
    if (lx_json_is(type, "function_call"))
        return keep_call(message, i, r, err);
    if (lx_json_is(type, "function_call_output"))
        return keep_result(message, i, r, err);
    if (type != NULL && !lx_json_is(type, "message"))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s[%zu] must be a message, a function_call or a function_call_output: no "
                       "other type is read here",
                       r->name, i);
    bool known = read_role(lx_json_field(message, "role"), response, &role);
    lx_status st = known && !response ? read_more(message, role, i, r, &more, err) : LX_OK;
    if (st != LX_OK)
        return st;
    if (content == NULL && json_object_get(more, "tool_calls") != NULL)
        bytes = 0; /* a call needs no text */
    if (!known || bytes < 0) {
        json_decref(more);
        (void)snprintf(where, sizeof where, "%s[%zu].content", r->name, i);
        if (known && json_array_size(content) > 0)
            return refuse_parts(content, where, r, err);
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s[%zu] must have a role, system, user%s or assistant, and a content that "
                       "is a text or a list of texts",
                       r->name, i, response ? "" : ", tool");
    }
    note_others(message, role, i, r);
    st = lx_chat_keep_content(content, (size_t)bytes, role, r, err);
    lx_completion_params *p = r->params;
    if (st == LX_OK)
        p->messages[p->n_messages - 1].more = more;
    else
        json_decref(more);
    return st;
}

lx_status lx_chat_reserve_messages(size_t n, lx_completion_params *p, lx_error *err)
{
    p->messages = calloc(n, sizeof *p->messages);
    return p->messages != NULL ? LX_OK
                               : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the messages");
}

lx_status lx_chat_keep_last(lx_completion_params *p, lx_error *err)
{
    const lx_chat_message *last = &p->messages[p->n_messages - 1];
    assert(last->text != NULL); /* every message has one */
    p->prompts = calloc(1, sizeof *p->prompts);
    if (p->prompts == NULL)
        return no_memory("the prompt", err);
    p->prompts[0] =
        (lx_prompt){.text = lx_chat_copy(last->text, last->bytes), .bytes = last->bytes};
    p->n_prompts = 1;
    return p->prompts[0].text != NULL ? LX_OK : no_memory("the prompt", err);
}

/* Appends the messages of a list. */
static lx_status keep_list(const json_t *list, const lx_json_reading *r, lx_error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        lx_status st = keep_message(json_array_get(list, i), i, r, err);
        if (st != LX_OK)
            return st;
    }
    return lx_chat_keep_last(r->params, err);
}

LX_READER(messages)
{
    size_t n = json_array_size(value); /* 0 for other values */
    if (n < 1 || n > LX_CHAT_MESSAGES)
        return lx_fail(err, LX_ERR_INVALID, r->name, "messages must be a list of 1 to %d messages",
                       LX_CHAT_MESSAGES);
    lx_status st = lx_chat_reserve_messages(n, r->params, err);
    return st == LX_OK ? keep_list(value, r, err) : st;
}

LX_READER(input)
{
    lx_completion_params *p = r->params;
    size_t n = json_is_string(value) ? 1 : json_array_size(value);
    if (n < 1 || n > LX_CHAT_MESSAGES)
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "input must be a text or a list of 1 to %d messages", LX_CHAT_MESSAGES);
    lx_status st = lx_chat_reserve_messages(n + (p->instructions != NULL), p, err);
    if (st == LX_OK && p->instructions != NULL)
        st = lx_chat_add_message(LX_CHAT_SYSTEM,
                                 lx_chat_copy(p->instructions, p->instructions_bytes),
                                 p->instructions_bytes, p, err);
    if (st != LX_OK || json_is_array(value))
        return st == LX_OK ? keep_list(value, r, err) : st;
    size_t bytes = json_string_length(value);
    p->input_is_text = true;
    st = lx_chat_add_message(LX_CHAT_USER, lx_chat_copy(json_string_value(value), bytes), bytes, p,
                             err);
    return st == LX_OK ? lx_chat_keep_last(p, err) : st;
}

/* --- messages as items --- */

static json_t *calls_of(const lx_chat_message *m)
{
    return m->role == LX_CHAT_ASSISTANT ? json_object_get(m->more, "tool_calls") : NULL;
}

/* An assistant's message with calls and without a text has no item of its own. */
static int32_t own_items(const lx_chat_message *m)
{
    return m->bytes > 0 || calls_of(m) == NULL;
}

int32_t lx_json_count_items(const lx_chat_message *m)
{
    return own_items(m) + (int32_t)json_array_size(calls_of(m));
}

/* The client chose the call's id, and may have chosen it twice. An item's id is its own. */
static void make_item_id(const char *kind, char id[ITEM_ID])
{
    (void)snprintf(id, ITEM_ID, "%s_%016llx", kind, (unsigned long long)lx_random_bits());
}

static void write_call(const json_t *call, lx_buffer *out)
{
    char own[ITEM_ID];
    const json_t *function = json_object_get(call, "function"), *id = json_object_get(call, "id");
    const json_t *arguments = json_object_get(function, "arguments");
    size_t bytes = json_dumpb(arguments, NULL, 0, JSON_COMPACT);
    char *text = malloc(bytes + 1);
    if (text == NULL || json_dumpb(arguments, text, bytes, JSON_COMPACT) != bytes) {
        out->status = LX_ERR_NO_MEMORY;
        free(text);
        return;
    }
    make_item_id("fc", own);
    lx_json_put(out,
                "{'id':%s,'type':'function_call','status':'completed','call_id':%s,'name':%s,"
                "'arguments':%.*s}",
                own, json_string_value(id), json_string_value(json_object_get(function, "name")),
                (int)bytes, text);
    free(text);
}

void lx_json_write_item(const lx_chat_message *m, int32_t i, lx_buffer *out)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    if (i >= own_items(m)) {
        write_call(json_array_get(calls_of(m), (size_t)(i - own_items(m))), out);
        return;
    }
    char id[ITEM_ID];
    bool result = m->role == LX_CHAT_TOOL, said = m->role == LX_CHAT_ASSISTANT;
    make_item_id(result ? "fco" : "msg", id);
    if (result) {
        lx_json_put(out,
                    "{'id':%s,'type':'function_call_output','status':'completed','call_id':%s,"
                    "'output':%.*s}",
                    id, json_string_value(json_object_get(m->more, "tool_call_id")), (int)m->bytes,
                    m->text);
        return;
    }
    lx_json_put(out, "{'id':%s,'type':'message','status':'completed','role':%s,'content':[", id,
                roles[m->role]);
    lx_json_put(out,
                said ? "{'type':'output_text','annotations':[],'text':%.*s}]}"
                     : "{'type':'input_text','text':%.*s}]}",
                (int)m->bytes, m->text);
}

LX_READER(items)
{
    size_t n = json_array_size(value);
    if (!json_is_array(value) || n > MAX_ITEMS || (n == 0 && r->route == LX_JSON_ITEMS))
        return lx_fail(err, LX_ERR_INVALID, r->name, "items must be a list of %d to %d messages",
                       r->route == LX_JSON_ITEMS, MAX_ITEMS);
    lx_status st = n > 0 ? lx_chat_reserve_messages(n, r->params, err) : LX_OK;
    return st == LX_OK && n > 0 ? keep_list(value, r, err) : st;
}

lx_status lx_json_keep_item(const char *item, size_t bytes, size_t i, const lx_json_reading *r,
                            lx_error *err)
{
    json_error_t e;
    json_t *message = lx_json_load(item, bytes, JSON_ALLOW_NUL, &e);
    lx_status st = message != NULL ? keep_message(message, i, r, err) : no_memory(r->name, err);
    json_decref(message);
    return st;
}

/* --- for the template's reader --- */

bool lx_json_has(const json_t *object, const char *name)
{
    return lx_json_field(object, name) != NULL;
}

const char *lx_json_name_at(json_t *object, int32_t i)
{
    void *at = json_object_iter(object);
    while (at != NULL && i-- > 0)
        at = json_object_iter_next(object, at);
    return at != NULL ? json_object_iter_key(at) : NULL;
}

size_t lx_json_indented_bytes(const json_t *value)
{
    return value != NULL ? json_dumpb(value, NULL, 0, JSON_INDENT(4)) : 0;
}

const json_t *lx_json_tools(const json_t *variables)
{
    return lx_json_field(variables, "tools");
}

void lx_json_write_tools(const json_t *variables, lx_buffer *out)
{
    const json_t *tools = lx_json_tools(variables);
    lx_buffer_puts(out, "[");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        json_t *flat = json_object();
        if (json_object_update(flat, (json_t *)(uintptr_t)function) != 0 ||
            json_object_set_new(flat, "type", json_string("function")) != 0)
            out->status = LX_ERR_NO_MEMORY;
        lx_buffer_puts(out, i > 0 ? "," : "");
        lx_json_dump(flat, out);
    }
    lx_buffer_puts(out, "]");
}
