/*
 * What a worker does of an exchange: it calls the handler and, where the answer comes later, does
 * every step of it until it is whole, or a stream that the connection's thread reads. Of a stream
 * that is costly a worker makes every piece.
 *
 *   lx_exchange_start_work   suspends the connection and gives the exchange to the workers
 *   lx_exchange_work         on a worker, once for the request and once for each wake
 *   lx_exchange_take_answer  on the connection's thread again: what the worker has left
 */

#include "common/clock.h"
#include "server/http/internal.h"

enum MHD_Result lx_exchange_start_work(lx_exchange *ex)
{
    ex->phase = LX_EXCHANGE_WORKING;
    ex->given_ns = lx_now_ns();
    lx_watch_set_deadline(&ex->http->watch, ex->conn, 0); /* none: `handle` looks at the time */
    bool there = lx_watch_attach(&ex->http->watch, ex->conn, ex);
    return there && lx_exchange_give(ex) ? MHD_YES : MHD_NO;
}

/* --- on a worker --- */

/* From now on the answer comes from here, or from what this one hands over to. */
static void defer(lx_exchange *ex, const lx_deferred *deferred)
{
    (void)pthread_mutex_lock(&ex->lock);
    ex->before = ex->deferred;
    ex->deferred = *deferred;
    bool left = ex->left;
    (void)pthread_mutex_unlock(&ex->lock);
    if (left)
        lx_exchange_cancel(ex);
    lx_watch_set_deadline(&ex->http->watch, ex->conn, deferred->deadline_ns);
}

/* The request itself, unless it has waited for too long. */
static void handle(lx_exchange *ex, lx_response *rs)
{
    const lx_http_options *o = &ex->http->options;
    lx_error err = {0};
    ex->handled = true;
    if (lx_now_ns() - ex->given_ns < o->wait_ns) {
        o->handle(o->context, &ex->request, rs);
    } else {
        (void)lx_fail(&err, LX_ERR_BUSY, NULL,
                      "the server was busy with other requests for %.3g s (--timeout)",
                      (double)o->wait_ns / (double)LX_NS_PER_S);
        o->refuse(o->context, 503, &err, rs);
    }
    lx_http_keep_body(ex);
    lx_exchange_free_body(ex);
}

/* Whether *rs is to be sent now; otherwise there is nothing to do before the next wake. */
static bool make(lx_exchange *ex, lx_response *rs)
{
    if (!ex->handled) {
        if (lx_exchange_is_left(ex))
            return false;
        handle(ex, rs);
        if (rs->deferred.context == NULL)
            return true;
        defer(ex, &rs->deferred);
    } else if (ex->deferred.pull != NULL) {
        return !lx_exchange_is_left(ex) && lx_http_pull(ex);
    }
    while (rs->deferred.pull == NULL) {
        if (lx_exchange_is_left(ex))
            return false;
        const lx_deferred *d = &ex->deferred;
        if (d->advance != NULL)
            d->advance(d->context);
        if (!d->is_done(d->context))
            return false;
        *rs = (lx_response){0};
        d->finish(d->context, rs);
        if (rs->deferred.context == NULL || ex->before.context != NULL)
            return true;
        defer(ex, &rs->deferred);
    }
    return true;
}

void lx_exchange_work(lx_exchange *ex)
{
    for (bool over = false; !over;) {
        lx_response rs = {0};
        bool ready = make(ex, &rs);
        over = lx_exchange_end_turn(ex, ready ? &rs : NULL);
    }
    lx_exchange_unref(ex);
}

/* --- on the connection's thread --- */

enum MHD_Result lx_exchange_take_answer(lx_exchange *ex)
{
    (void)pthread_mutex_lock(&ex->lock);
    bool ready = !ex->working;
    (void)pthread_mutex_unlock(&ex->lock);
    if (!ready)
        return MHD_NO; /* the client left, or the server stops */
    lx_response rs = ex->response;
    ex->response = (lx_response){0};
    if (rs.deferred.pull != NULL)
        return lx_http_queue_stream(ex, &rs);
    if (ex->deferred.context == NULL)
        lx_watch_set_deadline(&ex->http->watch, ex->conn,
                              lx_now_ns() + ex->http->options.idle_timeout_s * LX_NS_PER_S);
    return lx_http_queue(ex, &rs, false);
}
