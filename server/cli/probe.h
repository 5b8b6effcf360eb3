/* A client for one question: with which status does a server of ours answer on this path? */
#ifndef LINNET_SERVER_CLI_PROBE_H
#define LINNET_SERVER_CLI_PROBE_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
