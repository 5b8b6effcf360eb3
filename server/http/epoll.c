/*
 * Replaces two functions of the C library for libmicrohttpd (0.9.75). By the rules of ELF a
 * program's definition comes before a library's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>

/* When the library is quiesced, the calling thread and each of its own threads remove the listening
   socket from the same epoll set, and the second removal ends the process. So the removal of an
   absent socket is a success here. */
int epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
    typedef int (*control_function)(int, int, int, struct epoll_event *);
    static _Atomic(control_function) known;
    control_function next = atomic_load(&known);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "epoll_ctl");
        atomic_store(&known, next);
    }
    int rc = next(epoll_fd, op, fd, event);
    return rc != 0 && op == EPOLL_CTL_DEL && errno == ENOENT ? 0 : rc;
}

/* When the library gets as many events as it asked for, it waits again, with the same timeout,
   before it handles any of them. If no more events come, the connections stand still until the
   timeout. So a batch is never full here, and the next call gets the rest. */
int epoll_wait(int epoll_fd, struct epoll_event *events, int max, int timeout_ms)
{
    typedef int (*wait_function)(int, struct epoll_event *, int, int);
    static _Atomic(wait_function) known;
    wait_function next = atomic_load(&known);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "epoll_wait");
        atomic_store(&known, next);
    }
    return next(epoll_fd, events, max > 1 ? max - 1 : max, timeout_ms);
}
