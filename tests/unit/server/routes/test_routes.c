/* The route table: the handler of each URL, 404, 405 with Allow, HEAD and OPTIONS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "server/routes/assets.h"
#include "server/routes/routes.h"

static void test_known_routes(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path;
        lx_handler handler;
    } routes[] = {
        {"GET", "/", lx_handle_page},
        {"POST", "/", lx_handle_form},
        {"POST", "/v1/completions", lx_handle_completions},
        {"POST", "/v1/chat/completions", lx_handle_chat},
        {"POST", "/v1/responses", lx_handle_responses},
        {"POST", "/v1/messages", lx_handle_messages},
        {"POST", "/v1/messages/count_tokens", lx_handle_message_tokens},
        {"POST", "/v1/images/generations", lx_handle_images_generations},
        {"POST", "/v1/images/edits", lx_handle_images_edits},
        {"POST", "/v1/score", lx_handle_score},
        {"POST", "/tokenize", lx_handle_tokenize},
        {"POST", "/detokenize", lx_handle_detokenize},
        {"POST", "/apply-template", lx_handle_apply_template},
        {"GET", "/v1/models", lx_handle_models},
        {"HEAD", "/v1/models", lx_handle_models},
        {"GET", "/v1/models/couplet", lx_handle_model},
        {"POST", "/v1/models/reload", lx_handle_reload},
        {"GET", "/v1/models/reload", NULL}, /* no model's name: the path is a route's own */
        {"GET", "/health", lx_handle_health},
        {"GET", "/readyz", lx_handle_health},
        {"HEAD", "/livez", lx_handle_livez},
        {"GET", "/metrics", lx_handle_metrics},
        {"GET", "/app.js", lx_handle_asset},
        {"HEAD", "/style.css", lx_handle_asset},
    };
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        lx_route_match m = lx_routes_find(routes[i].method, routes[i].path);
        if (m.handler != routes[i].handler)
            fail_msg("%s %s goes elsewhere", routes[i].method, routes[i].path);
    }
}

static void test_who_takes_uploads(void **state)
{
    (void)state;
    assert_true(lx_routes_take_uploads("POST", "/v1/audio/transcriptions"));
    assert_true(lx_routes_take_uploads("POST", "/v1/images/edits"));
    assert_true(lx_routes_take_uploads("POST", "/v1/score"));
    assert_false(lx_routes_take_uploads("PUT", "/v1/images/edits"));
    assert_false(lx_routes_take_uploads("POST", "/v1/images/generations"));
    assert_false(lx_routes_take_uploads("POST", "/v1/completions"));
    assert_false(lx_routes_take_uploads("POST", "/nowhere"));
    assert_false(lx_routes_take_uploads("", ""));
}

/* Requests that the connections' threads answer themselves, because they wait for no work. Requests
   that work or wait go to the workers. */
static void test_what_is_quick(void **state)
{
    (void)state;
    static const char *const paths[] = {"/",        "/livez",     "/readyz",      "/health",
                                        "/metrics", "/v1/models", "/v1/capacity", "/nowhere"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_true(lx_routes_is_quick("GET", paths[i]));
    assert_true(lx_routes_is_quick("OPTIONS", "/v1/completions"));
    assert_false(lx_routes_is_quick("GET", "/link.png"));
    assert_false(lx_routes_is_quick("GET", "/v1/states/a"));
    const char *method = NULL, *pattern = NULL;
    for (int32_t i = 0; lx_routes_at(i, &method, &pattern); i++)
        assert_true(strcmp(method, "GET") == 0 || !lx_routes_is_quick(method, pattern));
}

static void test_tail_is_one_segment(void **state)
{
    (void)state;
    assert_string_equal(lx_routes_find("GET", "/v1/models/a-b").tail, "a-b");
    assert_string_equal(lx_routes_find("GET", "/v1/models/").allow, "");
    assert_string_equal(lx_routes_find("GET", "/v1/models/a/b").allow, "");
}

static void test_two_segments(void **state)
{
    (void)state;
    lx_route_match m = lx_routes_find("GET", "/v1/conversations/a/items/b");
    assert_ptr_equal(m.handler, lx_handle_item_get);
    assert_string_equal(m.tail, "a/items/b");
    assert_ptr_equal(lx_routes_find("GET", "/v1/conversations/a/items").handler,
                     lx_handle_items_list);
    assert_string_equal(lx_routes_find("GET", "/v1/conversations/a/items/").allow, "");
    assert_string_equal(lx_routes_find("GET", "/v1/conversations//items/b").allow, "");
    assert_string_equal(lx_routes_find("GET", "/v1/conversations/a/item/b").allow, "");
    assert_string_equal(lx_routes_find("GET", "/v1/conversations/a/items/b/c").allow, "");
}

static void test_unknown_paths(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "",           "/x",       "//",         "/v1",      "/v1/completions/",
        "/V1/models", "/health/", "/../app.js", "/app.js/", "app.js"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        lx_route_match m = lx_routes_find("GET", paths[i]);
        if (m.handler != NULL || m.allow[0] != '\0')
            fail_msg("\"%s\" is a route", paths[i]);
    }
}

static void test_allow(void **state)
{
    (void)state;
    assert_string_equal(lx_routes_find("PUT", "/").allow, "GET, HEAD, POST, OPTIONS");
    assert_string_equal(lx_routes_find("GET", "/v1/completions").allow, "POST, OPTIONS");
    assert_string_equal(lx_routes_find("POST", "/app.js").allow, "GET, HEAD, OPTIONS");
    assert_null(lx_routes_find("get", "/").handler);
    assert_null(lx_routes_find("HEAD", "/v1/completions").handler);
}

static lx_response dispatch(const char *method, const char *path)
{
    lx_request rq = {.method = method,
                     .path = path,
                     .tail = "",
                     .content_type = "",
                     .accept_encoding = "",
                     .if_none_match = "",
                     .id = "t",
                     .body = ""};
    lx_response rs = {0};
    lx_routes_dispatch(NULL, &rq, &rs);
    return rs;
}

static const char *header(const lx_response *rs, const char *name)
{
    for (int32_t i = 0; i < rs->n_headers; i++)
        if (strcmp(rs->headers[i].name, name) == 0)
            return rs->headers[i].value;
    return "";
}

static void test_dispatch_without_a_handler(void **state)
{
    (void)state;
    lx_response rs = dispatch("GET", "/nowhere");
    assert_int_equal(rs.status, 404);
    assert_non_null(strstr(rs.body, "\"code\":\"not_found\""));
    free(rs.body);
    rs = dispatch("DELETE", "/v1/models");
    assert_int_equal(rs.status, 405);
    assert_string_equal(header(&rs, "Allow"), "GET, HEAD, OPTIONS");
    assert_non_null(strstr(rs.body, "\"code\":\"method_not_allowed\""));
    free(rs.body);
    rs = dispatch("OPTIONS", "/v1/completions");
    assert_int_equal(rs.status, 204);
    assert_string_equal(header(&rs, "Allow"), "POST, OPTIONS");
    assert_null(rs.body);
}

/* The request's own word counts, and without one no request has the right. */
static void test_what_acts_on_the_server_wants_the_right(void **state)
{
    (void)state;
    lx_response rs = dispatch("POST", "/v1/models/reload");
    assert_int_equal(rs.status, 403);
    assert_non_null(strstr(rs.body, "\"type\":\"permission_error\""));
    assert_non_null(strstr(rs.body, "\"code\":\"admin_key_needed\""));
    free(rs.body);
    rs = dispatch("GET", "/v1/models/reload");
    assert_int_equal(rs.status, 405);
    free(rs.body);
}

static void test_assets(void **state)
{
    (void)state;
    lx_response rs = dispatch("GET", "/style.css");
    assert_int_equal(rs.status, 200);
    assert_string_equal(rs.content_type, "text/css; charset=utf-8");
    assert_true(rs.body_bytes > 0);
    char etag[256];
    (void)snprintf(etag, sizeof etag, "%s", header(&rs, "ETag"));
    lx_request rq = {.method = "GET",
                     .path = "/style.css",
                     .tail = "",
                     .content_type = "",
                     .accept_encoding = "",
                     .if_none_match = etag,
                     .id = "t",
                     .body = ""};
    rs = (lx_response){0};
    lx_routes_dispatch(NULL, &rq, &rs);
    assert_int_equal(rs.status, 304);
    assert_int_equal(rs.body_bytes, 0);
    rq.if_none_match = "\"another\"";
    rs = (lx_response){0};
    lx_routes_dispatch(NULL, &rq, &rs);
    assert_int_equal(rs.status, 200);
}

/* Other pages than "/" have a path without an ending. */
static void test_assets_by_kind(void **state)
{
    (void)state;
    lx_response rs = dispatch("GET", "/docs");
    assert_int_equal(rs.status, 200);
    assert_string_equal(rs.content_type, "text/html; charset=utf-8");
    assert_non_null(strstr(header(&rs, "Content-Security-Policy"), "default-src 'none'"));
    rs = dispatch("GET", "/card.png");
    assert_int_equal(rs.status, 200);
    assert_string_equal(rs.content_type, "image/png");
    rs = dispatch("GET", "/docs.html");
    assert_int_equal(rs.status, 404);
    free(rs.body);
}

/* Whether the document's path is the pattern with names in braces in place of each "*". */
static bool is_path_of(const char *path, const char *pattern)
{
    for (; *pattern != '\0' && path != NULL; pattern++) {
        if (*pattern == '*')
            path = *path == '{' ? strchr(path, '}') : NULL;
        else if (*path != *pattern)
            path = NULL;
        path = path != NULL ? path + 1 : NULL;
    }
    return path != NULL && *path == '\0';
}

static json_t *described(json_t *paths, const char *pattern)
{
    const char *path = NULL;
    json_t *item = NULL;
    json_object_foreach(paths, path, item)
    {
        if (is_path_of(path, pattern))
            return item;
    }
    return NULL;
}

/* openapi.json names every route, and no other. */
static void test_every_route_is_described(void **state)
{
    (void)state;
    const lx_asset *asset = lx_asset_find("/openapi.json");
    assert_non_null(asset);
    json_t *root = json_loadb((const char *)asset->data, asset->size, JSON_REJECT_DUPLICATES, NULL);
    json_t *paths = json_object_get(root, "paths");
    assert_non_null(paths);
    const char *method = NULL, *pattern = NULL, *path = NULL, *name = NULL;
    int32_t n_routes = 0, n_described = 0;
    for (; lx_routes_at(n_routes, &method, &pattern); n_routes++) {
        char lower[16] = "";
        for (size_t i = 0; method[i] != '\0' && i + 1 < sizeof lower; i++)
            lower[i] = (char)(method[i] | 0x20);
        if (json_object_get(described(paths, pattern), lower) == NULL)
            fail_msg("web/openapi.json does not describe %s %s", method, pattern);
    }
    json_t *item = NULL, *operation = NULL;
    json_object_foreach(paths, path, item)
    {
        json_object_foreach(item, name, operation) n_described += strcmp(name, "parameters") != 0;
    }
    assert_int_equal(n_described, n_routes + 1); /* and the document itself */
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_routes),
        cmocka_unit_test(test_who_takes_uploads),
        cmocka_unit_test(test_what_is_quick),
        cmocka_unit_test(test_tail_is_one_segment),
        cmocka_unit_test(test_two_segments),
        cmocka_unit_test(test_unknown_paths),
        cmocka_unit_test(test_allow),
        cmocka_unit_test(test_dispatch_without_a_handler),
        cmocka_unit_test(test_what_acts_on_the_server_wants_the_right),
        cmocka_unit_test(test_assets),
        cmocka_unit_test(test_assets_by_kind),
        cmocka_unit_test(test_every_route_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
