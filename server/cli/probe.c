/*
 * One request by hand (see probe.h). Sockets do not block and every wait is a poll() with what is
 * left of the time, so a server that accepts and then says nothing cannot hold the caller.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "server/cli/probe_internal.h"

enum { STATUS_LINE = 64, STATUS_AT = 9 /* "HTTP/1.1 200" */ };

lx_status lx_probe_wait(const lx_probe_link *link, short events, lx_error *err)
{
    for (;;) {
        int64_t left_ms = (link->end_ns - lx_now_ns() + LX_NS_PER_MS - 1) / LX_NS_PER_MS;
        struct pollfd p = {.fd = link->fd, .events = events};
        int n = left_ms > 0 ? poll(&p, 1, (int)left_ms) : 0;
        if (n > 0)
            return LX_OK;
        if (n == 0)
            return lx_fail(err, LX_ERR_TIMEOUT, "timeout", "no answer in time");
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
    lx_status st = lx_probe_wait(link, POLLOUT, err);
    if (st != LX_OK)
        return st;
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    return error == 0 ? LX_OK : lx_fail(err, LX_ERR_IO, NULL, "%s", strerror(error));
}

/* As lx_probe_tls_send() and lx_probe_tls_receive(), without TLS. */
static lx_status plain_send(lx_probe_link *link, const char *text, size_t n, size_t *sent,
                            lx_error *err)
{
    ssize_t done = 0;
    while ((done = send(link->fd, text, n, MSG_NOSIGNAL)) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            return lx_fail(err, LX_ERR_IO, NULL, "%s", strerror(errno));
        lx_status st = lx_probe_wait(link, POLLOUT, err);
        if (st != LX_OK)
            return st;
    }
    *sent = (size_t)done;
    return LX_OK;
}

static lx_status plain_receive(lx_probe_link *link, char *room, size_t n, size_t *got,
                               lx_error *err)
{
    ssize_t done = 0;
    while ((done = recv(link->fd, room, n, 0)) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            return lx_fail(err, LX_ERR_IO, NULL, "%s", strerror(errno));
        lx_status st = lx_probe_wait(link, POLLIN, err);
        if (st != LX_OK)
            return st;
    }
    *got = (size_t)done;
    return LX_OK;
}

static lx_status send_all(lx_probe_link *link, const char *text, lx_error *err)
{
    lx_status st = LX_OK;
    for (size_t left = strlen(text), sent = 0; left > 0 && st == LX_OK; left -= sent, text += sent)
        st = link->tls != NULL ? lx_probe_tls_send(link, text, left, &sent, err)
                               : plain_send(link, text, left, &sent, err);
    return st;
}

/* Fills line[STATUS_LINE] with the answer's first line, or its beginning, as a string. */
static lx_status read_beginning(lx_probe_link *link, char *line, lx_error *err)
{
    size_t n = 0, got = 1;
    while (got > 0 && n < STATUS_LINE - 1 && memchr(line, '\n', n) == NULL) {
        size_t room = STATUS_LINE - 1 - n;
        lx_status st = link->tls != NULL ? lx_probe_tls_receive(link, line + n, room, &got, err)
                                         : plain_receive(link, line + n, room, &got, err);
        if (st != LX_OK)
            return st;
        n += got;
    }
    line[n] = '\0';
    return LX_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static lx_status parse_status(const char *line, int *http_status, lx_error *err)
{
    const char *digits = line + STATUS_AT;
    if (strncmp(line, "HTTP/1.", 7) != 0 || strlen(line) < STATUS_AT + 3 || !is_digit(digits[0]) ||
        !is_digit(digits[1]) || !is_digit(digits[2]))
        return lx_fail(err, LX_ERR_IO, NULL, "what answers does not speak HTTP");
    *http_status = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
    return LX_OK;
}

static lx_status ask(const struct addrinfo *a, const char *request, const lx_probe_question *q,
                     int64_t end_ns, int *http_status, lx_error *err)
{
    lx_probe_link link = {.end_ns = end_ns};
    link.fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (link.fd < 0)
        return lx_fail(err, LX_ERR_IO, NULL, "socket: %s", strerror(errno));
    char line[STATUS_LINE] = {0};
    lx_status st = connect_to(a, &link, err);
    if (st == LX_OK && q->tls)
        st = lx_probe_tls_open(&link, err);
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
    if (strlen(q->path) > LX_PROBE_MAX_PATH)
        return lx_fail(err, LX_ERR_INVALID, "path", "the path is too long");
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
