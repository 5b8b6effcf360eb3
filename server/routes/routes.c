/* The route table (see routes.h). A pattern's "*" stands for one path segment, unless a route
   without "*" has exactly that path. */
#include "server/routes/routes.h"

#include <stdio.h>
#include <string.h>

#include "server/routes/assets.h"

typedef enum route_flag {
    ADMIN = 1, /* acts on the whole server: for keys with that right */
    /* Describes the server, or is the page or a file of it: answered at once however many other
       requests there are, at a cost of some microseconds. */
    QUICK = 2,
    UPLOADS = 4, /* reads forms with files */
} route_flag;

static const struct route {
    const char *method, *pattern;
    lx_handler handler;
    unsigned flags; /* route_flag */
} routes[] = {
    {"GET", "/", lx_handle_page, QUICK},
    {"POST", "/", lx_handle_form, 0},
    {"GET", "/link.png", lx_handle_link_picture, 0},
    {"POST", "/v1/completions", lx_handle_completions, 0},
    {"POST", "/v1/chat/completions", lx_handle_chat, 0},
    {"POST", "/v1/responses", lx_handle_responses, 0},
    {"POST", "/v1/messages", lx_handle_messages, 0}, /* Anthropic's, as the next */
    {"POST", "/v1/messages/count_tokens", lx_handle_message_tokens, 0},
    {"GET", "/v1/responses/*", lx_handle_response_get, 0},
    {"DELETE", "/v1/responses/*", lx_handle_response_delete, 0},
    {"GET", "/v1/responses/*/input_items", lx_handle_response_items, 0},
    {"POST", "/v1/conversations", lx_handle_conversation_create, 0},
    {"GET", "/v1/conversations/*", lx_handle_conversation_get, 0},
    {"POST", "/v1/conversations/*", lx_handle_conversation_update, 0},
    {"DELETE", "/v1/conversations/*", lx_handle_conversation_delete, 0},
    {"GET", "/v1/conversations/*/items", lx_handle_items_list, 0},
    {"POST", "/v1/conversations/*/items", lx_handle_items_create, 0},
    {"GET", "/v1/conversations/*/items/*", lx_handle_item_get, 0},
    {"DELETE", "/v1/conversations/*/items/*", lx_handle_item_delete, 0},
    {"POST", "/v1/images/generations", lx_handle_images_generations, 0},
    {"POST", "/v1/images/edits", lx_handle_images_edits, UPLOADS},
    {"POST", "/v1/audio/transcriptions", lx_handle_transcriptions, UPLOADS},
    {"POST", "/v1/score", lx_handle_score, UPLOADS},
    /* these three as llama.cpp's server names them */
    {"POST", "/tokenize", lx_handle_tokenize, 0},
    {"POST", "/detokenize", lx_handle_detokenize, 0},
    {"POST", "/apply-template", lx_handle_apply_template, 0},
    {"GET", "/v1/states", lx_handle_states_list, 0},
    {"POST", "/v1/states", lx_handle_states_create, 0},
    {"GET", "/v1/states/*", lx_handle_state_get, 0},
    {"PUT", "/v1/states/*", lx_handle_state_put, 0},
    {"DELETE", "/v1/states/*", lx_handle_state_delete, 0},
    {"POST", "/v1/states/*/fork", lx_handle_state_fork, 0},
    {"GET", "/v1/states/*/inspect", lx_handle_state_inspect, 0},
    {"GET", "/v1/states/*/look", lx_handle_state_inspect, 0}, /* its first name */
    {"GET", "/v1/models", lx_handle_models, QUICK},
    {"GET", "/v1/models/*", lx_handle_model, QUICK},
    {"GET", "/v1/capacity", lx_handle_capacity, QUICK},
    {"POST", "/v1/models/reload", lx_handle_reload, ADMIN},
    {"GET", "/health", lx_handle_health, QUICK},
    {"GET", "/readyz", lx_handle_health, QUICK},
    {"GET", "/livez", lx_handle_livez, QUICK},
    {"GET", "/v1/health", lx_handle_health, QUICK},       /* as llama.cpp's server names it */
    {"GET", "/v2/health/ready", lx_handle_health, QUICK}, /* as KServe names it, like the next */
    {"GET", "/v2/health/live", lx_handle_livez, QUICK},
    {"GET", "/metrics", lx_handle_metrics, QUICK},
};

/* The path from the segment that the first "*" stands for on, "" without "*"; NULL: no match. */
static const char *match(const char *pattern, const char *path)
{
    const char *segment = NULL;
    for (;;) {
        size_t head = strcspn(pattern, "*");
        if (strncmp(pattern, path, head) != 0)
            return NULL;
        pattern += head;
        path += head;
        if (*pattern == '\0')
            break;
        segment = segment != NULL ? segment : path;
        size_t n = strcspn(path, "/");
        if (n == 0)
            return NULL;
        pattern++;
        path += n;
    }
    return *path != '\0' ? NULL : segment != NULL ? segment : "";
}

static void allow(lx_route_match *m, const char *method)
{
    size_t n = strlen(m->allow);
    (void)snprintf(m->allow + n, sizeof m->allow - n, "%s%s%s", n > 0 ? ", " : "", method,
                   strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

static void offer(lx_route_match *m, const char *wanted, const struct route *route,
                  const char *tail)
{
    allow(m, route->method);
    if (strcmp(wanted, route->method) == 0) {
        m->handler = route->handler;
        m->flags = route->flags;
        m->tail = tail;
    }
}

lx_route_match lx_routes_find(const char *method, const char *path)
{
    static const struct route file = {"GET", "", lx_handle_asset, QUICK};
    lx_route_match m = {.tail = ""};
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    for (int pass = 0; pass < 2 && m.allow[0] == '\0'; pass++) { /* a path's own routes win */
        for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
            const char *tail = match(routes[i].pattern, path);
            if (tail != NULL && (tail[0] != '\0') == (pass == 1))
                offer(&m, wanted, &routes[i], tail);
        }
    }
    if (m.allow[0] == '\0' && lx_asset_find(path) != NULL)
        offer(&m, wanted, &file, "");
    if (m.allow[0] != '\0')
        (void)strncat(m.allow, ", OPTIONS", sizeof m.allow - strlen(m.allow) - 1);
    return m;
}

bool lx_routes_take_uploads(const char *method, const char *path)
{
    return (lx_routes_find(method, path).flags & UPLOADS) != 0;
}

bool lx_routes_is_quick(const char *method, const char *path)
{
    lx_route_match m = lx_routes_find(method, path);
    return m.handler == NULL || (m.flags & QUICK) != 0;
}

void lx_routes_dispatch(lx_api *api, const lx_request *rq, lx_response *rs)
{
    lx_route_match m = lx_routes_find(rq->method, rq->path);
    lx_request request = *rq;
    request.tail = m.tail;
    if ((m.flags & ADMIN) != 0 && !rq->admin) {
        lx_respond_error(
            rs, 403, "admin_key_needed", "Authorization",
            "this route acts on the whole server and needs an API key with the right admin "
            "(--api-key, or in --api-key-file: NAME KEY admin)");
    } else if (m.handler != NULL) {
        m.handler(api, &request, rs);
    } else if (m.allow[0] == '\0') {
        lx_respond_error(rs, 404, "not_found", "path",
                         "no route has this path; /openapi.json lists all routes");
    } else if (strcmp(rq->method, "OPTIONS") == 0) {
        rs->status = 204;
        lx_response_add(rs, "Allow", "%s", m.allow);
    } else {
        lx_respond_error(
            rs, 405, "method_not_allowed", "method",
            "this path does not take the method; the Allow header lists the allowed methods");
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
