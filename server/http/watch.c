/*
 * The watcher: one thread for events that the HTTP library does not notice.
 *
 *   - A client hangs up while its connection is suspended. The library has taken the socket out of
 *     its own epoll by then, so it is in ours, waiting for EPOLLRDHUP.
 *   - A client hangs up in the middle of a request, and its last data and the end arrive as one
 *     event. The library's epoll is edge-triggered, so it may not look again.
 *   - A client sends its request or reads its answer so slowly that the idle timeout never fires.
 *     Every connection has a deadline, at which its socket is shut down.
 *   - The rest of a refused request arrives.
 *   - A stream has been silent for so long that a proxy may close it. It gets a comment.
 *   - Connections without a request fill the table, so that the library takes no new ones. The
 *     connection that is idle for longest is shut down before.
 *
 * The watcher only shuts sockets down; the library closes them. An event carries fd and generation,
 * so an event of an fd that was closed and reused meanwhile has no effect.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/http/internal.h"

enum { BATCH = 128, TICK_MS = 500, HANG_UP_MS = 1000 };
enum { SPARE = 16 }; /* one in so many connections is kept free */

static const uint64_t stop_key = UINT64_MAX;

/* Under the lock. A peer that has hung up has little time left: the library may have read the end
   of the connection together with data and not look again. */
static void set_deadline(lx_http_conn *conn, int64_t deadline_ns)
{
    int64_t soon = lx_now_ns() + HANG_UP_MS * LX_NS_PER_MS;
    bool hurry = conn->hung_up && conn->exchange == NULL && deadline_ns > soon;
    conn->deadline_ns = hurry ? soon : deadline_ns;
}

/* --- lingering ---
 *
 * When the server refuses a request before it has read it, the client is often still sending. If
 * the socket is closed then, the system answers with a reset, which destroys the refusal on its
 * way. So the watcher reads a duplicate of the socket until the client ends, within limits of
 * number, bytes and time.
 */

enum { LINGER_BYTES = 32 << 20, LINGER_MS = 2000, BLOCK = 16 * 1024, BLOCKS_A_TURN = 64 };

/* Under the lock. */
static void drop_lingering(lx_watch *w, int32_t i)
{
    (void)close(w->lingering[i].fd); /* epoll forgets it: no other descriptor shares it by now */
    w->lingering[i] = w->lingering[--w->n_lingering];
}

void lx_linger_add(lx_watch *w, int fd)
{
    LX_HOLD(&w->lock);
    int copy = w->n_lingering < LX_MAX_LINGERING ? dup(fd) : -1;
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP,
                            .data.u64 = LX_LINGER_KEY | (uint32_t)copy};
    if (copy >= 0 && epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, copy, &e) == 0)
        w->lingering[w->n_lingering++] =
            (lx_linger){.fd = copy, .deadline_ns = lx_now_ns() + LINGER_MS * LX_NS_PER_MS};
    else if (copy >= 0)
        (void)close(copy);
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

static void linger_read(lx_watch *w, uint64_t key)
{
    LX_HOLD(&w->lock);
    int32_t i = 0;
    while (i < w->n_lingering && (LX_LINGER_KEY | (uint32_t)w->lingering[i].fd) != key)
        i++;
    if (i < w->n_lingering && !read_some(&w->lingering[i]))
        drop_lingering(w, i);
}

static void linger_end(lx_watch *w, int64_t now)
{
    LX_HOLD(&w->lock);
    for (int32_t i = w->n_lingering - 1; i >= 0; i--)
        if (now >= w->lingering[i].deadline_ns)
            drop_lingering(w, i);
}

/* --- idle connections; under the lock --- */

static void end_idle(lx_watch *w, lx_http_conn *conn)
{
    if (!conn->idle)
        return;
    *(conn->newer != NULL ? &conn->newer->older : &w->newest) = conn->older;
    *(conn->older != NULL ? &conn->older->newer : &w->oldest) = conn->newer;
    conn->newer = conn->older = NULL;
    conn->idle = false;
}

static void begin_idle(lx_watch *w, lx_http_conn *conn)
{
    if (conn->idle || conn->evicted)
        return;
    conn->idle = true;
    conn->older = w->newest;
    *(w->newest != NULL ? &w->newest->newer : &w->oldest) = conn;
    w->newest = conn;
}

/* Shuts down the oldest idle connections while there are too many, but not `new_one`. A connection
   whose first request is still on its way gives way only after `answered`, whose request has just
   ended. Both may be NULL. */
static void make_room(lx_watch *w, const lx_http_conn *new_one, lx_http_conn *answered)
{
    while (w->n_conns - w->n_evicted > w->most && w->oldest != new_one) {
        lx_http_conn *conn = w->oldest;
        if (!conn->asked && answered != NULL && answered->idle)
            conn = answered;
        end_idle(w, conn);
        conn->evicted = true;
        w->n_evicted++;
        (void)shutdown(conn->fd, SHUT_RDWR);
    }
}

/* Notes that the peer hung up. Returns the exchange whose answer it waits for, with a reference, or
   NULL. */
static lx_exchange *hang_up(lx_watch *w, uint64_t key)
{
    int32_t fd = (int32_t)(key & 0xffffffffu);
    LX_HOLD(&w->lock);
    lx_http_conn *conn = fd >= 0 && fd < w->fd_end ? w->by_fd[fd] : NULL;
    if (conn == NULL || conn->generation != (uint32_t)(key >> 32))
        return NULL;
    conn->hung_up = true;
    if (conn->exchange != NULL)
        lx_exchange_ref(conn->exchange);
    else
        set_deadline(conn, conn->deadline_ns);
    return conn->exchange;
}

/* Shuts down late connections; collects the streams that are due for a comment. */
static int32_t scan(lx_watch *w, int64_t now, lx_exchange **silent)
{
    int32_t n = 0;
    LX_HOLD(&w->lock);
    for (int32_t fd = 0; fd < w->fd_end; fd++) {
        lx_http_conn *c = w->by_fd[fd];
        lx_exchange *ex = c != NULL ? c->exchange : NULL;
        if (c != NULL && c->deadline_ns != 0 && now >= c->deadline_ns) {
            c->deadline_ns = 0;
            (void)shutdown(c->fd, SHUT_RDWR);
        } else if (ex != NULL && w->ping_ns > 0 && n < BATCH && atomic_load(&ex->streaming) &&
                   now - atomic_load(&ex->last_sent_ns) >= w->ping_ns) {
            atomic_store(&ex->last_sent_ns, now);
            lx_exchange_ref(ex);
            silent[n++] = ex;
        }
    }
    return n;
}

static void tick(lx_watch *w, int64_t now)
{
    linger_end(w, now);
    lx_exchange *silent[BATCH];
    int32_t n = scan(w, now, silent);
    for (int32_t i = 0; i < n; i++) {
        atomic_store(&silent[i]->ping_due, true);
        lx_exchange_wake(silent[i]);
        lx_exchange_unref(silent[i]);
    }
}

static void *watch_main(void *arg)
{
    lx_watch *w = arg;
    struct epoll_event events[BATCH];
    int64_t next = lx_now_ns() + TICK_MS * LX_NS_PER_MS;
    for (;;) {
        int n = epoll_wait(w->epoll_fd, events, BATCH, TICK_MS);
        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 == stop_key)
                return NULL;
            bool lingers = (events[i].data.u64 & LX_LINGER_KEY) != 0;
            if (lingers)
                linger_read(w, events[i].data.u64);
            lx_exchange *ex = lingers ? NULL : hang_up(w, events[i].data.u64);
            if (ex != NULL) {
                lx_exchange_kill(ex);
                lx_exchange_unref(ex);
            }
        }
        int64_t now = lx_now_ns();
        if (now >= next) {
            tick(w, now);
            next = now + TICK_MS * LX_NS_PER_MS;
        }
    }
}

static lx_status open_fds(lx_watch *w, lx_error *err)
{
    struct rlimit limit = {0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    w->n_by_fd = limit.rlim_cur < (1 << 20) ? (int32_t)limit.rlim_cur : 1 << 20;
    w->by_fd = calloc((size_t)w->n_by_fd, sizeof *w->by_fd);
    if (w->by_fd == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the table of connections");
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = stop_key};
    if (w->epoll_fd < 0 || w->stop_fd < 0 ||
        epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, w->stop_fd, &e) != 0)
        return lx_fail(err, LX_ERR_IO, NULL, "epoll: %s", strerror(errno));
    return LX_OK;
}

lx_status lx_watch_start(lx_watch *w, int32_t ping_s, int32_t max_connections, lx_error *err)
{
    int32_t spare = max_connections / SPARE + 1;
    *w = (lx_watch){.epoll_fd = -1,
                    .stop_fd = -1,
                    .ping_ns = ping_s * LX_NS_PER_S,
                    .most = max_connections - spare};
    (void)pthread_mutex_init(&w->lock, NULL);
    lx_status st = open_fds(w, err);
    if (st == LX_OK && pthread_create(&w->thread, NULL, watch_main, w) != 0)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "cannot start the watcher thread");
    w->started = st == LX_OK;
    if (st != LX_OK)
        lx_watch_stop(w);
    return st;
}

void lx_watch_stop(lx_watch *w)
{
    if (w->started) {
        (void)eventfd_write(w->stop_fd, 1);
        (void)pthread_join(w->thread, NULL);
    }
    linger_end(w, INT64_MAX);
    if (w->epoll_fd >= 0)
        (void)close(w->epoll_fd);
    if (w->stop_fd >= 0)
        (void)close(w->stop_fd);
    free(w->by_fd);
    (void)pthread_mutex_destroy(&w->lock);
    *w = (lx_watch){.epoll_fd = -1, .stop_fd = -1};
}

bool lx_watch_open(lx_watch *w, lx_http_conn *conn, int64_t deadline_ns)
{
    LX_HOLD(&w->lock);
    if (conn->fd < 0 || conn->fd >= w->n_by_fd)
        return false;
    conn->generation = ++w->next_generation & 0x7fffffffu; /* never makes the stop key */
    struct epoll_event e = {
        .events = EPOLLRDHUP | EPOLLET,
        .data.u64 = ((uint64_t)conn->generation << 32) | (uint32_t)conn->fd,
    };
    if (epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, conn->fd, &e) != 0)
        return false;
    w->by_fd[conn->fd] = conn;
    w->fd_end = conn->fd < w->fd_end ? w->fd_end : conn->fd + 1;
    conn->deadline_ns = deadline_ns;
    w->n_conns++;
    begin_idle(w, conn);
    make_room(w, conn, NULL);
    return true;
}

void lx_watch_close(lx_watch *w, lx_http_conn *conn)
{
    LX_HOLD(&w->lock);
    w->by_fd[conn->fd] = NULL;
    end_idle(w, conn);
    w->n_conns--;
    w->n_evicted -= conn->evicted;
    (void)epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
}

void lx_watch_set_deadline(lx_watch *w, lx_http_conn *conn, int64_t deadline_ns)
{
    LX_HOLD(&w->lock);
    set_deadline(conn, deadline_ns);
}

bool lx_watch_attach(lx_watch *w, lx_http_conn *conn, lx_exchange *ex)
{
    LX_HOLD(&w->lock);
    if (!conn->hung_up)
        conn->exchange = ex;
    return !conn->hung_up;
}

void lx_watch_begin(lx_watch *w, lx_http_conn *conn, int64_t deadline_ns)
{
    LX_HOLD(&w->lock);
    conn->asked = true;
    end_idle(w, conn);
    set_deadline(conn, deadline_ns);
}

void lx_watch_end(lx_watch *w, lx_http_conn *conn, int64_t deadline_ns)
{
    LX_HOLD(&w->lock);
    conn->exchange = NULL;
    set_deadline(conn, deadline_ns);
    begin_idle(w, conn);
    make_room(w, NULL, conn);
}

/* Takes references to at most BATCH pending exchanges, in order of their fds from *from_fd on. */
static int32_t take_some(lx_watch *w, int32_t *from_fd, lx_exchange **out)
{
    int32_t n = 0;
    LX_HOLD(&w->lock);
    for (; *from_fd < w->fd_end && n < BATCH; ++*from_fd) {
        const lx_http_conn *conn = w->by_fd[*from_fd];
        if (conn != NULL && conn->exchange != NULL) {
            lx_exchange_ref(conn->exchange);
            out[n++] = conn->exchange;
        }
    }
    return n;
}

void lx_watch_each(lx_watch *w, void (*act)(lx_exchange *ex))
{
    lx_exchange *some[BATCH];
    int32_t from_fd = 0, n = 0;
    while ((n = take_some(w, &from_fd, some)) > 0) {
        for (int32_t i = 0; i < n; i++) {
            act(some[i]);
            lx_exchange_unref(some[i]);
        }
    }
}
