/* The server and the system around it (see lifecycle.h). */
#include "server/cli/lifecycle.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/process.h"

/* --- open files --- */

enum {
    AT_START = 3,   /* open files, where /proc is not there */
    OWN = 5,        /* of the watcher and the log, the listening socket, files of /proc and /sys */
    PER_THREAD = 2, /* an HTTP thread's epoll set and its waker */
    /* For files of models that are read again, connections to Redis, and refused clients that
       still send: one in SPARE of all files, at most MOST_SPARE. */
    SPARE = 16,
    MOST_SPARE = 64,
};

lx_status lx_lifecycle_connections(int64_t wanted, int32_t n_threads, int32_t *out, lx_error *err)
{
    struct rlimit limit = {0};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        *out = (int32_t)wanted;
        return LX_OK;
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    int64_t all = limit.rlim_cur < (1 << 24) ? (int64_t)limit.rlim_cur : 1 << 24;
    int64_t spare = all / SPARE < MOST_SPARE ? all / SPARE : MOST_SPARE;
    int64_t n_open = lx_process_open_files();
    int64_t most =
        all - spare - (n_open >= 0 ? n_open : AT_START) - OWN - PER_THREAD * (int64_t)n_threads;
    if (most < 1)
        return lx_fail(err, LX_ERR_INVALID, "max-connections",
                       "the limit of open files is %lld and leaves no connections: raise it to "
                       "%lld at least (ulimit -n, LimitNOFILE=)",
                       (long long)all, (long long)(all - most + 2));
    *out = (int32_t)(wanted < most ? wanted : most);
    return LX_OK;
}

/* --- the service manager --- */

enum { US_PER_S = 1000000 };
#define MOST_PATIENCE_US ((int64_t)3600 * US_PER_S)

/* The address of a path, or of "@NAME" in the abstract namespace. 0: it is none, or too long. */
static socklen_t put_address(const char *name, struct sockaddr_un *out)
{
    size_t n = strlen(name);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n < 2 || n >= sizeof out->sun_path || (name[0] != '/' && name[0] != '@'))
        return 0;
    memcpy(out->sun_path, name, n);
    if (name[0] == '@')
        out->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

void lx_lifecycle_notify(const char *message)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address;
    if (name == NULL || name[0] == '\0')
        return;
    socklen_t size = put_address(name, &address);
    if (size == 0) {
        lx_log(LX_LOG_WARN, "NOTIFY_SOCKET is not the address of a socket: %.100s", name);
        return;
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    size_t n = strlen(message);
    if (fd < 0 ||
        sendto(fd, message, n, MSG_NOSIGNAL, (const struct sockaddr *)&address, size) != (ssize_t)n)
        lx_log(LX_LOG_WARN, "the message to the service manager (NOTIFY_SOCKET) was not sent: %s",
               strerror(errno));
    if (fd >= 0)
        (void)close(fd);
}

/* Microseconds of the manager's patience; 0: it has no watchdog, or means another process. */
static int64_t watchdog_us(void)
{
    const char *patience = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (patience == NULL || (pid != NULL && strtoll(pid, NULL, 10) != getpid()))
        return 0;
    int64_t us = strtoll(patience, NULL, 10);
    return us > 0 && us < MOST_PATIENCE_US ? us : 0;
}

struct timespec lx_lifecycle_watchdog_pause(void)
{
    int64_t us = watchdog_us() > 0 ? watchdog_us() / 3 + 1 : MOST_PATIENCE_US;
    return (struct timespec){.tv_sec = us / US_PER_S, .tv_nsec = us % US_PER_S * 1000};
}

void lx_lifecycle_watchdog(lx_serving_state state)
{
    if (watchdog_us() > 0 && state != LX_SERVING_UNHEALTHY)
        lx_lifecycle_notify("WATCHDOG=1");
}

/* --- the end --- */

enum { POLL_MS = 20, LAST_WORDS_MS = 1000 };
static const struct timespec a_while = {.tv_nsec = POLL_MS * LX_NS_PER_MS};

static bool is_done(lx_serving *serving, lx_http *http)
{
    return lx_serving_idle(serving) && lx_http_get_stats(http).answering == 0;
}

/* Waits until everything is answered, the time is over (false), or a second signal comes (false,
 *again). */
static bool wait_done(lx_serving *serving, lx_http *http, const sigset_t *signals, int64_t ms,
                      bool *again)
{
    int64_t end = lx_now_ns() + ms * LX_NS_PER_MS;
    while (!is_done(serving, http)) {
        if (lx_now_ns() >= end)
            return false;
        if (sigtimedwait(signals, NULL, &a_while) > 0) {
            *again = true;
            return false;
        }
    }
    return true;
}

/* Asks the store for a state that does not exist; the store ends every call within its time limit.
 */
static bool store_answers(lx_state_store *states)
{
    static const lx_owner no_name = {.name = ""};
    const lx_store_waiter waiter = {.owner = &no_name};
    lx_store_call *call = NULL;
    lx_status st =
        lx_store_call_start(states, LX_STORE_GET, "nothing", NULL, 0, 0, &waiter, &call, NULL);
    if (st != LX_OK)
        return false;
    while (!lx_store_call_done(call))
        (void)nanosleep(&a_while, NULL);
    st = lx_store_call_status(call, NULL);
    lx_store_call_free(call);
    return st == LX_OK || st == LX_ERR_NOT_FOUND;
}

/* With a store that outlives the process, requests that asked for it end with their states there.
   A store that does not answer now would lose them: then they run to their end here. */
static void suspend(lx_serving *serving, lx_state_store *states)
{
    if (states->ops->outlives && store_answers(states))
        lx_serving_suspend(serving);
}

/* Waits for the delay; true: a signal came before its end. */
static bool wait_delay(double delay_s, lx_serving *serving, const sigset_t *signals)
{
    if (delay_s == 0)
        return false;
    lx_serving_announce_end(serving);
    lx_log(LX_LOG_INFO, "not ready from now on; requests are still taken for %g s", delay_s);
    int64_t end = lx_now_ns() + (int64_t)(delay_s * 1e9);
    while (lx_now_ns() < end) {
        if (sigtimedwait(signals, NULL, &a_while) > 0)
            return true;
    }
    return false;
}

void lx_lifecycle_drain(double delay_s, int64_t timeout_s, lx_serving *serving,
                        lx_state_store *states, lx_http *http, const sigset_t *signals)
{
    bool again = wait_delay(delay_s, serving, signals);
    lx_serving_drain(serving);
    lx_http_quiesce(http);
    suspend(serving, states);
    lx_log(LX_LOG_INFO, "draining: running answers have %lld s to finish", (long long)timeout_s);
    if (!again && wait_done(serving, http, signals, timeout_s * 1000, &again))
        return;
    lx_log(LX_LOG_WARN, "%s, dropping %lld requests",
           again ? "second signal" : "--drain-timeout is over",
           (long long)lx_http_get_stats(http).answering);
    lx_http_cancel_all(http);
    if (!again)
        (void)wait_done(serving, http, signals, LAST_WORDS_MS, &again);
}
