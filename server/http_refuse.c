/*
 * What the HTTP library refuses by itself, answered in our words.
 *
 * The library answers a head that does not fit its memory (431, 414) and one it cannot parse (400)
 * before any callback of ours has seen the request, with a page of its own. It hands that page to
 * its public function MHD_queue_response, and by the rules of ELF a program's definition of a
 * public function comes before a library's. So this one is called instead: it throws the page away
 * and queues what options.refuse says. Our own answers go to the library's function directly.
 *
 * A library that would call its function in another way still refuses, with its page; the HTTP
 * tests would show it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "server/http_internal.h"

enum { RAW_BYTES = 4096 };

typedef enum MHD_Result (*queue_function)(struct MHD_Connection *connection, unsigned status,
                                          struct MHD_Response *response);

static queue_function library_queue;

bool lx_http_find_queue(void)
{
    *(void **)&library_queue = dlsym(RTLD_NEXT, "MHD_queue_response");
    return library_queue != NULL;
}

enum MHD_Result lx_http_queue_response(struct MHD_Connection *connection, int status,
                                       struct MHD_Response *response)
{
    return library_queue(connection, (unsigned)status, response);
}

/* Which part of the request the library found wrong. */
static void explain(int status, lx_error *err)
{
    switch (status) {
    case 414:
        (void)lx_fail(err, LX_ERR_INVALID, "url", "the URL is too long");
        break;
    case 431:
        (void)lx_fail(err, LX_ERR_INVALID, "headers",
                      "the request's headers are larger than %d bytes", LX_HTTP_HEAD_BYTES);
        break;
    case 413:
        (void)lx_fail(err, LX_ERR_TOO_LARGE, "Content-Length", "the body is too large");
        break;
    case 505:
        (void)lx_fail(err, LX_ERR_INVALID, "version", "only HTTP/1.0 and HTTP/1.1 are spoken here");
        break;
    default:
        (void)lx_fail(err, LX_ERR_INVALID, "request",
                      "the request's first line, a header or the framing of its body is malformed");
        break;
    }
}

/* Writes the answer past the library, head and body in one go: both fit an empty socket buffer. */
static void write_raw(lx_http *h, int fd, const lx_response *rs)
{
    char id[LX_MAX_REQUEST_ID + 1], text[RAW_BYTES];
    lx_http_make_id(h, id);
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: %s\r\n"
                     "Content-Length: %zu\r\nX-Request-Id: %s\r\n\r\n%.*s",
                     rs->status, MHD_get_reason_phrase_for((unsigned)rs->status), rs->content_type,
                     rs->body_bytes, id, (int)rs->body_bytes, rs->body);
    if (n > 0 && n < RAW_BYTES)
        (void)send(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    lx_http_count(h, rs->status);
}

/* Called by the library for its own refusals only. */
enum MHD_Result MHD_queue_response(struct MHD_Connection *connection, unsigned status,
                                   struct MHD_Response *response)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    lx_http_conn *conn = info != NULL ? info->socket_context : NULL;
    if (conn == NULL)
        return library_queue(connection, status, response);
    const lx_http_options *o = &conn->http->options;
    lx_error err = {0};
    lx_response rs = {0};
    explain((int)status, &err);
    o->refuse(o->context, (int)status, &err, &rs);
    conn->refused = true;
    /* After a malformed Content-Length the library (0.9.75) would go on with the request and send a
       second head; it stops only when its answer could not be queued. */
    if ((status == 400 || status == 413) && rs.body != NULL) {
        if (o->tls_key == NULL) /* within TLS the connection just ends */
            write_raw(conn->http, conn->fd, &rs);
        free(rs.body);
        return MHD_NO;
    }
    return lx_http_queue_refusal(conn->http, connection, &rs);
}
