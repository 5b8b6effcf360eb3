/* A probe's connection, plain or in TLS, for probe.c and probe_tls.c. */
#ifndef LINNET_SERVER_CLI_PROBE_INTERNAL_H
#define LINNET_SERVER_CLI_PROBE_INTERNAL_H

#include <stddef.h>
#include <sys/types.h>

#include "server/cli/probe.h"

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
   number, 0 when the other side is done. -1: the caller waits for *events (of poll()) and calls
   again, or, where they are 0, the connection has failed as *err says. */
ssize_t lx_probe_tls_move(lx_probe_link *link, lx_probe_way way, char *data, size_t n,
                          short *events, lx_error *err);

/* Frees the memory of lx_probe_tls_open(); fd stays open. A plain connection is left alone. */
void lx_probe_tls_close(lx_probe_link *link);

#endif
