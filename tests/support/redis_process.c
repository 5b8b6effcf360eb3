/* See redis_process.h. */
#include "tests/support/redis_process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/patience.h"

extern char **environ;

/* Debian's redis-tools holds the server under its other name: which it is, argv[0] says. */
static const char *const programs[] = {"/usr/bin/redis-server", "/usr/bin/redis-check-rdb",
                                       "/usr/local/bin/redis-server"};

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    (void)close(fd);
    return ntohs(a.sin_port);
}

static bool listens(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool yes = connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
    (void)close(fd);
    return yes;
}

bool redis_start(redis_process *r)
{
    if (r->port == 0)
        r->port = free_port();
    (void)snprintf(r->url, sizeof r->url, "redis://127.0.0.1:%d/1", r->port);
    char port[16];
    (void)snprintf(port, sizeof port, "%d", r->port);
    char *argv[] = {
        "redis-server", "--bind", "127.0.0.1",  "--port",  port,           "--save", "",
        "--dir",        "/tmp",   "--loglevel", "warning", "--appendonly", "no",     NULL};
    r->pid = 0;
    for (size_t i = 0; i < sizeof programs / sizeof *programs && r->pid == 0; i++)
        if (access(programs[i], X_OK) == 0)
            assert_int_equal(posix_spawn(&r->pid, programs[i], NULL, NULL, argv, environ), 0);
    if (r->pid == 0)
        return false;
    wait_until(listens(r->port) || waitpid(r->pid, NULL, WNOHANG) != 0);
    assert_true(listens(r->port));
    return true;
}

void redis_kill(redis_process *r)
{
    if (r->pid == 0)
        return;
    (void)kill(r->pid, SIGKILL);
    (void)waitpid(r->pid, NULL, 0);
    r->pid = 0;
}
