/*
 * Fields that give answers a shape, as OpenAI, llama.cpp, vLLM and SGLang name them. Each becomes
 * the request's one shape.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/json/fields.h"
#include "server/json/request_fields.h"
#include "server/json/requests.h"

static lx_status keep(const lx_json_reading *r, lx_shape_kind kind, char *text, size_t bytes,
                      lx_error *err)
{
    lx_completion_params *p = r->params;
    if (text == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, r->name, "no memory for %s", r->name);
    if (p->shape.kind != LX_SHAPE_NONE || bytes > LX_SHAPE_MOST_BYTES) {
        bool large = bytes > LX_SHAPE_MOST_BYTES;
        free(text);
        if (!large && strcmp(p->shape.field, r->name) == 0)
            return lx_fail(err, LX_ERR_INVALID, r->name,
                           "%s has two members that give the answer a shape: leave one of them out",
                           r->name);
        return large ? lx_fail(err, LX_ERR_INVALID, r->name, "%s has more than %d bytes", r->name,
                               LX_SHAPE_MOST_BYTES)
                     : lx_fail(err, LX_ERR_INVALID, r->name,
                               "%s and %s both give the answer a shape: leave one of them out",
                               p->shape.field, r->name);
    }
    p->shape = (lx_shape){.kind = kind, .text = text, .bytes = bytes, .field = r->name};
    return LX_OK;
}

/* A text that is not empty; an empty one says nothing. */
static lx_status keep_text(const json_t *value, const char *name, lx_shape_kind kind,
                           const lx_json_reading *r, lx_error *err)
{
    size_t bytes = json_string_length(value);
    if (!json_is_string(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s must be a string", name);
    if (bytes == 0)
        return LX_OK;
    char *text = malloc(bytes);
    if (text != NULL)
        memcpy(text, json_string_value(value), bytes);
    return keep(r, kind, text, bytes, err);
}

/* A JSON value as a text; a schema may be sent as a text, too. */
static lx_status keep_value(const json_t *value, lx_shape_kind kind, const lx_json_reading *r,
                            lx_error *err)
{
    if (json_is_string(value) && kind == LX_SHAPE_SCHEMA)
        return keep_text(value, r->name, kind, r, err);
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
    size_t n = json_dumpb(value, NULL, 0, flags);
    char *text = n > 0 ? malloc(n) : NULL;
    if (text != NULL && json_dumpb(value, text, n, flags) != n) {
        free(text);
        text = NULL;
    }
    return keep(r, kind, text, n, err);
}

static lx_status keep_any_object(const lx_json_reading *r, lx_error *err)
{
    return keep(r, LX_SHAPE_SCHEMA, calloc(1, 1), 0, err);
}

static lx_status keep_schema(const json_t *schema, const char *name, const lx_json_reading *r,
                             lx_error *err)
{
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s must have a JSON Schema, an object", name);
    return keep_value(schema, LX_SHAPE_SCHEMA, r, err);
}

/* The members next to the schema. Every schema is kept strictly, so `strict` changes nothing. */
static lx_status check_schema_members(const json_t *object, const char *name,
                                      const lx_json_reading *r, lx_error *err)
{
    static const char *const texts[] = {"name", "description"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const json_t *text = lx_json_field(object, texts[i]);
        if (text != NULL && !json_is_string(text))
            return lx_fail(err, LX_ERR_INVALID, r->name, "%s.%s must be a string", name, texts[i]);
    }
    const json_t *strict = lx_json_field(object, "strict");
    if (strict != NULL && !json_is_boolean(strict))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s.strict must be true or false", name);
    return LX_OK;
}

/* {"type": "json_schema"} with the schema inside `json_schema`, or next to its type. */
static lx_status keep_named_schema(const json_t *format, const char *name, const lx_json_reading *r,
                                   lx_error *err)
{
    static const char *const known[] = {"name", "schema", "strict", "description", NULL};
    static const char *const outer[] = {"type", "json_schema", NULL};
    const json_t *inner = lx_json_field(format, "json_schema");
    const json_t *schema = lx_json_field(inner != NULL ? inner : format, "schema");
    char full[80];
    bool within = inner != NULL || (schema == NULL && strcmp(name, "response_format") == 0);
    (void)snprintf(full, sizeof full, "%s%s", name, within ? ".json_schema" : "");
    if (schema == NULL)
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s.schema is missing", full);
    lx_status st = check_schema_members(inner != NULL ? inner : format, full, r, err);
    if (st != LX_OK)
        return st;
    if (inner != NULL) {
        lx_json_note_members(inner, full, known, r->notes);
        lx_json_note_members(format, name, outer, r->notes);
    }
    return keep_schema(schema, full, r, err);
}

static lx_status read_format(const json_t *format, const char *name, const lx_json_reading *r,
                             lx_error *err)
{
    static const char *const plain[] = {"type", NULL}, *const object[] = {"type", "schema", NULL};
    const json_t *type = lx_json_field(format, "type"), *schema = lx_json_field(format, "schema");
    if (lx_json_is(type, "json_schema"))
        return keep_named_schema(format, name, r, err);
    if (lx_json_is(type, "json_object")) {
        lx_json_note_members(format, name, object, r->notes);
        return schema != NULL ? keep_schema(schema, name, r, err) : keep_any_object(r, err);
    }
    if (!lx_json_is(type, "text"))
        return lx_fail(err, LX_ERR_INVALID, r->name,
                       "%s must be an object whose type is text, json_object or json_schema", name);
    lx_json_note_members(format, name, plain, r->notes);
    return LX_OK;
}

LX_READER(text_format)
{
    return read_format(value, r->name, r, err);
}

LX_READER(response_text)
{
    static const char *const known[] = {"format", NULL};
    const json_t *format = lx_json_field(value, "format");
    if (!json_is_object(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "text must be an object");
    lx_json_note_members(value, r->name, known, r->notes);
    if (format == NULL)
        return LX_OK;
    lx_completion_params *p = r->params;
    lx_status st = read_format(format, "text.format", r, err);
    if (st == LX_OK && (p->format = lx_json_copy_text(format)) == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for text.format");
    return st;
}

/* Anthropic's object for the form of an answer. */
LX_READER(output_config)
{
    static const char *const known[] = {"format", NULL};
    const json_t *format = lx_json_field(value, "format");
    if (!json_is_object(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "output_config must be an object");
    lx_json_note_members(value, r->name, known, r->notes);
    return format != NULL ? read_format(format, "output_config.format", r, err) : LX_OK;
}

LX_READER(gbnf)
{
    return keep_text(value, r->name, LX_SHAPE_GBNF, r, err);
}

LX_READER(regex)
{
    return keep_text(value, r->name, LX_SHAPE_REGEX, r, err);
}

LX_READER(json_schema)
{
    return json_is_string(value) ? keep_value(value, LX_SHAPE_SCHEMA, r, err)
                                 : keep_schema(value, r->name, r, err);
}

LX_READER(choice_of)
{
    if (!json_is_array(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s must be a list of texts", r->name);
    return json_array_size(value) > 0 ? keep_value(value, LX_SHAPE_CHOICE, r, err) : LX_OK;
}

/* vLLM's object with one of these members. */
LX_READER(structured_outputs)
{
    static const char *const known[] = {"json", "regex", "choice", "grammar", "json_object", NULL};
    static const lx_field_reader readers[] = {lx_read_json_schema, lx_read_regex, lx_read_choice_of,
                                              lx_read_gbnf};
    if (!json_is_object(value))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s must be an object", r->name);
    lx_json_note_members(value, r->name, known, r->notes);
    lx_status st = LX_OK;
    for (size_t i = 0; i < sizeof readers / sizeof *readers && st == LX_OK; i++) {
        const json_t *member = lx_json_field(value, known[i]);
        st = member != NULL ? readers[i](member, r, err) : LX_OK;
    }
    const json_t *any = lx_json_field(value, "json_object");
    if (st == LX_OK && any != NULL && !json_is_boolean(any))
        return lx_fail(err, LX_ERR_INVALID, r->name, "%s.json_object must be true or false",
                       r->name);
    return st == LX_OK && json_is_true(any) ? keep_any_object(r, err) : st;
}
