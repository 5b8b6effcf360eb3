/* POST /v1/states/ID/fork: the state is fetched, and copies of it are kept. */
#include <stdlib.h>

#include "common/clock.h"
#include "server/api/state_request.h"
#include "server/api/state_resolve.h"
#include "server/json/states.h"

enum { MAX_LIST = 1 << 20, BLOB_EXTRA = 1024 };

typedef struct fork_entry {
    char id[LX_STATE_ID_MAX + 1];
    lx_store_call *call;
    lx_saved_state facts;
    size_t bytes;
} fork_entry;

/* The source itself is gone by now: it may be large, and clients may take their answer slowly. */
typedef struct fork_request {
    lx_api *api;
    lx_json_notes notes;
    lx_reserve *reserve; /* of the copies, on their way to a store elsewhere; NULL: none */
    int32_t n;
    fork_entry entries[]; /* [n] */
} fork_request;

static bool fork_is_done(const void *context)
{
    const fork_request *f = context;
    for (int32_t i = 0; i < f->n; i++) {
        if (!lx_store_call_done(f->entries[i].call))
            return false;
    }
    return true;
}

static void fork_finish(void *context, lx_response *rs)
{
    const fork_request *f = context;
    lx_error err = {0};
    lx_status st = LX_OK;
    lx_json_state *facts = calloc((size_t)f->n, sizeof *facts);
    int32_t turn = lx_serving_enter(f->api->serving);
    if (facts == NULL)
        st = lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    for (int32_t i = 0; st == LX_OK && i < f->n; i++) {
        const fork_entry *e = &f->entries[i];
        st = lx_store_call_status(e->call, &err);
        facts[i] = (lx_json_state){e->id, lx_state_model_name(f->api, &e->facts), &e->facts,
                                   e->bytes, f->api->state_ttl_ms};
    }
    if (st == LX_OK) {
        lx_buffer body;
        lx_buffer_init(&body, MAX_LIST);
        lx_json_write_state_list(facts, f->n, &body);
        lx_json_append_notes(&f->notes, &body);
        lx_respond_json(rs, 201, &body);
    } else {
        lx_respond_status(rs, st, &err);
    }
    lx_serving_leave(f->api->serving, turn);
    free(facts);
}

static void fork_release(void *context)
{
    fork_request *f = context;
    for (int32_t i = 0; i < f->n; i++)
        lx_store_call_free(f->entries[i].call);
    lx_reserve_unref(f->reserve);
    free(f);
}

/* Copy i continues with random numbers of its own: those of another seed, or of the next sample. */
static lx_status start_copy(fork_request *f, int32_t i, const lx_saved_state *source,
                            const lx_state_fork *p, const lx_request *rq, lx_error *err)
{
    fork_entry *e = &f->entries[i];
    lx_saved_state copy = *source;
    if (p->seeds != NULL)
        copy.seed = p->seeds[i];
    else
        copy.start.first_sample += (uint32_t)i;
    e->facts = lx_state_facts(&copy);
    lx_state_make_id(e->id);
    lx_buffer blob;
    lx_store_waiter waiter = lx_api_waiter(rq);
    waiter.reserve = f->reserve;
    lx_buffer_init(&blob, SIZE_MAX / 2);
    lx_status st = lx_state_to_blob(f->api, &copy, &blob, err);
    e->bytes = blob.length;
    if (st == LX_OK)
        st = lx_store_call_start(f->api->states, LX_STORE_PUT, e->id, blob.data, blob.length,
                                 f->api->state_ttl_ms, &waiter, &e->call, err);
    lx_buffer_fini(&blob);
    f->n += st == LX_OK;
    return st;
}

/* The store's own memory takes a copy over at once, under its own limit. */
static lx_status reserve_copies(fork_request *f, int32_t n, const lx_saved_state *source,
                                lx_error *err)
{
    int64_t each = lx_state_floats(source) * (int64_t)sizeof(float) +
                   (int64_t)source->request_bytes +
                   source->start.n_tokens * (int64_t)sizeof(int32_t) + BLOB_EXTRA;
    if (!f->api->states->ops->outlives)
        return LX_OK;
    return lx_reserve_new(&f->api->answers, n * each, "n", &f->reserve, err);
}

static void fork_state(lx_api *api, void *params, lx_status st, lx_error *err,
                       const lx_saved_state *state, const lx_request *rq, lx_response *rs)
{
    const lx_state_fork *p = params;
    size_t bytes = sizeof(fork_request) + (size_t)p->n * sizeof(fork_entry);
    fork_request *f = st == LX_OK ? calloc(1, bytes) : NULL;
    if (st == LX_OK && f == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the copies");
    if (st == LX_OK) {
        f->api = api;
        f->notes = p->notes;
        st = reserve_copies(f, p->n, state, err);
    }
    for (int32_t i = 0; st == LX_OK && i < p->n; i++)
        st = start_copy(f, i, state, p, rq, err);
    if (st != LX_OK) {
        lx_respond_status(rs, st, err);
        if (f != NULL)
            fork_release(f);
        return;
    }
    rs->deferred = (lx_deferred){.context = f,
                                 .is_done = fork_is_done,
                                 .finish = fork_finish,
                                 .release = fork_release,
                                 .deadline_ns = lx_now_ns() + LX_STORE_GRACE_S * LX_NS_PER_S};
}

static void fini_fork(void *params)
{
    free(((lx_state_fork *)params)->seeds);
}

void lx_handle_state_fork(lx_api *api, const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    lx_state_fork p = {0};
    size_t n = 0;
    if (!lx_request_is_json(rq)) {
        lx_respond_unread(rs, "application/json");
        return;
    }
    lx_status st = lx_state_request_id(api, rq, &n, &err);
    if (st == LX_OK)
        st = lx_json_read_state_fork(rq->body, rq->body_bytes, api->max_forks, &p, &err);
    if (st != LX_OK) {
        lx_respond_status(rs, st, &err);
        fini_fork(&p);
        return;
    }
    lx_state_source source = {.text = rq->tail,
                              .bytes = n,
                              .then = fork_state,
                              .params = &p,
                              .params_bytes = sizeof p,
                              .fini_params = fini_fork};
    lx_state_resolve(api, &source, rq, rs);
}
