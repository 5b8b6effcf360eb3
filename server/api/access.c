/* Which requests are admitted (see access.h). */
#include "server/api/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "server/api/api.h"
#include "server/auth/hosts.h"

enum { MAX_ENTRIES = 64, MAX_LIST = 4096 };

/* A comma-separated list, taken apart. */
typedef struct name_list {
    char text[MAX_LIST];
    const char *at[MAX_ENTRIES];
    int32_t n;
} name_list;

struct lx_access {
    lx_keys *keys;
    name_list public_paths, origins, hosts;
    bool any_origin, any_host;
    char host[256];           /* that the server listens on */
    const char *api_key_file; /* NULL: none */
};

static lx_status split(const char *text, const char *flag, name_list *l, lx_error *err)
{
    size_t n = text != NULL ? strlen(text) : 0;
    if (n >= sizeof l->text)
        return lx_fail(err, LX_ERR_INVALID, flag, "--%s is longer than %d bytes", flag, MAX_LIST);
    memcpy(l->text, text != NULL ? text : "", n + 1);
    char *rest = NULL;
    for (char *p = strtok_r(l->text, ", ", &rest); p != NULL; p = strtok_r(NULL, ", ", &rest)) {
        if (l->n == MAX_ENTRIES)
            return lx_fail(err, LX_ERR_INVALID, flag, "--%s has more than %d entries", flag,
                           MAX_ENTRIES);
        l->at[l->n++] = p;
    }
    return LX_OK;
}

static lx_status check_paths(const name_list *l, lx_error *err)
{
    for (int32_t i = 0; i < l->n; i++) {
        const char *star = strchr(l->at[i], '*');
        if (l->at[i][0] != '/' || (star != NULL && star[1] != '\0'))
            return lx_fail(err, LX_ERR_INVALID, "public",
                           "--public: \"%s\" is not a path, or has a * before its end", l->at[i]);
    }
    return LX_OK;
}

static lx_status check_origins(lx_access *g, lx_error *err)
{
    for (int32_t i = 0; i < g->origins.n; i++) {
        const char *o = g->origins.at[i], *host = strstr(o, "://");
        if (strcmp(o, "*") == 0)
            g->any_origin = true;
        else if (host == NULL || host == o || host[3] == '\0' || strchr(host + 3, '/') != NULL)
            return lx_fail(err, LX_ERR_INVALID, "cors-origins",
                           "--cors-origins: \"%s\" is not an origin (\"https://host\" or *)", o);
    }
    return LX_OK;
}

static lx_status check_hosts(const name_list *l, lx_error *err)
{
    for (int32_t i = 0; i < l->n; i++)
        if (!lx_host_entry_ok(l->at[i]))
            return lx_fail(
                err, LX_ERR_INVALID, "allowed-hosts",
                "--allowed-hosts: \"%s\" is no name (\"api.example\", \"*.example\" or *)",
                l->at[i]);
    return LX_OK;
}

static lx_status add_hosts(lx_access *g, const lx_access_options *o, lx_error *err)
{
    lx_status st = split(o->allowed_hosts, "allowed-hosts", &g->hosts, err);
    if (st == LX_OK)
        st = check_hosts(&g->hosts, err);
    if (o->host != NULL)
        (void)snprintf(g->host, sizeof g->host, "%s", o->host);
    /* a foreign page has no key, whatever its name */
    g->any_host = g->hosts.n == 0 && lx_access_has_keys(g);
    return st;
}

static lx_status add_keys(lx_access *g, const lx_access_options *o, lx_error *err)
{
    lx_status st = lx_keys_new(&o->limits, &g->keys, err);
    g->api_key_file = o->api_key_file;
    if (st == LX_OK && o->api_key != NULL) {
        st = lx_keys_add(g->keys, LX_DEFAULT_KEY_NAME, o->api_key, err);
        explicit_bzero(o->api_key, strlen(o->api_key));
    }
    if (st == LX_OK && o->api_key_file != NULL)
        st = lx_keys_add_file(g->keys, o->api_key_file, err);
    return st;
}

lx_status lx_access_new(const lx_access_options *o, lx_access **out, lx_error *err)
{
    lx_access *g = calloc(1, sizeof *g);
    if (g == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the API keys");
    lx_status st = add_keys(g, o, err);
    if (st == LX_OK)
        st = split(o->public_paths, "public", &g->public_paths, err);
    if (st == LX_OK)
        st = check_paths(&g->public_paths, err);
    if (st == LX_OK)
        st = split(o->cors_origins, "cors-origins", &g->origins, err);
    if (st == LX_OK)
        st = check_origins(g, err);
    if (st == LX_OK)
        st = add_hosts(g, o, err);
    if (st == LX_OK)
        *out = g;
    else
        lx_access_free(g);
    return st;
}

void lx_access_free(lx_access *g)
{
    if (g == NULL)
        return;
    lx_keys_free(g->keys);
    free(g);
}

bool lx_access_has_keys(const lx_access *g)
{
    return lx_keys_count(g->keys) > 0;
}

bool lx_access_has_admin(const lx_access *g)
{
    return lx_keys_have_admin(g->keys);
}

lx_status lx_access_reload(lx_access *g, lx_key_changes *changes, lx_error *err)
{
    *changes = (lx_key_changes){0};
    return g->api_key_file != NULL ? lx_keys_reload(g->keys, g->api_key_file, changes, err) : LX_OK;
}

void lx_access_share(lx_access *g, int64_t max_states, int64_t max_state_bytes)
{
    lx_keys_share(g->keys, max_states, max_state_bytes);
}

/* --- one request --- */

static bool is_public(const lx_access *g, const char *path)
{
    for (int32_t i = 0; i < g->public_paths.n; i++) {
        const char *p = g->public_paths.at[i];
        size_t n = strlen(p);
        bool open_end = p[n - 1] == '*';
        if (open_end ? strncmp(p, path, n - 1) == 0 : strcmp(p, path) == 0)
            return true;
    }
    return false;
}

/* The origin in the answer: the list's own entry, or "*". NULL: nothing. */
static const char *allowed_origin(const lx_access *g, const char *origin)
{
    if (origin[0] == '\0')
        return NULL;
    if (g->any_origin)
        return "*";
    for (int32_t i = 0; i < g->origins.n; i++)
        if (strcmp(g->origins.at[i], origin) == 0)
            return g->origins.at[i];
    return NULL;
}

static bool is_allowed_host(const lx_access *g, const char *host)
{
    char name[256];
    if (g->any_host || host[0] == '\0') /* HTTP/1.0 without one: no browser */
        return true;
    if (!lx_host_name(host, name, sizeof name))
        return false;
    if (lx_host_is_local(name) || strcasecmp(name, g->host) == 0)
        return true;
    for (int32_t i = 0; i < g->hosts.n; i++)
        if (lx_host_matches(g->hosts.at[i], name))
            return true;
    return false;
}

/* Sent by a page of another site, and more than a look. A browser that says nothing of sites, as
   over plain HTTP, names the page's origin. */
static bool is_cross_site(const lx_request_head *head)
{
    static const char *const looks[] = {"GET", "HEAD", "OPTIONS"};
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        if (strcmp(head->method, looks[i]) == 0)
            return false;
    if (head->fetch_site[0] != '\0')
        return strcasecmp(head->fetch_site, "cross-site") == 0;
    return head->origin[0] != '\0' && !lx_host_of_origin(head->origin, head->host);
}

static void answer_preflight(lx_response *rs)
{
    rs->status = 204;
    lx_response_add(rs, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE");
    lx_response_add(rs, "Access-Control-Allow-Headers",
                    "Authorization, *"); /* the * does not stand for Authorization */
    lx_response_add(rs, "Access-Control-Max-Age", "600");
}

static void refuse_key(const lx_request_head *head, lx_response *rs)
{
    bool given = head->authorization[0] != '\0' || head->api_key[0] != '\0';
    lx_respond_error(
        rs, 401, given ? "invalid_api_key" : "missing_api_key", "Authorization",
        given ? "this is not one of the server's API keys (Authorization: Bearer KEY, or "
                "X-Api-Key: KEY)"
              : "an API key is needed (Authorization: Bearer KEY, or X-Api-Key: KEY)");
    lx_response_add(rs, "WWW-Authenticate", "Bearer");
}

/* Anthropic's clients send the key alone. Next to an Authorization it does not count. */
static lx_key *find_key(const lx_access *g, const lx_request_head *head)
{
    bool plain = head->authorization[0] == '\0' && head->api_key[0] != '\0';
    return plain ? lx_keys_find_plain(g->keys, head->api_key)
                 : lx_keys_find(g->keys, head->authorization);
}

void lx_access_set_origin(void *context, const char *origin, lx_pass *pass)
{
    const lx_access *g = context;
    pass->allow_origin = allowed_origin(g, origin);
    pass->vary_origin = g->origins.n > 0 && !g->any_origin;
}

bool lx_access_admit(void *context, const lx_request_head *head, lx_pass *pass, lx_response *rs)
{
    lx_access *g = context;
    rs->envelope = lx_envelope_of(head->path);
    if (!is_allowed_host(g, head->host)) {
        lx_respond_error(
            rs, 421, "host_not_allowed", "Host",
            "this server is not known by the name in Host: start it with --allowed-hosts");
        return false;
    }
    if (pass->allow_origin != NULL && head->asks_for_method &&
        strcmp(head->method, "OPTIONS") == 0) {
        answer_preflight(rs);
        return false;
    }
    if (pass->allow_origin == NULL && is_cross_site(head)) {
        lx_respond_error(
            rs, 403, "cross_site", "Origin",
            "a page of another site may not do this: start the server with --cors-origins");
        return false;
    }
    lx_key *key = find_key(g, head);
    bool open = is_public(g, head->path);
    if (key == NULL && !open) {
        refuse_key(head, rs);
        return false;
    }
    const lx_key *owner = key != NULL ? key : lx_keys_public(g->keys);
    pass->owner = lx_key_owner(owner);
    pass->admin = lx_key_is_admin(owner);
    if (key != NULL) {
        pass->who = lx_key_name(key);
        pass->client = lx_key_client(key);
    }
    if (key == NULL || open || strcmp(head->method, "POST") != 0)
        return true;
    lx_error err = {0};
    int32_t retry_after_s = 0;
    lx_status st = lx_key_enter(key, lx_now_ns(), &retry_after_s, &err);
    if (st == LX_OK) {
        pass->ticket = key;
        return true;
    }
    lx_respond_error(rs, 429, "rate_limit_exceeded", NULL, err.text);
    lx_response_add(rs, "Retry-After", "%d", retry_after_s);
    return false;
}

void lx_access_leave(void *context, lx_pass *pass)
{
    (void)context;
    if (pass->ticket != NULL)
        lx_key_leave(pass->ticket);
    pass->ticket = NULL;
}
