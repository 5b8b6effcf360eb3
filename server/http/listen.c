/*
 * The listening socket. The HTTP library does not make it, so that an error names the address in
 * use or the bad host.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/internal.h"

enum { BACKLOG = 4096 };

static int bind_one(const struct addrinfo *a)
{
    int one = 1;
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int saved = errno;
    (void)close(fd);
    errno = saved;
    return -1;
}

static int32_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {0};
    socklen_t n = sizeof a;
    if (getsockname(fd, &a.any, &n) != 0)
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

static lx_status find_addresses(const char *host, const char *service, struct addrinfo **found,
                                lx_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    int rc = getaddrinfo(host, service, &hints, found);
    return rc == 0
               ? LX_OK
               : lx_fail(err, LX_ERR_INVALID, "host", "--host \"%s\": %s", host, gai_strerror(rc));
}

lx_status lx_http_check_host(const char *host, lx_error *err)
{
    struct addrinfo *found = NULL;
    lx_status st = find_addresses(host, "0", &found, err);
    if (st == LX_OK)
        freeaddrinfo(found);
    return st;
}

lx_status lx_http_listen(const char *host, int32_t port, int *fd, int32_t *bound_port,
                         lx_error *err)
{
    char service[16];
    (void)snprintf(service, sizeof service, "%d", port);
    struct addrinfo *found = NULL;
    lx_status st = find_addresses(host, service, &found, err);
    if (st != LX_OK)
        return st;
    int s = -1;
    for (const struct addrinfo *a = found; a != NULL && s < 0; a = a->ai_next)
        s = bind_one(a);
    int saved = errno;
    freeaddrinfo(found);
    if (s < 0)
        return lx_fail(err, LX_ERR_IO, "port", "cannot listen on %s port %d: %s", host, port,
                       strerror(saved));
    *fd = s;
    *bound_port = port_of(s);
    return LX_OK;
}
