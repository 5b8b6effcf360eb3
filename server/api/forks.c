/*
 * /v1/states/ID/fork: copies of a state, all or none. Thread: a worker.
 */
#include <stdlib.h>

#include "common/clock.h"
#include "server/api/generation.h"
#include "server/api/state_flow.h"
#include "server/api/states.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

enum { BLOB_EXTRA = 1024 }; /* a copy's own numbers */

typedef struct fork_entry {
    char id[LX_STATE_ID_MAX + 1];
    lx_store_call *call; /* that keeps the copy, later the one that removes it again; or NULL */
    lx_saved_state facts;
    size_t bytes;
} fork_entry;

/* The source itself is gone by now: it may be large, and clients may take their answer slowly. */
typedef struct fork_request {
    lx_api *api;
    lx_json_notes notes;
    lx_store_waiter waiter; /* owns its reserve, of the copies on their way to a store elsewhere */
    lx_status status;       /* of the first copy that failed */
    lx_error err;
    bool tried; /* every copy is kept or has failed */
    int32_t n;
    fork_entry entries[]; /* [n] */
} fork_request;

static bool calls_are_done(const fork_request *f)
{
    for (int32_t i = 0; i < f->n; i++) {
        if (f->entries[i].call != NULL && !lx_store_call_done(f->entries[i].call))
            return false;
    }
    return true;
}

/* The client learns no id of a fork that fails, so no copy may stay. A copy whose call failed may
   be there, too: the answer of a store elsewhere may have been lost. */
static void remove_copies(fork_request *f)
{
    for (int32_t i = 0; i < f->n; i++) {
        fork_entry *e = &f->entries[i];
        lx_store_call_free(e->call);
        e->call = NULL;
        if (lx_store_call_start(f->api->states, LX_STORE_REMOVE, e->id, NULL, 0, 0, &f->waiter,
                                &e->call, NULL) != LX_OK)
            e->call = NULL; /* without memory the copy stays for its time */
    }
}

static void fork_advance(void *context)
{
    fork_request *f = context;
    if (f->tried || !calls_are_done(f))
        return;
    f->tried = true;
    for (int32_t i = 0; f->status == LX_OK && i < f->n; i++)
        f->status = lx_store_call_status(f->entries[i].call, &f->err);
    if (f->status != LX_OK)
        remove_copies(f);
}

static bool fork_is_done(const void *context)
{
    const fork_request *f = context;
    return f->tried && calls_are_done(f);
}

static void fork_finish(void *context, lx_response *rs)
{
    const fork_request *f = context;
    if (f->status != LX_OK) {
        lx_respond_status(rs, f->status, &f->err);
        return;
    }
    lx_buffer body;
    lx_buffer_init(&body, LX_STATE_MAX_LIST);
    lx_json_put(&body, "{'object':'list','data':[");
    int32_t turn = lx_serving_enter(f->api->serving);
    for (int32_t i = 0; i < f->n; i++) {
        const fork_entry *e = &f->entries[i];
        lx_buffer_puts(&body, i > 0 ? "," : "");
        lx_state_put_facts(f->api, e->id, &e->facts, e->bytes, f->api->state_ttl_ms, &body);
    }
    lx_serving_leave(f->api->serving, turn);
    lx_buffer_puts(&body, "]}");
    lx_json_append_notes(&f->notes, &body);
    lx_state_respond_json(rs, 201, &body);
}

static void fork_release(void *context)
{
    fork_request *f = context;
    for (int32_t i = 0; i < f->n; i++)
        lx_store_call_free(f->entries[i].call);
    lx_reserve_unref(f->waiter.reserve);
    free(f);
}

/* Copy i continues with random numbers of its own: those of another seed, or of the next sample. */
static lx_status start_copy(fork_request *f, int32_t i, const lx_saved_state *source,
                            const lx_state_fork *p, lx_error *err)
{
    fork_entry *e = &f->entries[i];
    lx_saved_state copy = *source;
    if (p->seeds != NULL)
        copy.seed = p->seeds[i];
    else
        copy.start.first_sample += (uint32_t)i;
    e->facts = lx_state_facts(&copy);
    lx_state_make_id("state-", e->id, sizeof e->id);
    lx_buffer blob;
    lx_buffer_init(&blob, SIZE_MAX / 2);
    lx_status st = lx_state_to_blob(f->api, &copy, &blob, err);
    e->bytes = blob.length;
    if (st == LX_OK)
        st = lx_store_call_start(f->api->states, LX_STORE_PUT, e->id, blob.data, blob.length,
                                 f->api->state_ttl_ms, &f->waiter, &e->call, err);
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
    return lx_reserve_new(&f->api->answers, n * each, "n", &f->waiter.reserve, err);
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
        f->waiter = lx_api_waiter(rq);
        st = reserve_copies(f, p->n, state, err);
    }
    for (int32_t i = 0; st == LX_OK && i < p->n; i++)
        st = start_copy(f, i, state, p, err);
    if (st != LX_OK && f != NULL && f->n > 0) { /* some copies are on their way */
        f->status = st;
        f->err = *err;
    } else if (st != LX_OK) {
        lx_respond_status(rs, st, err);
        if (f != NULL)
            fork_release(f);
        return;
    }
    rs->deferred = (lx_deferred){.context = f,
                                 .advance = fork_advance,
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
    if (!lx_request_begins(api, rq, "application/json", rs))
        return;
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
