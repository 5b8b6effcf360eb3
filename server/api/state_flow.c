/* States of requests (see state_flow.h). */
#include "server/api/state_flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/clock.h"
#include "common/random.h"

/* Copies of a state on its way: the store call's, the one that is read, and an answer's buffer
   while it grows. STATE_EXTRA is for the request and the tokens in it. */
enum { STATE_COPIES = 5, STATE_EXTRA = 16 * 1024 };

/* --- ids --- */

void lx_state_make_id(const char *prefix, char *id, size_t size)
{
    (void)snprintf(id, size, "%s%016llx%016llx", prefix, (unsigned long long)lx_random_bits(),
                   (unsigned long long)lx_random_bits());
}

bool lx_state_id_ok(const char *id, size_t n)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    return n >= 1 && n <= LX_STATE_ID_MAX && strspn(id, allowed) >= n;
}

bool lx_state_id_has(const char *prefix, const char *id)
{
    size_t n = strlen(prefix);
    return strncmp(id, prefix, n) == 0 && id[n] != '\0' && strlen(id) <= LX_STATE_ID_MAX &&
           strspn(id + n, "0123456789abcdef") == strlen(id + n);
}

/* --- blobs --- */

lx_status lx_state_to_blob(const lx_api *api, const lx_saved_state *s, lx_buffer *out,
                           lx_error *err)
{
    return lx_state_write(s, api->state_key, api->state_key_bytes, out, err);
}

lx_status lx_state_part(const void *bytes, size_t n, lx_stored *out, lx_error *err)
{
    *out = (lx_stored){.state = bytes, .state_bytes = n};
    if (lx_stored_kind_of(bytes, n) == LX_STORED_NOTHING)
        return LX_OK;
    lx_status st = lx_stored_read(bytes, n, out, err);
    if (st == LX_OK && out->state_bytes == 0)
        st = lx_fail(err, LX_ERR_INVALID, "state", "the conversation has no state yet");
    return st;
}

lx_status lx_state_from_blob(const lx_api *api, const void *bytes, size_t n, lx_saved_state *out,
                             lx_error *err)
{
    lx_stored stored;
    lx_status st = lx_state_part(bytes, n, &stored, err);
    if (st == LX_OK)
        st = lx_state_read(stored.state, stored.state_bytes, api->state_key, api->state_key_bytes,
                           out, err);
    if (st != LX_OK || stored.kind == LX_STORED_NOTHING)
        return st;
    int32_t n_tokens = out->start.n_tokens;
    out->stored = stored;
    out->stored.n_kept = stored.n_kept < n_tokens ? stored.n_kept : n_tokens;
    out->stored.answer = out->stored.items = NULL; /* the caller's bytes */
    out->stored.item_bytes = NULL;
    out->stored.state = NULL;
    return LX_OK;
}

static void describe_model(const lx_served_model *served, lx_saved_state *s)
{
    lx_state_describe(served->model, s);
    (void)snprintf(s->made_by, sizeof s->made_by, "%s", served->fingerprint);
}

lx_status lx_state_of_job(const lx_api *api, const lx_served_model *served, const lx_job *job,
                          int32_t i, lx_buffer *out, lx_error *err)
{
    const lx_job_params *p = lx_job_get_params(job);
    const lx_plan *plan = lx_job_plan(job);
    lx_saved_state s = {.seed = (uint64_t)p->sampling.seed};
    describe_model(served, &s);
    s.start.first_sample = p->start.first_sample + (uint32_t)i;
    s.start.n_tokens = lx_job_tokens(job, i, &s.start.tokens, NULL);
    s.start.state = lx_job_state(job, i, &s.start.rows);
    lx_buffer request;
    lx_buffer_init(&request, LX_MAX_STATE_REQUEST);
    s.rules = plan->model->task->restate(plan, &request);
    s.request = request.data;
    s.request_bytes = request.length;
    lx_status st = request.status == LX_OK
                       ? lx_state_to_blob(api, &s, out, err)
                       : lx_fail(err, request.status, "state", "the request is too large to keep");
    lx_buffer_fini(&request);
    return st;
}

lx_status lx_state_model(const lx_api *api, const lx_saved_state *s, lx_served_model **out,
                         lx_error *err)
{
    for (int32_t i = 0; i < lx_serving_count(api->serving); i++) {
        lx_served_model *m = lx_serving_at(api->serving, i);
        if (m->model->hash != s->model_hash)
            continue;
        *out = m;
        return lx_state_check(s, m->model, err);
    }
    return lx_fail(err, LX_ERR_INVALID, "state",
                   "the state was made by weights that are not served here (hash %016llx, %s)",
                   (unsigned long long)s->model_hash, s->made_by);
}

lx_status lx_state_plan(const lx_saved_state *s, const lx_model *model, bool ignore_end,
                        lx_plan **out, lx_error *err)
{
    lx_status st =
        lx_plan_again(model, s->request, s->request_bytes, s->rules, ignore_end, out, err);
    if (st == LX_ERR_INVALID) /* a fault of the request in the state is a fault of the state */
        (void)snprintf(err->param, sizeof err->param, "state");
    return st;
}

/* --- keeping --- */

lx_store_waiter lx_api_waiter(const lx_request *rq)
{
    return (lx_store_waiter){
        .owner = rq->owner, .wake = rq->wake, .wake_context = rq->wake_context};
}

static lx_status keep_one(lx_kept_state *k, const lx_api *api, const lx_served_model *served,
                          const lx_job *job, int32_t i, const lx_request *rq)
{
    lx_buffer blob;
    lx_store_waiter waiter = lx_api_waiter(rq);
    waiter.reserve = lx_job_get_params(job)->reserve;
    lx_buffer_init(&blob, lx_state_max_bytes(served->model));
    lx_state_make_id("state-", k->id, sizeof k->id);
    k->tokens = lx_job_tokens(job, i, NULL, NULL);
    (void)lx_job_state(job, i, &k->rows);
    k->memory_bytes = lx_model_state_floats(served->model, k->rows) * (int64_t)sizeof(float);
    lx_status st = lx_state_of_job(api, served, job, i, &blob, &k->err);
    k->bytes = blob.length;
    if (st == LX_OK)
        st = lx_store_call_start(api->states, LX_STORE_PUT, k->id, blob.data, blob.length,
                                 api->state_ttl_ms, &waiter, &k->call, &k->err);
    lx_buffer_fini(&blob);
    return st;
}

lx_status lx_state_saver_start(lx_state_saver *k, const lx_api *api, const lx_served_model *served,
                               const lx_job *job, const lx_request *rq, lx_error *err)
{
    int32_t n = lx_job_get_params(job)->n;
    k->states = calloc((size_t)n, sizeof *k->states);
    if (k->states == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d states", n);
    k->n = n;
    for (int32_t i = 0; i < n; i++)
        k->states[i].status = keep_one(&k->states[i], api, served, job, i, rq);
    return LX_OK;
}

bool lx_state_saver_advance(lx_state_saver *k)
{
    bool all = true;
    for (int32_t i = 0; i < k->n; i++) {
        lx_kept_state *s = &k->states[i];
        if (s->call == NULL)
            continue;
        if (lx_store_call_done(s->call))
            s->status = lx_store_call_status(s->call, &s->err);
        else
            all = false;
    }
    return all;
}

void lx_state_saver_fini(lx_state_saver *k)
{
    for (int32_t i = 0; i < k->n; i++)
        lx_store_call_free(k->states[i].call);
    free(k->states);
    *k = (lx_state_saver){0};
}

lx_status lx_state_reserve(lx_api *api, int64_t text_bytes, lx_reserve **out, lx_error *err)
{
    int64_t most = 0;
    for (int32_t i = 0; i < lx_serving_count(api->serving); i++) {
        int64_t bytes = lx_serving_state_bytes(lx_serving_at(api->serving, i));
        most = bytes > most ? bytes : most;
    }
    return lx_reserve_new(&api->answers, STATE_COPIES * (most + text_bytes + STATE_EXTRA), "state",
                          out, err);
}

/* --- where a request with a state begins --- */

/* A request that waits for the store. */
typedef struct fetching {
    lx_api *api;
    lx_state_source source; /* its params are owned */
    lx_store_call *call;
    lx_request rq; /* of it only wake, id and owner, which live as long as the exchange */
    lx_reserve *reserve;
} fetching;

/* Not one that a model answers. */
static bool is_about_state(const lx_state_source *s)
{
    return s->answer != NULL || s->raw != NULL;
}

static void free_params(const lx_state_source *s)
{
    if (s->fini_params != NULL)
        s->fini_params(s->params);
    free(s->params);
}

/* The model that continues from the state: it has the name ("": any), and its answers are of the
   modality. */
static lx_status find_model(lx_api *api, const lx_saved_state *s, const char *name,
                            lx_modality modality, lx_served_model **out, lx_error *err)
{
    lx_served_model *named = NULL;
    lx_status st =
        name[0] != '\0' ? lx_serving_find_model(api->serving, name, modality, &named, err) : LX_OK;
    if (st == LX_OK)
        st = lx_state_model(api, s, out, err);
    if (st == LX_OK && named != NULL)
        st = lx_state_check(s, named->model, err);
    if (st == LX_OK && s->modality != modality)
        st = lx_fail(err, LX_ERR_INVALID, "state", "the state is %s: use %s",
                     s->modality == LX_TEXT ? "a text's" : "an image's",
                     s->modality == LX_TEXT ? "/v1/completions" : "/v1/images/generations");
    return st;
}

static void start(lx_api *api, const lx_state_source *s, lx_status status, lx_error *err,
                  const lx_saved_state *state, const lx_request *rq, lx_response *rs)
{
    lx_served_model *served = NULL;
    if (status == LX_OK)
        status = find_model(api, state, s->model, s->modality, &served, err);
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
    return lx_store_call_done(((const fetching *)context)->call);
}

static void finish(void *context, lx_response *rs)
{
    fetching *p = context;
    lx_error err = {0};
    lx_status st = lx_store_call_status(p->call, &err);
    size_t n = 0;
    int64_t ttl_ms = 0;
    const void *bytes = lx_store_call_blob(p->call, &n, &ttl_ms);
    int32_t turn = lx_serving_enter(p->api->serving);
    if (p->source.raw != NULL)
        p->source.raw(p->api, p->source.params, st, &err, bytes, n, &p->rq, rs);
    else if (p->source.answer == NULL)
        go_on(p->api, &p->source, bytes, n, st, &err, &p->rq, rs);
    else if (st == LX_OK)
        p->source.answer(p->api, p->source.params, bytes, n, ttl_ms, rs);
    else
        lx_respond_status(rs, st, &err);
    lx_serving_leave(p->api->serving, turn);
    lx_store_call_free(p->call); /* a slow client has the answer alone */
    p->call = NULL;
    if (is_about_state(&p->source) && rs->deferred.context == NULL)
        return; /* the answer is part of the reserve */
    lx_reserve_unref(p->reserve);
    p->reserve = NULL;
}

static void release(void *context)
{
    fetching *p = context;
    lx_store_call_free(p->call);
    lx_reserve_unref(p->reserve);
    free_params(&p->source);
    free(p);
}

static void wait_for(lx_api *api, const lx_state_source *s, lx_store_call *call,
                     lx_reserve *reserve, const lx_request *rq, lx_response *rs)
{
    fetching *context = calloc(1, sizeof *context);
    if (context == NULL) {
        lx_error err = {0};
        lx_store_call_free(call);
        lx_respond_status(rs, lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory for the request"),
                          &err);
        free_params(s);
        return;
    }
    *context = (fetching){api, *s, call, *rq, lx_reserve_ref(reserve)};
    context->source.text = context->source.put = NULL; /* the caller's */
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
    lx_status st = lx_state_reserve(api, s->text_bytes, &reserve, &err);
    lx_store_op op = is_about_state(s) ? s->op : LX_STORE_GET;
    waiter.reserve = reserve;
    if (st == LX_OK)
        st = lx_store_call_start(api->states, op, id, s->put, s->put_bytes, api->state_ttl_ms,
                                 &waiter, &call, &err);
    if (st == LX_OK && (is_about_state(s) || !lx_store_call_done(call))) {
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
    if (!is_about_state(s))
        go_on(api, s, bytes, n, st, &err, rq, rs);
    else
        lx_respond_status(rs, st, &err);
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
        if (source->fini_params != NULL)
            source->fini_params(source->params);
        return;
    }
    memcpy(own.params, source->params, source->params_bytes);
    if (is_about_state(source) || lx_state_id_ok(source->text, source->bytes))
        resolve_id(api, &own, rq, rs);
    else
        resolve_blob(api, &own, rq, rs);
}
