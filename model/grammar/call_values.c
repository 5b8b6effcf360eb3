/*
 * Arguments of calls (see call_values.h). As JSON they are the schema's own texts. The other two
 * formats write each property in the order of `properties`. Some of their texts stand without
 * quotes. If the schema of one of these has limits, its text has no "<", which could end it.
 */
#include "model/grammar/call_values.h"

#include <stdlib.h>
#include <string.h>

#include "model/grammar/readers.h"
#include "model/grammar/schema.h"
#include "model/grammar/until.h"

static const lx_ast_kind CAT = LX_AST_CAT, ALT = LX_AST_ALT;
static const char VALUE_END[] = "\n</parameter>";

static bool is_type(const json_t *type, const char *name)
{
    return json_is_string(type) && strcmp(json_string_value(type), name) == 0;
}

/* --- kinds of values --- */

static bool has_rules(const json_t *schema)
{
    static const char *const names[] = {"pattern", "format", "minLength", "maxLength"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (json_object_get(schema, names[i]) != NULL)
            return true;
    }
    return false;
}

/* A list whose texts are all without line feeds, as those of an enum. */
static bool are_lines(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text == NULL || text[strcspn(text, "\n")] != '\0')
            return false;
    }
    return json_array_size(list) > 0;
}

static bool is_plain_text(const json_t *schema)
{
    return is_type(json_object_get(schema, "type"), "string") && !has_rules(schema) &&
           json_object_get(schema, "enum") == NULL && json_object_get(schema, "const") == NULL;
}

/* A string or null, of which the string is any. */
static bool is_text_or_null(const json_t *schema)
{
    const json_t *types = json_object_get(schema, "type"), *ways = json_object_get(schema, "anyOf");
    if (json_array_size(types) == 2 && !has_rules(schema) &&
        json_object_get(schema, "enum") == NULL && json_object_get(schema, "const") == NULL)
        return is_type(json_array_get(types, 0), "string") &&
               is_type(json_array_get(types, 1), "null");
    return json_array_size(ways) == 2 && is_plain_text(json_array_get(ways, 0)) &&
           is_type(json_object_get(json_array_get(ways, 1), "type"), "null");
}

lx_call_value lx_call_value_of(const json_t *schema)
{
    const json_t *list = json_object_get(schema, "enum");
    bool lines = list != NULL && json_object_get(schema, "const") == NULL && are_lines(list);
    if (list != NULL)
        return lines ? LX_VALUE_TEXT : LX_VALUE_JSON;
    if (is_text_or_null(schema))
        return LX_VALUE_TEXT_OR_NULL;
    bool text = is_type(json_object_get(schema, "type"), "string") &&
                json_object_get(schema, "const") == NULL &&
                json_object_get(schema, "format") == NULL;
    return text ? LX_VALUE_TEXT : LX_VALUE_JSON;
}

/* --- texts without quotes --- */

/* A set without the character that begins the end of a value. */
static int32_t spell_unmarked(lx_ast *a, const lx_charset *s)
{
    lx_charset own = *s;
    lx_charset_cut(a, &own, '<', '<');
    return lx_ast_set(a, own.at, own.n);
}

static int32_t count_of(lx_ast *a, const json_t *schema, const char *name, int32_t without)
{
    const json_t *value = json_object_get(schema, name);
    if (value == NULL)
        return without;
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n > LX_AST_MOST_REPEATS)
        return lx_ast_fail(a, "%s must be a whole number from 0 to %d", name, LX_AST_MOST_REPEATS);
    return (int32_t)n;
}

/* A text that its schema limits, or one of the texts of an enum. */
static int32_t limited_text(lx_ast *a, const json_t *schema)
{
    const json_t *list = json_object_get(schema, "enum"),
                 *pattern = json_object_get(schema, "pattern");
    const lx_range all[] = {{1, '<' - 1}, {'<' + 1, LX_MAX_CODEPOINT}};
    lx_ast_trees ways = {0};
    for (size_t i = 0; i < json_array_size(list) && a->status == LX_OK; i++)
        lx_ast_collect(a, &ways, lx_ast_word(a, json_string_value(json_array_get(list, i))));
    if (list != NULL)
        return lx_ast_take(a, ALT, &ways);
    int32_t least = count_of(a, schema, "minLength", 0),
            most = count_of(a, schema, "maxLength", -1);
    if (most >= 0 && most < least)
        return lx_ast_fail(a, "maxLength is less than minLength");
    if (pattern != NULL && !json_is_string(pattern))
        return lx_ast_fail(a, "pattern must be a string");
    if (pattern != NULL)
        return lx_grammar_read_regex(a, json_string_value(pattern), json_string_length(pattern),
                                     &(lx_regex_use){spell_unmarked, true, least, most});
    return lx_ast_repeat(a, lx_ast_set(a, all, 2), least, most);
}

/* A value and all that follows it. */
static int32_t value_until_end(lx_ast *a, const json_t *root, const json_t *schema, int32_t then)
{
    lx_call_value kind = lx_call_value_of(schema);
    const lx_passage end = {VALUE_END, false, then};
    bool free_text =
        kind == LX_VALUE_TEXT_OR_NULL || (kind == LX_VALUE_TEXT && is_plain_text(schema));
    if (free_text)
        return lx_text_until(a, &end, 1, false);
    int32_t value =
        kind == LX_VALUE_TEXT ? limited_text(a, schema) : lx_schema_tree(a, root, schema, false);
    return lx_ast_pair(a, CAT, value, lx_ast_pair(a, CAT, lx_ast_word(a, VALUE_END), then));
}

/* --- properties --- */

static bool is_required(const json_t *parameters, const char *name)
{
    const json_t *required = json_object_get(parameters, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        if (is_type(json_array_get(required, i), name))
            return true;
    }
    return false;
}

/* Whether the format can write the name. */
static bool check_name(lx_ast *a, lx_call_spelling spelling, const char *name)
{
    static const char digits[] = "0123456789",
                      known[] = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    bool ok = spelling == LX_CALL_XML ? name[0] != '\0' && name[strcspn(name, "<>\n\"\\")] == '\0'
                                      : name[0] != '\0' && name[strspn(name, known)] == '\0' &&
                                            strchr(digits, name[0]) == NULL;
    if (!ok)
        (void)lx_ast_fail(a, "the model's format of calls cannot write the parameter %.60s", name);
    return ok;
}

static int32_t as_rule(lx_ast *a, int32_t tree)
{
    int32_t rule = lx_ast_rule(a);
    lx_ast_define(a, rule, tree);
    return lx_ast_call(a, rule);
}

static int32_t join(lx_ast *a, const char *one, const char *two, const char *three)
{
    return lx_ast_pair(a, CAT, lx_ast_word(a, one),
                       lx_ast_pair(a, CAT, lx_ast_word(a, two), lx_ast_word(a, three)));
}

/* A property and those after it; `after` are these. */
static int32_t xml_property(lx_ast *a, const json_t *parameters, const char *name,
                            const json_t *schema, int32_t after)
{
    int32_t then = lx_ast_pair(a, CAT, lx_ast_word(a, "\n"), after);
    int32_t from = lx_ast_pair(a, CAT, join(a, "<parameter=", name, ">\n"),
                               value_until_end(a, parameters, schema, as_rule(a, then)));
    return as_rule(a, is_required(parameters, name) ? from : lx_ast_pair(a, ALT, from, after));
}

/* From the last property to the first; `first` are the properties where none stands before them,
   and `after` those after another one. */
static void python_property(lx_ast *a, const json_t *parameters, const char *name,
                            const json_t *schema, int32_t *first, int32_t *after)
{
    int32_t value = lx_schema_tree(a, parameters, schema, true);
    int32_t one = as_rule(a, lx_ast_pair(a, CAT, join(a, name, "=", ""), value));
    int32_t from = lx_ast_pair(a, CAT, one, *after);
    int32_t next = lx_ast_pair(a, CAT, lx_ast_word(a, ", "), one);
    bool needed = is_required(parameters, name);
    *first = needed ? from : lx_ast_pair(a, ALT, from, *first);
    *after = as_rule(a, lx_ast_pair(a, CAT, needed ? next : lx_ast_optional(a, next), *after));
}

static int32_t properties_tree(lx_ast *a, lx_call_spelling spelling, const json_t *parameters)
{
    json_t *properties = json_object_get(parameters, "properties"), *schema = NULL;
    const char **names = calloc(json_object_size(properties) + 1, sizeof *names), *name = NULL;
    size_t n = 0;
    int32_t first = 0, after = 0;
    if (names == NULL)
        a->status = lx_fail(a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
    json_object_foreach(properties, name, schema)
    {
        if (a->status == LX_OK && check_name(a, spelling, name))
            names[n++] = name;
    }
    while (n > 0 && a->status == LX_OK) {
        name = names[--n];
        schema = json_object_get(properties, name);
        if (spelling == LX_CALL_XML)
            after = xml_property(a, parameters, name, schema, after);
        else
            python_property(a, parameters, name, schema, &first, &after);
    }
    free(names);
    return spelling == LX_CALL_XML ? after : first;
}

int32_t lx_call_arguments(lx_ast *a, lx_call_spelling spelling, const json_t *parameters)
{
    if (!is_type(json_object_get(parameters, "type"), "object"))
        return lx_ast_fail(a, "the type of a function's parameters must be object");
    int32_t tree = lx_schema_tree(a, parameters, parameters, false); /* which checks all of it */
    return spelling == LX_CALL_JSON ? tree : properties_tree(a, spelling, parameters);
}

/* --- schemas that are not supported --- */

static json_t *plain_type(const json_t *schema)
{
    static const char *const known[] = {"string", "integer", "number", "boolean",
                                        "object", "array",   "null"};
    const json_t *type = json_object_get(schema, "type");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (is_type(type, known[i]))
            return json_pack("{s:s}", "type", known[i]);
    }
    return json_object();
}

json_t *lx_call_loosen(const json_t *parameters)
{
    json_t *given = json_object_get(parameters, "properties"), *schema = NULL;
    const json_t *required = json_object_get(parameters, "required");
    json_t *properties = json_object(), *names = json_array();
    const char *name = NULL;
    bool ok = properties != NULL && names != NULL;
    json_object_foreach(given, name, schema) ok =
        ok && json_object_set_new(properties, name, plain_type(schema)) == 0;
    for (size_t i = 0; ok && i < json_array_size(required); i++) {
        json_t *one = json_array_get(required, i);
        if (json_is_string(one) && json_object_get(properties, json_string_value(one)) != NULL)
            ok = json_array_append(names, one) == 0;
    }
    json_t *loose = !ok                     ? NULL
                    : json_is_object(given) ? json_pack("{s:s, s:O, s:O}", "type", "object",
                                                        "properties", properties, "required", names)
                                            : json_pack("{s:s}", "type", "object");
    json_decref(properties);
    json_decref(names);
    return loose;
}
