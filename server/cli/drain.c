/* The server's end (see drain.h). */
#include "server/cli/drain.h"

#include <pthread.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"

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

typedef struct store_probe {
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    bool done;
    lx_status status;
} store_probe;

static void note_answer(void *context, const lx_store_result *result)
{
    store_probe *p = context;
    (void)pthread_mutex_lock(&p->mutex);
    p->done = true;
    p->status = result->status;
    (void)pthread_cond_signal(&p->answered);
    (void)pthread_mutex_unlock(&p->mutex);
}

/* Asks the store for a state that does not exist; the store ends every call within its time limit.
 */
static bool store_answers(lx_state_store *states)
{
    store_probe p = {.mutex = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};
    static const lx_owner no_name = {.name = ""};
    states->ops->call(states, &(lx_store_request){LX_STORE_GET, &no_name, "nothing", NULL, 0, 0},
                      note_answer, &p);
    (void)pthread_mutex_lock(&p.mutex);
    while (!p.done)
        (void)pthread_cond_wait(&p.answered, &p.mutex);
    (void)pthread_mutex_unlock(&p.mutex);
    (void)pthread_cond_destroy(&p.answered);
    (void)pthread_mutex_destroy(&p.mutex);
    return p.status == LX_OK || p.status == LX_ERR_NOT_FOUND;
}

/* With a store that outlives the process: requests that asked for it end with their states there.
   A store that does not answer now would lose them: then they run to their end here. */
static void suspend(lx_serving *serving, lx_state_store *states)
{
    if (states->ops->outlives && store_answers(states))
        lx_serving_suspend(serving);
}

/* True: a signal came before it was over. */
static bool wait_delay(double delay_s, lx_serving *serving, const sigset_t *signals)
{
    if (delay_s == 0)
        return false;
    lx_serving_announce_end(serving);
    lx_log(LX_LOG_INFO, "not ready any more: requests are still taken for %g s", delay_s);
    int64_t end = lx_now_ns() + (int64_t)(delay_s * 1e9);
    while (lx_now_ns() < end) {
        if (sigtimedwait(signals, NULL, &a_while) > 0)
            return true;
    }
    return false;
}

void lx_drain(double delay_s, int64_t timeout_s, lx_serving *serving, lx_state_store *states,
              lx_http *http, const sigset_t *signals)
{
    bool again = wait_delay(delay_s, serving, signals);
    lx_serving_drain(serving);
    lx_http_quiesce(http);
    suspend(serving, states);
    lx_log(LX_LOG_INFO, "draining: running answers have %lld s", (long long)timeout_s);
    if (!again && wait_done(serving, http, signals, timeout_s * 1000, &again))
        return;
    lx_log(LX_LOG_WARN, "%s, dropping %lld requests", again ? "second signal" : "time is over",
           (long long)lx_http_get_stats(http).answering);
    lx_http_cancel_all(http);
    if (!again)
        (void)wait_done(serving, http, signals, LAST_WORDS_MS, &again);
}
