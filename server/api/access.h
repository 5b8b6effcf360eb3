/*
 * The gate: what is decided about a request from its head alone, before its body is read and before
 * any handler. In this order: the host it was sent to, the browser's question whether another
 * origin's page may ask (CORS), requests that such a page sends without a question, the API key,
 * its limits.
 *
 * Everything is denied without a key but the paths of the public list. Thread: made before the
 * server runs, then immutable; any thread.
 */
#ifndef LINNET_SERVER_API_ACCESS_H
#define LINNET_SERVER_API_ACCESS_H

#include "server/auth/keys.h"
#include "server/http/server.h"

typedef struct lx_gate_options {
    char *api_key;             /* NULL: none; wiped after it was hashed */
    const char *api_key_file;  /* NULL: none */
    const char *public_paths;  /* "/health,/v1/x" open without a key; a final star is any end */
    const char *cors_origins;  /* "https://a.example,https://b.example", or "*"; NULL: none */
    const char *allowed_hosts; /* "a.example,*.b.example", or "*"; NULL: none but local ones */
    const char *host;          /* that the server listens on */
    lx_key_limits limits;
} lx_gate_options;

typedef struct lx_gate lx_gate;

lx_status lx_gate_new(const lx_gate_options *options, lx_gate **out, lx_error *err) LX_MUST_USE;
void lx_gate_free(lx_gate *g); /* NULL is allowed */
bool lx_gate_has_keys(const lx_gate *g);
bool lx_gate_has_admin(const lx_gate *g); /* see keys.h, as for the next */
void lx_gate_share(lx_gate *g, int64_t max_states, int64_t max_state_bytes);

/* For lx_http_options.admit and .leave; context is the gate. */
bool lx_gate_admit(void *context, const lx_request_head *head, lx_pass *pass, lx_response *rs);
void lx_gate_leave(void *context, lx_pass *pass);

#endif
