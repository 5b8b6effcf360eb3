/* The functions of epoll as the HTTP library sees them: a socket outside a set counts as removed
   from it, and a batch of events is never full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/http/internal.h"

static void leaving_twice_is_no_failure(void **state)
{
    (void)state;
    int fd = -1, set = epoll_create1(0);
    int32_t port = 0;
    struct epoll_event event = {.events = EPOLLIN};
    assert_int_equal(lx_http_listen("127.0.0.1", 0, &fd, &port, NULL), LX_OK);
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL), 0);
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL), 0);
    assert_int_equal(epoll_ctl(-1, EPOLL_CTL_DEL, fd, NULL), -1);
    assert_int_equal(errno, EBADF);
    (void)close(fd);
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL), -1);
    (void)close(set);
}

enum { BATCH = 8 };

static void a_batch_is_never_full(void **state)
{
    (void)state;
    struct epoll_event events[BATCH];
    int fds[BATCH], set = epoll_create1(0);
    for (int i = 0; i < BATCH; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = i};
        fds[i] = eventfd(1, 0);
        assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event), 0);
    }
    assert_int_equal(epoll_wait(set, events, BATCH, 0), BATCH - 1);
    assert_int_equal(epoll_wait(set, events, BATCH, 0), 1);
    assert_int_equal(epoll_wait(set, events, BATCH, 0), 0);
    assert_int_equal(eventfd_write(fds[0], 1), 0);
    assert_int_equal(epoll_wait(set, events, 1, 0), 1);
    for (int i = 0; i < BATCH; i++)
        (void)close(fds[i]);
    (void)close(set);
}

/* The functions that a shared library finds under these names. */
static void libraries_find_them(void **state)
{
    (void)state;
    Dl_info here, found;
    assert_int_not_equal(dladdr((void *)(uintptr_t)lx_http_listen, &here), 0);
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "epoll_ctl"), &found), 0);
    assert_ptr_equal(found.dli_fbase, here.dli_fbase);
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "epoll_wait"), &found), 0);
    assert_ptr_equal(found.dli_fbase, here.dli_fbase);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaving_twice_is_no_failure),
        cmocka_unit_test(a_batch_is_never_full),
        cmocka_unit_test(libraries_find_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
