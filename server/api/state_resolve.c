/* Resolving the state of a request (see state_resolve.h). */
#include "server/api/state_resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/clock.h"

/* A request that waits for the store. */
typedef struct pending {
    lx_api *api;
    lx_state_source source; /* its params are owned */
    lx_store_call *call;
    lx_request rq; /* of it only wake, id and owner, which live as long as the exchange */
    lx_reserve *reserve;
} pending;

static void free_params(const lx_state_source *s)
{
    s->fini_params(s->params);
    free(s->params);
}

static void start(lx_api *api, const lx_state_source *s, lx_status status, lx_error *err,
                  const lx_saved_state *state, const lx_request *rq, lx_response *rs)
{
    lx_served_model *served = NULL;
    if (status == LX_OK)
        status = lx_state_find_model(api, state, s->model, s->modality, &served, err);
    if (status == LX_OK)
        s->start(api, served, s->params, state, rq, rs);
    else
        lx_api_refuse(api, s->model, status, err, rs);
}

static void go_on(lx_api *api, const lx_state_source *s, const void *bytes, size_t n,
                  lx_status status, lx_error *err, const lx_request *rq, lx_response *rs)
{
    lx_saved_state state = {0};
    if (status == LX_OK)
        status = lx_state_from_blob(api, bytes, n, &state, err);
    if (s->start != NULL)
        start(api, s, status, err, &state, rq, rs);
    else
        s->then(api, s->params, status, err, &state, rq, rs);
    lx_state_fini(&state);
}

/* --- by an id --- */

static bool is_done(const void *context)
{
    return lx_store_call_done(((const pending *)context)->call);
}

static void free_fetched(pending *p)
{
    lx_store_call_free(p->call);
    lx_reserve_unref(p->reserve);
    p->call = NULL;
    p->reserve = NULL;
}

static void finish(void *context, lx_response *rs)
{
    pending *p = context;
    lx_error err = {0};
    lx_status st = lx_store_call_status(p->call, &err);
    size_t n = 0;
    const void *bytes = lx_store_call_blob(p->call, &n, NULL);
    int32_t turn = lx_serving_enter(p->api->serving);
    go_on(p->api, &p->source, bytes, n, st, &err, &p->rq, rs);
    lx_serving_leave(p->api->serving, turn);
    free_fetched(p); /* the answer may take long */
}

static void release(void *context)
{
    pending *p = context;
    free_fetched(p);
    free_params(&p->source);
    free(p);
}

static void wait_for(lx_api *api, const lx_state_source *s, lx_store_call *call,
                     lx_reserve *reserve, const lx_request *rq, lx_response *rs)
{
    pending *context = calloc(1, sizeof *context);
    if (context == NULL) {
        lx_error err = {0};
        lx_store_call_free(call);
        lx_respond_status(rs, lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory for the request"),
                          &err);
        free_params(s);
        return;
    }
    *context = (pending){api, *s, call, *rq, lx_reserve_ref(reserve)};
    context->source.text = NULL; /* the caller's */
    rs->deferred = (lx_deferred){.context = context,
                                 .is_done = is_done,
                                 .finish = finish,
                                 .release = release,
                                 .deadline_ns = lx_now_ns() + LX_STORE_GRACE_S * LX_NS_PER_S};
}

static void resolve_id(lx_api *api, const lx_state_source *s, const lx_request *rq, lx_response *rs)
{
    char id[LX_STATE_ID_MAX + 1];
    lx_error err = {0};
    lx_store_call *call = NULL;
    lx_reserve *reserve = NULL;
    lx_store_waiter waiter = lx_api_waiter(rq);
    (void)snprintf(id, sizeof id, "%.*s", (int)s->bytes, s->text);
    lx_status st = lx_state_reserve(api, &reserve, &err);
    if (st == LX_OK)
        st = lx_store_call_start(api->states, LX_STORE_GET, id, NULL, 0, api->state_ttl_ms, &waiter,
                                 &call, &err);
    if (st == LX_OK && !lx_store_call_done(call)) {
        wait_for(api, s, call, reserve, rq, rs);
        lx_reserve_unref(reserve);
        return;
    }
    size_t n = 0;
    const void *bytes = NULL;
    if (st == LX_OK) {
        st = lx_store_call_status(call, &err);
        bytes = lx_store_call_blob(call, &n, NULL);
    }
    go_on(api, s, bytes, n, st, &err, rq, rs);
    lx_store_call_free(call);
    lx_reserve_unref(reserve);
    free_params(s);
}

/* --- from the request --- */

static void resolve_blob(lx_api *api, const lx_state_source *s, const lx_request *rq,
                         lx_response *rs)
{
    uint8_t *bytes = NULL;
    size_t n = 0;
    lx_error err = {0};
    lx_status st = lx_base64_decode(s->text, s->bytes, "state", &bytes, &n, &err);
    go_on(api, s, bytes, n, st, &err, rq, rs);
    free(bytes);
    free_params(s);
}

void lx_state_resolve(lx_api *api, const lx_state_source *source, const lx_request *rq,
                      lx_response *rs)
{
    lx_state_source own = *source;
    own.params = malloc(source->params_bytes);
    if (own.params == NULL) {
        lx_error err = {0};
        lx_respond_status(rs, lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory for the request"),
                          &err);
        source->fini_params(source->params);
        return;
    }
    memcpy(own.params, source->params, source->params_bytes);
    if (lx_state_id_ok(source->text, source->bytes))
        resolve_id(api, &own, rq, rs);
    else
        resolve_blob(api, &own, rq, rs);
}
