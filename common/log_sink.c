/*
 * The log's way out (see log.h). Standard error may be shared with other processes, so it stays
 * blocking. A pipe or a terminal is opened once more as non-blocking, and a socket has a flag for
 * every write. Where opening fails (a pipe of another user), poll says whether there is room; a
 * pipe that has any takes PIPE_BUF bytes at once.
 */
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"

enum { BUFFER_BYTES = 128 * 1024, LOOK_MS = 200 };

typedef enum sink_kind { PLAIN, OPENED, SOCKET, POLLED } sink_kind;

static struct {
    void (*report)(uint64_t lines);
    pthread_mutex_t lock;
    pthread_cond_t more; /* there is something in the buffer, or the end */
    pthread_t thread;
    bool running, stopping;
    sink_kind kind;
    int fd;
    size_t begin, n; /* of the ring */
    uint64_t dropped, reported;
    char ring[BUFFER_BYTES];
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .fd = STDERR_FILENO};

/* --- without waiting --- */

static bool has_room(int timeout_ms)
{
    struct pollfd p = {.fd = sink.fd, .events = POLLOUT};
    return poll(&p, 1, timeout_ms) > 0;
}

/* Bytes that were taken, 0: none now, -1: they cannot be written. Under the lock. */
static ssize_t try_write(const char *bytes, size_t n)
{
    ssize_t taken = 0;
    do {
        if (sink.kind == SOCKET)
            taken = send(sink.fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        else if (sink.kind == POLLED)
            taken = has_room(0) ? write(sink.fd, bytes, n < PIPE_BUF ? n : PIPE_BUF) : 0;
        else
            taken = write(sink.fd, bytes, n);
    } while (taken < 0 && errno == EINTR);
    if (taken < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    return taken;
}

static uint64_t lines_waiting(void)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < sink.n; i++)
        lines += sink.ring[(sink.begin + i) % BUFFER_BYTES] == '\n';
    return lines;
}

/* Under the lock: writes as much of the buffer as is taken now. Lines that can never be written are
   dropped. */
static void flush(void)
{
    while (sink.n > 0) {
        size_t straight = BUFFER_BYTES - sink.begin;
        ssize_t taken = try_write(sink.ring + sink.begin, sink.n < straight ? sink.n : straight);
        if (taken == 0)
            return;
        size_t gone = taken > 0 ? (size_t)taken : sink.n;
        sink.dropped += taken < 0 ? lines_waiting() : 0;
        sink.begin = (sink.begin + gone) % BUFFER_BYTES;
        sink.n -= gone;
    }
}

/* Under the lock. */
static void keep(const char *bytes, size_t n)
{
    size_t end = (sink.begin + sink.n) % BUFFER_BYTES, straight = BUFFER_BYTES - end;
    size_t first = n < straight ? n : straight;
    memcpy(sink.ring + end, bytes, first);
    memcpy(sink.ring, bytes + first, n - first);
    sink.n += n;
    (void)pthread_cond_signal(&sink.more);
}

/* Under the lock. A line that was begun is always ended, so that the next one begins anew. */
static void put(const char *line, size_t n)
{
    flush();
    if (n > BUFFER_BYTES - sink.n) {
        sink.dropped++;
        return;
    }
    ssize_t taken = sink.n == 0 ? try_write(line, n) : 0;
    if (taken < 0)
        sink.dropped++;
    else if ((size_t)taken < n)
        keep(line + taken, n - (size_t)taken);
}

void lx_log_sink_write(const char *line, size_t n)
{
    (void)pthread_mutex_lock(&sink.lock);
    if (sink.running)
        put(line, n);
    else
        (void)!write(STDERR_FILENO, line, n);
    (void)pthread_mutex_unlock(&sink.lock);
}

uint64_t lx_log_sink_dropped(void)
{
    (void)pthread_mutex_lock(&sink.lock);
    uint64_t n = sink.dropped;
    (void)pthread_mutex_unlock(&sink.lock);
    return n;
}

/* --- the thread --- */

/* Under the lock: how many lines were lost before the buffer was empty again. */
static uint64_t take_news(void)
{
    uint64_t news = sink.n == 0 ? sink.dropped - sink.reported : 0;
    sink.reported += news;
    return news;
}

static void *run(void *context)
{
    (void)pthread_mutex_lock(&sink.lock);
    while (!sink.stopping) {
        if (sink.n == 0) {
            (void)pthread_cond_wait(&sink.more, &sink.lock);
            continue;
        }
        (void)pthread_mutex_unlock(&sink.lock);
        (void)has_room(LOOK_MS);
        (void)pthread_mutex_lock(&sink.lock);
        flush();
        uint64_t news = take_news();
        (void)pthread_mutex_unlock(&sink.lock);
        if (news > 0)
            sink.report(news);
        (void)pthread_mutex_lock(&sink.lock);
    }
    (void)pthread_mutex_unlock(&sink.lock);
    return context;
}

static void choose_kind(void)
{
    struct stat st;
    sink.kind = PLAIN;
    sink.fd = STDERR_FILENO;
    if (fstat(STDERR_FILENO, &st) != 0 || S_ISREG(st.st_mode))
        return;
    if (S_ISSOCK(st.st_mode)) {
        sink.kind = SOCKET;
        return;
    }
    int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    sink.kind = fd >= 0 ? OPENED : POLLED;
    sink.fd = fd >= 0 ? fd : STDERR_FILENO;
}

lx_status lx_log_sink_start(void (*report)(uint64_t lines), lx_error *err)
{
    sink.report = report;
    choose_kind();
    sink.stopping = false;
    if (pthread_create(&sink.thread, NULL, run, NULL) != 0)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no thread for the log");
    (void)pthread_mutex_lock(&sink.lock);
    sink.running = true;
    (void)pthread_mutex_unlock(&sink.lock);
    return LX_OK;
}

static bool is_empty(void)
{
    (void)pthread_mutex_lock(&sink.lock);
    flush();
    bool empty = sink.n == 0;
    (void)pthread_mutex_unlock(&sink.lock);
    return empty;
}

void lx_log_sink_stop(int64_t ms)
{
    int64_t end = lx_now_ns() + ms * LX_NS_PER_MS;
    if (!sink.running)
        return;
    while (!is_empty() && lx_now_ns() < end)
        (void)has_room(LOOK_MS);
    (void)pthread_mutex_lock(&sink.lock);
    sink.stopping = true;
    sink.running = false;
    (void)pthread_cond_signal(&sink.more);
    (void)pthread_mutex_unlock(&sink.lock);
    (void)pthread_join(sink.thread, NULL);
    if (sink.kind == OPENED)
        (void)close(sink.fd);
    sink.fd = STDERR_FILENO;
    sink.n = 0;
}
