/*
 * JSON Schema to trees (see readers.h).
 *
 * Every text of the tree is valid by the schema; not every valid JSON is a text of the tree.
 * Members stand in the order of `properties`, strings and numbers have one spelling or a few. A
 * keyword that the reader does not know is refused by its name, unless it only describes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/grammar/json_parts.h"
#include "model/grammar/readers.h"
#include "model/grammar/schema.h"
#include "model/grammar/schema_values.h"
#include "model/grammar/texts.h"
#include "model/utf8.h"

static const lx_ast_kind CAT = LX_AST_CAT, ALT = LX_AST_ALT;
enum {
    MOST_REFS = 512,
    MOST_KEY = 100, /* characters of a name next to additionalProperties */
};

typedef struct reference {
    const json_t *schema;
    int32_t rule;
} reference;

typedef struct reader {
    lx_ast *a;
    const json_t *root;
    lx_json_rules rules;
    int32_t depth, n_refs;
    reference refs[MOST_REFS];
} reader;

static int32_t read_schema(reader *r, const json_t *schema);

static const json_t *get(const json_t *schema, const char *name)
{
    return json_object_get(schema, name);
}

static bool is_text(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* --- keywords --- */

static bool is_among(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

static const char *const describing[] = {
    "title",           "description",   "default",   "examples",
    "deprecated",      "readOnly",      "writeOnly", "$comment",
    "$schema",         "$id",           "$defs",     "definitions",
    "strict",          "example",       "nullable",  "contentMediaType",
    "contentEncoding", "discriminator", NULL};

static const char *const of_values[] = {"type",
                                        "properties",
                                        "required",
                                        "additionalProperties",
                                        "items",
                                        "minItems",
                                        "maxItems",
                                        "prefixItems",
                                        "uniqueItems",
                                        "minLength",
                                        "maxLength",
                                        "pattern",
                                        "format",
                                        "minimum",
                                        "maximum",
                                        "enum",
                                        "exclusiveMinimum",
                                        "exclusiveMaximum",
                                        "multipleOf",
                                        "propertyNames",
                                        "const",
                                        NULL};

/* Refuses members of the schema that are neither among `known` nor only describe. */
static void check_members(reader *r, const json_t *schema, const char *const *known,
                          const char *with)
{
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)schema, name, value)
    {
        if (is_among(name, describing) || is_among(name, known) || strncmp(name, "x-", 2) == 0)
            continue;
        if (with != NULL)
            (void)lx_ast_fail(r->a, "%.40s next to %s is not supported", name, with);
        else
            (void)lx_ast_fail(r->a, "the keyword %.60s is not supported", name);
    }
    if (get(schema, "uniqueItems") != NULL && !json_is_false(get(schema, "uniqueItems")))
        (void)lx_ast_fail(r->a, "the keyword uniqueItems is not supported");
    if (get(schema, "nullable") != NULL && !json_is_false(get(schema, "nullable")))
        (void)lx_ast_fail(r->a, "the keyword nullable is not supported: add \"null\" to type");
}

/* --- objects --- */

static int32_t cat(reader *r, int32_t one, int32_t other)
{
    return lx_ast_pair(r->a, CAT, one, other);
}

/* The value's text, without white space; the caller frees it. */
static char *dump(const json_t *value, size_t digits, size_t *n)
{
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits);
    *n = json_dumpb(value, NULL, 0, flags);
    char *text = *n > 0 ? malloc(*n) : NULL;
    if (text != NULL && json_dumpb(value, text, *n, flags) == *n)
        return text;
    free(text);
    return NULL;
}

/* Python's words, which are as long as JSON's, in the place of true, false and null. */
static void spell_python(char *text, size_t n)
{
    static const char *const words[][2] = {{"true", "True"}, {"false", "False"}, {"null", "None"}};
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"')
            quoted = !quoted;
        else if (quoted && text[i] == '\\')
            i++;
        for (size_t k = 0; !quoted && i < n && k < sizeof words / sizeof *words; k++) {
            size_t bytes = strlen(words[k][0]);
            if (n - i >= bytes && memcmp(text + i, words[k][0], bytes) == 0)
                memcpy(text + i, words[k][1], bytes);
        }
    }
}

/* Adds the only way to write a value: numbers are as short as they are exact. */
static void spell_value(reader *r, const json_t *value, lx_grammar_texts *list)
{
    enum { SHORT = 15, EXACT = 17 };
    json_error_t e;
    size_t n = 0;
    char *text = dump(value, SHORT, &n);
    json_t *again = text != NULL ? lx_json_load(text, n, JSON_DECODE_ANY, &e) : NULL;
    if (text != NULL && (again == NULL || !json_equal(again, value))) {
        free(text);
        text = !lx_json_starved() ? dump(value, EXACT, &n) : NULL;
    }
    json_decref(again);
    if (text == NULL)
        r->a->status = lx_fail(r->a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
    if (text != NULL && r->rules.python)
        spell_python(text, n);
    if (text != NULL)
        lx_grammar_texts_add(r->a, list, text, n);
    free(text);
}

static int32_t spell_name(reader *r, const char *name)
{
    lx_grammar_texts one = {0};
    json_t *text = json_string(name);
    spell_value(r, text, &one);
    json_decref(text);
    return lx_grammar_texts_take(r->a, &one);
}

static int32_t member(reader *r, int32_t name, const json_t *schema)
{
    int32_t colon = lx_ast_word(r->a, ":");
    int32_t head = cat(r, name, cat(r, colon, lx_json_space(r->a, &r->rules)));
    return cat(r, head, read_schema(r, schema));
}

static bool is_named(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (is_text(json_array_get(list, i), name))
            return true;
    }
    return false;
}

/* Strings that are none of the names from the byte `at` on; all of these share the bytes before. */
static int32_t other_names(reader *r, const char *const *names, size_t n, size_t at, int32_t depth)
{
    lx_charset others = {.at = {{' ', LX_MAX_CODEPOINT}}, .n = 1};
    lx_ast_trees ways = {0};
    lx_ast *a = r->a;
    if (depth > MOST_KEY)
        return lx_ast_fail(a, "a name next to additionalProperties has more than %d characters",
                           MOST_KEY);
    const lx_charset any = {.at = {{0, LX_MAX_CODEPOINT}}, .n = 1};
    bool ends = n > 0 && names[0][at] == '\0';
    size_t i = ends;
    while (i < n && a->status == LX_OK) {
        size_t next = at, end = i + 1;
        int32_t c = lx_utf8_next(names[i], strlen(names[i]), &next);
        while (end < n && memcmp(names[end] + at, names[i] + at, next - at) == 0)
            end++;
        if (c >= ' ' && c != '"' && c != '\\')
            lx_ast_collect(a, &ways,
                           cat(r, lx_ast_text(a, names[i] + at, next - at),
                               other_names(r, names + i, end - i, next, depth + 1)));
        lx_charset_cut(a, &others, c, c);
        i = end;
    }
    lx_charset_cut(a, &others, '"', '"');
    lx_charset_cut(a, &others, '\\', '\\');
    lx_ast_collect(a, &ways,
                   cat(r, lx_ast_set(a, others.at, others.n),
                       lx_ast_repeat(a, lx_json_spell(a, &any), 0, -1)));
    if (!ends)
        lx_ast_collect(a, &ways, 0);
    return lx_ast_take(a, ALT, &ways);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A name by the schema of propertyNames. */
static int32_t read_name(reader *r, const json_t *names)
{
    static const char *const known[] = {"type",      "pattern",   "format",
                                        "minLength", "maxLength", NULL};
    if (!json_is_object(names) ||
        (get(names, "type") != NULL && !is_text(get(names, "type"), "string")))
        return lx_ast_fail(r->a, "propertyNames must be a schema of strings");
    check_members(r, names, known, "propertyNames");
    return lx_schema_string(r->a, &r->rules, names);
}

/* Members that `properties` does not name. */
static int32_t read_others(reader *r, const json_t *properties, const json_t *allowed,
                           const json_t *schema)
{
    if (allowed != NULL)
        return member(r, read_name(r, allowed), schema);
    size_t n = 0;
    const char **names = calloc(json_object_size(properties) + 1, sizeof *names);
    if (names == NULL) {
        r->a->status = lx_fail(r->a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
        return 0;
    }
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)properties, name, value) names[n++] = name;
    qsort(names, n, sizeof *names, by_text);
    int32_t key = n > 0 ? lx_json_quoted(r->a, other_names(r, names, n, 0, 0))
                        : lx_json_string(r->a, &r->rules);
    free(names);
    return member(r, key, schema);
}

/* An object that may be changed; NULL: a new one. */
static json_t *copy_of(reader *r, const json_t *object)
{
    json_t *copy = object != NULL ? json_copy((json_t *)object) : json_object();
    if (copy == NULL || json_object_size(copy) != json_object_size(object)) /* some fit no more */
        r->a->status = lx_fail(r->a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
    return copy;
}

/* Adds a member that properties does not name to them; `others` is its schema. */
static void add_property(reader *r, json_t *properties, const char *name, const json_t *others)
{
    json_t *schema = others != NULL ? json_incref((json_t *)others) : json_true();
    if (get(properties, name) != NULL)
        json_decref(schema);
    else if (json_object_set_new(properties, name, schema) != 0)
        r->a->status = lx_fail(r->a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
}

/* The names of `required` as an object, which finds each at once. Names that `properties` lacks are
   added there. The caller frees it. */
static json_t *required_names(reader *r, json_t *properties, const json_t *required,
                              const json_t *others)
{
    json_t *names = json_object();
    if (names == NULL)
        r->a->status = lx_fail(r->a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
    if (required != NULL && !json_is_array(required))
        (void)lx_ast_fail(r->a, "required must be a list of strings");
    for (size_t i = 0; i < json_array_size(required) && r->a->status == LX_OK; i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (name == NULL)
            (void)lx_ast_fail(r->a, "required must be a list of strings");
        else if (get(properties, name) == NULL && json_is_false(others))
            (void)lx_ast_fail(r->a, "required has %.60s, which properties does not have", name);
        else if (json_object_set_new(names, name, json_true()) != 0)
            r->a->status = lx_fail(r->a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
        else
            add_property(r, properties, name, others);
    }
    return names;
}

/* propertyNames with an enum: these are all properties. Returns whether it is so. */
static bool list_properties(reader *r, json_t *properties, const json_t *names,
                            const json_t *others)
{
    static const char *const known[] = {"type", "enum", NULL};
    const json_t *list = get(names, "enum");
    if (list == NULL)
        return false;
    check_members(r, names, known, "enum");
    for (size_t i = 0; i < json_array_size(list) && r->a->status == LX_OK; i++) {
        if (json_is_string(json_array_get(list, i)))
            add_property(r, properties, json_string_value(json_array_get(list, i)), others);
    }
    return true;
}

/* Whether propertyNames allows every name. */
static bool allows_all(const json_t *names)
{
    return names == NULL || json_is_true(names) ||
           (json_is_object(names) &&
            json_object_size(names) == (size_t)is_text(get(names, "type"), "string"));
}

/* A rule of its own, since the rest of an object stands after each member that may be left out. */
static int32_t as_rule(reader *r, int32_t tree)
{
    int32_t rule = lx_ast_rule(r->a);
    lx_ast_define(r->a, rule, tree);
    return lx_ast_call(r->a, rule);
}

/*
 * The members from the last to the first. `after` is the rest of an object after a member, and
 * `first` its members where none stands before them.
 */
static int32_t read_members(reader *r, const json_t *properties, const json_t *required,
                            const json_t *names_of_others, const json_t *others)
{
    lx_ast *a = r->a;
    size_t n = json_object_size(properties);
    int32_t after = 0, first = 0, *members = calloc(n + 1, sizeof *members);
    const char **names = calloc(n + 1, sizeof *names);
    if (members == NULL || names == NULL)
        a->status = lx_fail(a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
    const char *name = NULL;
    json_t *schema = NULL;
    size_t k = 0;
    json_object_foreach((json_t *)properties, name, schema)
    {
        if (a->status != LX_OK)
            break;
        members[k] = as_rule(r, member(r, spell_name(r, name), schema));
        names[k++] = name;
    }
    if (others != NULL && a->status == LX_OK) {
        int32_t other = as_rule(r, read_others(r, properties, names_of_others, others));
        after = lx_ast_repeat(a, lx_json_next(a, &r->rules, other), 0, -1);
        first = lx_ast_optional(a, cat(r, other, after));
    }
    for (size_t i = n; i-- > 0 && a->status == LX_OK;) {
        int32_t from = cat(r, members[i], after), next = lx_json_next(a, &r->rules, members[i]);
        bool needed = get(required, names[i]) != NULL;
        first = needed ? from : lx_ast_pair(a, ALT, from, first);
        after = as_rule(r, cat(r, needed ? next : lx_ast_optional(a, next), after));
    }
    free(members);
    free(names);
    return first;
}

static int32_t read_object(reader *r, const json_t *schema)
{
    const json_t *given = get(schema, "properties"), *required = get(schema, "required");
    const json_t *others = get(schema, "additionalProperties"),
                 *names = get(schema, "propertyNames");
    lx_ast *a = r->a;
    if (allows_all(names))
        names = NULL;
    if (given == NULL && required == NULL && names == NULL &&
        (others == NULL || json_is_true(others)))
        return lx_json_any_object(a, &r->rules);
    if (given != NULL && !json_is_object(given))
        return lx_ast_fail(a, "properties must be an object");
    if (names != NULL && json_object_size(given) > 0)
        return lx_ast_fail(a, "propertyNames next to properties is not supported");
    json_t *properties = copy_of(r, given);
    bool listed = names != NULL && list_properties(r, properties, names, others);
    const json_t *rest = listed ? json_false() : others;
    json_t *needed = required_names(r, properties, required, rest);
    if (names != NULL && !listed && json_object_size(needed) > 0)
        (void)lx_ast_fail(a, "propertyNames next to required is not supported");
    bool none = json_is_false(rest) || (rest == NULL && names == NULL);
    int32_t members = read_members(r, properties, needed, listed ? NULL : names,
                                   none           ? NULL
                                   : rest != NULL ? rest
                                                  : json_true());
    json_decref(needed);
    json_decref(properties);
    int32_t space = lx_json_space(a, &r->rules);
    return cat(r, cat(r, lx_ast_word(a, "{"), space),
               cat(r, members, cat(r, space, lx_ast_word(a, "}"))));
}

/* --- arrays --- */

/* The items of prefixItems stand in every array. */
static int32_t read_array(reader *r, const json_t *schema)
{
    const json_t *prefix = get(schema, "prefixItems"), *items = get(schema, "items");
    int32_t least = 0, most = -1, n = (int32_t)json_array_size(prefix), head = 0;
    lx_ast *a = r->a;
    if (!lx_schema_counts(r->a, schema, "minItems", "maxItems", &least, &most))
        return 0;
    if (prefix != NULL && (!json_is_array(prefix) || (most >= 0 && most < n)))
        return lx_ast_fail(a, "prefixItems must be a list of at most maxItems schemas");
    if (prefix == NULL && items == NULL && least == 0 && most < 0)
        return lx_json_any_array(a, &r->rules);
    if (json_is_false(items) || (prefix != NULL && items == NULL))
        most = least > n ? lx_ast_fail(a, "minItems is more than there are items") : n;
    for (int32_t i = 0; i < n && a->status == LX_OK; i++) {
        int32_t item = read_schema(r, json_array_get(prefix, (size_t)i));
        head = i == 0 ? item : cat(r, head, lx_json_next(a, &r->rules, item));
    }
    int32_t rest = 0, space = lx_json_space(a, &r->rules);
    if (most < 0 || most > n) {
        int32_t item =
            items != NULL ? as_rule(r, read_schema(r, items)) : lx_json_any_value(a, &r->rules);
        int32_t left = least > n ? least - n : 0, right = most < 0 ? -1 : most - n;
        rest = n > 0 ? lx_ast_repeat(a, lx_json_next(a, &r->rules, item), left, right)
                     : lx_json_items(a, &r->rules, item, left, right);
    }
    int32_t begin = cat(r, lx_ast_word(a, "["), space);
    int32_t end = n > 0 ? cat(r, space, lx_ast_word(a, "]")) : lx_ast_word(a, "]");
    return cat(r, begin, cat(r, cat(r, head, rest), end));
}

/* --- schemas --- */

static bool has_type(const json_t *types, const char *type)
{
    return types == NULL || is_text(types, type) || is_named(types, type);
}

static bool value_has_type(const json_t *types, const json_t *value)
{
    return has_type(types, json_is_object(value)    ? "object"
                           : json_is_array(value)   ? "array"
                           : json_is_string(value)  ? "string"
                           : json_is_boolean(value) ? "boolean"
                           : json_is_number(value)  ? "number"
                                                    : "null") ||
           (json_is_integer(value) && has_type(types, "integer"));
}

static int32_t read_enum(reader *r, const json_t *schema)
{
    static const char *const known[] = {"enum", "const", "type", NULL};
    const json_t *list = get(schema, "enum"), *only = get(schema, "const");
    lx_grammar_texts ways = {0};
    check_members(r, schema, known, only != NULL ? "const" : "enum");
    if (list != NULL && !json_is_array(list))
        return lx_ast_fail(r->a, "enum must be a list");
    for (size_t i = 0; i < (list != NULL ? json_array_size(list) : 1); i++) {
        const json_t *value = list != NULL ? json_array_get(list, i) : only;
        bool fits =
            value_has_type(get(schema, "type"), value) && (only == NULL || json_equal(value, only));
        if (fits && r->a->status == LX_OK)
            spell_value(r, value, &ways);
    }
    if (ways.n == 0)
        (void)lx_ast_fail(r->a, "no value of enum or const is allowed");
    return lx_grammar_texts_take(r->a, &ways);
}

static int32_t read_type(reader *r, const json_t *schema, const char *type)
{
    if (strcmp(type, "object") == 0)
        return read_object(r, schema);
    if (strcmp(type, "array") == 0)
        return read_array(r, schema);
    if (strcmp(type, "string") == 0)
        return lx_schema_string(r->a, &r->rules, schema);
    if (strcmp(type, "number") == 0 || strcmp(type, "integer") == 0)
        return lx_schema_number(r->a, &r->rules, schema, type[0] == 'i');
    if (strcmp(type, "null") == 0)
        return lx_json_null(r->a, &r->rules);
    if (strcmp(type, "boolean") == 0)
        return lx_json_boolean(r->a, &r->rules);
    return lx_ast_fail(r->a, "the type %.60s is unknown", type);
}

/* The type that the keywords of a schema without a type are about. */
static const char *implied_type(const json_t *schema)
{
    static const char *const of[][2] = {{"properties", "object"},
                                        {"required", "object"},
                                        {"additionalProperties", "object"},
                                        {"items", "array"},
                                        {"prefixItems", "array"},
                                        {"minItems", "array"},
                                        {"maxItems", "array"},
                                        {"minLength", "string"},
                                        {"maxLength", "string"},
                                        {"pattern", "string"},
                                        {"format", "string"},
                                        {"minimum", "number"},
                                        {"maximum", "number"},
                                        {"exclusiveMinimum", "number"},
                                        {"exclusiveMaximum", "number"},
                                        {"multipleOf", "number"},
                                        {"propertyNames", "object"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        if (get(schema, of[i][0]) != NULL)
            return of[i][1];
    }
    return NULL;
}

static int32_t read_types(reader *r, const json_t *schema)
{
    const json_t *types = get(schema, "type");
    const char *implied = types == NULL ? implied_type(schema) : NULL;
    lx_ast_trees ways = {0};
    check_members(r, schema, of_values, NULL);
    if (types == NULL && implied == NULL)
        return lx_json_any_value(r->a, &r->rules);
    if (!json_is_array(types))
        return read_type(r, schema,
                         implied != NULL         ? implied
                         : json_is_string(types) ? json_string_value(types)
                                                 : "that is no string");
    for (size_t i = 0; i < json_array_size(types) && r->a->status == LX_OK; i++) {
        const json_t *type = json_array_get(types, i);
        lx_ast_collect(r->a, &ways,
                       read_type(r, schema, json_is_string(type) ? json_string_value(type) : ""));
    }
    return lx_ast_take(r->a, ALT, &ways);
}

/* anyOf, oneOf or allOf; of allOf one schema is read. */
static int32_t read_ways(reader *r, const json_t *schema, const char *name)
{
    const char *const known[] = {name, NULL};
    const json_t *list = get(schema, name);
    lx_ast_trees ways = {0};
    check_members(r, schema, known, name);
    if (!json_is_array(list) || json_array_size(list) == 0)
        return lx_ast_fail(r->a, "%s must be a list of schemas", name);
    if (strcmp(name, "allOf") == 0 && json_array_size(list) > 1)
        return lx_ast_fail(r->a, "allOf of more than one schema is not supported");
    for (size_t i = 0; i < json_array_size(list) && r->a->status == LX_OK; i++)
        lx_ast_collect(r->a, &ways, read_schema(r, json_array_get(list, i)));
    return lx_ast_take(r->a, ALT, &ways);
}

/* --- references --- */

/* The next name of a JSON pointer, without its escapes; false: it is too long. */
static bool next_name(const char **at, char *name, size_t room)
{
    size_t n = 0;
    for (++*at; **at != '\0' && **at != '/'; ++*at) {
        bool escape = **at == '~' && ((*at)[1] == '0' || (*at)[1] == '1');
        if (n + 1 >= room)
            return false;
        *at += escape;
        name[n++] = !escape ? **at : **at == '0' ? '~' : '/';
    }
    name[n] = '\0';
    return true;
}

/* The item with that number, of a list. */
static const json_t *item_at(const json_t *list, const char *number)
{
    bool is_number = *number != '\0' && strspn(number, "0123456789") == strlen(number);
    return is_number ? json_array_get(list, strtoul(number, NULL, 10)) : NULL;
}

static const json_t *find(const reader *r, const char *pointer)
{
    const json_t *at = r->root;
    char name[256];
    while (*pointer == '/' && at != NULL) {
        if (!next_name(&pointer, name, sizeof name))
            return NULL;
        at = json_is_array(at) ? item_at(at, name) : get(at, name);
    }
    return *pointer == '\0' ? at : NULL;
}

static int32_t read_reference(reader *r, const json_t *schema)
{
    static const char *const known[] = {"$ref", NULL};
    const json_t *ref = get(schema, "$ref");
    if (!json_is_string(ref))
        return lx_ast_fail(r->a, "$ref must be a string");
    const char *text = json_string_value(ref);
    const json_t *target = text[0] == '#' ? find(r, text + 1) : NULL;
    check_members(r, schema, known, "$ref");
    if (target == NULL)
        return lx_ast_fail(r->a, "the $ref %.60s is not in the schema", text);
    for (int32_t i = 0; i < r->n_refs; i++) {
        if (r->refs[i].schema == target)
            return lx_ast_call(r->a, r->refs[i].rule);
    }
    if (r->n_refs == MOST_REFS)
        return lx_ast_fail(r->a, "more than %d schemas are referred to", MOST_REFS);
    int32_t rule = lx_ast_rule(r->a);
    r->refs[r->n_refs++] = (reference){target, rule};
    lx_ast_define(r->a, rule, read_schema(r, target));
    return lx_ast_call(r->a, rule);
}

static int32_t read_any_schema(reader *r, const json_t *schema)
{
    static const char *const ways[] = {"anyOf", "oneOf", "allOf"};
    if (json_is_boolean(schema))
        return json_is_true(schema) ? lx_json_any_value(r->a, &r->rules)
                                    : lx_ast_list(r->a, ALT, NULL, 0);
    if (!json_is_object(schema))
        return lx_ast_fail(r->a, "a schema must be an object");
    if (get(schema, "$ref") != NULL)
        return read_reference(r, schema);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (get(schema, ways[i]) != NULL)
            return read_ways(r, schema, ways[i]);
    }
    if (get(schema, "enum") != NULL || get(schema, "const") != NULL)
        return read_enum(r, schema);
    return read_types(r, schema);
}

static int32_t read_schema(reader *r, const json_t *schema)
{
    if (r->a->status != LX_OK)
        return 0;
    if (r->depth == LX_AST_MOST_NESTED)
        return lx_ast_fail(r->a, "more than %d schemas are nested", LX_AST_MOST_NESTED);
    r->depth++;
    int32_t tree = read_any_schema(r, schema);
    r->depth--;
    return tree;
}

static json_t *load(lx_ast *a, const char *text, size_t bytes)
{
    json_error_t e;
    json_t *value = lx_json_load(text, bytes, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &e);
    if (value == NULL && lx_json_starved())
        a->status = lx_fail(a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
    else if (value == NULL)
        (void)lx_ast_fail(a, "it is not valid JSON: %s", e.text);
    return value;
}

int32_t lx_schema_tree(lx_ast *a, const json_t *root, const json_t *schema, bool python)
{
    reader *r = calloc(1, sizeof *r);
    if (r == NULL) {
        a->status = lx_fail(a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
        return 0;
    }
    r->a = a;
    r->root = root;
    r->rules.python = python;
    int32_t tree = schema != NULL ? read_schema(r, schema) : lx_json_any_object(a, &r->rules);
    free(r);
    return tree;
}

int32_t lx_grammar_schema_tree(lx_ast *a, const char *text, size_t bytes)
{
    json_t *root = bytes > 0 ? load(a, text, bytes) : NULL;
    int32_t tree = a->status == LX_OK ? lx_schema_tree(a, root, root, false) : 0;
    json_decref(root);
    return tree;
}

void lx_grammar_read_choice(lx_ast *a, const char *text, size_t bytes)
{
    json_t *list = load(a, text, bytes);
    lx_grammar_texts ways = {0};
    if (a->status == LX_OK && (!json_is_array(list) || json_array_size(list) == 0))
        (void)lx_ast_fail(a, "it must be a list of texts");
    for (size_t i = 0; i < json_array_size(list) && a->status == LX_OK; i++) {
        const json_t *one = json_array_get(list, i);
        if (json_string_length(one) == 0)
            (void)lx_ast_fail(a, "every choice must be a text that is not empty");
        lx_grammar_texts_add(a, &ways, json_string_value(one), json_string_length(one));
    }
    lx_ast_define(a, 0, lx_grammar_texts_take(a, &ways));
    json_decref(list);
}
