/*
 * linnet health: is the server ready? For HEALTHCHECK, exec probes and scripts, in an image that
 * has neither curl nor a shell. It reads the server's own variables for host, port and TLS, so a
 * container that configures the server has configured this command.
 */
#include <string.h>

#include "server/cli/cli.h"
#include "server/cli/probe.h"

typedef struct health_options {
    const char *host, *path, *tls_cert, *config;
    int64_t port;
    double timeout;
} health_options;

#define LX_OPTIONS health_options
static const lx_option options[] = {
    LX_CLI_CONFIG_OPTION,
    LX_STRING("host", host, "127.0.0.1", "NAME",
              "The server listens on this address; 0.0.0.0 and :: mean this machine.",
              .variable = true),
    LX_INT("port", port, "8080", 1, 65535, "N", "The server listens on this TCP port.",
           .letter = 'p', .variable = true),
    LX_STRING("tls-cert", tls_cert, NULL, "FILE",
              "With the server's certificate the request goes over TLS; the file is not read.",
              .variable = true),
    LX_STRING(
        "path", path, "/readyz", "PATH",
        "The request has this path: /readyz, or /livez, which answers while models still load."),
    LX_REAL("timeout", timeout, "3", 0.001, 3600, "S",
            "The server must have answered within this many seconds."),
};

/* A path of visible ASCII, so that nothing can be hidden in the request. */
static lx_status check_path(const char *path, lx_error *err)
{
    for (const char *c = path; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~')
            return lx_fail(err, LX_ERR_INVALID, "path",
                           "--path: only visible ASCII characters are allowed");
    if (strlen(path) > LX_PROBE_MAX_PATH)
        return lx_fail(err, LX_ERR_INVALID, "path", "--path: at most %d bytes are allowed",
                       LX_PROBE_MAX_PATH);
    return path[0] == '/'
               ? LX_OK
               : lx_fail(err, LX_ERR_INVALID, "path", "--path: \"%s\" does not begin with /", path);
}

static lx_status run(void *values, const char *const *rest, lx_error *err)
{
    (void)rest;
    const health_options *o = values;
    int http_status = 0;
    lx_error why = {0};
    lx_status st = check_path(o->path, err);
    if (st != LX_OK)
        return st;
    lx_probe_question question = {.host = o->host,
                                  .port = (int32_t)o->port,
                                  .tls = o->tls_cert != NULL,
                                  .path = o->path,
                                  .timeout_ms = (int64_t)(o->timeout * 1000)};
    st = lx_probe(&question, &http_status, &why);
    if (st == LX_OK && http_status >= 200 && http_status < 300) {
        (void)printf("ready\n");
        return LX_OK;
    }
    if (st == LX_OK)
        (void)lx_fail(&why, LX_ERR_IO, NULL, "the server answered with status %d", http_status);
    return lx_fail(err, LX_ERR_IO, NULL, "%s port %lld: %s", o->host, (long long)o->port, why.text);
}

const lx_command lx_health_command = {
    .name = "health",
    .brief = "ask a running server whether it is ready",
    .summary = "Asks a running server whether it is ready.",
    LX_COMMAND(run),
    .config_of = &lx_serve_command,
    .notes =
        "The exit status is 0 for a ready server, 1 for one that is not ready or not reachable, 2\n"
        "for wrong arguments.\n",
};
