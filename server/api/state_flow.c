/* States of requests (see state_flow.h). */
#include "server/api/state_flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"

/* Of a state on its way: the store call's copy, the one that is read, an answer's buffer while it
   grows; beside the numbers there are a request and tokens. */
enum { STATE_COPIES = 5, STATE_EXTRA = 16 * 1024 };

/* --- ids --- */

void lx_state_make_id(char id[LX_STATE_ID_MAX + 1])
{
    (void)snprintf(id, LX_STATE_ID_MAX + 1, "state-%016llx%016llx",
                   (unsigned long long)lx_random_bits(), (unsigned long long)lx_random_bits());
}

bool lx_state_id_ok(const char *id, size_t n)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    return n >= 1 && n <= LX_STATE_ID_MAX && strspn(id, allowed) >= n;
}

/* --- blobs --- */

lx_status lx_state_to_blob(const lx_api *api, const lx_saved_state *s, lx_buffer *out,
                           lx_error *err)
{
    return lx_state_write(s, api->state_key, api->state_key_bytes, out, err);
}

lx_status lx_state_from_blob(const lx_api *api, const void *bytes, size_t n, lx_saved_state *out,
                             lx_error *err)
{
    return lx_state_read(bytes, n, api->state_key, api->state_key_bytes, out, err);
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
    if (st == LX_ERR_INVALID) /* what was wrong with the request is wrong with the state */
        (void)snprintf(err->param, sizeof err->param, "state");
    return st;
}

lx_status lx_state_find_model(lx_api *api, const lx_saved_state *s, const char *name,
                              lx_modality modality, lx_served_model **out, lx_error *err)
{
    lx_served_model *named = NULL;
    lx_status st = name[0] != '\0' ? lx_api_find_model(api, name, modality, &named, err) : LX_OK;
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
    lx_state_make_id(k->id);
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

lx_status lx_state_reserve(lx_api *api, lx_reserve **out, lx_error *err)
{
    int64_t most = 0;
    for (int32_t i = 0; i < lx_serving_count(api->serving); i++) {
        int64_t bytes = lx_serving_state_bytes(lx_serving_at(api->serving, i));
        most = bytes > most ? bytes : most;
    }
    return lx_reserve_new(&api->answers, STATE_COPIES * (most + STATE_EXTRA), "state", out, err);
}
