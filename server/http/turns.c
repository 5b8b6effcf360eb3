/*
 * The life of an exchange: its references, and whose turn it is. A worker has the exchange, or its
 * connection's thread has it, or it waits for a wake.
 *
 * While an exchange is `busy`, a worker has it or will get it. The connection then stays suspended,
 * since the worker reads its head and body, and the library never frees a suspended connection. To
 * resume a connection that is not suspended, or has completed, is undefined, so both are checked
 * under the exchange lock.
 */
#include <stdlib.h>

#include "server/http/internal.h"

/* --- references --- */

void lx_exchange_free_body(lx_exchange *ex)
{
    lx_buffer_fini(&ex->body);
    if (ex->share != NULL)
        lx_shares_leave(&ex->http->shares, ex->share, (int64_t)ex->reserved);
    ex->share = NULL;
    ex->reserved = 0;
}

void lx_exchange_unref(lx_exchange *ex)
{
    if (atomic_fetch_sub(&ex->refs, 1) != 1)
        return;
    if (ex->answering)
        atomic_fetch_sub(&ex->http->n_answering, 1);
    if (ex->deferred.context != NULL)
        ex->deferred.release(ex->deferred.context);
    if (ex->before.context != NULL)
        ex->before.release(ex->before.context);
    if (ex->passed)
        ex->http->options.leave(ex->http->options.access, &ex->pass);
    free(ex->response.body);
    free(ex->shown);
    lx_exchange_free_body(ex);
    lx_buffer_fini(&ex->out);
    (void)pthread_mutex_destroy(&ex->lock);
    atomic_fetch_sub(&ex->http->n_exchanges, 1);
    free(ex);
}

/* --- turns --- */

static void resume_locked(lx_exchange *ex)
{
    if (ex->suspended && !ex->busy && !ex->completed) {
        ex->suspended = false;
        MHD_resume_connection(ex->connection);
    }
}

/* Under the exchange lock: gives the exchange to the workers or, when they have ended, to the
   connection's thread. */
static void give_locked(lx_exchange *ex)
{
    ex->busy = true;
    lx_exchange_ref(ex);
    if (lx_workers_add(&ex->http->workers, ex))
        return;
    atomic_fetch_sub(&ex->refs, 1); /* not the last one: the caller has another */
    ex->busy = false;
    ex->left = true;
    resume_locked(ex);
}

void lx_exchange_wake(void *context)
{
    lx_exchange *ex = context;
    LX_HOLD(&ex->lock);
    ex->woken = true;
    if (!ex->working)
        resume_locked(ex);
    else if (!ex->busy && !ex->left)
        give_locked(ex);
}

void lx_exchange_cancel(lx_exchange *ex)
{
    (void)pthread_mutex_lock(&ex->lock);
    lx_deferred deferred = ex->deferred;
    (void)pthread_mutex_unlock(&ex->lock);
    if (deferred.context != NULL && deferred.cancel != NULL)
        deferred.cancel(deferred.context);
}

static void leave(lx_exchange *ex, bool worker_ended)
{
    LX_HOLD(&ex->lock);
    ex->busy = ex->busy && !worker_ended;
    ex->left = true;
    resume_locked(ex);
}

void lx_exchange_kill(lx_exchange *ex)
{
    leave(ex, false);
    lx_exchange_cancel(ex);
}

void lx_exchange_drop(lx_exchange *ex)
{
    leave(ex, true);
    lx_exchange_unref(ex);
}

/* Under the exchange lock: suspends the connection until a worker has done its part (works), or
   until a wake. False: the client left, the server stops, or a wake has come already. */
static bool suspend_locked(lx_exchange *ex, bool works)
{
    if (atomic_load(&ex->http->stopping))
        ex->left = true;
    if (ex->left || (ex->woken && !works))
        return false;
    ex->working |= works;
    ex->suspended = true;
    MHD_suspend_connection(ex->connection);
    return true;
}

bool lx_exchange_suspend(lx_exchange *ex)
{
    LX_HOLD(&ex->lock);
    return suspend_locked(ex, false);
}

bool lx_exchange_give(lx_exchange *ex)
{
    LX_HOLD(&ex->lock);
    bool suspended = suspend_locked(ex, true);
    if (suspended)
        give_locked(ex);
    return suspended;
}

bool lx_exchange_is_left(lx_exchange *ex)
{
    LX_HOLD(&ex->lock);
    ex->woken = false;
    return ex->left;
}

bool lx_exchange_end_turn(lx_exchange *ex, const lx_response *rs)
{
    LX_HOLD(&ex->lock);
    bool over = rs != NULL || ex->left || !ex->woken;
    if (over)
        ex->busy = false;
    if (rs != NULL) {
        ex->response = *rs;
        ex->working = false;
    }
    if (rs != NULL || ex->left)
        resume_locked(ex);
    return over;
}
