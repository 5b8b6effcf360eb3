/* A client for one question: does a server of ours answer on this path, and with what status? */
#ifndef LINNET_SERVER_PROBE_H
#define LINNET_SERVER_PROBE_H

#include <stdint.h>

#include "common/status.h"

enum { LX_PROBE_MAX_PATH = 512 };

/*
 * GET path of the server at host and port; *http_status receives the status of its answer. The
 * whole of it (connecting, asking, reading the status line) may take timeout_ms; every address that
 * the name has is tried within that time. LX_ERR_INVALID: no such
 * host, or a path longer than LX_PROBE_MAX_PATH; LX_ERR_TIMEOUT; LX_ERR_IO:
 * not reachable, or what answers does not speak HTTP. The text of the error says which.
 * Blocks; any thread.
 */
lx_status lx_probe(const char *host, int32_t port, const char *path, int64_t timeout_ms,
                   int *http_status, lx_error *err) LX_MUST_USE;

#endif
