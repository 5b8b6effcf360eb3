/* The table of request fields: no name twice on a route, everything that is refused says why, and
   web/openapi.json describes exactly the fields that are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "server/json/request_fields.h"

/* Where a route's schema is, in the order of lx_json_route. */
static const struct {
    const char *path;
    bool form;
} routes[LX_JSON_ROUTES] = {
    [LX_JSON_COMPLETIONS] = {"/v1/completions", false},
    [LX_JSON_CHAT] = {"/v1/chat/completions", false},
    [LX_JSON_RESPONSES] = {"/v1/responses", false},
    [LX_JSON_MESSAGES] = {"/v1/messages", false},
    [LX_JSON_MESSAGE_TOKENS] = {"/v1/messages/count_tokens", false},
    [LX_JSON_GENERATIONS] = {"/v1/images/generations", false},
    [LX_JSON_EDITS] = {"/v1/images/edits", false},
    [LX_JSON_EDITS_FORM] = {"/v1/images/edits", true},
    [LX_JSON_SCORE] = {"/v1/score", false},
    [LX_JSON_SCORE_FORM] = {"/v1/score", true},
    [LX_JSON_STATES] = {"/v1/states", false},
    [LX_JSON_FORK] = {"/v1/states/{id}/fork", false},
    [LX_JSON_TOKENIZE] = {"/tokenize", false},
    [LX_JSON_DETOKENIZE] = {"/detokenize", false},
    [LX_JSON_TEMPLATE] = {"/apply-template", false},
    [LX_JSON_TRANSCRIPTIONS] = {"/v1/audio/transcriptions", true},
    [LX_JSON_CONVERSATION] = {"/v1/conversations", false},
    [LX_JSON_METADATA] = {"/v1/conversations/{id}", false},
    [LX_JSON_ITEMS] = {"/v1/conversations/{id}/items", false},
    [LX_JSON_RELOAD] = {"/v1/models/reload", false},
};

static bool is_on(const lx_field *f, int route)
{
    return (f->routes >> route & 1) != 0;
}

static void test_every_name_comes_once(void **state)
{
    (void)state;
    const lx_field *f, *g;
    for (int32_t i = 0; (f = lx_json_field_row(i)) != NULL; i++) {
        for (int32_t k = i + 1; (g = lx_json_field_row(k)) != NULL; k++)
            if (strcmp(f->name, g->name) == 0 && (f->routes & g->routes) != 0)
                fail_msg("%s is twice on a route", f->name);
        if (f->kind == LX_FIELD_REFUSED && f->why == NULL)
            fail_msg("%s is refused without a reason", f->name);
        if ((f->kind == LX_FIELD_OWN) != (f->read != NULL))
            fail_msg("%s: only fields of their own type have a reader", f->name);
    }
}

/* --- openapi.json --- */

static json_t *document;

static int load(void **state)
{
    (void)state;
    json_error_t e;
    document = json_load_file(OPENAPI, 0, &e);
    return document == NULL;
}

static int unload(void **state)
{
    (void)state;
    json_decref(document);
    return 0;
}

static const json_t *properties_of(int route)
{
    const json_t *path = json_object_get(json_object_get(document, "paths"), routes[route].path);
    const json_t *body = json_object_get(json_object_get(path, "post"), "requestBody");
    const json_t *content =
        json_object_get(json_object_get(body, "content"),
                        routes[route].form ? "multipart/form-data" : "application/json");
    const char *ref =
        json_string_value(json_object_get(json_object_get(content, "schema"), "$ref"));
    assert_non_null(ref);
    const json_t *schemas = json_object_get(json_object_get(document, "components"), "schemas");
    const json_t *schema = json_object_get(schemas, strrchr(ref, '/') + 1);
    return json_object_get(schema, "properties");
}

/* A form names its lists NAME[]. */
static const json_t *property(int route, const char *name)
{
    char list[80];
    const json_t *found = json_object_get(properties_of(route), name);
    (void)snprintf(list, sizeof list, "%s[]", name);
    return found != NULL ? found : json_object_get(properties_of(route), list);
}

static bool has_type(const json_t *schema, const char *type)
{
    const json_t *types = json_object_get(schema, "type");
    if (json_is_string(types))
        return strcmp(json_string_value(types), type) == 0;
    for (size_t i = 0; i < json_array_size(types); i++)
        if (strcmp(json_string_value(json_array_get(types, i)), type) == 0)
            return true;
    return false;
}

static bool has_range(const json_t *schema, const lx_field *f)
{
    const json_t *least = json_object_get(schema, "minimum");
    const json_t *most = json_object_get(schema, "maximum");
    bool same = json_is_number(least) && json_number_value(least) == f->least;
    if (f->most == LX_FIELD_MAX_N) /* the server's */
        return same && most == NULL;
    return same && json_is_number(most) && json_number_value(most) == f->most;
}

static bool is_described(const json_t *schema, const lx_field *f)
{
    switch (f->kind) {
    case LX_FIELD_BOOL:
    case LX_FIELD_NOT:
        return has_type(schema, "boolean");
    case LX_FIELD_INT32:
    case LX_FIELD_INT64:
        return has_type(schema, "integer") && has_range(schema, f);
    case LX_FIELD_REAL:
        return has_type(schema, "number") && has_range(schema, f);
    case LX_FIELD_TEXT:
    case LX_FIELD_LABEL:
        return has_type(schema, "string");
    default:
        return true;
    }
}

static void test_every_field_that_is_read_is_described(void **state)
{
    (void)state;
    const lx_field *f;
    int wrong = 0;
    for (int route = 0; route < LX_JSON_ROUTES; route++) {
        for (int32_t i = 0; (f = lx_json_field_row(i)) != NULL; i++) {
            if (!is_on(f, route) || f->kind >= LX_FIELD_REFUSED)
                continue;
            const json_t *schema = property(route, f->name);
            if (schema != NULL && is_described(schema, f))
                continue;
            print_error("%s%s: %s is %s\n", routes[route].path, routes[route].form ? " (form)" : "",
                        f->name, schema == NULL ? "missing" : "of another type or range");
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static bool is_row(int route, const char *name)
{
    size_t n = strcspn(name, "[");
    const lx_field *f;
    for (int32_t i = 0; (f = lx_json_field_row(i)) != NULL; i++)
        if (is_on(f, route) && strlen(f->name) == n && strncmp(f->name, name, n) == 0)
            return true;
    return false;
}

static void test_everything_that_is_described_is_known(void **state)
{
    (void)state;
    int wrong = 0;
    for (int route = 0; route < LX_JSON_ROUTES; route++) {
        const char *name;
        json_t *schema;
        json_object_foreach((json_t *)properties_of(route), name, schema)
        {
            const char *format = json_string_value(json_object_get(schema, "format"));
            bool file = format != NULL && strcmp(format, "binary") == 0;
            if (file || is_row(route, name))
                continue;
            print_error("%s: %s is in no row\n", routes[route].path, name);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_name_comes_once),
        cmocka_unit_test(test_every_field_that_is_read_is_described),
        cmocka_unit_test(test_everything_that_is_described_is_known),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
