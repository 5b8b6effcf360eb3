/*
 * linnet serve: models over HTTP, from the first flag to the last answer.
 *
 * Order of the start: signals blocked (every thread inherits that), HTTP listens and answers 503,
 * models load, ready. Order of the end, on SIGTERM or SIGINT: readiness goes false and new work is
 * refused, the listening socket closes, running answers finish within --drain-timeout, what is left
 * is told so, HTTP stops, then the engines. A second signal skips the waiting.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/cli.h"
#include "server/commands.h"
#include "server/json_api.h"
#include "server/routes.h"
#include "server/version.h"

enum { RESERVED_FDS = 64, POLL_MS = 20, LAST_WORDS_MS = 1000 };

typedef struct serve_options {
    lx_cli_model_options local; /* model may be NULL here */
    const char *host, *models, *log_level;
    int64_t port, slots, queue, http_threads, max_connections, connection_timeout, read_timeout;
    int64_t ping, max_body, max_n, max_images, drain_timeout;
    double timeout;
} serve_options;

#define FIELD(member) offsetof(serve_options, member)
static const lx_option options[] = {
    {.name = "host",
     .env = "LINNET_HOST",
     .kind = LX_OPTION_STRING,
     .offset = FIELD(host),
     .fallback = "127.0.0.1",
     .value = "NAME",
     .help = "address to listen on"},
    {.name = "port",
     .short_name = 'p',
     .env = "LINNET_PORT",
     .kind = LX_OPTION_INT,
     .offset = FIELD(port),
     .fallback = "8080",
     .min = 0,
     .max = 65535,
     .value = "N",
     .help = "port, 0: any free one (see the log)"},
    {.name = "models",
     .env = "LINNET_MODELS",
     .kind = LX_OPTION_STRING,
     .offset = FIELD(models),
     .value = "DIR",
     .help = "serve every subfolder with a config.json [weights without --model]"},
    LX_CLI_MODEL_OPTION(serve_options, local, .help = "serve this model's folder"),
    LX_CLI_BACKEND_OPTIONS(serve_options, local),
    {.name = "slots",
     .env = "LINNET_SLOTS",
     .kind = LX_OPTION_INT,
     .offset = FIELD(slots),
     .fallback = "0",
     .min = 0,
     .max = 4096,
     .value = "N",
     .help = "samples computed at once, a model; 0: up to 256, from a quarter of free memory"},
    {.name = "queue",
     .env = "LINNET_QUEUE",
     .kind = LX_OPTION_INT,
     .offset = FIELD(queue),
     .fallback = "1024",
     .min = 0,
     .max = 1000000,
     .value = "N",
     .help = "requests that may wait, a model"},
    {.name = "http-threads",
     .env = "LINNET_HTTP_THREADS",
     .kind = LX_OPTION_INT,
     .offset = FIELD(http_threads),
     .fallback = "2",
     .min = 1,
     .max = 64,
     .value = "N",
     .help = "threads that read requests and write answers"},
    {.name = "max-connections",
     .env = "LINNET_MAX_CONNECTIONS",
     .kind = LX_OPTION_INT,
     .offset = FIELD(max_connections),
     .fallback = "12000",
     .min = 1,
     .max = 1000000,
     .value = "N",
     .help = "open connections, at most what the limit of open files leaves"},
    {.name = "connection-timeout",
     .env = "LINNET_CONNECTION_TIMEOUT",
     .kind = LX_OPTION_INT,
     .offset = FIELD(connection_timeout),
     .fallback = "60",
     .min = 1,
     .max = 3600,
     .value = "S",
     .help = "seconds of silence after which a connection is closed"},
    {.name = "read-timeout",
     .env = "LINNET_READ_TIMEOUT",
     .kind = LX_OPTION_INT,
     .offset = FIELD(read_timeout),
     .fallback = "30",
     .min = 1,
     .max = 3600,
     .value = "S",
     .help = "seconds for a request's head, and again for its body"},
    {.name = "ping",
     .env = "LINNET_PING",
     .kind = LX_OPTION_INT,
     .offset = FIELD(ping),
     .fallback = "15",
     .min = 0,
     .max = 3600,
     .value = "S",
     .help = "seconds of silence in a stream before a comment is sent, 0: never"},
    {.name = "max-body",
     .env = "LINNET_MAX_BODY",
     .kind = LX_OPTION_INT,
     .offset = FIELD(max_body),
     .fallback = "65536",
     .min = 256,
     .max = 1 << 30,
     .value = "BYTES",
     .help = "largest body of a request"},
    {.name = "max-n",
     .env = "LINNET_MAX_N",
     .kind = LX_OPTION_INT,
     .offset = FIELD(max_n),
     .fallback = "128",
     .min = 1,
     .max = 4096,
     .value = "N",
     .help = "most answers of a completion"},
    {.name = "max-images",
     .env = "LINNET_MAX_IMAGES",
     .kind = LX_OPTION_INT,
     .offset = FIELD(max_images),
     .fallback = "1000",
     .min = 1,
     .max = 100000,
     .value = "N",
     .help = "most images a request"},
    {.name = "timeout",
     .env = "LINNET_TIMEOUT",
     .kind = LX_OPTION_REAL,
     .offset = FIELD(timeout),
     .fallback = "60",
     .min = 0.001,
     .max = 86400,
     .value = "S",
     .help = "seconds for a request, waiting included"},
    {.name = "drain-timeout",
     .env = "LINNET_DRAIN_TIMEOUT",
     .kind = LX_OPTION_INT,
     .offset = FIELD(drain_timeout),
     .fallback = "30",
     .min = 0,
     .max = 3600,
     .value = "S",
     .help = "seconds for running answers after SIGTERM"},
    {.name = "log-level",
     .env = "LINNET_LOG_LEVEL",
     .kind = LX_OPTION_CHOICE,
     .offset = FIELD(log_level),
     .fallback = "info",
     .choices = "debug|info|warn|error",
     .value = "LEVEL",
     .help = "least level that is logged"},
};

static const lx_command command = {
    .name = "serve",
    .summary = "Serves models over HTTP: the page at /, the API under /v1/.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .notes = "An argument wins over its environment variable. SIGTERM or SIGINT lets running\n"
             "answers finish and ends with status 0; a second one ends at once.\n",
};

static void set_log_level(const char *name)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0)
            lx_log_set_level((lx_log_level)i);
}

/* Raises the limit of open files as far as allowed; returns how many connections that leaves. */
static int32_t connection_limit(int64_t wanted)
{
    struct rlimit limit = {0};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return (int32_t)wanted;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    int64_t most = limit.rlim_cur > 2 * RESERVED_FDS && limit.rlim_cur < (1 << 24)
                       ? (int64_t)limit.rlim_cur - RESERVED_FDS
                       : wanted;
    return (int32_t)(wanted < most ? wanted : most);
}

/* --- HTTP
 * ----------------------------------------------------------------------------------------- */

static void handle(void *context, const lx_request *rq, lx_response *rs)
{
    lx_routes_dispatch(context, rq, rs);
}

static void refuse(void *context, int status, const lx_error *err, lx_response *rs)
{
    (void)context;
    lx_respond_error(rs, status, status == 413 ? "body_too_large" : "bad_request", err->param,
                     err->text);
}

static lx_status start_http(const serve_options *o, lx_api *api, lx_http **out, lx_error *err)
{
    lx_http_options http = {
        .host = o->host,
        .port = (int32_t)o->port,
        .n_threads = (int32_t)o->http_threads,
        .max_connections = connection_limit(o->max_connections),
        .idle_timeout_s = (int32_t)o->connection_timeout,
        .read_timeout_s = (int32_t)o->read_timeout,
        .ping_s = (int32_t)o->ping,
        .max_body = (size_t)o->max_body,
        .handle = handle,
        .refuse = refuse,
        .context = api,
    };
    lx_status st = lx_http_start(&http, out, err);
    if (st != LX_OK)
        return st;
    atomic_store(&api->http, *out);
    lx_log(LX_LOG_INFO, "listening on %s port %d", o->host, lx_http_port(*out));
    return LX_OK;
}

static lx_status load_models(const serve_options *o, lx_serving *serving, lx_error *err)
{
    lx_serving_options s = {
        .backend = o->local.backend,
        .backend_options = lx_cli_backend_options(&o->local),
        .models_dir = o->models == NULL && o->local.model == NULL ? "weights" : o->models,
        .model_dir = o->local.model,
        .n_slots = (int32_t)o->slots,
        .max_queue = (int32_t)o->queue,
    };
    return lx_serving_load(serving, &s, err);
}

/* --- the end
 * -------------------------------------------------------------------------------------- */

static bool is_done(lx_serving *serving, lx_http *http)
{
    return lx_serving_idle(serving) && lx_http_get_stats(http).answering == 0;
}

/* Waits until everything is answered, the time is over (false), or a second signal comes (false,
 *again). */
static bool wait_done(lx_serving *serving, lx_http *http, const sigset_t *signals, int64_t ms,
                      bool *again)
{
    int64_t end = lx_now_ns() + ms * LX_NS_PER_MS;
    const struct timespec pause = {.tv_nsec = POLL_MS * LX_NS_PER_MS};
    while (!is_done(serving, http)) {
        if (lx_now_ns() >= end)
            return false;
        if (sigtimedwait(signals, NULL, &pause) > 0) {
            *again = true;
            return false;
        }
    }
    return true;
}

static void drain(const serve_options *o, lx_serving *serving, lx_http *http,
                  const sigset_t *signals)
{
    bool again = false;
    lx_serving_drain(serving);
    lx_http_quiesce(http);
    lx_log(LX_LOG_INFO, "draining: running answers have %lld s", (long long)o->drain_timeout);
    if (wait_done(serving, http, signals, o->drain_timeout * 1000, &again))
        return;
    lx_log(LX_LOG_WARN, "%s, dropping %lld requests", again ? "second signal" : "time is over",
           (long long)lx_http_get_stats(http).answering);
    lx_http_cancel_all(http);
    if (!again)
        (void)wait_done(serving, http, signals, LAST_WORDS_MS, &again);
}

/* From here on a signal ends the process the usual way, should the end hang. */
static void restore_signals(const sigset_t *signals)
{
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)pthread_sigmask(SIG_UNBLOCK, signals, NULL);
}

static void wait_for_signal(const sigset_t *signals)
{
    int number = 0;
    while (sigwait(signals, &number) != 0)
        ;
    lx_log(LX_LOG_INFO, "%s", number == SIGTERM ? "SIGTERM" : "SIGINT");
}

static void block_signals(sigset_t *signals)
{
    (void)sigemptyset(signals);
    (void)sigaddset(signals, SIGTERM);
    (void)sigaddset(signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

static void log_url(const char *host, int32_t port)
{
    bool v6 = strchr(host, ':') != NULL;
    lx_log(LX_LOG_INFO, "linnet %s ready: http://%s%s%s:%d", LX_VERSION, v6 ? "[" : "", host,
           v6 ? "]" : "", port);
}

int lx_command_serve(int argc, char **argv)
{
    serve_options o;
    int exit_status = 0;
    if (lx_cli_parse(&command, argc, argv, &o, NULL, NULL, &exit_status) != LX_OK)
        return exit_status;
    set_log_level(o.log_level);
    sigset_t signals;
    block_signals(&signals);
    lx_error err = {0};
    lx_api api = {.max_n = (int32_t)o.max_n,
                  .max_images = (int32_t)o.max_images,
                  .timeout_ns = (int64_t)(o.timeout * 1e9)};
    lx_http *http = NULL;
    lx_status st = lx_serving_new(&api.serving, &err);
    if (st == LX_OK)
        st = start_http(&o, &api, &http, &err);
    if (st == LX_OK)
        st = load_models(&o, api.serving, &err);
    if (st == LX_OK) {
        log_url(o.host, lx_http_port(http));
        wait_for_signal(&signals);
        drain(&o, api.serving, http, &signals);
    } else {
        exit_status = lx_cli_fail(&command, st, &err);
    }
    restore_signals(&signals);
    lx_http_stop(http);
    lx_serving_free(api.serving);
    if (st == LX_OK)
        lx_log(LX_LOG_INFO, "stopped");
    return exit_status;
}
