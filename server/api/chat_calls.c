/* Calls of tools in the answers of chats (see chat_calls.h). */
#include "server/api/chat_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Without a known format the calls stay in the text, as the model writes them. */
static lx_status check_format(const lx_model *model, lx_completion_params *p, lx_error *err)
{
    if (p->tool_choice == LX_TOOLS_REQUIRED)
        return lx_fail(err, LX_ERR_INVALID, "tool_choice",
                       "the calls of model %s have no format that is known here, so none can be "
                       "enforced: send tool_choice auto",
                       model->name);
    lx_json_note(&p->notes, "tools", "calls stay in the text: the model's format is not known here",
                 NULL);
    return LX_OK;
}

/* A text that keeps a schema may stand in the place of calls. */
static lx_status check_shape(const lx_completion_params *p, lx_error *err)
{
    const lx_shape *s = &p->shape;
    if (s->kind == LX_SHAPE_NONE ||
        (s->kind == LX_SHAPE_SCHEMA && p->tool_choice != LX_TOOLS_REQUIRED))
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, s->field,
                   "%s does not go with %s: leave %s out, or send tool_choice none", s->field,
                   p->tool_choice == LX_TOOLS_REQUIRED ? "tool_choice" : "tools", s->field);
}

/* The source of the calls becomes the request's shape. */
static lx_status take_shape(lx_completion_params *p, lx_error *err)
{
    size_t bytes = 0;
    const char *source = lx_calls_source(p->calls, &bytes);
    char *text = malloc(bytes + 1);
    if (text == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for tools");
    memcpy(text, source, bytes + 1);
    free((char *)p->shape.text);
    p->shape = (lx_shape){.kind = LX_SHAPE_CALLS, .text = text, .bytes = bytes, .field = "tools"};
    return LX_OK;
}

static void note_loose(lx_completion_params *p)
{
    int32_t tool = 0;
    for (int32_t i = 0; (tool = lx_calls_loose(p->calls, i)) >= 0; i++) {
        char field[LX_NOTED_BYTES];
        (void)snprintf(field, sizeof field, "tools[%d].%s", tool,
                       p->message ? "input_schema" : "function.parameters");
        lx_json_note(&p->notes, field,
                     "its schema is not supported as a whole: arguments keep names and types only",
                     NULL);
    }
}

/* Errors of calls name a tool's members as chats do: they become the names of the request. */
static void name_members(const lx_completion_params *p, lx_error *err)
{
    static const char *const names[][2] = {{".function.parameters", ".input_schema"},
                                           {".function.", "."}};
    for (int i = p->message ? 0 : 1; i < 2; i++) {
        char *at = strstr(err->text, names[i][0]);
        size_t from = strlen(names[i][0]), to = strlen(names[i][1]);
        if (at == NULL)
            continue;
        memcpy(at, names[i][1], to);
        memmove(at + to, at + from, strlen(at + from) + 1);
    }
}

lx_status lx_chat_set_calls(const lx_model *model, lx_thinking_begin thinks,
                            lx_completion_params *p, lx_error *err)
{
    if (!lx_json_has(p->variables, "tools"))
        return LX_OK;
    bool never = p->tool_choice == LX_TOOLS_NONE;
    if (never && p->shape.kind != LX_SHAPE_NONE)
        return LX_OK; /* an answer of the shape has no calls */
    if (model->calls == NULL)
        return check_format(model, p, err);
    lx_status st = check_shape(p, err);
    bool shaped = p->shape.kind == LX_SHAPE_SCHEMA;
    lx_call_rules rules = {.format = model->calls,
                           .tools = lx_json_tools(p->variables),
                           .only = p->tool_name,
                           .required = p->tool_choice == LX_TOOLS_REQUIRED,
                           .never = never,
                           .parallel = !p->serial_calls,
                           .thinks = (int)thinks,
                           .schema = shaped ? p->shape.text : NULL,
                           .schema_bytes = p->shape.bytes,
                           .field = "tool_choice"};
    for (int i = 0; i < LX_CALL_MARKS; i++)
        rules.special |= (unsigned)(model->mark_ids[i] >= 0) << i;
    if (p->response) { /* thoughts are a part of its text */
        rules.inside = thinks == LX_THINKS_AT_ONCE;
        rules.thinks = rules.inside ? (int)thinks : (int)LX_THINKS_NOT;
    }
    if (st == LX_OK) {
        st = lx_calls_new(&rules, &p->calls, err);
        if (st != LX_OK && (p->message || p->response))
            name_members(p, err);
    }
    if (st == LX_OK)
        st = take_shape(p, err);
    if (st == LX_OK)
        note_loose(p);
    return st;
}
