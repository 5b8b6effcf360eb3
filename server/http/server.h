/*
 * The HTTP server: sockets, limits and timing, with handlers that see plain structs.
 *
 * A handler gets a whole request. It answers at once (status, headers, body), or hands over a
 * `deferred` object for a later answer: a whole response, or a stream that is read piece by piece.
 * The maker of the content calls request->wake when there is more. The server suspends the
 * connection in between, so a waiting request costs no thread. Workers call handlers and make whole
 * answers, so the threads of connections only move bytes.
 *
 * If a client leaves while its answer is pending, the server calls `cancel` at once.
 */
#ifndef LINNET_SERVER_HTTP_SERVER_H
#define LINNET_SERVER_HTTP_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/budget.h"
#include "common/buffer.h"
#include "common/client.h"
#include "server/http/headers.h"

enum { LX_MAX_RESPONSE_HEADERS = 8, LX_MAX_REQUEST_ID = 64 };

/* Facts of a request for its line in the log, which handlers add as they learn them. The line may
   be written meanwhile, when the client has left. */
typedef struct lx_request_facts {
    _Atomic bool has_model; /* `model` is written, and stays so */
    char model[64];
    _Atomic bool has_tokens;                              /* the three numbers are whole */
    _Atomic int64_t prompt_tokens, cached_tokens, tokens; /* cached: of the prompt, not computed */
    _Atomic int64_t first_token_us; /* from the job's submission; 0: no token came */
} lx_request_facts;

/* By one thread of a request, once; later calls change nothing. NULL is allowed. */
void lx_facts_set_model(lx_request_facts *f, const char *model);
/* Adds the tokens of a job of the request. first_token_us 0: it made none. NULL is allowed. */
void lx_facts_add(lx_request_facts *f, int64_t prompt_tokens, int64_t cached_tokens, int64_t tokens,
                  int64_t first_token_us);

/* Borrowed by the handler during its call. But wake and wake_context stay valid until `release` of
   the deferred object has returned. */
typedef struct lx_request {
    const char *method; /* "POST" */
    const char *path;   /* decoded, without the query */
    const char *tail;   /* the path from a route's "*" on, or ""; by lx_routes_dispatch */
    const char *content_type, *if_none_match, *accept, *accept_encoding, *host; /* "" when absent */
    const char *anthropic_version;                                              /* "" when absent */
    bool https; /* the client speaks TLS, with this server or, as it says, with a proxy before it */
    /* The value of an argument in the query, NULL when absent; valid during the handler's call. */
    const char *(*argument)(const void *query, const char *name);
    const void *query;
    const char *id;   /* of X-Request-Id, or made up */
    const char *body; /* NUL-terminated, may hold more NULs */
    size_t body_bytes;
    lx_client client;            /* as admit said */
    void (*wake)(void *context); /* any thread; must not be called after release */
    void *wake_context;
    const lx_owner *owner;   /* of its states, as `admit` says; lives as long as the server */
    bool admin;              /* may act on the whole server */
    lx_request_facts *facts; /* for the log; valid as wake_context. NULL: unused */
} lx_request;

/* The form of errors in JSON: OpenAI's, or that of Anthropic's Messages API. */
typedef enum lx_envelope { LX_ENVELOPE_OPENAI, LX_ENVELOPE_ANTHROPIC } lx_envelope;

typedef struct lx_response_header {
    const char *name; /* static */
    char value[256];
} lx_response_header;

struct lx_response;

/* An answer that is still being made: a stream by `pull` if that is not NULL, else a whole answer
   by `advance`, `is_done` and `finish`. `finish` may hand over once, to another deferred object;
   the server releases both together. */
typedef struct lx_deferred {
    void *context; /* NULL: there is no deferred object */
    /* After every wake: does the work that needs no waiting. May be NULL. */
    void (*advance)(void *context);
    bool (*is_done)(const void *context); /* `finish` may be called; asking changes nothing */
    void (*finish)(void *context, struct lx_response *rs);
    /* Appends the bytes that are there now, possibly none. True at the end. */
    bool (*pull)(void *context, lx_buffer *out);
    bool costly;                    /* pulls may take milliseconds: workers make them, too */
    void (*cancel)(void *context);  /* any thread, more than once, also after the end; or NULL */
    void (*release)(void *context); /* once, last; no wake may come after it has returned */
    const char *ping;               /* static; sent in a silent stream, or NULL */
    const char *failure; /* static; ends a stream whose rest cannot be made, NULL: it is cut */
    int64_t deadline_ns; /* lx_now_ns() time by which the client must have read it all */
} lx_deferred;

typedef struct lx_response {
    lx_envelope envelope; /* of the handler's errors; HTTP ignores it */
    int status;
    const char *content_type; /* static; NULL for none */
    char *body;               /* malloc'ed, taken; or NULL */
    const void *static_body;  /* used when body is NULL; lives as long as the program */
    size_t body_bytes;
    int32_t n_headers;
    lx_response_header headers[LX_MAX_RESPONSE_HEADERS];
    lx_deferred deferred; /* with pull: status, type and headers above are sent at once */
} lx_response;

/* Adds a header; the value is cut at 255 bytes. More than the maximum are dropped. */
void lx_response_add(lx_response *rs, const char *name, const char *fmt, ...) LX_PRINTF(3, 4);
/* Moves the buffer's content into the response. If the buffer has failed, the response is a 503
   with the error envelope, which needs no memory. */
void lx_response_take(lx_response *rs, int status, const char *content_type, lx_buffer *body);

/* A request before its body is read; borrowed for the call. */
typedef struct lx_request_head {
    const char *method, *path;
    const char *host, *authorization, *api_key, *origin, *fetch_site; /* "" when absent */
    bool asks_for_method; /* has Access-Control-Request-Method */
} lx_request_head;

/* The decision of `admit` on a request. */
typedef struct lx_pass {
    void *ticket;          /* for `leave` */
    lx_client client;      /* for the handler */
    const char *who;       /* for the log, lives as long as the server; NULL: an unknown client */
    const lx_owner *owner; /* for the request, as is `admin` */
    bool admin;
    const char *allow_origin; /* Access-Control-Allow-Origin, lives as long; NULL: none */
    bool vary_origin;         /* the answer depends on the Origin header */
} lx_pass;

typedef struct lx_http_options {
    const char *host;
    int32_t port; /* 0: any free one */
    /* PEM texts: a certificate with its chain, and its key; live as long as the server. NULL: plain
       HTTP */
    const char *tls_certificate, *tls_key;
    int32_t max_per_address;          /* connections of one address, 0: no limit */
    const struct lx_proxies *proxies; /* whose X-Forwarded-For is believed; NULL: none is trusted */
    bool log_bodies;                  /* the request log may show what clients send */
    int32_t n_threads;                /* for connections, and as many workers */
    int32_t max_connections;
    int32_t idle_timeout_s; /* silence on a connection */
    int32_t read_timeout_s; /* for a request's head, and again for its body, in all */
    int64_t wait_ns;        /* for a worker, after which the request is refused */
    int32_t ping_s;         /* silence in a stream before a ping, 0: never */
    lx_body_limits limits;
    lx_budget *bodies; /* bytes of bodies that are being read; see shares.h */
    /* Lets a request in before its body is read, or answers it. NULL: lets all in. */
    bool (*admit)(void *context, const lx_request_head *head, lx_pass *pass, lx_response *rs);
    /* Before it, also for a request that HTTP refuses: what its answer says of the page's origin.
       NULL: nothing. */
    void (*set_origin)(void *context, const char *origin, lx_pass *pass);
    void (*leave)(void *context, lx_pass *pass); /* once per request, after its answer */
    void *access;                                /* context of the three */
    /* Whether a request without a body costs next to nothing. Then its connection's thread calls
       the handler, so it does not wait for other requests' work. NULL: none does. */
    bool (*is_quick)(const char *method, const char *path);
    /* By one of n_threads workers, but for quick ones; clients take turns, by their keys. */
    void (*handle)(void *context, const lx_request *rq, lx_response *rs);
    /* Answers a request to the path that HTTP itself refuses (framing, size). */
    void (*refuse)(void *context, const char *path, int status, const lx_error *err,
                   lx_response *rs);
    void *context;
} lx_http_options;

typedef struct lx_http_stats {
    int64_t connections, exchanges; /* open now */
    int64_t answering;              /* exchanges whose request has been read */
    uint64_t responses[6];          /* by first digit of the status */
    uint64_t abandoned;             /* requests whose client left before all of it was read */
    int64_t certificate_ends;       /* Unix time; 0 without TLS */
} lx_http_stats;

typedef struct lx_http lx_http;

/* Binds and serves. LX_ERR_INVALID for an unusable address, or certificate and key that do not
   belong together (param "tls-cert"); LX_ERR_IO when the address is taken. */
lx_status lx_http_start(const lx_http_options *options, lx_http **out, lx_error *err) LX_MUST_USE;
int32_t lx_http_port(const lx_http *h);
lx_http_stats lx_http_get_stats(lx_http *h);
/* Gives connections that begin from now on another certificate and key, if the server has TLS. PEM
   texts, not kept. LX_ERR_INVALID: they do not belong together, or no handshake succeeds with them,
   and the old ones stay. A certificate outside its time is only warned about. Any thread. */
lx_status lx_http_renew_tls(lx_http *h, const char *certificate, const char *key,
                            lx_error *err) LX_MUST_USE;
/* The same faults and warnings, without a server. */
lx_status lx_http_check_tls(const char *certificate, const char *key, lx_error *err) LX_MUST_USE;
/* Whether the host of the options has an address, without listening on it. */
lx_status lx_http_check_host(const char *host, lx_error *err) LX_MUST_USE;
/* Closes the listening socket; open connections are closed after their answer from now on. */
void lx_http_quiesce(lx_http *h);
/* Cancels every pending answer. The clients still get the ends that `finish` or `pull` make. */
void lx_http_cancel_all(lx_http *h);
/* Drops the remaining connections and frees the server. NULL is allowed. */
void lx_http_stop(lx_http *h);

#endif
