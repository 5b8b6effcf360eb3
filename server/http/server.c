/*
 * Start and stop of the HTTP server.
 *
 * libmicrohttpd runs a pool of threads, each with an epoll of its own. The watcher (watch.c) sees
 * the events that the library misses, and the workers (workers.c) carry out requests. A suspended
 * connection at MHD_stop_daemon aborts the process. So the server stops in this order:
 *   - stop listening, and let answers finish
 *   - mark the server as stopping; no connection is suspended from then on
 *   - let workers end their turns, and resume suspended connections
 *   - stop the library, then the watcher
 */
#include "server/http/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/hex.h"
#include "common/log.h"
#include "server/http/internal.h"

static void log_library(void *cls, const char *fmt, va_list args) LX_PRINTF(2, 0);
static void log_library(void *cls, const char *fmt, va_list args)
{
    (void)cls;
    char line[240];
    (void)vsnprintf(line, sizeof line, fmt, args);
    line[strcspn(line, "\n")] = '\0';
    lx_log(LX_LOG_DEBUG, "http: %s", line);
}

static void open_connection(lx_http *h, struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    lx_http_conn *conn = info != NULL ? calloc(1, sizeof *conn) : NULL;
    *context = conn;
    if (conn == NULL)
        return; /* its first request will be refused */
    conn->http = h;
    conn->fd = info->connect_fd;
    lx_front_init(&conn->front, &h->options.limits);
    conn->front.within_tls = h->options.tls_key != NULL;
    bool attached = lx_recv_attach(conn->fd, &conn->front);
    if (attached &&
        lx_watch_open(&h->watch, conn, lx_now_ns() + h->options.read_timeout_s * LX_NS_PER_S)) {
        conn->tls = lx_http_tls_attach(h, connection);
        atomic_fetch_add(&h->n_connections, 1);
        return;
    }
    if (attached)
        lx_recv_detach(conn->fd);
    free(conn);
    *context = NULL;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    lx_http *h = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        open_connection(h, connection, context);
    } else if (*context != NULL) {
        lx_http_conn *conn = *context;
        lx_watch_close(&h->watch, conn);
        if (conn->refused)
            lx_linger_add(&h->watch, conn->fd);
        lx_recv_detach(conn->fd);
        lx_front_fini(&conn->front);
        lx_http_tls_detach(conn->tls);
        free(*context);
        *context = NULL;
        atomic_fetch_sub(&h->n_connections, 1);
    }
}

/* Decodes %XX in place; %00 stays as it is, so that no path is cut short by it. */
static size_t unescape(void *cls, struct MHD_Connection *connection, char *s)
{
    (void)cls;
    (void)connection;
    char *out = s;
    for (const char *in = s; *in != '\0'; in++) {
        int high = *in == '%' ? lx_hex_digit(in[1]) : -1;
        int low = high >= 0 ? lx_hex_digit(in[2]) : -1;
        if (low >= 0 && high + low > 0) {
            *out++ = (char)(high * 16 + low);
            in += 2;
        } else {
            *out++ = *in;
        }
    }
    *out = '\0';
    return (size_t)(out - s);
}

static lx_status start_daemon(lx_http *h, lx_error *err)
{
    const lx_http_options *o = &h->options;
    if (!lx_http_tls_find_recv())
        return lx_fail(err, LX_ERR_INTERNAL, NULL, "GnuTLS has no gnutls_record_recv");
    static const char versions[] = LX_TLS_VERSIONS;
    bool has_tls = o->tls_key != NULL;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                     (has_tls ? MHD_USE_TLS : 0U);
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)o->tls_certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)o->tls_key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)versions},
        {MHD_OPTION_END, 0, NULL}};
    h->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, lx_exchange_on_call, h, MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL,
        MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_LISTEN_SOCKET, h->listener,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)(o->n_threads > 1 ? o->n_threads : 0),
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)o->idle_timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)LX_HTTP_MEMORY_BYTES, MHD_OPTION_NOTIFY_COMPLETED, lx_exchange_on_completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)o->max_per_address, MHD_OPTION_ARRAY, has_tls ? tls : &tls[3], MHD_OPTION_END);
    if (h->daemon == NULL)
        return lx_fail(err, LX_ERR_IO, NULL, "cannot start the HTTP threads");
    h->listener = MHD_INVALID_SOCKET; /* it is the daemon's */
    return LX_OK;
}

/* Frees the server, whose threads have ended. */
static void end(lx_http *h, bool had_workers)
{
    if (h->listener != MHD_INVALID_SOCKET)
        (void)close(h->listener);
    if (h->watch.started)
        lx_watch_stop(&h->watch);
    if (had_workers)
        lx_workers_fini(&h->workers);
    lx_http_tls_free(h);
    lx_shares_fini(&h->shares);
    free(h);
}

lx_status lx_http_start(const lx_http_options *options, lx_http **out, lx_error *err)
{
    lx_http *h = calloc(1, sizeof *h);
    if (h == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the HTTP server");
    h->options = *options;
    h->listener = MHD_INVALID_SOCKET;
    if (getrandom(&h->id_prefix, sizeof h->id_prefix, 0) != (ssize_t)sizeof h->id_prefix)
        h->id_prefix = (uint64_t)lx_now_ns();
    lx_shares_init(&h->shares, options->bodies);
    (void)pthread_mutex_init(&h->tls_lock, NULL); /* cannot fail without attributes */
    lx_status st = LX_OK;
    if (options->tls_key != NULL)
        st = lx_http_renew_tls(h, options->tls_certificate, options->tls_key, err);
    if (st == LX_OK)
        st = lx_watch_start(&h->watch, options->ping_s, options->max_connections, err);
    if (st == LX_OK)
        st = lx_workers_start(&h->workers, options->n_threads, lx_exchange_work, lx_exchange_drop,
                              err);
    bool works = st == LX_OK;
    if (st == LX_OK)
        st = lx_http_listen(options->host, options->port, &h->listener, &h->port, err);
    if (st == LX_OK)
        st = start_daemon(h, err);
    if (st == LX_OK) {
        *out = h;
        return LX_OK;
    }
    if (works)
        lx_workers_stop(&h->workers);
    end(h, works);
    return st;
}

int32_t lx_http_port(const lx_http *h)
{
    return h->port;
}

lx_http_stats lx_http_get_stats(lx_http *h)
{
    lx_http_stats s = {.connections = atomic_load(&h->n_connections),
                       .exchanges = atomic_load(&h->n_exchanges),
                       .answering = atomic_load(&h->n_answering)};
    for (int i = 0; i < 6; i++)
        s.responses[i] = atomic_load(&h->responses[i]);
    s.abandoned = atomic_load(&h->abandoned);
    s.certificate_ends = atomic_load(&h->certificate_ends);
    return s;
}

void lx_http_quiesce(lx_http *h)
{
    if (atomic_exchange(&h->draining, true))
        return;
    /* The socket stays open without listening until the daemon has stopped. Its threads may still
     * be taking it out of their epoll, and the library ends the process if that fails. */
    h->listener = MHD_quiesce_daemon(h->daemon);
    if (h->listener != MHD_INVALID_SOCKET)
        (void)shutdown(h->listener, SHUT_RDWR);
}

void lx_http_cancel_all(lx_http *h)
{
    lx_watch_each(&h->watch, lx_exchange_cancel);
}

void lx_http_stop(lx_http *h)
{
    if (h == NULL)
        return;
    lx_http_quiesce(h);
    atomic_store(&h->stopping, true);
    lx_workers_stop(&h->workers);
    lx_watch_each(&h->watch, lx_exchange_kill);
    MHD_stop_daemon(h->daemon);
    end(h, true);
}
