/*
 * /v1/states: what a request has come to, as an object. Made from a prompt, told about, fetched and
 * sent as bytes, copied, looked into, removed. Every route asks the store and answers when it has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "model/picture.h"
#include "server/api/cost.h"
#include "server/api/generation.h"
#include "server/json/states.h"

enum { STORE_GRACE_S = 60, MAX_LIST = 1 << 20, MAX_LOOK = 64 << 20 };

static const char octets[] = "application/octet-stream";

static void respond_json(lx_response *rs, int status, lx_buffer *body)
{
    if (body->status == LX_OK)
        lx_response_take(rs, status, "application/json", body);
    else
        lx_respond_status(rs, body->status, &(lx_error){.text = "the answer does not fit"});
    lx_buffer_fini(body);
}

/* Between lx_serving_enter and _leave, like every answer here. */
static const char *model_name(lx_api *api, const lx_saved_state *s)
{
    lx_served_model *m = NULL;
    return lx_state_model(api, s, &m, NULL) == LX_OK ? m->model->name : NULL;
}

/* --- one state, asked for by its id --- */

typedef struct ask {
    lx_api *api;
    char id[LX_STATE_ID_MAX + 1];
    lx_store_call *call;
    /* Answers with what the store has said. */
    void (*answer)(struct ask *a, lx_response *rs);
    int status;              /* of an answer without content */
    lx_saved_state uploaded; /* PUT */
    size_t uploaded_bytes;
    lx_reserve *reserve;
    int32_t layer, head; /* look */
} ask;

static bool ask_ready(void *context)
{
    return lx_store_call_done(((ask *)context)->call);
}

static void ask_finish(void *context, lx_response *rs)
{
    ask *a = context;
    lx_error err = {0};
    lx_status st = lx_store_call_status(a->call, &err);
    int32_t turn = lx_serving_enter(a->api->serving);
    if (st == LX_OK)
        a->answer(a, rs);
    else
        lx_respond_status(rs, st, &err);
    lx_serving_leave(a->api->serving, turn);
}

static void ask_cancel(void *context)
{
    (void)context; /* the store ends every call by itself */
}

static void ask_release(void *context)
{
    ask *a = context;
    lx_store_call_free(a->call);
    lx_state_fini(&a->uploaded);
    lx_reserve_unref(a->reserve);
    free(a);
}

/* The id is the first *n bytes of rq->tail. */
static lx_status check_id(lx_api *api, const lx_request *rq, size_t *n, lx_error *err)
{
    *n = strcspn(rq->tail, "/");
    lx_status st = lx_api_check_ready(api, err);
    if (st == LX_OK && !lx_state_id_ok(rq->tail, *n))
        st = lx_fail(err, LX_ERR_INVALID, "id",
                     "an id is 1 to %d letters, digits, hyphens and underscores", LX_STATE_ID_MAX);
    return st;
}

/* NULL when the response says why: no such id can be, or no memory. */
static ask *ask_new(lx_api *api, const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    size_t n = 0;
    lx_reserve *reserve = NULL;
    lx_status st = check_id(api, rq, &n, &err);
    if (st == LX_OK)
        st = lx_state_reserve(api, &reserve, &err);
    ask *a = st == LX_OK ? calloc(1, sizeof *a) : NULL;
    if (st == LX_OK && a == NULL)
        st = lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    if (st != LX_OK) {
        lx_reserve_unref(reserve);
        lx_respond_status(rs, st, &err);
        return NULL;
    }
    a->api = api;
    a->reserve = reserve;
    memcpy(a->id, rq->tail, n);
    return a;
}

/* Takes a. */
static void ask_store(ask *a, lx_store_op op, const void *bytes, size_t n, const lx_request *rq,
                      lx_response *rs)
{
    lx_error err = {0};
    lx_store_waiter waiter = lx_api_waiter(rq);
    lx_status st = lx_store_call_start(a->api->states, op, a->id, bytes, n, a->api->state_ttl_ms,
                                       &waiter, &a->call, &err);
    if (st != LX_OK) {
        lx_respond_status(rs, st, &err);
        ask_release(a);
        return;
    }
    rs->deferred = (lx_deferred){.context = a,
                                 .ready = ask_ready,
                                 .finish = ask_finish,
                                 .cancel = ask_cancel,
                                 .release = ask_release,
                                 .deadline_ns = lx_now_ns() + STORE_GRACE_S * LX_NS_PER_S};
}

static lx_status read_found(const ask *a, lx_saved_state *out, size_t *bytes, int64_t *ttl_ms,
                            lx_error *err)
{
    const void *blob = lx_store_call_blob(a->call, bytes, ttl_ms);
    return lx_state_from_blob(a->api, blob, *bytes, out, err);
}

static void respond_facts(lx_api *api, int status, const char *id, const lx_saved_state *s,
                          size_t bytes, int64_t ttl_ms, lx_response *rs)
{
    lx_buffer body;
    lx_buffer_init(&body, MAX_LIST);
    lx_json_state facts = {id, model_name(api, s), s, bytes, ttl_ms};
    lx_json_write_state(&facts, &body);
    respond_json(rs, status, &body);
}

static void answer_facts(ask *a, lx_response *rs)
{
    lx_saved_state s = {0};
    lx_error err = {0};
    size_t bytes = 0;
    int64_t ttl_ms = 0;
    lx_status st = read_found(a, &s, &bytes, &ttl_ms, &err);
    if (st == LX_OK)
        respond_facts(a->api, 200, a->id, &s, bytes, ttl_ms, rs);
    else
        lx_respond_status(rs, st, &err);
    lx_state_fini(&s);
}

static void answer_blob(ask *a, lx_response *rs)
{
    size_t n = 0;
    const void *blob = lx_store_call_blob(a->call, &n, NULL);
    lx_buffer body;
    lx_buffer_init(&body, n);
    lx_buffer_append(&body, blob, n);
    lx_response_take(rs, 200, octets, &body);
    lx_buffer_fini(&body);
}

void lx_handle_state_get(lx_api *api, const lx_request *rq, lx_response *rs)
{
    ask *a = ask_new(api, rq, rs);
    if (a == NULL)
        return;
    a->answer = strncmp(rq->accept, octets, sizeof octets - 1) == 0 ? answer_blob : answer_facts;
    ask_store(a, LX_STORE_GET, NULL, 0, rq, rs);
}

static void answer_nothing(ask *a, lx_response *rs)
{
    (void)a;
    rs->status = 204;
}

void lx_handle_state_delete(lx_api *api, const lx_request *rq, lx_response *rs)
{
    ask *a = ask_new(api, rq, rs);
    if (a == NULL)
        return;
    a->answer = answer_nothing;
    ask_store(a, LX_STORE_REMOVE, NULL, 0, rq, rs);
}

static void answer_uploaded(ask *a, lx_response *rs)
{
    respond_facts(a->api, 201, a->id, &a->uploaded, a->uploaded_bytes, a->api->state_ttl_ms, rs);
}

/* An uploaded state is checked as a whole before it is kept. */
void lx_handle_state_put(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (strncmp(rq->content_type, octets, sizeof octets - 1) != 0) {
        lx_respond_unread(rs, octets);
        return;
    }
    ask *a = ask_new(api, rq, rs);
    if (a == NULL)
        return;
    lx_error err = {0};
    lx_served_model *served = NULL;
    lx_plan *plan = NULL;
    lx_status st = lx_state_from_blob(api, rq->body, rq->body_bytes, &a->uploaded, &err);
    if (st == LX_OK)
        st = lx_state_model(api, &a->uploaded, &served, &err);
    if (st == LX_OK)
        st = lx_state_plan(&a->uploaded, served->model, &plan, &err);
    lx_plan_free(plan);
    a->answer = answer_uploaded;
    a->uploaded_bytes = rq->body_bytes;
    if (st == LX_OK) {
        ask_store(a, LX_STORE_PUT, rq->body, rq->body_bytes, rq, rs);
        return;
    }
    lx_respond_status(rs, st, &err);
    ask_release(a);
}

/* --- a look inside --- */

static lx_status read_index(const lx_request *rq, const char *name, int32_t *out, lx_error *err)
{
    const char *text = rq->argument(rq->query, name);
    char *end = NULL;
    *out = 0;
    if (text == NULL)
        return LX_OK;
    long x = strtol(text, &end, 10);
    if (end == text || *end != '\0' || x < 0 || x > 1 << 20)
        return lx_fail(err, LX_ERR_INVALID, name, "%s must be a whole number from 0 on", name);
    *out = (int32_t)x;
    return LX_OK;
}

static lx_status check_index(const char *name, int32_t x, int32_t n, lx_error *err)
{
    if (x < n)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, name, "%s is %d, the model has 0 to %d", name, x, n - 1);
}

static void write_head(const ask *a, const lx_saved_state *s, const lx_model *m, lx_buffer *out)
{
    int64_t at_s = 0, at_z = 0;
    const lx_state_field *field = lx_model_state_field(m, a->layer, a->head, "s", &at_s);
    if (field == NULL || lx_model_state_field(m, a->layer, a->head, "z", &at_z) == NULL) {
        out->status = LX_ERR_UNSUPPORTED;
        return;
    }
    float *nothing = NULL;
    if (s->start.state == NULL)
        nothing = calloc((size_t)m->state.fixed_floats, sizeof *nothing);
    const float *state = s->start.state != NULL ? s->start.state : nothing;
    if (state != NULL)
        lx_json_write_look(&(lx_json_look){.id = a->id,
                                           .layer = a->layer,
                                           .head = a->head,
                                           .n_layers = m->config.n_layers,
                                           .n_heads = m->config.n_heads,
                                           .d_key = field->rows,
                                           .d_value = field->cols,
                                           .s = state + at_s,
                                           .z = state + at_z},
                           out);
    else
        out->status = LX_ERR_NO_MEMORY;
    free(nothing);
}

static void answer_look(ask *a, lx_response *rs)
{
    lx_saved_state s = {0};
    lx_error err = {0};
    lx_served_model *served = NULL;
    size_t bytes = 0;
    lx_status st = read_found(a, &s, &bytes, NULL, &err);
    if (st == LX_OK)
        st = lx_state_model(a->api, &s, &served, &err);
    if (st == LX_OK)
        st = check_index("layer", a->layer, served->model->config.n_layers, &err);
    if (st == LX_OK)
        st = check_index("head", a->head, served->model->config.n_heads, &err);
    if (st == LX_OK) {
        lx_buffer body;
        lx_buffer_init(&body, MAX_LOOK);
        write_head(a, &s, served->model, &body);
        respond_json(rs, 200, &body);
    } else {
        lx_respond_status(rs, st, &err);
    }
    lx_state_fini(&s);
}

void lx_handle_state_look(lx_api *api, const lx_request *rq, lx_response *rs)
{
    ask *a = ask_new(api, rq, rs);
    if (a == NULL)
        return;
    lx_error err = {0};
    lx_status st = read_index(rq, "layer", &a->layer, &err);
    if (st == LX_OK)
        st = read_index(rq, "head", &a->head, &err);
    if (st != LX_OK) {
        lx_respond_status(rs, st, &err);
        ask_release(a);
        return;
    }
    a->answer = answer_look;
    ask_store(a, LX_STORE_GET, NULL, 0, rq, rs);
}

/* --- making and copying --- */

/* A state from a prompt: a job that generates nothing and keeps its state. */
static lx_status kept_state(lx_work *w, lx_error *err)
{
    lx_status st = lx_work_status(w, err);
    lx_work_count(w, st);
    if (st != LX_OK)
        return st;
    if (w->keeper.n == 0)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a state");
    if (w->keeper.states[0].status != LX_OK)
        *err = w->keeper.states[0].err;
    return w->keeper.states[0].status;
}

static void create_finish(void *context, lx_response *rs)
{
    lx_work *w = context;
    lx_error err = {0};
    lx_status st = kept_state(w, &err);
    if (st != LX_OK) {
        lx_respond_status(rs, st, &err);
        return;
    }
    const lx_kept_state *k = &w->keeper.states[0];
    lx_saved_state s = {.model_hash = w->served->model->hash,
                        .n_layers = w->served->model->config.n_layers,
                        .n_floats = w->served->model->state.fixed_floats,
                        .modality = w->served->model->task->modality,
                        .seed = w->params->seed,
                        .start = {.rows = k->rows, .n_tokens = k->tokens}};
    (void)snprintf(s.made_by, sizeof s.made_by, "%s", w->served->fingerprint);
    int32_t turn = lx_serving_enter(w->api->serving);
    respond_facts(w->api, 201, k->id, &s, k->bytes, w->api->state_ttl_ms, rs);
    lx_serving_leave(w->api->serving, turn);
}

static lx_status plan_image(lx_served_model *served, const lx_state_create *p, lx_plan **plan,
                            lx_error *err)
{
    lx_task_request request = {.values = NULL};
    uint8_t *values = NULL;
    lx_status st = LX_OK;
    if (p->prompt != NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "model %s makes images: it has no prompt",
                       served->model->name);
    if (p->image.data != NULL)
        st = lx_picture_read_prefix(
            &served->model->config, (lx_png_file){p->image.data, p->image.bytes},
            (lx_png_file){p->mask.data, p->mask.bytes}, &values, &request.n_values, err);
    request.values = values;
    if (st == LX_OK)
        st = lx_work_plan(served, &request, plan, err);
    free(values);
    return st;
}

static lx_status plan_text(lx_served_model *served, const lx_state_create *p, lx_plan **plan,
                           lx_error *err)
{
    if (p->prompt == NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "prompt is missing");
    lx_task_request request = {.text = p->prompt, .text_bytes = p->prompt_bytes, .rules = p->rules};
    return lx_work_plan(served, &request, plan, err);
}

static void start_create(lx_api *api, lx_served_model *served, const lx_state_create *p,
                         lx_plan *plan, const lx_request *rq, lx_response *rs)
{
    lx_work_params params = {.n = 1,
                             .top_p = 1,
                             .temperature = 1,
                             .has_seed = p->has_seed,
                             .seed = p->seed,
                             .timeout_ms = p->timeout_ms,
                             .return_state = true,
                             .state_only = true};
    lx_work_defer(api, served, plan, &params, lx_cost_facts(), rq, create_finish, rs);
}

void lx_handle_states_create(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_request_is_json(rq)) {
        lx_respond_unread(rs, "application/json");
        return;
    }
    lx_error err = {0};
    lx_state_create p = {0};
    lx_served_model *served = NULL;
    lx_plan *plan = NULL;
    lx_status st = lx_api_check_ready(api, &err);
    if (st == LX_OK)
        st = lx_json_read_state_create(rq->body, rq->body_bytes, &p, &err);
    if (st == LX_OK) {
        const lx_served_model *named = lx_serving_find(api->serving, p.model);
        lx_modality modality = p.prompt != NULL ? LX_TEXT : LX_IMAGE;
        st = lx_api_find_model(
            api, p.model, named != NULL ? named->model->task->modality : modality, &served, &err);
    }
    if (st == LX_OK)
        st = served->model->task->modality == LX_TEXT ? plan_text(served, &p, &plan, &err)
                                                      : plan_image(served, &p, &plan, &err);
    if (st == LX_OK)
        start_create(api, served, &p, plan, rq, rs);
    else
        lx_api_refuse(api, p.model, st, &err, rs);
    lx_state_create_fini(&p);
}

/* --- forks --- */

typedef struct fork_entry {
    char id[LX_STATE_ID_MAX + 1];
    lx_store_call *call;
    lx_saved_state facts; /* points into the source */
    size_t bytes;
} fork_entry;

/* First the state is fetched, then its copies are kept. */
typedef struct forking {
    lx_api *api;
    lx_saved_state source;
    int32_t n;
    fork_entry entries[]; /* [n] */
} forking;

static bool fork_ready(void *context)
{
    const forking *f = context;
    for (int32_t i = 0; i < f->n; i++) {
        if (!lx_store_call_done(f->entries[i].call))
            return false;
    }
    return true;
}

static void fork_finish(void *context, lx_response *rs)
{
    const forking *f = context;
    lx_error err = {0};
    lx_status st = LX_OK;
    lx_json_state *facts = calloc((size_t)f->n, sizeof *facts);
    int32_t turn = lx_serving_enter(f->api->serving);
    if (facts == NULL)
        st = lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    for (int32_t i = 0; st == LX_OK && i < f->n; i++) {
        const fork_entry *e = &f->entries[i];
        st = lx_store_call_status(e->call, &err);
        facts[i] = (lx_json_state){e->id, model_name(f->api, &f->source), &e->facts, e->bytes,
                                   f->api->state_ttl_ms};
    }
    if (st == LX_OK) {
        lx_buffer body;
        lx_buffer_init(&body, MAX_LIST);
        lx_json_write_state_list(facts, f->n, &body);
        respond_json(rs, 201, &body);
    } else {
        lx_respond_status(rs, st, &err);
    }
    lx_serving_leave(f->api->serving, turn);
    free(facts);
}

static void fork_release(void *context)
{
    forking *f = context;
    for (int32_t i = 0; i < f->n; i++)
        lx_store_call_free(f->entries[i].call);
    lx_state_fini(&f->source);
    free(f);
}

/* Copy i goes on with random numbers of its own: another seed, or the next sample's. */
static lx_status start_copy(forking *f, int32_t i, const lx_state_fork *p, const lx_request *rq,
                            lx_error *err)
{
    fork_entry *e = &f->entries[i];
    e->facts = f->source;
    if (p->seeds != NULL)
        e->facts.seed = p->seeds[i];
    else
        e->facts.start.first_sample += (uint32_t)i;
    lx_state_make_id(e->id);
    lx_buffer blob;
    lx_store_waiter waiter = lx_api_waiter(rq);
    lx_buffer_init(&blob, SIZE_MAX / 2);
    lx_status st = lx_state_to_blob(f->api, &e->facts, &blob, err);
    e->bytes = blob.length;
    if (st == LX_OK)
        st = lx_store_call_start(f->api->states, LX_STORE_PUT, e->id, blob.data, blob.length,
                                 f->api->state_ttl_ms, &waiter, &e->call, err);
    lx_buffer_fini(&blob);
    f->n += st == LX_OK;
    return st;
}

static void fork_state(lx_api *api, void *params, lx_status st, lx_error *err,
                       const lx_saved_state *state, const lx_request *rq, lx_response *rs)
{
    const lx_state_fork *p = params;
    size_t bytes = sizeof(forking) + (size_t)p->n * sizeof(fork_entry);
    forking *f = st == LX_OK ? calloc(1, bytes) : NULL;
    if (st == LX_OK && f == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the copies");
    if (st == LX_OK) {
        f->api = api;
        st = lx_state_copy(state, &f->source, err);
    }
    for (int32_t i = 0; st == LX_OK && i < p->n; i++)
        st = start_copy(f, i, p, rq, err);
    if (st != LX_OK) {
        lx_respond_status(rs, st, err);
        if (f != NULL)
            fork_release(f);
        return;
    }
    rs->deferred = (lx_deferred){.context = f,
                                 .ready = fork_ready,
                                 .finish = fork_finish,
                                 .cancel = ask_cancel,
                                 .release = fork_release,
                                 .deadline_ns = lx_now_ns() + STORE_GRACE_S * LX_NS_PER_S};
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
    lx_status st = check_id(api, rq, &n, &err);
    if (st == LX_OK)
        st = lx_json_read_state_fork(rq->body, rq->body_bytes, api->max_forks, &p, &err);
    if (st != LX_OK) {
        lx_respond_status(rs, st, &err);
        fini_fork(&p);
        return;
    }
    lx_state_wanted wanted = {.text = rq->tail,
                              .bytes = n,
                              .then = fork_state,
                              .params = &p,
                              .params_bytes = sizeof p,
                              .fini_params = fini_fork};
    lx_state_want(api, &wanted, rq, rs);
}
