/*
 * One request and its answer, driven by the library's callbacks.
 *
 *   - READING: the first call checks the framing and refuses a bad request before its body. The
 *     next calls collect the body up to the limit, and drop the rest.
 *   - WORKING: the connection is suspended. A worker has the exchange, or a wake will give it to
 *     one (turns.c). Requests that cost nothing, such as probes, skip this phase.
 *   - SENDING: an answer is queued. The reader of a stream is in response.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/http/internal.h"

/* So many bytes over the limit are read and dropped, so that the refusal arrives; then the
   connection is cut. */
enum { DROPPED_BODY_BYTES = 32 << 20, OUT_BYTES = 128 * 1024 };

/* --- life --- */

static const char *header(const lx_exchange *ex, const char *name)
{
    const char *value = MHD_lookup_connection_value(ex->connection, MHD_HEADER_KIND, name);
    return value != NULL ? value : "";
}

static void choose_id(lx_exchange *ex)
{
    const char *id = header(ex, "X-Request-Id");
    lx_http *h = ex->http;
    if (lx_request_id_ok(id))
        (void)snprintf(ex->id, sizeof ex->id, "%s", id);
    else
        (void)snprintf(ex->id, sizeof ex->id, "%016llx-%llx", (unsigned long long)h->id_prefix,
                       (unsigned long long)atomic_fetch_add(&h->next_id, 1));
    /* By its standard a malformed one counts as absent. */
    (void)lx_trace_id_read(header(ex, "Traceparent"), ex->trace);
}

static enum MHD_Result collect_forwarded(void *cls, enum MHD_ValueKind kind, const char *name,
                                         const char *value)
{
    lx_forwarded *f = cls;
    (void)kind;
    if (strcasecmp(name, "X-Forwarded-For") == 0 && value != NULL)
        lx_forwarded_add(f, value);
    return MHD_YES;
}

/* The client's address: the peer's, or what trusted proxies say in X-Forwarded-For. */
static void find_client(lx_exchange *ex)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(ex->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const lx_proxies *proxies = ex->http->options.proxies;
    lx_forwarded forwarded = {.n = 0};
    lx_address_set(&ex->client, info != NULL ? info->client_addr : NULL);
    if (proxies == NULL || !lx_proxies_trust(proxies, &ex->client))
        return;
    (void)MHD_get_connection_values(ex->connection, MHD_HEADER_KIND, collect_forwarded, &forwarded);
    lx_proxies_find_client(proxies, &forwarded, &ex->client);
}

static lx_exchange *exchange_new(lx_http *h, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    lx_exchange *ex = info != NULL && info->socket_context != NULL ? calloc(1, sizeof *ex) : NULL;
    if (ex == NULL)
        return NULL;
    ex->http = h;
    ex->start_ns = lx_now_ns();
    ex->connection = connection;
    ex->conn = info->socket_context;
    ex->number = ex->conn->n_exchanges++;
    atomic_store(&ex->refs, 1);
    (void)pthread_mutex_init(&ex->lock, NULL);
    lx_buffer_init(&ex->out, OUT_BYTES);
    choose_id(ex);
    atomic_fetch_add(&h->n_exchanges, 1);
    find_client(ex);
    return ex;
}

/* --- reading --- */

static void set_deadline(lx_exchange *ex, int32_t seconds)
{
    lx_watch_set_deadline(&ex->http->watch, ex->conn, lx_now_ns() + seconds * LX_NS_PER_S);
}

static enum MHD_Result refuse(lx_exchange *ex, int status, const lx_error *err, bool close)
{
    const lx_http_options *o = &ex->http->options;
    lx_response rs = {0};
    ex->conn->refused = close;
    o->refuse(o->context, ex->path, status, err, &rs);
    set_deadline(ex, o->read_timeout_s);
    return lx_http_queue(ex, &rs, close);
}

/* The status with which the front refuses this exchange's request, 0: it does not. */
static int front_fault(const lx_exchange *ex, lx_error *err)
{
    if (ex->number < ex->conn->front.n_requests)
        return lx_front_fault(&ex->conn->front, ex->number, err);
    (void)lx_fail(err, LX_ERR_INTERNAL, "request", "the request was read past its checks");
    lx_log(LX_LOG_ERROR, "http: libmicrohttpd read a request past its checks");
    return 500;
}

/* By the Content-Type that the handler will see. */
static void limit_body(lx_exchange *ex)
{
    const char *type = header(ex, "Content-Type");
    ex->most = lx_body_limit_of(&ex->http->options.limits, ex->method, ex->path,
                                lx_is_media_type(type, strlen(type), LX_FORM_TYPE));
    lx_buffer_init(&ex->body, ex->most.bytes);
}

/* Whether the request may come in. If not, an answer is queued with this *result, and the body is
   not read. */
static bool admit(lx_exchange *ex, const char *url, bool has_body, enum MHD_Result *result)
{
    const lx_http_options *o = &ex->http->options;
    lx_request_head head = {
        .method = ex->method,
        .path = url,
        .host = header(ex, "Host"),
        .authorization = header(ex, "Authorization"),
        .api_key = header(ex, "X-Api-Key"),
        .origin = header(ex, "Origin"),
        .fetch_site = header(ex, "Sec-Fetch-Site"),
        .asks_for_method = header(ex, "Access-Control-Request-Method")[0] != '\0',
    };
    lx_response rs = {0};
    if (o->admit == NULL)
        return true;
    ex->passed = o->admit(o->access, &head, &ex->pass, &rs);
    if (ex->passed)
        return true;
    ex->conn->refused = has_body;
    *result = lx_http_queue(ex, &rs, has_body);
    return false;
}

/* Whether the client's share has room now for a body that begins. The body takes room as it comes,
   so that a client holds no more than it has sent. */
static bool begin_body(lx_exchange *ex)
{
    bool has_key = ex->pass.who != NULL && ex->pass.who[0] != '\0';
    lx_body_owner owner =
        lx_body_owner_of(has_key ? ex->pass.client.key : NULL, lx_address_of(&ex->client));
    ex->share = lx_shares_join(&ex->http->shares, &owner);
    return ex->share != NULL &&
           (ex->body_length == 0 ||
            lx_shares_have(&ex->http->shares, ex->share, (int64_t)ex->body_length + 1));
}

/* Room for a body of so many bytes in all; false when the client's share has none. */
static bool reserve_body(lx_exchange *ex, size_t bytes)
{
    size_t need = bytes + 1; /* its NUL */
    if (!lx_shares_take(&ex->http->shares, ex->share, (int64_t)(need - ex->reserved)))
        return false;
    ex->reserved = need;
    lx_buffer_reserve(&ex->body, bytes);
    return true;
}

static void no_room(const lx_exchange *ex, lx_error *err)
{
    const lx_budget *b = ex->http->options.bodies;
    (void)lx_fail(err, LX_ERR_BUSY, "body",
                  "the %lld bytes for the bodies of all requests (--%s), or this client's share "
                  "of them, are in use",
                  (long long)b->limit, b->flag);
}

static enum MHD_Result begin(lx_http *h, struct MHD_Connection *connection, const char *method,
                             const char *url, const char *version, void **con_cls)
{
    lx_exchange *ex = exchange_new(h, connection);
    if (ex == NULL)
        return MHD_NO;
    *con_cls = ex;
    (void)snprintf(ex->method, sizeof ex->method, "%s", method);
    (void)snprintf(ex->path, sizeof ex->path, "%s", url);
    ex->old_version = strcmp(version, "HTTP/1.0") == 0;
    limit_body(ex);
    lx_watch_begin(&h->watch, ex->conn, lx_now_ns() + h->options.read_timeout_s * LX_NS_PER_S);
    if (h->options.set_origin != NULL)
        h->options.set_origin(h->options.access, header(ex, "Origin"), &ex->pass);
    lx_error err = {0};
    int fault = front_fault(ex, &err);
    if (fault != 0)
        return refuse(ex, fault, &err, true);
    enum MHD_Result result = MHD_YES;
    ex->body_length = strtoull(header(ex, "Content-Length"), NULL, 10); /* the front checked it */
    bool has_body = ex->body_length > 0 || header(ex, "Transfer-Encoding")[0] != '\0';
    if (!admit(ex, url, has_body, &result) || !has_body || begin_body(ex))
        return result;
    no_room(ex, &err);
    return refuse(ex, 503, &err, true);
}

static enum MHD_Result take_body(lx_exchange *ex, const char *data, size_t *n)
{
    size_t need = ex->body.length + *n;
    size_t most = ex->body_length > 0 ? ex->body_length : ex->most.bytes;
    if (ex->body.status == LX_OK && need <= most && need >= ex->reserved) {
        size_t room = 2 * need < most ? 2 * need : most;
        if (!reserve_body(ex, room)) {
            lx_exchange_free_body(ex);
            ex->body.status = LX_ERR_BUSY; /* the rest of it is dropped */
        }
    }
    lx_buffer_append(&ex->body, data, *n);
    ex->body_bytes += *n;
    *n = 0;
    return ex->body_bytes <= ex->most.bytes + DROPPED_BODY_BYTES ? MHD_YES : MHD_NO;
}

static enum MHD_Result refuse_body(lx_exchange *ex)
{
    lx_error err = {0};
    bool large = ex->body.status == LX_ERR_TOO_LARGE;
    if (ex->body.status == LX_ERR_BUSY) {
        no_room(ex, &err);
        return refuse(ex, 503, &err, false);
    }
    (void)lx_fail(&err, ex->body.status, "body",
                  large ? "the body is larger than the %zu bytes allowed (--%s)"
                        : "no memory for a body of up to %zu bytes (--%s)",
                  ex->most.bytes, ex->most.flag);
    return refuse(ex, large ? 413 : 503, &err, false);
}

/* --- working: on a worker ---
 *
 * A worker calls the handler. If the answer comes later, workers do every step of it until it is
 * whole, or a stream that the connection's thread reads. Of a costly stream they make every piece.
 *
 *   start_work        suspends the connection and gives the exchange to the workers
 *   lx_exchange_work  on a worker, once for the request and once for each wake
 *   take_answer       sends the worker's answer, on the connection's thread
 */

static enum MHD_Result start_work(lx_exchange *ex)
{
    ex->phase = LX_EXCHANGE_WORKING;
    ex->given_ns = lx_now_ns();
    lx_watch_set_deadline(&ex->http->watch, ex->conn, 0); /* handle_request limits the time */
    bool there = lx_watch_attach(&ex->http->watch, ex->conn, ex);
    return there && lx_exchange_give(ex) ? MHD_YES : MHD_NO;
}

/* From now on the answer comes from this object, or from the one to which it hands over. */
static void take_over(lx_exchange *ex, const lx_deferred *deferred)
{
    (void)pthread_mutex_lock(&ex->lock);
    ex->before = ex->deferred;
    ex->deferred = *deferred;
    bool left = ex->left;
    (void)pthread_mutex_unlock(&ex->lock);
    if (left)
        lx_exchange_cancel(ex);
    lx_watch_set_deadline(&ex->http->watch, ex->conn, deferred->deadline_ns);
}

/* The request itself, unless it has waited for too long. */
static void handle_request(lx_exchange *ex, lx_response *rs)
{
    const lx_http_options *o = &ex->http->options;
    lx_error err = {0};
    ex->handled = true;
    if (lx_now_ns() - ex->given_ns < o->wait_ns) {
        o->handle(o->context, &ex->request, rs);
    } else {
        (void)lx_fail(&err, LX_ERR_BUSY, NULL,
                      "the server was busy with other requests for %.3g s (--timeout)",
                      (double)o->wait_ns / (double)LX_NS_PER_S);
        o->refuse(o->context, ex->path, 503, &err, rs);
    }
    lx_http_keep_body(ex);
    lx_exchange_free_body(ex);
}

/* Whether *rs is to be sent now. If not, nothing can be done before the next wake. */
static bool make_answer(lx_exchange *ex, lx_response *rs)
{
    if (!ex->handled) {
        if (lx_exchange_is_left(ex))
            return false;
        handle_request(ex, rs);
        if (rs->deferred.context == NULL)
            return true;
        take_over(ex, &rs->deferred);
    } else if (ex->deferred.pull != NULL) {
        return !lx_exchange_is_left(ex) && lx_http_pull(ex);
    }
    while (rs->deferred.pull == NULL) {
        if (lx_exchange_is_left(ex))
            return false;
        const lx_deferred *d = &ex->deferred;
        if (d->advance != NULL)
            d->advance(d->context);
        if (!d->is_done(d->context))
            return false;
        *rs = (lx_response){0};
        d->finish(d->context, rs);
        if (rs->deferred.context == NULL || ex->before.context != NULL)
            return true;
        take_over(ex, &rs->deferred);
    }
    return true;
}

void lx_exchange_work(lx_exchange *ex)
{
    for (bool over = false; !over;) {
        lx_response rs = {0};
        bool ready = make_answer(ex, &rs);
        over = lx_exchange_end_turn(ex, ready ? &rs : NULL);
    }
    lx_exchange_unref(ex);
}

static enum MHD_Result take_answer(lx_exchange *ex)
{
    (void)pthread_mutex_lock(&ex->lock);
    bool ready = !ex->working;
    (void)pthread_mutex_unlock(&ex->lock);
    if (!ready)
        return MHD_NO; /* the client left, or the server stops */
    lx_response rs = ex->response;
    ex->response = (lx_response){0};
    if (rs.deferred.pull != NULL)
        return lx_http_queue_stream(ex, &rs);
    if (ex->deferred.context == NULL)
        set_deadline(ex, ex->http->options.idle_timeout_s);
    return lx_http_queue(ex, &rs, false);
}

/* --- answering --- */

static const char *argument(const void *query, const char *name)
{
    struct MHD_Connection *connection = (struct MHD_Connection *)(uintptr_t)query;
    return MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
}

static enum MHD_Result answer(lx_exchange *ex, const char *url, const char *method)
{
    const lx_http_options *o = &ex->http->options;
    lx_error err = {0};
    int fault = front_fault(ex, &err);
    if (fault != 0)
        return refuse(ex, fault, &err, true);
    if (ex->body.status != LX_OK)
        return refuse_body(ex);
    ex->request = (lx_request){
        .method = method,
        .path = url,
        .tail = "",
        .content_type = header(ex, "Content-Type"),
        .if_none_match = header(ex, "If-None-Match"),
        .accept = header(ex, "Accept"),
        .accept_encoding = header(ex, "Accept-Encoding"),
        .host = header(ex, "Host"),
        .anthropic_version = header(ex, "Anthropic-Version"),
        .https =
            o->tls_certificate != NULL || strcasecmp(header(ex, "X-Forwarded-Proto"), "https") == 0,
        .argument = argument,
        .query = ex->connection,
        .id = ex->id,
        .body = ex->body.data != NULL ? ex->body.data : "",
        .body_bytes = ex->body.length,
        .client = ex->pass.client,
        .wake = lx_exchange_wake,
        .wake_context = ex,
        .owner = ex->pass.owner,
        .admin = ex->pass.admin,
        .facts = &ex->facts,
    };
    ex->answering = true;
    atomic_fetch_add(&ex->http->n_answering, 1);
    if (ex->body.length > 0 || o->is_quick == NULL || !o->is_quick(method, url))
        return start_work(ex);
    lx_response rs = {0};
    o->handle(o->context, &ex->request, &rs);
    set_deadline(ex, o->idle_timeout_s);
    return lx_http_queue(ex, &rs, false);
}

enum MHD_Result lx_exchange_on_call(void *cls, struct MHD_Connection *connection, const char *url,
                                    const char *method, const char *version, const char *upload,
                                    size_t *upload_bytes, void **con_cls)
{
    lx_exchange *ex = *con_cls;
    if (ex == NULL)
        return begin(cls, connection, method, url, version, con_cls);
    if (ex->phase == LX_EXCHANGE_WORKING)
        return take_answer(ex);
    if (ex->phase == LX_EXCHANGE_SENDING) /* refused in the first call; the rest is not read */
        return MHD_YES;
    if (*upload_bytes > 0)
        return take_body(ex, upload, upload_bytes);
    return answer(ex, url, method);
}

void lx_exchange_on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                              enum MHD_RequestTerminationCode code)
{
    (void)connection;
    lx_http *h = cls;
    lx_exchange *ex = *con_cls;
    if (ex == NULL)
        return;
    *con_cls = NULL;
    (void)pthread_mutex_lock(&ex->lock);
    ex->completed = true;
    (void)pthread_mutex_unlock(&ex->lock);
    int64_t wait_s = h->options.idle_timeout_s + h->options.read_timeout_s;
    lx_watch_end(&h->watch, ex->conn, lx_now_ns() + wait_s * LX_NS_PER_S);
    bool complete = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    if (!complete)
        lx_exchange_cancel(ex); /* counts the tokens so far, for the log */
    lx_http_log_request(ex, complete);
    if (!complete && !ex->handled && ex->status == 0) /* else its job counts that */
        atomic_fetch_add(&h->abandoned, 1);
    lx_exchange_unref(ex);
}
