/*
 * The life of an exchange: its references, and who acts next. An exchange is with a worker, or
 * waits for a wake, or its connection's thread has it.
 *
 * `busy` says that a worker has the exchange, or will. Meanwhile the connection stays suspended
 * whatever happens, since the worker reads what belongs to it: the head and the body. Resuming a
 * connection that is not suspended, or that has completed, is undefined, so both are checked under
 * the exchange lock; the library never frees a suspended connection.
 */
#include <stdlib.h>

#include "server/http/internal.h"

/* --- references --- */

void lx_exchange_ref(lx_exchange *ex)
{
    atomic_fetch_add(&ex->refs, 1);
}

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

/* Under the exchange lock: to the workers; when they have ended, to the connection's thread. */
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
    (void)pthread_mutex_lock(&ex->lock);
    ex->woken = true;
    if (!ex->working)
        resume_locked(ex);
    else if (!ex->busy && !ex->left)
        give_locked(ex);
    (void)pthread_mutex_unlock(&ex->lock);
}

void lx_exchange_cancel(lx_exchange *ex)
{
    (void)pthread_mutex_lock(&ex->lock);
    lx_deferred deferred = ex->deferred;
    (void)pthread_mutex_unlock(&ex->lock);
    if (deferred.context != NULL && deferred.cancel != NULL)
        deferred.cancel(deferred.context);
}

void lx_exchange_kill(lx_exchange *ex)
{
    (void)pthread_mutex_lock(&ex->lock);
    ex->left = true;
    resume_locked(ex);
    (void)pthread_mutex_unlock(&ex->lock);
    lx_exchange_cancel(ex);
}

bool lx_exchange_suspend(lx_exchange *ex)
{
    (void)pthread_mutex_lock(&ex->lock);
    if (atomic_load(&ex->http->stopping))
        ex->left = true;
    bool suspends = !ex->woken && !ex->left;
    if (suspends) {
        ex->suspended = true;
        MHD_suspend_connection(ex->connection);
    }
    (void)pthread_mutex_unlock(&ex->lock);
    return suspends;
}

bool lx_exchange_give(lx_exchange *ex)
{
    (void)pthread_mutex_lock(&ex->lock);
    if (atomic_load(&ex->http->stopping))
        ex->left = true;
    bool works = !ex->left;
    if (works) {
        ex->working = ex->suspended = true;
        MHD_suspend_connection(ex->connection);
        give_locked(ex);
    }
    (void)pthread_mutex_unlock(&ex->lock);
    return works;
}

bool lx_exchange_is_left(lx_exchange *ex)
{
    (void)pthread_mutex_lock(&ex->lock);
    bool left = ex->left;
    ex->woken = false;
    (void)pthread_mutex_unlock(&ex->lock);
    return left;
}

bool lx_exchange_end_turn(lx_exchange *ex, const lx_response *rs)
{
    (void)pthread_mutex_lock(&ex->lock);
    bool over = rs != NULL || ex->left || !ex->woken;
    if (over)
        ex->busy = false;
    if (rs != NULL) {
        ex->response = *rs;
        ex->working = false;
    }
    if (rs != NULL || ex->left)
        resume_locked(ex);
    (void)pthread_mutex_unlock(&ex->lock);
    return over;
}

void lx_exchange_drop(lx_exchange *ex)
{
    (void)pthread_mutex_lock(&ex->lock);
    ex->busy = false;
    ex->left = true;
    resume_locked(ex);
    (void)pthread_mutex_unlock(&ex->lock);
    lx_exchange_unref(ex);
}
