/*
 * linnet serve: models over HTTP, from the first flag to the last answer.
 *
 * Order of the start: signals blocked (every thread inherits that), HTTP listens and answers 503,
 * models load, ready. Order of the end, on SIGTERM or SIGINT: the server reports not ready, refuses
 * new work and closes the listening socket. Running answers finish within --drain-timeout; later
 * ones get an error. HTTP stops, then the engines. A second signal skips the waiting.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/features.h"
#include "common/log.h"
#include "common/version.h"
#include "server/api/access.h"
#include "server/auth/secret.h"
#include "server/cli/cli.h"
#include "server/cli/lifecycle.h"
#include "server/cli/memory.h"
#include "server/cli/serve_options.h"
#include "server/http/proxies.h"
#include "server/routes/painter.h"
#include "server/routes/routes.h"
#include "server/states/prefix_store.h"
#include "server/states/redis.h"

enum { LAST_LINES_MS = 500, MAX_PEM = 1 << 20, MAX_PASSWORD = 4096 };
enum { MOST_SLOTS = 65536, MOST_QUEUE = 1000000 }; /* as those of --slots and --queue */
#define FILE_BYTES ((int64_t)16 << 30) /* of states in a file, unless an option says more */

static void set_log_level(const char *name)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0)
            lx_log_set_level((lx_log_level)i);
}

/* --- HTTP --- */

static void handle(void *context, const lx_request *rq, lx_response *rs)
{
    lx_api *api = context;
    int64_t bytes = lx_request_work_bytes(rq);
    rs->envelope = lx_envelope_of(rq->path);
    if (!lx_budget_try(&api->bodies, bytes)) {
        lx_respond_no_room(api, bytes, rs);
        return;
    }
    int32_t turn = lx_serving_enter(api->serving);
    lx_routes_dispatch(api, rq, rs);
    lx_serving_leave(api->serving, turn);
    lx_budget_release(&api->bodies, bytes);
}

static void refuse(void *context, const char *path, int status, const lx_error *err,
                   lx_response *rs)
{
    (void)context;
    rs->envelope = lx_envelope_of(path);
    if (status == 503) {
        lx_respond_status(rs, LX_ERR_UNAVAILABLE, err);
        return;
    }
    const char *code = status == 413   ? "body_too_large"
                       : status == 415 ? "unsupported_media_type"
                                       : "bad_request";
    lx_respond_error(rs, status, code, err->param, err->text);
}

/* The parts that HTTP is started with, in addition to the options. */
typedef struct parts {
    lx_access *access;
    lx_proxies *proxies;     /* NULL: none is trusted */
    char *certificate, *key; /* PEM, NULL: no TLS */
    char *state_key;         /* NULL: states are not signed */
    char font[320];          /* its line in the log, "": none */
} parts;

static lx_status read_tls(const lx_serve_options *o, parts *p, lx_error *err)
{
    if (o->tls_cert == NULL && o->tls_key == NULL)
        return LX_OK;
    if (o->tls_cert == NULL || o->tls_key == NULL)
        return lx_fail(err, LX_ERR_INVALID, "tls-cert",
                       "--tls-cert and --tls-key belong together: give both or neither");
    lx_status st = lx_secret_read_file(o->tls_cert, MAX_PEM, "tls-cert", &p->certificate, err);
    if (st == LX_OK)
        st = lx_secret_read_file(o->tls_key, MAX_PEM, "tls-key", &p->key, err);
    return st;
}

static lx_status make_access(const lx_serve_options *o, parts *p, lx_error *err)
{
    lx_access_options access = {
        /* in argv or the environment, where ps and /proc would show the key */
        .api_key = (char *)(uintptr_t)o->api_key,
        .api_key_file = o->api_key_file,
        .public_paths = o->public_paths,
        .cors_origins = o->cors_origins,
        .allowed_hosts = o->allowed_hosts,
        .host = o->host,
        .limits = {.concurrent = (int32_t)o->key_concurrency,
                   .per_minute = (int32_t)o->key_rate,
                   .tokens = o->key_tokens,
                   .samples = (int32_t)o->key_samples,
                   .max_states = o->key_states,
                   .max_state_bytes = o->key_state_bytes},
    };
    lx_status st = lx_access_new(&access, &p->access, err);
    bool local = strncmp(o->host, "127.", 4) == 0 || strcmp(o->host, "::1") == 0 ||
                 strcmp(o->host, "localhost") == 0;
    if (st == LX_OK && !local && !lx_access_has_keys(p->access))
        lx_log(
            LX_LOG_WARN,
            "every client that reaches %s may use the server; set --api-key or --api-key-file to "
            "prevent that",
            o->host);
    if (st == LX_OK && !lx_access_has_admin(p->access))
        lx_log(LX_LOG_INFO, "no API key has the right admin, so POST /v1/models/reload is refused; "
                            "SIGHUP reloads the models");
    return st;
}

/* No key alone may fill a store that several keys share. */
static void share_store(lx_state_store *states, lx_access *access)
{
    lx_store_stats s;
    states->ops->stats(states, &s);
    if (s.max_states > 0)
        lx_access_share(access, s.max_states, s.max_bytes);
}

static void free_secret(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}

static void free_parts(parts *p)
{
    lx_access_free(p->access);
    lx_proxies_free(p->proxies);
    free(p->certificate);
    free_secret(p->key);
    free_secret(p->state_key);
}

static lx_status start_http(const lx_serve_options *o, const lx_memory *memory, lx_api *api,
                            parts *p, lx_http **out, lx_error *err)
{
    int32_t max_connections = 0;
    lx_status st = make_access(o, p, err);
    if (st == LX_OK)
        st = read_tls(o, p, err);
    if (st == LX_OK)
        st = lx_proxies_new(o->trusted_proxies, &p->proxies, err);
    if (st == LX_OK)
        st = lx_lifecycle_connections(memory->connections, (int32_t)o->http_threads,
                                      &max_connections, err);
    if (st != LX_OK)
        return st;
    share_store(api->states, p->access);
    lx_http_options http = {
        .host = o->host,
        .port = (int32_t)o->port,
        .n_threads = (int32_t)o->http_threads,
        .max_connections = max_connections,
        .idle_timeout_s = (int32_t)o->connection_timeout,
        .read_timeout_s = (int32_t)o->read_timeout,
        .wait_ns = (int64_t)(o->timeout * 1e9),
        .ping_s = (int32_t)o->ping,
        .limits = {.body = {(size_t)o->max_body, "max-body"},
                   .upload = {(size_t)o->max_upload, "max-upload"},
                   .takes_uploads = lx_routes_take_uploads},
        .bodies = &api->bodies,
        .tls_certificate = p->certificate,
        .tls_key = p->key,
        .max_per_address = (int32_t)o->per_address,
        .proxies = p->proxies,
        .log_bodies = o->log_prompts,
        .set_origin = lx_access_set_origin,
        .admit = lx_access_admit,
        .leave = lx_access_leave,
        .access = p->access,
        .is_quick = lx_routes_is_quick,
        .handle = handle,
        .refuse = refuse,
        .context = api,
    };
    st = lx_http_start(&http, out, err);
    if (st != LX_OK)
        return st;
    atomic_store(&api->http, *out);
    lx_log(LX_LOG_INFO, "listening on %s port %d", o->host, lx_http_port(*out));
    if (p->font[0] != '\0')
        lx_log(LX_LOG_INFO, "%s", p->font);
    return LX_OK;
}

/* The served models, with the folders' names, which live as long. */
typedef struct served {
    lx_serving_options options;
    char models[LX_PLACE_BYTES], model[LX_PLACE_BYTES];
} served;

/* Finds the folders and checks that they can be read, before anything is started. */
static lx_status find_models(const lx_serve_options *o, served *s, lx_error *err)
{
    lx_status st = LX_OK;
    bool default_models = o->models == NULL && o->local.model == NULL;
    if (default_models)
        st = lx_places_models(s->models, err);
    if (st == LX_OK && o->local.model != NULL)
        st = lx_places_model(o->local.model, s->model, err);
    s->options = (lx_serving_options){
        .backend = o->local.backend,
        .device = o->local.device,
        .backend_options = lx_cli_backend_options(&o->local),
        .models_dir = default_models ? s->models : o->models,
        .model_dir = o->local.model != NULL ? s->model : NULL,
        .n_slots = (int32_t)o->slots,
        .max_queue = (int32_t)o->queue,
        .page_bytes = o->state_mb << 20,
        .prefix_bytes = o->prefix_cache_mb << 20,
        .prefix_every = (int32_t)o->prefix_every,
        .share_prefixes = o->share_prefixes,
        .draft = o->draft,
        .probe_ns = (int64_t)(o->probe_interval * 1e9),
    };
    if (st == LX_OK)
        st = lx_model_limits_read(o->model_slots, "model-slots", MOST_SLOTS, &s->options.slots_of,
                                  err);
    if (st == LX_OK)
        st = lx_model_limits_read(o->model_queue, "model-queue", MOST_QUEUE, &s->options.queue_of,
                                  err);
    return st == LX_OK ? lx_serving_check(&s->options, err) : st;
}

/* A copy of a secret, whose original in argv or the environment is wiped, as ps and /proc would
   show it. */
static lx_status take_secret(const char *text, char **out, lx_error *err)
{
    *out = strdup(text);
    if (*out == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a secret");
    explicit_bzero((char *)(uintptr_t)text, strlen(text));
    return LX_OK;
}

/* Reads the file's first line. */
static lx_status read_password(const char *path, char **out, lx_error *err)
{
    if (path == NULL)
        return LX_OK;
    lx_status st = lx_secret_read_file(path, MAX_PASSWORD, "state-store-password-file", out, err);
    if (st == LX_OK)
        (*out)[strcspn(*out, "\r\n")] = '\0';
    return st;
}

/* The key that signs states, for the server's life. */
static lx_status take_state_key(const lx_serve_options *o, lx_api *api, parts *p, lx_error *err)
{
    if (o->state_key == NULL)
        return LX_OK;
    if (o->state_key[0] == '\0')
        return lx_fail(err, LX_ERR_INVALID, "state-key",
                       "--state-key is empty; give a secret, or leave the option out");
    lx_status st = take_secret(o->state_key, &p->state_key, err);
    api->state_key = p->state_key;
    api->state_key_bytes = st == LX_OK ? strlen(p->state_key) : 0;
    return st;
}

static lx_status open_states(const lx_serve_options *o, int64_t max_bytes, lx_api *api, parts *p,
                             lx_error *err)
{
    char *where = strdup(o->state_store), *password = NULL;
    lx_status st = LX_OK;
    if (where == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the name of a store");
    lx_redis_url_hide_password((char *)(uintptr_t)o->state_store); /* as take_secret */
    if (st == LX_OK)
        st = take_state_key(o, api, p, err);
    if (st == LX_OK)
        st = read_password(o->state_store_password_file, &password, err);
    if (st == LX_OK) {
        lx_state_store_options s = {
            .where = where,
            .password = password,
            .max_states = lx_memory_most_states(o->max_states, max_bytes),
            .max_bytes = max_bytes,
            .max_on_their_way = max_bytes,
            .timeout_ms = (int64_t)(o->state_store_timeout * 1000),
        };
        if (lx_store_is_file(where)) {
            s.max_states = o->max_states;
            s.max_bytes = o->max_state_bytes > 0 ? o->max_state_bytes : FILE_BYTES;
        }
        st = lx_state_store_open(&s, &api->states, err);
    }
    free_secret(where);
    free_secret(password);
    return st;
}

/* The file of prompt states next to the file of states. */
static lx_status open_prefixes(const lx_serve_options *o, served *models, lx_error *err)
{
    if (!lx_store_is_file(o->state_store) || o->prefix_store_mb == 0 || o->prefix_cache_mb == 0)
        return LX_OK;
    char *path = lx_prefix_store_path(o->state_store);
    lx_status st = path != NULL ? lx_prefix_store_open(path, o->prefix_store_mb << 20,
                                                       &models->options.place, err)
                                : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a name");
    free(path);
    return st;
}

/* --- pictures of links --- */

/* Opens the font of --font, or one that is installed; without a font, links to texts show the
   page's picture. */
static lx_status open_font(const lx_serve_options *o, parts *p, lx_font **out, lx_error *err)
{
    lx_error cause = {0};
    const char *path = o->font != NULL ? o->font : lx_places_font();
    *out = NULL;
    if (path != NULL && strcmp(path, "none") == 0)
        return LX_OK;
    lx_status st = path != NULL
                       ? lx_font_open(path, out, &cause)
                       : lx_fail(&cause, LX_ERR_NOT_FOUND, NULL, "no Chinese font is installed");
    if (st != LX_OK && o->font != NULL)
        return lx_fail(err, st, "font", "--font: %s", cause.text);
    (void)snprintf(p->font, sizeof p->font, st == LX_OK ? "pictures of links: %s%s" : "%s%s",
                   st == LX_OK ? path : cause.text,
                   st == LX_OK ? "" : ": links to texts show the page's own picture (--font)");
    return LX_OK;
}

static lx_status start_painter(const lx_serve_options *o, lx_api *api, parts *p, lx_error *err)
{
    lx_font *font = NULL;
    lx_status st = open_font(o, p, &font, err);
    return st == LX_OK ? lx_painter_new(font, &api->painter, err) : st;
}

/* --- the end --- */

/* From here on a signal ends the process the usual way, should the end hang. */
static void restore_signals(const sigset_t *signals)
{
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)pthread_sigmask(SIG_UNBLOCK, signals, NULL);
}

static void count_reload(lx_api *api, int part, lx_status st)
{
    lx_reload_counter *c = &api->reloads[part];
    atomic_fetch_add(st == LX_OK ? &c->done : &c->failed, 1);
}

static void renew_tls(const lx_serve_options *o, lx_api *api)
{
    lx_error err = {0};
    parts p = {0};
    if (o->tls_key == NULL)
        return;
    lx_status st = read_tls(o, &p, &err);
    if (st == LX_OK)
        st = lx_http_renew_tls(atomic_load(&api->http), p.certificate, p.key, &err);
    if (st != LX_OK)
        lx_log(LX_LOG_WARN, "%s; the server keeps the certificate that it has", err.text);
    else
        lx_log(LX_LOG_INFO, "new connections get the certificate in %s", o->tls_cert);
    count_reload(api, LX_RELOADED_CERTIFICATE, st);
    free_parts(&p);
}

static void reread_keys(const lx_serve_options *o, lx_api *api, lx_access *access)
{
    lx_error err = {0};
    lx_key_changes c;
    if (o->api_key_file == NULL)
        return;
    lx_status st = lx_access_reload(access, &c, &err);
    if (st != LX_OK)
        lx_log(LX_LOG_WARN, "%s; the server keeps the keys that it has", err.text);
    else
        lx_log(LX_LOG_INFO, "%d API keys: %d new, %d changed, %d removed", c.n, c.n_added,
               c.n_changed, c.n_removed);
    count_reload(api, LX_RELOADED_KEYS, st);
}

static void ask_for_reload(const lx_serve_options *o, lx_api *api, lx_access *access)
{
    lx_error err = {0};
    lx_log(LX_LOG_INFO, "SIGHUP: reading the models%s%s again",
           o->api_key_file != NULL ? ", the keys" : "",
           o->tls_key != NULL ? " and the certificate" : "");
    reread_keys(o, api, access);
    renew_tls(o, api);
    if (lx_reload_start(api->serving, NULL, NULL, NULL, &err) != LX_OK)
        lx_log(LX_LOG_WARN, "reload: %s", err.text);
}

/* Until SIGTERM or SIGINT; on SIGHUP a reload begins. Meanwhile the service manager hears that the
   engines work, if it asked for that. */
static void wait_for_signal(const sigset_t *signals, const lx_serve_options *o, lx_api *api,
                            lx_access *access)
{
    sigset_t all = *signals;
    const struct timespec pause = lx_lifecycle_watchdog_pause();
    int number = 0;
    (void)sigaddset(&all, SIGHUP);
    while (number != SIGTERM && number != SIGINT) {
        number = sigtimedwait(&all, NULL, &pause);
        if (number == SIGHUP)
            ask_for_reload(o, api, access);
        lx_lifecycle_watchdog(lx_serving_get_state(api->serving));
    }
    lx_log(LX_LOG_INFO, "%s", number == SIGTERM ? "SIGTERM" : "SIGINT");
}

static void block_signals(sigset_t *signals)
{
    (void)sigemptyset(signals);
    (void)sigaddset(signals, SIGTERM);
    (void)sigaddset(signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, signals, NULL);
    sigset_t reload;
    (void)sigemptyset(&reload);
    (void)sigaddset(&reload, SIGHUP); /* stays blocked: only wait_for_signal takes it */
    (void)pthread_sigmask(SIG_BLOCK, &reload, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file of states at the limit of a file's size */
}

static void tell_ready(const char *host, int32_t port, bool tls)
{
    bool v6 = strchr(host, ':') != NULL;
    if (lx_left_out[0] != '\0')
        lx_log(LX_LOG_INFO, "built without %s", lx_left_out);
    lx_log(LX_LOG_INFO, "linnet %s ready: http%s://%s%s%s:%d", LX_VERSION, tls ? "s" : "",
           v6 ? "[" : "", host, v6 ? "]" : "", port);
    lx_lifecycle_notify("READY=1");
}

/* Sets the limits; the other members are opened and started later. */
static void init_api(const lx_serve_options *o, const lx_memory *memory, lx_api *api)
{
    *api = (lx_api){.max_n = (int32_t)o->max_n,
                    .max_prompt = (int32_t)o->max_prompt,
                    .max_tokens = (int32_t)o->max_tokens,
                    .max_images = (int32_t)o->max_images,
                    .model_sampling = o->model_sampling,
                    .timeout_ns = (int64_t)(o->timeout * 1e9),
                    .queue_timeout_ns = (int64_t)(o->queue_timeout * 1e9),
                    .first_token_timeout_ns = (int64_t)(o->first_token_timeout * 1e9),
                    .state_ttl_ms = o->state_ttl * 1000,
                    .max_forks = (int32_t)o->max_n,
                    .claims = {.mutex = PTHREAD_MUTEX_INITIALIZER}};
    lx_budget_init(&api->answers, "answer-memory", memory->answers);
    lx_budget_init(&api->bodies, "body-memory", memory->bodies);
}

/* For --check: reads all that a start reads, and computes a step of each model, but neither listens
   nor opens the store, which a running server may have. */
static lx_status check_start(const lx_serve_options *o, const served *models, lx_memory *memory,
                             lx_error *err)
{
    lx_api api;
    char *password = NULL;
    int32_t max_connections = 0;
    parts p = {0};
    init_api(o, memory, &api);
    memory->limit = &api.answers.limit;
    lx_status st = make_access(o, &p, err);
    if (st == LX_OK)
        st = read_tls(o, &p, err);
    if (st == LX_OK && p.key != NULL)
        st = lx_http_check_tls(p.certificate, p.key, err);
    if (st == LX_OK)
        st = lx_proxies_new(o->trusted_proxies, &p.proxies, err);
    if (st == LX_OK)
        st = start_painter(o, &api, &p, err);
    if (st == LX_OK)
        st = take_state_key(o, &api, &p, err);
    if (st == LX_OK)
        st = read_password(o->state_store_password_file, &password, err);
    if (st == LX_OK)
        st = lx_state_store_check(o->state_store, password, err);
    lx_redis_url_hide_password((char *)(uintptr_t)o->state_store); /* as take_secret */
    if (st == LX_OK)
        st = lx_http_check_host(o->host, err);
    if (st == LX_OK)
        st = lx_lifecycle_connections(memory->connections, (int32_t)o->http_threads,
                                      &max_connections, err);
    if (st == LX_OK)
        st = lx_serving_new(&api.serving, err);
    if (st == LX_OK)
        st = lx_serving_load(api.serving, &models->options, err);
    if (st == LX_OK)
        lx_log(LX_LOG_INFO, "--check: the server could start with these options and models");
    lx_serving_free(api.serving);
    memory->limit = NULL; /* `api` ends here */
    lx_painter_free(api.painter);
    free_secret(password);
    free_parts(&p);
    return st;
}

/* It may be meant for another program, so the server starts. */
static void report_unknown_variables(void)
{
    const lx_option *nearest = NULL;
    const char *name = NULL;
    size_t at = 0, n = 0;
    while ((name = lx_options_unknown_variable(&lx_serve_command, &at, &n, &nearest)) != NULL)
        lx_log(LX_LOG_WARN, "the variable %.*s names no option and has no effect", (int)n, name);
}

lx_status lx_serve(void *values, const char *const *rest, lx_error *err)
{
    (void)rest;
    const lx_serve_options *o = values;
    set_log_level(o->log_level);
    lx_log_set_json(strcmp(o->log_format, "json") == 0);
    report_unknown_variables();
    served models;
    lx_memory memory;
    lx_status st = find_models(o, &models, err);
    if (st == LX_OK)
        st = lx_memory_plan(o, &models.options, &memory, err);
    if (st != LX_OK)
        return st;
    if (o->check)
        return check_start(o, &models, &memory, err);
    sigset_t signals;
    block_signals(&signals);
    lx_api api;
    init_api(o, &memory, &api);
    memory.limit = &api.answers.limit;
    lx_http *http = NULL;
    parts p = {0};
    st = lx_log_sink_start(lx_log_report_loss, err);
    if (st == LX_OK)
        st = lx_serving_new(&api.serving, err);
    if (st == LX_OK)
        st = open_states(o, memory.store, &api, &p, err);
    if (st == LX_OK)
        st = open_prefixes(o, &models, err);
    if (st == LX_OK)
        st = start_painter(o, &api, &p, err);
    if (st == LX_OK)
        st = start_http(o, &memory, &api, &p, &http, err);
    if (st == LX_OK)
        st = lx_serving_load(api.serving, &models.options, err);
    if (st == LX_OK) {
        tell_ready(o->host, lx_http_port(http), o->tls_key != NULL);
        wait_for_signal(&signals, o, &api, p.access);
        lx_lifecycle_notify("STOPPING=1");
        lx_lifecycle_drain(o->drain_delay, o->drain_timeout, api.serving, api.states, http,
                           &signals);
    }
    restore_signals(&signals);
    lx_http_stop(http);
    lx_painter_free(api.painter);
    lx_serving_free(api.serving);
    lx_prefix_store_close(models.options.place);
    if (api.states != NULL)
        api.states->ops->close(api.states);
    free_parts(&p);
    if (st == LX_OK)
        lx_log(LX_LOG_INFO, "stopped");
    lx_log_sink_stop(LAST_LINES_MS);
    return st;
}
