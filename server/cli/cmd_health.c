/*
 * linnet health: is the server ready? For HEALTHCHECK, exec probes and scripts, in an image that
 * has neither curl nor a shell. It reads the server's own variables for host, port and TLS, so a
 * container that configures one has configured the other.
 */
#include <stdio.h>
#include <string.h>

#include "server/cli/cli.h"
#include "server/cli/commands.h"
#include "server/cli/probe.h"
#include "server/cli/serve_options.h"

typedef struct health_options {
    const char *host, *path, *tls_cert, *config;
    int64_t port;
    double timeout;
} health_options;

#define FIELD(member) offsetof(health_options, member)
static const lx_option options[] = {
    LX_CLI_CONFIG_OPTION(health_options, config),
    {.name = "host",
     .env = "LINNET_HOST",
     .kind = LX_OPTION_STRING,
     .offset = FIELD(host),
     .fallback = "127.0.0.1",
     .value = "NAME",
     .help = "where the server listens; 0.0.0.0 and :: mean this machine"},
    {.name = "port",
     .short_name = 'p',
     .env = "LINNET_PORT",
     .kind = LX_OPTION_INT,
     .offset = FIELD(port),
     .fallback = "8080",
     .min = 1,
     .max = 65535,
     .value = "N",
     .help = "its port"},
    {.name = "tls-cert",
     .env = "LINNET_TLS_CERT",
     .kind = LX_OPTION_STRING,
     .offset = FIELD(tls_cert),
     .value = "FILE",
     .help = "its certificate: if given, the request goes over TLS; the file is not read"},
    {.name = "path",
     .kind = LX_OPTION_STRING,
     .offset = FIELD(path),
     .fallback = "/readyz",
     .value = "PATH",
     .help = "the path of the request: /readyz, or /livez while models may still load"},
    {.name = "timeout",
     .kind = LX_OPTION_REAL,
     .offset = FIELD(timeout),
     .fallback = "3",
     .min = 0.001,
     .max = 3600,
     .value = "S",
     .help = "seconds for the whole of it"},
};

const lx_command lx_health_command = {
    .name = "health",
    .brief = "ask a running server whether it is ready",
    .summary = "Asks a running server whether it is ready.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .config_of = &lx_serve_command,
    .notes = "Exit status: 0 ready; 1 not ready or not there; 2 wrong arguments.\n",
};

/* A path of visible ASCII, so that nothing can be hidden in the request. */
static lx_status check_path(const char *path, lx_error *err)
{
    for (const char *c = path; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~')
            return lx_fail(err, LX_ERR_INVALID, "path", "--path: not a path of visible ASCII");
    if (strlen(path) > LX_PROBE_MAX_PATH)
        return lx_fail(err, LX_ERR_INVALID, "path", "--path: longer than %d", LX_PROBE_MAX_PATH);
    return path[0] == '/'
               ? LX_OK
               : lx_fail(err, LX_ERR_INVALID, "path", "--path: \"%s\" lacks the /", path);
}

int lx_command_health(int argc, char **argv)
{
    health_options o;
    int exit_status = 0, http_status = 0;
    if (lx_cli_parse(&lx_health_command, argc, argv, &o, NULL, NULL, &exit_status) != LX_OK)
        return exit_status;
    lx_error err = {0}, why = {0};
    lx_status st = check_path(o.path, &err);
    if (st != LX_OK)
        return lx_cli_fail(&lx_health_command, st, &err);
    lx_probe_question question = {.host = o.host,
                                  .port = (int32_t)o.port,
                                  .tls = o.tls_cert != NULL,
                                  .path = o.path,
                                  .timeout_ms = (int64_t)(o.timeout * 1000)};
    st = lx_probe(&question, &http_status, &why);
    if (st == LX_OK && http_status >= 200 && http_status < 300) {
        (void)printf("ready\n");
        return 0;
    }
    if (st == LX_OK)
        (void)lx_fail(&why, LX_ERR_IO, NULL, "status %d", http_status);
    (void)lx_fail(&err, LX_ERR_IO, NULL, "%s port %lld: %s", o.host, (long long)o.port, why.text);
    return lx_cli_fail(&lx_health_command, LX_ERR_IO, &err);
}
