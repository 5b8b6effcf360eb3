/*
 * From lx_response to the library's response objects, with the headers of every answer: the request
 * id, nosniff, and Connection: close once the server drains. (After it stops listening, the library
 * still serves idle keep-alive connections.)
 *
 * The reader of a stream runs in the connection's thread. Without data it must suspend the
 * connection, or the library calls it in a busy loop. It looks for data and suspends under the
 * exchange lock, so that no wake is lost in between.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/http/internal.h"

enum { STREAM_BLOCK = 1024 };

void lx_response_add(lx_response *rs, const char *name, const char *fmt, ...)
{
    if (rs->n_headers == LX_MAX_RESPONSE_HEADERS)
        return;
    lx_response_header *h = &rs->headers[rs->n_headers++];
    h->name = name;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(h->value, sizeof h->value, fmt, args);
    va_end(args);
}

void lx_response_take(lx_response *rs, int status, const char *content_type, lx_buffer *body)
{
    rs->status = status;
    rs->content_type = content_type;
    rs->body = lx_buffer_take(body, &rs->body_bytes);
    if (rs->body == NULL) {
        static const char words[] =
            "{\"error\":{\"message\":\"no memory for the answer\","
            "\"type\":\"service_unavailable_error\",\"param\":null,\"code\":\"out_of_memory\"}}";
        rs->status = 503;
        rs->content_type = "application/json";
        rs->static_body = words;
        rs->body_bytes = sizeof words - 1;
        lx_response_add(rs, "Retry-After", "1");
    }
}

static bool add(struct MHD_Response *m, const char *name, const char *value)
{
    return MHD_add_response_header(m, name, value) == MHD_YES;
}

static bool add_origin(struct MHD_Response *m, const lx_pass *pass)
{
    if (pass->vary_origin && !add(m, "Vary", "Origin"))
        return false;
    return pass->allow_origin == NULL ||
           (add(m, "Access-Control-Allow-Origin", pass->allow_origin) &&
            add(m, "Access-Control-Expose-Headers",
                "Allow, Linnet-Ignored, Retry-After, X-Request-Id"));
}

/* False without memory: an answer that lacks a header is not sent. */
static bool add_headers(struct MHD_Response *m, const lx_response *rs, const lx_pass *pass,
                        const char *id, bool close)
{
    bool ok = add_origin(m, pass);
    if (rs->content_type != NULL)
        ok = ok && add(m, "Content-Type", rs->content_type);
    for (int32_t i = 0; i < rs->n_headers; i++)
        ok = ok && add(m, rs->headers[i].name, rs->headers[i].value);
    ok = ok && add(m, "X-Request-Id", id) && add(m, "X-Content-Type-Options", "nosniff");
    return ok && (!close || add(m, "Connection", "close"));
}

/* Takes the library's response. */
static enum MHD_Result send_response(lx_exchange *ex, const lx_response *rs, struct MHD_Response *m,
                                     bool close)
{
    lx_http *h = ex->http;
    enum MHD_Result result = MHD_NO;
    ex->phase = LX_EXCHANGE_SENDING;
    ex->status = rs->status;
    if (add_headers(m, rs, &ex->pass, ex->id, close || atomic_load(&h->draining))) {
        result = MHD_queue_response(ex->connection, (unsigned)rs->status, m);
        if (rs->status >= 100 && rs->status < 600)
            atomic_fetch_add(&h->responses[rs->status / 100], 1);
    }
    MHD_destroy_response(m);
    return result;
}

enum MHD_Result lx_http_queue(lx_exchange *ex, lx_response *rs, bool close)
{
    struct MHD_Response *m =
        rs->body != NULL
            ? MHD_create_response_from_buffer(rs->body_bytes, rs->body, MHD_RESPMEM_MUST_FREE)
            : MHD_create_response_from_buffer(rs->body_bytes, (void *)(uintptr_t)rs->static_body,
                                              MHD_RESPMEM_PERSISTENT);
    if (m != NULL)
        return send_response(ex, rs, m, close);
    ex->status = rs->status;
    free(rs->body);
    return MHD_NO;
}

bool lx_http_pull(lx_exchange *ex)
{
    bool ping = atomic_exchange(&ex->ping_due, false);
    ex->ended = ex->deferred.pull(ex->deferred.context, &ex->out);
    if (ping && ex->out.length == 0 && !ex->ended && ex->deferred.ping != NULL)
        lx_buffer_puts(&ex->out, ex->deferred.ping);
    return ex->out.length > 0 || ex->ended || ex->out.status != LX_OK;
}

/* The library (0.9.75) closes the connection of a stream that fails, or ends in HTTP/1.0, but frees
   it only when it looks at it again. A connection that was suspended is not in its epoll, and it
   reads the list of timeouts only up to the first entry that is not late. But in each turn it looks
   at all connections with an own timeout, so the closed one gets one. */
static ssize_t end_stream(const lx_exchange *ex, ssize_t end)
{
    unsigned own_s = ex->http->options.idle_timeout_s == 1 ? 2 : 1; /* differs from the others' */
    if (end == MHD_CONTENT_READER_END_WITH_ERROR || ex->old_version)
        (void)MHD_set_connection_option(ex->connection, MHD_CONNECTION_OPTION_TIMEOUT, own_s);
    return end;
}

/* Ends a stream whose rest cannot be made with its failure text, which needs no memory. */
static ssize_t give_up(lx_exchange *ex, char *buf, size_t max)
{
    size_t n = ex->deferred.failure == NULL ? 0 : strlen(ex->deferred.failure);
    lx_exchange_cancel(ex);
    if (n == 0 || n > max)
        return end_stream(ex, MHD_CONTENT_READER_END_WITH_ERROR);
    memcpy(buf, ex->deferred.failure, n);
    ex->out.length = ex->out_read = 0;
    ex->ended = true;
    return (ssize_t)n;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max)
{
    (void)pos;
    lx_exchange *ex = cls;
    for (;;) {
        size_t n = lx_take_bytes(&ex->out, &ex->out_read, buf, max);
        if (n > 0) {
            atomic_store(&ex->last_sent_ns, lx_now_ns());
            return (ssize_t)n;
        }
        if (ex->ended)
            return end_stream(ex, MHD_CONTENT_READER_END_OF_STREAM);
        if (lx_exchange_is_left(ex))
            return end_stream(ex, MHD_CONTENT_READER_END_WITH_ERROR);
        bool more = !ex->deferred.costly && lx_http_pull(ex);
        if (ex->out.status != LX_OK)
            return give_up(ex, buf, max);
        if (!more && (ex->deferred.costly ? lx_exchange_give(ex) : lx_exchange_suspend(ex)))
            return 0;
    }
}

static void release_stream(void *cls)
{
    lx_exchange_unref(cls);
}

enum MHD_Result lx_http_queue_stream(lx_exchange *ex, lx_response *rs)
{
    struct MHD_Response *m = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK,
                                                               read_stream, ex, release_stream);
    if (m == NULL)
        return MHD_NO;
    lx_exchange_ref(ex);
    atomic_store(&ex->last_sent_ns, lx_now_ns());
    atomic_store(&ex->streaming, true);
    return send_response(ex, rs, m, false);
}
