/*
 * Puts the connection's front (front.h) between the HTTP library and the socket.
 *
 * The library has no hook for its reads. But it reads a plain connection by the public function
 * recv, and by the rules of ELF a program's definition comes before a library's. So the library
 * calls the recv of this file, which passes on all other sockets. tls.c does this for TLS, with
 * gnutls_record_recv. If the library read in another way, an exchange would see a request that the
 * front has not passed on, and refuse it.
 */
#undef _FORTIFY_SOURCE /* its headers define recv, too, as an inline function */

#include <errno.h>
#include <sys/socket.h>

#include "server/http/internal.h"

enum { MAX_FDS = 1 << 20 };

/* By descriptor; NULL for other sockets. The connection's thread sets and clears an entry while the
   socket is open. */
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

/* Reads until the library has all the bytes that it wants, or the socket has no more. If the
   library gets fewer bytes, it waits for the next event. */
ssize_t lx_recv_through(lx_front *f, const lx_recv_source *source, char *to, size_t max)
{
    size_t n = lx_front_take(f, to, max);
    char block[LX_FRONT_BLOCK];
    while (n < max && f->state != LX_FRONT_REFUSED) {
        ssize_t got = source->read(source->from, block, sizeof block);
        if (got <= 0)
            return n > 0 ? (ssize_t)n : got;
        if (!lx_front_add(f, block, (size_t)got)) {
            errno = ENOMEM;
            return source->failed;
        }
        n += lx_front_take(f, to + n, max - n);
    }
    errno = EAGAIN;
    return n > 0 ? (ssize_t)n : source->again;
}

/* --- plain --- */

static ssize_t read_socket(const void *from, char *to, size_t max)
{
    return recvfrom(*(const int *)from, to, max, 0, NULL, NULL);
}

ssize_t recv(int fd, void *to, size_t max, int flags)
{
    lx_front *f = lx_recv_front(fd);
    if (f == NULL || f->within_tls || flags != 0) /* the library's own reads have no flags */
        return recvfrom(fd, to, max, flags, NULL, NULL);
    const lx_recv_source source = {&fd, read_socket, .again = -1, .failed = -1};
    return lx_recv_through(f, &source, to, max);
}
