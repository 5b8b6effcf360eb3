/* A probe's connection, plain or in TLS: what probe.c and probe_tls.c share. */
#ifndef LINNET_SERVER_CLI_PROBE_INTERNAL_H
#define LINNET_SERVER_CLI_PROBE_INTERNAL_H

#include <stddef.h>

#include "server/cli/probe.h"

typedef struct lx_probe_tls lx_probe_tls;

typedef struct lx_probe_link {
    int fd; /* does not block */
    int64_t end_ns;
    lx_probe_tls *tls; /* NULL: plain */
} lx_probe_link;

/* Waits until the connection is ready for events (of poll()) or until its deadline. */
lx_status lx_probe_wait(const lx_probe_link *link, short events, lx_error *err) LX_MUST_USE;

/* The handshake on a connection that is made. */
lx_status lx_probe_tls_open(lx_probe_link *link, lx_error *err) LX_MUST_USE;

/* Sends at least one of n > 0 bytes; *sent says how many. */
lx_status lx_probe_tls_send(lx_probe_link *link, const char *text, size_t n, size_t *sent,
                            lx_error *err) LX_MUST_USE;

/* Receives at most n > 0 bytes; *got says how many, 0 when the other side is done. */
lx_status lx_probe_tls_receive(lx_probe_link *link, char *room, size_t n, size_t *got,
                               lx_error *err) LX_MUST_USE;

/* Frees what lx_probe_tls_open() made; fd stays open. A plain connection is left alone. */
void lx_probe_tls_close(lx_probe_link *link);

#endif
