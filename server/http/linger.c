/*
 * Lingering close. When a request is refused before it has been read, its client is often still
 * sending. Closing the socket then makes the system answer with a reset, which destroys the refusal
 * on its way. So a duplicate of the socket is kept here, read and dropped until the client ends,
 * within limits of number, bytes and time. The watcher's thread does the reading.
 */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "server/http/internal.h"

enum { LINGER_BYTES = 32 << 20, LINGER_MS = 2000, BLOCK = 16 * 1024, BLOCKS_A_TURN = 64 };

/* Under the lock. */
static void drop(lx_watch *w, int32_t i)
{
    (void)close(w->lingering[i].fd); /* epoll forgets it: no other descriptor shares it by now */
    w->lingering[i] = w->lingering[--w->n_lingering];
}

void lx_linger_add(lx_watch *w, int fd)
{
    (void)pthread_mutex_lock(&w->lock);
    int copy = w->n_lingering < LX_MAX_LINGERING ? dup(fd) : -1;
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP,
                            .data.u64 = LX_LINGER_KEY | (uint32_t)copy};
    if (copy >= 0 && epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, copy, &e) == 0)
        w->lingering[w->n_lingering++] =
            (lx_linger){.fd = copy, .deadline_ns = lx_now_ns() + LINGER_MS * LX_NS_PER_MS};
    else if (copy >= 0)
        (void)close(copy);
    (void)pthread_mutex_unlock(&w->lock);
}

/* False when the client has ended or enough was dropped. */
static bool read_some(lx_linger *l)
{
    char block[BLOCK];
    for (int i = 0; i < BLOCKS_A_TURN; i++) {
        ssize_t n = recv(l->fd, block, sizeof block, MSG_DONTWAIT);
        if (n <= 0)
            return n < 0;
        l->dropped += n;
    }
    return l->dropped < LINGER_BYTES;
}

void lx_linger_read(lx_watch *w, uint64_t key)
{
    (void)pthread_mutex_lock(&w->lock);
    for (int32_t i = 0; i < w->n_lingering; i++) {
        if ((LX_LINGER_KEY | (uint32_t)w->lingering[i].fd) != key)
            continue;
        if (!read_some(&w->lingering[i]))
            drop(w, i);
        break;
    }
    (void)pthread_mutex_unlock(&w->lock);
}

void lx_linger_end(lx_watch *w, int64_t now)
{
    (void)pthread_mutex_lock(&w->lock);
    for (int32_t i = w->n_lingering - 1; i >= 0; i--) {
        if (now >= w->lingering[i].deadline_ns)
            drop(w, i);
    }
    (void)pthread_mutex_unlock(&w->lock);
}
