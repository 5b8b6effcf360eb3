/* The route table (see routes.h). A pattern's "*" stands for one path segment, unless a route
   without one has exactly that path. */
#include "server/routes/routes.h"

#include <stdio.h>
#include <string.h>

#include "server/routes/assets.h"

static const struct route {
    const char *method, *pattern;
    lx_handler handler;
} routes[] = {
    {"GET", "/", lx_handle_page},
    {"POST", "/", lx_handle_form},
    {"GET", "/link.png", lx_handle_link_picture},
    {"POST", "/v1/completions", lx_handle_completions},
    {"POST", "/v1/chat/completions", lx_handle_chat},
    {"POST", "/v1/responses", lx_handle_responses},
    {"POST", "/v1/images/generations", lx_handle_images_generations},
    {"POST", "/v1/images/edits", lx_handle_images_edits},
    {"POST", "/v1/audio/transcriptions", lx_handle_transcriptions},
    {"POST", "/v1/score", lx_handle_score},
    {"POST", "/tokenize", lx_handle_tokenize}, /* these two as llama.cpp's server names them */
    {"POST", "/detokenize", lx_handle_detokenize},
    {"POST", "/v1/states", lx_handle_states_create},
    {"GET", "/v1/states/*", lx_handle_state_get},
    {"PUT", "/v1/states/*", lx_handle_state_put},
    {"DELETE", "/v1/states/*", lx_handle_state_delete},
    {"POST", "/v1/states/*/fork", lx_handle_state_fork},
    {"GET", "/v1/states/*/inspect", lx_handle_state_inspect},
    {"GET", "/v1/states/*/look", lx_handle_state_inspect}, /* its first name */
    {"GET", "/v1/models", lx_handle_models},
    {"GET", "/v1/models/*", lx_handle_model},
    {"GET", "/v1/capacity", lx_handle_capacity},
    {"POST", "/v1/models/reload", lx_handle_reload},
    {"GET", "/health", lx_handle_health},
    {"GET", "/readyz", lx_handle_health},
    {"GET", "/livez", lx_handle_livez},
    {"GET", "/v1/health", lx_handle_health},       /* as llama.cpp's server names it */
    {"GET", "/v2/health/ready", lx_handle_health}, /* as KServe does */
    {"GET", "/v2/health/live", lx_handle_livez},
    {"GET", "/metrics", lx_handle_metrics},
};

/* What acts on the whole server: for keys with that right. */
static const lx_handler admin_only[] = {lx_handle_reload};

/* What describes the server, and the page with its files: they must answer however much other
   requests ask for, and cost some microseconds. */
static const lx_handler quick[] = {lx_handle_page,     lx_handle_asset,  lx_handle_models,
                                   lx_handle_model,    lx_handle_health, lx_handle_livez,
                                   lx_handle_capacity, lx_handle_metrics};

/* What reads forms with files. */
static const lx_handler uploads[] = {lx_handle_images_edits, lx_handle_transcriptions,
                                     lx_handle_score};

static bool is_among(lx_handler handler, const lx_handler *handlers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (handlers[i] == handler)
            return true;
    return false;
}

/* The path from the segment that "*" stands for on, "" without one; NULL: no match. */
static const char *match(const char *pattern, const char *path)
{
    size_t head = strcspn(pattern, "*");
    if (pattern[head] == '\0')
        return strcmp(pattern, path) == 0 ? "" : NULL;
    if (strncmp(pattern, path, head) != 0)
        return NULL;
    const char *segment = path + head;
    size_t n = strcspn(segment, "/");
    return n > 0 && strcmp(segment + n, pattern + head + 1) == 0 ? segment : NULL;
}

static void allow(lx_route_match *m, const char *method)
{
    size_t n = strlen(m->allow);
    (void)snprintf(m->allow + n, sizeof m->allow - n, "%s%s%s", n > 0 ? ", " : "", method,
                   strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

static void offer(lx_route_match *m, const char *wanted, const char *method, lx_handler handler,
                  const char *tail)
{
    allow(m, method);
    if (strcmp(wanted, method) == 0) {
        m->handler = handler;
        m->tail = tail;
    }
}

lx_route_match lx_routes_find(const char *method, const char *path)
{
    lx_route_match m = {.tail = ""};
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    for (int pass = 0; pass < 2 && m.allow[0] == '\0'; pass++) { /* a path's own routes win */
        for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
            const char *tail = match(routes[i].pattern, path);
            if (tail != NULL && (tail[0] != '\0') == (pass == 1))
                offer(&m, wanted, routes[i].method, routes[i].handler, tail);
        }
    }
    if (m.allow[0] == '\0' && lx_asset_find(path) != NULL)
        offer(&m, wanted, "GET", lx_handle_asset, "");
    if (m.allow[0] != '\0')
        (void)strncat(m.allow, ", OPTIONS", sizeof m.allow - strlen(m.allow) - 1);
    return m;
}

bool lx_routes_take_uploads(const char *method, const char *path)
{
    lx_handler handler = lx_routes_find(method, path).handler;
    return is_among(handler, uploads, sizeof uploads / sizeof *uploads);
}

bool lx_routes_is_quick(const char *method, const char *path)
{
    lx_handler handler = lx_routes_find(method, path).handler;
    return handler == NULL || is_among(handler, quick, sizeof quick / sizeof *quick);
}

void lx_routes_dispatch(lx_api *api, const lx_request *rq, lx_response *rs)
{
    lx_route_match m = lx_routes_find(rq->method, rq->path);
    lx_request request = *rq;
    request.tail = m.tail;
    if (is_among(m.handler, admin_only, sizeof admin_only / sizeof *admin_only) && !rq->admin) {
        lx_respond_error(rs, 403, "admin_key_needed", "Authorization",
                         "this acts on the whole server and needs an API key with the right admin "
                         "(--api-key, or in --api-key-file: NAME KEY admin)");
    } else if (m.handler != NULL) {
        m.handler(api, &request, rs);
    } else if (m.allow[0] == '\0') {
        lx_respond_error(rs, 404, "not_found", "path",
                         "there is nothing at this path: /openapi.json lists what there is");
    } else if (strcmp(rq->method, "OPTIONS") == 0) {
        rs->status = 204;
        lx_response_add(rs, "Allow", "%s", m.allow);
    } else {
        lx_respond_error(rs, 405, "method_not_allowed", "method",
                         "this path does not know the method; see the Allow header");
        lx_response_add(rs, "Allow", "%s", m.allow);
    }
}

bool lx_routes_at(int32_t i, const char **method, const char **pattern)
{
    if (i < 0 || (size_t)i >= sizeof routes / sizeof *routes)
        return false;
    *method = routes[i].method;
    *pattern = routes[i].pattern;
    return true;
}
