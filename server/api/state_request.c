/* Requests about one state (see state_request.h). */
#include "server/api/state_request.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/api/cost.h"

void lx_respond_json(lx_response *rs, int status, lx_buffer *body)
{
    if (body->status == LX_OK)
        lx_response_take(rs, status, "application/json", body);
    else
        lx_respond_status(rs, body->status, &(lx_error){.text = "the answer does not fit"});
    lx_buffer_fini(body);
}

const char *lx_state_model_name(lx_api *api, const lx_saved_state *s)
{
    lx_served_model *m = NULL;
    return lx_state_model(api, s, &m, NULL) == LX_OK ? m->model->name : NULL;
}

static bool is_done(const void *context)
{
    return lx_store_call_done(((const lx_state_request *)context)->call);
}

static void finish(void *context, lx_response *rs)
{
    lx_state_request *r = context;
    lx_error err = {0};
    lx_status st = lx_store_call_status(r->call, &err);
    int32_t turn = lx_serving_enter(r->api->serving);
    if (st == LX_OK)
        r->answer(r, rs);
    else
        lx_respond_status(rs, st, &err);
    lx_serving_leave(r->api->serving, turn);
    lx_store_call_free(r->call); /* a slow client has the answer alone */
    r->call = NULL;
}

void lx_state_request_free(void *context)
{
    lx_state_request *r = context;
    lx_store_call_free(r->call);
    lx_reserve_unref(r->reserve);
    free(r);
}

lx_status lx_state_request_id(lx_api *api, const lx_request *rq, size_t *n, lx_error *err)
{
    *n = strcspn(rq->tail, "/");
    lx_status st = lx_api_check_ready(api, err);
    if (st == LX_OK && !lx_state_id_ok(rq->tail, *n))
        st = lx_fail(err, LX_ERR_INVALID, "id",
                     "an id is 1 to %d letters, digits, hyphens and underscores", LX_STATE_ID_MAX);
    return st;
}

lx_state_request *lx_state_request_new(lx_api *api, const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    size_t n = 0;
    lx_reserve *reserve = NULL;
    lx_status st = lx_state_request_id(api, rq, &n, &err);
    if (st == LX_OK)
        st = lx_state_reserve(api, &reserve, &err);
    lx_state_request *r = st == LX_OK ? calloc(1, sizeof *r) : NULL;
    if (st == LX_OK && r == NULL)
        st = lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    if (st != LX_OK) {
        lx_reserve_unref(reserve);
        lx_respond_status(rs, st, &err);
        return NULL;
    }
    r->api = api;
    r->reserve = reserve;
    memcpy(r->id, rq->tail, n);
    return r;
}

void lx_state_request_store(lx_state_request *r, lx_store_op op, const void *bytes, size_t n,
                            const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    lx_store_waiter waiter = lx_api_waiter(rq);
    waiter.reserve = r->reserve;
    lx_status st = lx_store_call_start(r->api->states, op, r->id, bytes, n, r->api->state_ttl_ms,
                                       &waiter, &r->call, &err);
    if (st != LX_OK) {
        lx_respond_status(rs, st, &err);
        lx_state_request_free(r);
        return;
    }
    rs->deferred = (lx_deferred){.context = r,
                                 .is_done = is_done,
                                 .finish = finish,
                                 .release = lx_state_request_free,
                                 .deadline_ns = lx_now_ns() + LX_STORE_GRACE_S * LX_NS_PER_S};
}

lx_status lx_state_request_read(const lx_state_request *r, lx_saved_state *out, size_t *bytes,
                                int64_t *ttl_ms, lx_error *err)
{
    const void *blob = lx_store_call_blob(r->call, bytes, ttl_ms);
    return lx_state_from_blob(r->api, blob, *bytes, out, err);
}
