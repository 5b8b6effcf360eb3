/*
 * Access: the decisions about a request that need its head alone, before its body is read and
 * before any handler. The checks in order: the request's host; CORS, which a browser asks for pages
 * of another origin; requests that such pages send without asking; the API key; its limits.
 *
 * Everything is denied without a key but the paths of the public list. Thread: made before the
 * server runs, then only the keys change, by lx_access_reload; any thread.
 */
#ifndef LINNET_SERVER_API_ACCESS_H
#define LINNET_SERVER_API_ACCESS_H

#include "server/auth/keys.h"
#include "server/http/server.h"

typedef struct lx_access_options {
    char *api_key;             /* NULL: none; wiped after it was hashed */
    const char *api_key_file;  /* NULL: none; lives as long */
    const char *public_paths;  /* "/health,/v1/x" open without a key; a final star is any end */
    const char *cors_origins;  /* "https://a.example,https://b.example", or "*"; NULL: none */
    const char *allowed_hosts; /* "a.example,*.b.example", or "*"; NULL: none but local ones */
    const char *host;          /* that the server listens on */
    lx_key_limits limits;
} lx_access_options;

typedef struct lx_access lx_access;

lx_status lx_access_new(const lx_access_options *options, lx_access **out,
                        lx_error *err) LX_MUST_USE;
void lx_access_free(lx_access *g); /* NULL is allowed */
bool lx_access_has_keys(const lx_access *g);
bool lx_access_has_admin(const lx_access *g); /* see keys.h, as for the next */
/* Reads the file of keys again, if there is one: see lx_keys_reload. */
lx_status lx_access_reload(lx_access *g, lx_key_changes *changes, lx_error *err) LX_MUST_USE;
void lx_access_share(lx_access *g, int64_t max_states, int64_t max_state_bytes);

/* For lx_http_options.set_origin, .admit and .leave; context is an lx_access. */
void lx_access_set_origin(void *context, const char *origin, lx_pass *pass);
bool lx_access_admit(void *context, const lx_request_head *head, lx_pass *pass, lx_response *rs);
void lx_access_leave(void *context, lx_pass *pass);

#endif
