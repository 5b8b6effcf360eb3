/*
 * /v1/states: saved generation states, created from a prompt, listed, described, downloaded,
 * uploaded, deleted and inspected (copied: forks.c). Thread: a worker.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "model/tasks/image.h"
#include "server/api/claims.h"
#include "server/api/generation.h"
#include "server/api/state_flow.h"
#include "server/api/states.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

/* The text of one head, of whose rows the newest are shown. */
enum { MAX_HEAD = 64 << 20, MAX_ROWS = 1024 };
enum { USUAL_LISTED = 100, MOST_LISTED = 1000 }; /* states of one list */

/* --- requests about one state --- */

/* A request about one state, by its id. */
typedef struct state_request {
    char id[LX_STATE_ID_MAX + 1];
    lx_saved_state uploaded; /* PUT: its facts */
    size_t uploaded_bytes;
    int32_t layer, head; /* inspect */
    lx_claim *claim;     /* owned; of a change of a conversation */
} state_request;

static void fini_request(void *params)
{
    lx_claim_free(((state_request *)params)->claim);
}

/* Before the answer is sent, as the client may change the conversation again at once. */
static void end_claim(state_request *r)
{
    lx_claim_free(r->claim);
    r->claim = NULL;
}

void lx_state_respond_json(lx_response *rs, int status, lx_buffer *body)
{
    if (body->status == LX_OK)
        lx_response_take(rs, status, "application/json", body);
    else
        lx_respond_status(rs, body->status, &(lx_error){.text = "the answer does not fit"});
    lx_buffer_fini(body);
}

/* The name of the model that made the state, NULL when it is not served. Between lx_serving_enter
   and _leave, like every answer here. */
static const char *state_model_name(lx_api *api, const lx_saved_state *s)
{
    lx_served_model *m = NULL;
    return lx_state_model(api, s, &m, NULL) == LX_OK ? m->model->name : NULL;
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

/* False when the response says why: no such id can be, or the server is not ready. */
static bool begin(lx_api *api, const lx_request *rq, state_request *r, lx_response *rs)
{
    lx_error err = {0};
    size_t n = 0;
    lx_status st = lx_state_request_id(api, rq, &n, &err);
    if (st == LX_OK)
        memcpy(r->id, rq->tail, n);
    else
        lx_respond_status(rs, st, &err);
    return st == LX_OK;
}

/* Calls the store with the n bytes, which it copies, and answers later. A turn under way would
   store the conversation again, so a change waits for its end. */
static void call_store(lx_api *api, lx_store_op op, state_request *r, lx_state_answer answer,
                       const void *bytes, size_t n, const lx_request *rq, lx_response *rs)
{
    lx_state_source source = {.text = r->id,
                              .bytes = strlen(r->id),
                              .answer = answer,
                              .op = op,
                              .put = bytes,
                              .put_bytes = n,
                              .params = r,
                              .params_bytes = sizeof *r,
                              .fini_params = fini_request};
    lx_error err = {0};
    lx_status st = op != LX_STORE_GET && lx_state_id_has(LX_CONVERSATION_PREFIX, r->id)
                       ? lx_claim_take(api, rq->owner, r->id, &r->claim, &err)
                       : LX_OK;
    if (st == LX_OK)
        lx_state_resolve(api, &source, rq, rs);
    else
        lx_respond_claimed(rs, st, &err);
}

/* --- describing, downloading, uploading, deleting --- */

static const char octets[] = "application/octet-stream";

void lx_state_put_facts(lx_api *api, const char *id, const lx_saved_state *s, size_t bytes,
                        int64_t ttl_ms, lx_buffer *out)
{
    char hash[17];
    (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s->model_hash);
    lx_json_put(out,
                "{'id':%s,'object':'state','model':%s,'model_hash':%s,'modality':%s,'made_by':%s,"
                "'tokens':%d,'position':%d,'bytes':%jd,'memory_bytes':%jd,'seed':%jd,'sample':%jd,"
                "'n_layers':%d,'expires_in_s':%jd}",
                id, state_model_name(api, s), hash, s->modality == LX_TEXT ? "text" : "image",
                s->made_by, s->start.n_tokens, s->start.rows, (int64_t)bytes,
                lx_state_floats(s) * (int64_t)sizeof(float), (int64_t)s->seed,
                (int64_t)s->start.first_sample, s->n_layers, ttl_ms / 1000);
}

/* With the warnings of the request that made it; NULL: none. */
static void respond_facts(lx_api *api, int status, const char *id, const lx_saved_state *s,
                          size_t bytes, int64_t ttl_ms, const lx_json_notes *notes, lx_response *rs)
{
    lx_buffer body;
    lx_buffer_init(&body, LX_STATE_MAX_LIST);
    lx_state_put_facts(api, id, s, bytes, ttl_ms, &body);
    if (notes != NULL)
        lx_json_append_notes(notes, &body);
    lx_state_respond_json(rs, status, &body);
}

static void answer_facts(lx_api *api, void *params, const void *bytes, size_t n, int64_t ttl_ms,
                         lx_response *rs)
{
    const state_request *r = params;
    lx_saved_state s = {0};
    lx_error err = {0};
    lx_status st = lx_state_from_blob(api, bytes, n, &s, &err);
    if (st == LX_OK)
        respond_facts(api, 200, r->id, &s, n, ttl_ms, NULL, rs);
    else
        lx_respond_status(rs, st, &err);
    lx_state_fini(&s);
}

static void answer_blob(lx_api *api, void *params, const void *bytes, size_t n, int64_t ttl_ms,
                        lx_response *rs)
{
    (void)api;
    (void)params;
    (void)ttl_ms;
    lx_error err = {0};
    lx_stored stored = {.state = bytes, .state_bytes = n};
    if (lx_state_part(bytes, n, &stored, &err) != LX_OK) {
        lx_respond_status(rs, LX_ERR_INVALID, &err);
        return;
    }
    lx_buffer body;
    lx_buffer_init(&body, n);
    lx_buffer_append(&body, stored.state, stored.state_bytes);
    lx_response_take(rs, 200, octets, &body);
    lx_buffer_fini(&body);
}

void lx_handle_state_get(lx_api *api, const lx_request *rq, lx_response *rs)
{
    state_request r = {0};
    int asked = lx_accept_quality(rq->accept, octets);
    bool blob = asked > 0 && asked >= lx_accept_quality(rq->accept, "application/json");
    if (begin(api, rq, &r, rs))
        call_store(api, LX_STORE_GET, &r, blob ? answer_blob : answer_facts, NULL, 0, rq, rs);
}

static void answer_nothing(lx_api *api, void *params, const void *bytes, size_t n, int64_t ttl_ms,
                           lx_response *rs)
{
    (void)api;
    (void)bytes;
    (void)n;
    (void)ttl_ms;
    end_claim(params);
    rs->status = 204;
}

void lx_handle_state_delete(lx_api *api, const lx_request *rq, lx_response *rs)
{
    state_request r = {0};
    if (begin(api, rq, &r, rs))
        call_store(api, LX_STORE_REMOVE, &r, answer_nothing, NULL, 0, rq, rs);
}

static void answer_uploaded(lx_api *api, void *params, const void *bytes, size_t n, int64_t ttl_ms,
                            lx_response *rs)
{
    (void)bytes;
    (void)n;
    (void)ttl_ms;
    state_request *r = params;
    end_claim(r);
    respond_facts(api, 201, r->id, &r->uploaded, r->uploaded_bytes, api->state_ttl_ms, NULL, rs);
}

/* An uploaded state is checked as a whole before it is kept. */
void lx_handle_state_put(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_is_media_type(rq->content_type, strlen(rq->content_type), octets)) {
        lx_respond_unread(rs, octets);
        return;
    }
    state_request r = {0};
    if (!begin(api, rq, &r, rs))
        return;
    lx_error err = {0};
    lx_saved_state s = {0};
    lx_served_model *served = NULL;
    lx_plan *plan = NULL;
    lx_status st = LX_OK;
    if (lx_stored_kind_of(rq->body, rq->body_bytes) != LX_STORED_NOTHING) /* JSON of a client */
        st = lx_fail(&err, LX_ERR_INVALID, "state",
                     "these bytes are a stored response or a conversation: send the state of it");
    if (st == LX_OK)
        st = lx_state_from_blob(api, rq->body, rq->body_bytes, &s, &err);
    if (st == LX_OK)
        st = lx_state_model(api, &s, &served, &err);
    if (st == LX_OK)
        st = lx_state_plan(&s, served->model, false, &plan, &err);
    lx_plan_free(plan);
    r.uploaded = lx_state_facts(&s);
    r.uploaded_bytes = rq->body_bytes;
    lx_state_fini(&s);
    if (st == LX_OK)
        call_store(api, LX_STORE_PUT, &r, answer_uploaded, rq->body, rq->body_bytes, rq, rs);
    else
        lx_respond_status(rs, st, &err);
}

/* --- listing --- */

typedef struct list_request {
    size_t most;
} list_request;

static lx_status read_index(const lx_request *rq, const char *name, int32_t *out, lx_error *err)
{
    const char *text = rq->argument(rq->query, name);
    char *end = NULL;
    if (text == NULL)
        return LX_OK;
    long x = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || x > 1 << 20) /* strtol takes " 1" and "+1" */
        return lx_fail(err, LX_ERR_INVALID, name, "%s must be a whole number from 0 on", name);
    *out = (int32_t)x;
    return LX_OK;
}

static const char *object_name(const char *id)
{
    return lx_state_id_has(LX_RESPONSE_PREFIX, id)       ? "response"
           : lx_state_id_has(LX_CONVERSATION_PREFIX, id) ? "conversation"
                                                         : "state";
}

/* The store was asked for one entry more than the answer has. */
static void answer_list(lx_api *api, void *params, const void *bytes, size_t n, int64_t ttl_ms,
                        lx_response *rs)
{
    (void)api;
    (void)ttl_ms;
    const list_request *r = params;
    const lx_store_entry *entries = bytes;
    size_t found = n / sizeof *entries, shown = found < r->most ? found : r->most;
    lx_buffer body;
    lx_buffer_init(&body, LX_STATE_MAX_LIST);
    lx_json_put(&body, "{'object':'list','data':[");
    for (size_t i = 0; i < shown; i++)
        lx_json_put(&body,
                    i > 0 ? ",{'id':%s,'object':%s,'bytes':%jd,'expires_in_s':%jd}"
                          : "{'id':%s,'object':%s,'bytes':%jd,'expires_in_s':%jd}",
                    entries[i].id, object_name(entries[i].id), entries[i].bytes,
                    entries[i].ttl_ms / 1000);
    lx_json_put(&body, "],'has_more':%i}", found > shown);
    lx_state_respond_json(rs, 200, &body);
}

void lx_handle_states_list(lx_api *api, const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    int32_t limit = USUAL_LISTED;
    const char *after = rq->argument(rq->query, "after");
    lx_status st = lx_api_check_ready(api, &err);
    if (st == LX_OK)
        st = read_index(rq, "limit", &limit, &err);
    if (st == LX_OK && (limit < 1 || limit > MOST_LISTED))
        st = lx_fail(&err, LX_ERR_INVALID, "limit", "limit must be from 1 to %d", MOST_LISTED);
    if (st == LX_OK && after != NULL && !lx_state_id_ok(after, strlen(after)))
        st = lx_fail(&err, LX_ERR_INVALID, "after",
                     "after must be an id: 1 to %d letters, digits, hyphens and underscores",
                     LX_STATE_ID_MAX);
    if (st != LX_OK) {
        lx_respond_status(rs, st, &err);
        return;
    }
    list_request r = {(size_t)limit};
    lx_state_source source = {.text = after != NULL ? after : "",
                              .bytes = after != NULL ? strlen(after) : 0,
                              .answer = answer_list,
                              .op = LX_STORE_LIST,
                              .put_bytes = r.most + 1,
                              .params = &r,
                              .params_bytes = sizeof r};
    lx_state_resolve(api, &source, rq, rs);
}

/* --- making --- */

/* A state from a prompt: a job that generates nothing and keeps its state. */
static lx_status kept_state(lx_work *w, lx_error *err)
{
    lx_status st = lx_work_status(w, err);
    lx_work_count(w, st);
    if (st != LX_OK)
        return st;
    if (w->saver.n == 0)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a state");
    if (w->saver.states[0].status != LX_OK)
        *err = w->saver.states[0].err;
    return w->saver.states[0].status;
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
    const lx_kept_state *k = &w->saver.states[0];
    lx_saved_state s = {.seed = (uint64_t)w->params->sampling.seed,
                        .start = {.rows = k->rows, .n_tokens = k->tokens}};
    lx_state_describe(w->pending.served->model, &s);
    (void)snprintf(s.made_by, sizeof s.made_by, "%s", w->pending.served->fingerprint);
    int32_t turn = lx_serving_enter(w->pending.api->serving);
    respond_facts(w->pending.api, 201, k->id, &s, k->bytes, w->pending.api->state_ttl_ms, w->notes,
                  rs);
    lx_serving_leave(w->pending.api->serving, turn);
}

/* The first field of the request that only models of text read; NULL: none. `rules` and `normalize`
   are true where the request leaves them out. */
static const char *text_field(const lx_state_create *p)
{
    const char *field = lx_task_first_field(&p->fields);
    return p->prompt != NULL ? "prompt"
           : field != NULL   ? field
           : !p->rules       ? "rules"
           : !p->normalize   ? "normalize"
                             : NULL;
}

/* The first field of the request that only models of images read; NULL: none. */
static const char *image_field(const lx_state_create *p)
{
    return p->image.data != NULL  ? "image"
           : p->mask.data != NULL ? "mask"
           : p->class_number > 0  ? "class"
                                  : NULL;
}

static lx_status plan_image(lx_served_model *served, const lx_state_create *p, lx_plan **plan,
                            lx_error *err)
{
    const char *unread = text_field(p);
    lx_image_request own = {.class_number = p->class_number, .values = NULL};
    const lx_task_request request = {.own_of = &lx_image_task, .own = &own};
    uint8_t *values = NULL;
    lx_status st = LX_OK;
    if (unread != NULL)
        return lx_fail(err, LX_ERR_INVALID, unread, "model %s makes images: leave %s out",
                       served->model->name, unread);
    if (p->mask.data != NULL && p->image.data == NULL)
        return lx_fail(err, LX_ERR_INVALID, "mask", "mask is only allowed with image");
    if (p->image.data != NULL)
        st = lx_picture_read_prefix(
            &served->model->config, (lx_png_file){p->image.data, p->image.bytes},
            (lx_png_file){p->mask.data, p->mask.bytes}, &values, &own.n_values, err);
    own.values = values;
    if (st == LX_OK)
        st = lx_work_plan(served, &request, plan, err);
    free(values);
    return st;
}

static lx_status plan_text(const lx_api *api, lx_served_model *served, lx_state_create *p,
                           lx_plan **plan, lx_error *err)
{
    const char *unread = image_field(p);
    if (unread != NULL)
        return lx_fail(err, LX_ERR_INVALID, unread, "model %s makes text: leave %s out",
                       served->model->name, unread);
    if (p->prompt == NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "prompt is missing");
    lx_note_unread(served->model->task, p->rules, p->normalize, &p->notes);
    lx_task_request request = {.text = p->prompt,
                               .text_bytes = p->prompt_bytes,
                               .max_prompt = api->max_prompt,
                               .rules = p->rules,
                               .normalize = p->normalize,
                               .fields = &p->fields};
    return lx_work_plan(served, &request, plan, err);
}

static void start_create(lx_api *api, lx_served_model *served, const lx_state_create *p,
                         lx_plan *plan, const lx_request *rq, lx_response *rs)
{
    lx_work_params params = {.n = 1,
                             .sampling = p->sampling,
                             .timeout_ms = p->timeout_ms,
                             .return_state = true,
                             .state_only = true,
                             .notes = &p->notes};
    lx_work_defer(api, served, plan, &params, LX_COST_GROWN * lx_cost_states(1), rq, create_finish,
                  rs);
}

void lx_handle_states_create(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_request_begins(api, rq, "application/json", rs))
        return;
    lx_error err = {0};
    lx_state_create p = {0};
    lx_served_model *served = NULL;
    lx_plan *plan = NULL;
    lx_status st = lx_json_read_state_create(rq->body, rq->body_bytes, &p, &err);
    if (st == LX_OK) {
        lx_modality modality = p.prompt != NULL ? LX_TEXT : LX_IMAGE;
        st = lx_serving_find_model(api->serving, p.model,
                                   lx_serving_made_by(api->serving, p.model, modality), &served,
                                   &err);
    }
    if (st == LX_OK)
        st = served->model->task->modality == LX_TEXT ? plan_text(api, served, &p, &plan, &err)
                                                      : plan_image(served, &p, &plan, &err);
    if (st == LX_OK)
        start_create(api, served, &p, plan, rq, rs);
    else
        lx_api_refuse(api, p.model, st, &err, rs);
    lx_state_create_fini(&p);
}

/* --- inspecting --- */

static lx_status check_index(const char *name, int32_t x, int32_t n, lx_error *err)
{
    if (x < n)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, name, "%s is %d, the model has 0 to %d", name, x, n - 1);
}

/* Begins the object of a head. */
static void open_head(const state_request *r, const lx_model *m, int32_t n_heads, lx_buffer *out)
{
    lx_json_put(out,
                "{'object':'state.look','id':%s,'layer':%d,'head':%d,'n_layers':%d,'n_heads':%d",
                r->id, r->layer, r->head, m->config.n_layers, n_heads);
}

static void write_matrix(const char *name, const float *x, int32_t rows, int32_t cols,
                         lx_buffer *out)
{
    lx_json_put(out, ",%s:[", name);
    for (int32_t i = 0; i < rows; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        lx_json_put_reals(x + (int64_t)i * cols, cols, out);
    }
    lx_buffer_puts(out, "]");
}

static double norm_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* Every field of the head by its name. */
static void write_fields(const state_request *r, const float *state, const lx_model *m,
                         lx_buffer *out)
{
    const lx_state_field *f = NULL;
    int64_t at = 0;
    lx_json_put(out, ",'fields':[");
    for (int32_t n = 0; (f = lx_model_state_field_at(m, r->layer, r->head, n, &at)) != NULL; n++) {
        const float *values = state + at;
        lx_buffer_puts(out, n > 0 ? "," : "");
        lx_json_put(out, "{'name':%s,'rows':%d,'cols':%d,'norm':%f", f->name, f->rows, f->cols,
                    norm_of(values, (int64_t)f->rows * f->cols));
        write_matrix("values", values, f->rows, f->cols, out);
        lx_buffer_puts(out, "}");
    }
    lx_buffer_puts(out, "]}");
}

/* phi is positive, so z is, and phi(q)^T z stays away from 0 as long as no part of z is near it. */
static void write_denominator(const float *z, int32_t n, lx_buffer *out)
{
    double least = INFINITY, sum = 0;
    for (int32_t i = 0; i < n; i++) {
        least = fmin(least, (double)z[i]);
        sum += (double)z[i];
    }
    lx_json_put(out, ",'denominator':{'min':%f,'sum':%f,'healthy':%i}}", least, sum,
                least >= 0 && sum > 0);
}

/* s and z of a head of linear attention; every field by its name of a kind that has others. */
static void write_sums(const state_request *r, const float *state, const lx_model *m,
                       lx_buffer *out)
{
    int64_t at_s = 0, at_z = 0;
    const lx_state_field *field = lx_model_state_field(m, r->layer, r->head, "s", &at_s);
    open_head(r, m, lx_model_state_heads(m, r->layer), out);
    if (field == NULL || lx_model_state_field(m, r->layer, r->head, "z", &at_z) == NULL) {
        write_fields(r, state, m, out);
        return;
    }
    const float *s = state + at_s, *z = state + at_z;
    write_matrix("s", s, field->rows, field->cols, out);
    lx_json_put(out, ",'z':");
    lx_json_put_reals(z, field->rows, out);
    lx_json_put(out, ",'s_norm':%f,'z_norm':%f", norm_of(s, (int64_t)field->rows * field->cols),
                norm_of(z, field->rows));
    write_denominator(z, field->rows, out);
}

/* The newest rows that the head keeps. */
static void write_rows(const state_request *r, const lx_saved_state *s, const lx_model *m,
                       lx_buffer *out)
{
    lx_kept_rows kept = lx_model_kept_rows(m, r->layer, s->start.rows);
    int32_t n = kept.n < MAX_ROWS ? kept.n : MAX_ROWS;
    int32_t *positions = calloc((size_t)n + 1, sizeof *positions);
    float *k = calloc((size_t)n * (size_t)kept.d_key + 1, sizeof *k);
    float *v = calloc((size_t)n * (size_t)kept.d_value + 1, sizeof *v);
    if (positions == NULL || k == NULL || v == NULL) {
        out->status = LX_ERR_NO_MEMORY;
    } else {
        lx_model_read_rows(m, r->layer, r->head, s->start.rows, s->start.state, n, positions, k, v);
        open_head(r, m, kept.n_heads, out);
        lx_json_put(out, ",'n_kept':%d,'positions':", kept.n);
        lx_json_put_ids(positions, n, out);
        write_matrix("k", k, n, kept.d_key, out);
        write_matrix("v", v, n, kept.d_value, out);
        lx_buffer_puts(out, "}");
    }
    free(positions);
    free(k);
    free(v);
}

/* A state of nothing yet is zeros. */
static void write_head(const state_request *r, const lx_saved_state *s, const lx_model *m,
                       lx_buffer *out)
{
    if (lx_model_kept_rows(m, r->layer, 0).n_heads > 0) {
        write_rows(r, s, m, out);
        return;
    }
    float *nothing = NULL;
    if (s->start.state == NULL)
        nothing = calloc((size_t)m->state.fixed_floats, sizeof *nothing);
    if (s->start.state == NULL && nothing == NULL)
        out->status = LX_ERR_NO_MEMORY;
    else
        write_sums(r, nothing != NULL ? nothing : s->start.state, m, out);
    free(nothing);
}

static void answer_inspection(lx_api *api, void *params, const void *bytes, size_t n,
                              int64_t ttl_ms, lx_response *rs)
{
    (void)ttl_ms;
    const state_request *r = params;
    lx_saved_state s = {0};
    lx_error err = {0};
    lx_served_model *served = NULL;
    lx_status st = lx_state_from_blob(api, bytes, n, &s, &err);
    if (st == LX_OK)
        st = lx_state_model(api, &s, &served, &err);
    if (st == LX_OK)
        st = check_index("layer", r->layer, served->model->config.n_layers, &err);
    if (st == LX_OK) {
        int32_t heads = lx_model_state_heads(served->model, r->layer);
        /* a layer without state has none */
        st = check_index("head", r->head, heads > 0 ? heads : 1, &err);
    }
    if (st == LX_OK) {
        lx_buffer body;
        lx_buffer_init(&body, MAX_HEAD);
        write_head(r, &s, served->model, &body);
        lx_state_respond_json(rs, 200, &body);
    } else {
        lx_respond_status(rs, st, &err);
    }
    lx_state_fini(&s);
}

void lx_handle_state_inspect(lx_api *api, const lx_request *rq, lx_response *rs)
{
    state_request r = {0};
    if (!begin(api, rq, &r, rs))
        return;
    lx_error err = {0};
    lx_status st = read_index(rq, "layer", &r.layer, &err);
    if (st == LX_OK)
        st = read_index(rq, "head", &r.head, &err);
    if (st == LX_OK)
        call_store(api, LX_STORE_GET, &r, answer_inspection, NULL, 0, rq, rs);
    else
        lx_respond_status(rs, st, &err);
}
