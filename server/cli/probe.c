/*
 * One request by hand (see probe.h). Sockets do not block and every wait is a poll() with the rest
 * of the time, so a server that accepts and then says nothing cannot hold the caller.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "server/cli/probe.h"

enum { STATUS_LINE = 64, STATUS_AT = 9 /* "HTTP/1.1 200" */ };

/* Waits until the connection is ready for events (of poll()) or until its deadline. */
static lx_status wait_for(const lx_probe_link *link, short events, lx_error *err)
{
    for (;;) {
        int64_t left_ms = (link->end_ns - lx_now_ns() + LX_NS_PER_MS - 1) / LX_NS_PER_MS;
        struct pollfd p = {.fd = link->fd, .events = events};
        int n = left_ms > 0 ? poll(&p, 1, (int)left_ms) : 0;
        if (n > 0)
            return LX_OK;
        if (n == 0)
            return lx_fail(err, LX_ERR_TIMEOUT, "timeout",
                           "the server did not answer within --timeout");
        if (errno != EINTR)
            return lx_fail(err, LX_ERR_IO, NULL, "poll: %s", strerror(errno));
    }
}

static lx_status connect_to(const struct addrinfo *a, const lx_probe_link *link, lx_error *err)
{
    if (connect(link->fd, a->ai_addr, a->ai_addrlen) == 0)
        return LX_OK;
    if (errno != EINPROGRESS)
        return lx_fail(err, LX_ERR_IO, NULL, "%s", strerror(errno));
    lx_status st = wait_for(link, POLLOUT, err);
    if (st != LX_OK)
        return st;
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    return error == 0 ? LX_OK : lx_fail(err, LX_ERR_IO, NULL, "%s", strerror(error));
}

/* Sends or receives without TLS. */
static ssize_t plain_move(lx_probe_link *link, lx_probe_way way, char *data, size_t n,
                          short *events, lx_error *err)
{
    ssize_t done =
        way == LX_PROBE_SEND ? send(link->fd, data, n, MSG_NOSIGNAL) : recv(link->fd, data, n, 0);
    if (done < 0 && errno != EAGAIN && errno != EINTR)
        (void)lx_fail(err, LX_ERR_IO, NULL, "%s", strerror(errno));
    else
        *events = way == LX_PROBE_SEND ? POLLOUT : POLLIN;
    return done;
}

/* Shakes hands, sends at least one of n > 0 bytes or receives at most n; *done: how many. */
static lx_status move(lx_probe_link *link, lx_probe_way way, char *data, size_t n, size_t *done,
                      lx_error *err)
{
    *done = 0;
    for (;;) {
        short events = 0;
        ssize_t rc =
            (link->tls != NULL ? lx_probe_tls_move : plain_move)(link, way, data, n, &events, err);
        if (rc < 0 && events == 0)
            return LX_ERR_IO;
        if (rc >= 0) {
            *done = (size_t)rc;
            return LX_OK;
        }
        lx_status st = wait_for(link, events, err);
        if (st != LX_OK)
            return st;
    }
}

static lx_status send_all(lx_probe_link *link, char *text, lx_error *err)
{
    lx_status st = LX_OK;
    for (size_t left = strlen(text), sent = 0; left > 0 && st == LX_OK; left -= sent, text += sent)
        st = move(link, LX_PROBE_SEND, text, left, &sent, err);
    return st;
}

/* Fills line[STATUS_LINE] with the answer's first line, or its beginning, as a string. */
static lx_status read_beginning(lx_probe_link *link, char *line, lx_error *err)
{
    lx_status st = LX_OK;
    size_t n = 0, got = 1;
    while (st == LX_OK && got > 0 && n < STATUS_LINE - 1 && memchr(line, '\n', n) == NULL) {
        st = move(link, LX_PROBE_RECEIVE, line + n, STATUS_LINE - 1 - n, &got, err);
        n += got;
    }
    line[n] = '\0';
    return st;
}

static lx_status parse_status(const char *line, int *http_status, lx_error *err)
{
    if (strncmp(line, "HTTP/1.", 7) != 0 || strlen(line) < STATUS_AT + 3 ||
        strspn(line + STATUS_AT, "0123456789") < 3)
        return lx_fail(err, LX_ERR_IO, NULL, "the server's reply is not HTTP");
    *http_status = 0;
    for (int i = STATUS_AT; i < STATUS_AT + 3; i++)
        *http_status = *http_status * 10 + (line[i] - '0');
    return LX_OK;
}

static lx_status ask(const struct addrinfo *a, char *request, const lx_probe_question *q,
                     int64_t end_ns, int *http_status, lx_error *err)
{
    lx_probe_link link = {.end_ns = end_ns};
    link.fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (link.fd < 0)
        return lx_fail(err, LX_ERR_IO, NULL, "socket: %s", strerror(errno));
    char line[STATUS_LINE] = {0};
    lx_status st = connect_to(a, &link, err);
    size_t none = 0;
    if (st == LX_OK && q->tls)
        st = lx_probe_tls_open(&link, err);
    if (st == LX_OK && q->tls)
        st = move(&link, LX_PROBE_SHAKE, NULL, 0, &none, err);
    if (st == LX_OK)
        st = send_all(&link, request, err);
    if (st == LX_OK)
        st = read_beginning(&link, line, err);
    if (st == LX_OK)
        st = parse_status(line, http_status, err);
    lx_probe_tls_close(&link);
    (void)close(link.fd);
    return st;
}

lx_status lx_probe(const lx_probe_question *q, int *http_status, lx_error *err)
{
    int64_t end_ns = lx_now_ns() + q->timeout_ms * LX_NS_PER_MS;
    char service[16], request[LX_PROBE_MAX_PATH + 128];
    (void)snprintf(service, sizeof service, "%d", q->port);
    (void)snprintf(request, sizeof request,
                   "GET %s HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\n\r\n", q->path,
                   q->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(q->host, service, &hints, &found);
    if (rc != 0)
        return lx_fail(err, LX_ERR_INVALID, "host", "%s", gai_strerror(rc));
    lx_status st = LX_ERR_IO;
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        st = ask(a, request, q, end_ns, http_status, err);
        if (st == LX_OK || st == LX_ERR_TIMEOUT)
            break;
    }
    freeaddrinfo(found);
    return st;
}
