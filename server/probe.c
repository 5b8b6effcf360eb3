/*
 * One request by hand (see probe.h). Sockets do not block and every wait is a poll() with what is
 * left of the time, so a server that accepts and then says nothing cannot hold the caller.
 */
#include "server/probe.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"

enum { STATUS_LINE = 64, STATUS_AT = 9 /* "HTTP/1.1 200" */ };

/* Waits until fd is ready or the time is over. */
static lx_status wait_ready(int fd, short events, int64_t end_ns, lx_error *err)
{
    for (;;) {
        int64_t left_ms = (end_ns - lx_now_ns() + LX_NS_PER_MS - 1) / LX_NS_PER_MS;
        struct pollfd p = {.fd = fd, .events = events};
        int n = left_ms > 0 ? poll(&p, 1, (int)left_ms) : 0;
        if (n > 0)
            return LX_OK;
        if (n == 0)
            return lx_fail(err, LX_ERR_TIMEOUT, "timeout", "no answer in time");
        if (errno != EINTR)
            return lx_fail(err, LX_ERR_IO, NULL, "poll: %s", strerror(errno));
    }
}

static lx_status connect_to(const struct addrinfo *a, int fd, int64_t end_ns, lx_error *err)
{
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
        return LX_OK;
    if (errno != EINPROGRESS)
        return lx_fail(err, LX_ERR_IO, NULL, "%s", strerror(errno));
    lx_status st = wait_ready(fd, POLLOUT, end_ns, err);
    if (st != LX_OK)
        return st;
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    return error == 0 ? LX_OK : lx_fail(err, LX_ERR_IO, NULL, "%s", strerror(error));
}

static lx_status send_all(int fd, const char *text, size_t n, int64_t end_ns, lx_error *err)
{
    while (n > 0) {
        ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);
        if (sent >= 0) {
            text += sent;
            n -= (size_t)sent;
        } else if (errno == EAGAIN || errno == EINTR) {
            lx_status st = wait_ready(fd, POLLOUT, end_ns, err);
            if (st != LX_OK)
                return st;
        } else {
            return lx_fail(err, LX_ERR_IO, NULL, "%s", strerror(errno));
        }
    }
    return LX_OK;
}

/* Fills line[STATUS_LINE] with the answer's first line, or its beginning, as a string. */
static lx_status read_beginning(int fd, char *line, int64_t end_ns, lx_error *err)
{
    size_t n = 0;
    while (n < STATUS_LINE - 1 && memchr(line, '\n', n) == NULL) {
        lx_status st = wait_ready(fd, POLLIN, end_ns, err);
        if (st != LX_OK)
            return st;
        ssize_t got = recv(fd, line + n, STATUS_LINE - 1 - n, 0);
        if (got == 0)
            break;
        if (got > 0)
            n += (size_t)got;
        else if (errno != EAGAIN && errno != EINTR)
            return lx_fail(err, LX_ERR_IO, NULL, "%s", strerror(errno));
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

static lx_status ask(const struct addrinfo *a, const char *request, int64_t end_ns,
                     int *http_status, lx_error *err)
{
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0)
        return lx_fail(err, LX_ERR_IO, NULL, "socket: %s", strerror(errno));
    char line[STATUS_LINE] = {0};
    lx_status st = connect_to(a, fd, end_ns, err);
    if (st == LX_OK)
        st = send_all(fd, request, strlen(request), end_ns, err);
    if (st == LX_OK)
        st = read_beginning(fd, line, end_ns, err);
    if (st == LX_OK)
        st = parse_status(line, http_status, err);
    (void)close(fd);
    return st;
}

lx_status lx_probe(const char *host, int32_t port, const char *path, int64_t timeout_ms,
                   int *http_status, lx_error *err)
{
    int64_t end_ns = lx_now_ns() + timeout_ms * LX_NS_PER_MS;
    char service[16], request[LX_PROBE_MAX_PATH + 128];
    if (strlen(path) > LX_PROBE_MAX_PATH)
        return lx_fail(err, LX_ERR_INVALID, "path", "the path is too long");
    (void)snprintf(service, sizeof service, "%d", port);
    (void)snprintf(request, sizeof request,
                   "GET %s HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\n\r\n", path,
                   port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(host, service, &hints, &found);
    if (rc != 0)
        return lx_fail(err, LX_ERR_INVALID, "host", "%s", gai_strerror(rc));
    lx_status st = LX_ERR_IO;
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        st = ask(a, request, end_ns, http_status, err);
        if (st == LX_OK || st == LX_ERR_TIMEOUT)
            break;
    }
    freeaddrinfo(found);
    return st;
}
