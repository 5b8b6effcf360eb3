/*
 * The place where the HTTP library reads: between its call and the socket stands the connection's
 * front (front.h).
 *
 * The library has no hook for what it reads, but it reads a plain connection by the C library's
 * public recv, and by the rules of ELF a program's definition of a public function comes before a
 * library's. So the one here is called instead; it passes every other socket of the process on. For
 * TLS the same is done with gnutls_record_recv (tls.c). A library that read in another way
 * would go past the front: an exchange then finds a request that the front has not handed on, and
 * refuses.
 */
#undef _FORTIFY_SOURCE /* its headers define recv, too, as an inline function */

#include <errno.h>
#include <sys/socket.h>

#include "server/http/internal.h"

enum { MAX_FDS = 1 << 20 };

/* By descriptor; NULL for sockets of others. Set and cleared by the thread that owns the
   connection, while the socket is open. */
static lx_front *_Atomic fronts[MAX_FDS];

bool lx_recv_attach(int fd, lx_front *front)
{
    if (fd < 0 || fd >= MAX_FDS)
        return false;
    atomic_store(&fronts[fd], front);
    return true;
}

void lx_recv_detach(int fd)
{
    atomic_store(&fronts[fd], NULL);
}

lx_front *lx_recv_front(int fd)
{
    return fd >= 0 && fd < MAX_FDS ? atomic_load(&fronts[fd]) : NULL;
}

/* Reads until there is as much as the library wants, or the socket has no more: the library
   takes less than it wanted for a sign of that, and waits for the next event. */
ssize_t lx_recv_through(lx_front *f, const lx_recv_source *source, char *to, size_t max)
{
    size_t n = lx_front_take(f, to, max);
    char block[LX_FRONT_BLOCK];
    while (n < max && f->state != LX_FRONT_REFUSED) {
        ssize_t got = source->read(source->from, block, sizeof block);
        if (got <= 0)
            return n > 0 ? (ssize_t)n : got;
        if (!lx_front_add(f, block, (size_t)got))
            return source->failed(source->from);
        n += lx_front_take(f, to + n, max - n);
    }
    return n > 0 ? (ssize_t)n : source->again(source->from);
}

/* --- plain --- */

static ssize_t read_socket(const void *from, char *to, size_t max)
{
    return recvfrom(*(const int *)from, to, max, 0, NULL, NULL);
}

static ssize_t again(const void *from)
{
    (void)from;
    errno = EAGAIN;
    return -1;
}

static ssize_t failed(const void *from)
{
    (void)from;
    errno = ENOMEM;
    return -1;
}

ssize_t recv(int fd, void *to, size_t max, int flags)
{
    lx_front *f = lx_recv_front(fd);
    if (f == NULL || f->within_tls || flags != 0) /* the library's own reads have no flags */
        return recvfrom(fd, to, max, flags, NULL, NULL);
    const lx_recv_source source = {
        .from = &fd, .read = read_socket, .again = again, .failed = failed};
    return lx_recv_through(f, &source, to, max);
}
