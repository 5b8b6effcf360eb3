/* A client for one question: with which status does a server of ours answer on this path? */
#ifndef LINNET_SERVER_CLI_PROBE_H
#define LINNET_SERVER_CLI_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/status.h"

enum { LX_PROBE_MAX_PATH = 512 };

typedef struct lx_probe_question {
    const char *host;
    int32_t port;
    bool tls;           /* ask over TLS, whatever certificate the server shows */
    const char *path;   /* at most LX_PROBE_MAX_PATH bytes */
    int64_t timeout_ms; /* for connecting, asking and reading the status line together */
} lx_probe_question;

/*
 * GET path of the server at host and port; *http_status receives the status of its answer. Every
 * address that the name has is tried within the time. The certificate is not verified: nothing
 * secret is sent, and one that has expired does not make a server less ready. LX_ERR_INVALID: no
 * such host; LX_ERR_TIMEOUT; LX_ERR_IO: the server is not reachable, or does not speak TLS or HTTP.
 * The text of the error says which. Blocks; any thread.
 */
lx_status lx_probe(const lx_probe_question *q, int *http_status, lx_error *err) LX_MUST_USE;

/* --- its connection, plain or in TLS, for probe.c and probe_tls.c --- */

typedef struct lx_probe_tls lx_probe_tls;

typedef struct lx_probe_link {
    int fd; /* does not block */
    int64_t end_ns;
    lx_probe_tls *tls; /* NULL: plain */
} lx_probe_link;

typedef enum lx_probe_way { LX_PROBE_SHAKE, LX_PROBE_SEND, LX_PROBE_RECEIVE } lx_probe_way;

/* Prepares TLS on a connection that is made; LX_PROBE_SHAKE comes next. */
lx_status lx_probe_tls_open(lx_probe_link *link, lx_error *err) LX_MUST_USE;

/* Makes the handshake, sends at least one of n > 0 bytes or receives at most n. Returns their
   number, 0 when the other side is done. After -1 the caller waits for *events (of poll()) and
   calls again. If *events are 0, the connection has failed as *err says. */
ssize_t lx_probe_tls_move(lx_probe_link *link, lx_probe_way way, char *data, size_t n,
                          short *events, lx_error *err);

/* Frees the memory of lx_probe_tls_open(); fd stays open. A plain connection is left alone. */
void lx_probe_tls_close(lx_probe_link *link);

#endif
