/* The routes that describe the server: models, capacity, health, metrics. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log_sink.h"
#include "common/version.h"
#include "model/tasks/task.h"
#include "server/api/api.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

/* Loading has no deadline of its own; the connection of a client that waits for it has this one. */
enum { MAX_BODY = 1 << 20, PATIENCE_S = 3600 };

static const char json_type[] = "application/json";

/* The kinds of attention of its layers, in the order of their first layers. */
static void list_kinds(const lx_config *c, lx_json_model *m)
{
    for (int32_t i = 0; i < c->n_mixers; i++) {
        const char *name = c->mixers[i].mixer->name;
        int32_t k = 0;
        while (k < m->n_kinds && strcmp(m->kinds[k], name) != 0)
            k++;
        if (k == m->n_kinds)
            m->kinds[m->n_kinds++] = name;
    }
}

static lx_json_model describe(const lx_served_model *m)
{
    const lx_config *c = &m->model->config;
    lx_json_model json = {
        .id = m->model->name,
        .task = c->task,
        .fingerprint = m->fingerprint,
        .created = m->created,
        .n_parameters = m->model->n_parameters,
        .n_vocab = c->n_values,
        .n_embd = c->d_model,
        .n_layers = c->n_layers,
        .n_heads = c->n_heads,
        .state_bytes = lx_serving_state_bytes(m),
        .modality = m->model->task->modality,
        .slots = m->n_slots,
        .state_grows = m->model->state.page_floats > 0,
    };
    list_kinds(c, &json);
    m->model->task->card(m->model, &json.card);
    return json;
}

void lx_handle_models(lx_api *api, const lx_request *rq, lx_response *rs)
{
    (void)rq;
    lx_json_model models[LX_MAX_MODELS];
    int32_t n = lx_serving_count(api->serving);
    for (int32_t i = 0; i < n; i++)
        models[i] = describe(lx_serving_at(api->serving, i));
    lx_buffer body;
    lx_buffer_init(&body, MAX_BODY);
    lx_json_write_models(models, n, &body);
    lx_response_take(rs, 200, json_type, &body);
}

void lx_handle_model(lx_api *api, const lx_request *rq, lx_response *rs)
{
    const lx_served_model *m = lx_serving_find(api->serving, rq->tail);
    if (m == NULL) {
        lx_error err = {0};
        (void)lx_serving_no_model(api->serving, &err);
        lx_respond_error(rs, 404, "model_not_found", "model", err.text);
        return;
    }
    lx_json_model model = describe(m);
    lx_buffer body;
    lx_buffer_init(&body, MAX_BODY);
    lx_json_write_model(&model, &body);
    lx_response_take(rs, 200, json_type, &body);
}

static lx_json_capacity capacity_of(const lx_served_model *m)
{
    const lx_metrics *metrics = &m->metrics;
    return (lx_json_capacity){
        .id = m->model->name,
        .slots = atomic_load(&metrics->slots_total),
        .slots_used = atomic_load(&metrics->slots_used),
        .queue_length = atomic_load(&metrics->queue_length),
        .queue_limit = atomic_load(&metrics->queue_limit),
        .state_bytes = lx_serving_state_bytes(m),
        .wait_s = lx_served_wait_s(m),
        .step_s = lx_served_step_s(m),
    };
}

static lx_json_budget budget_of(const lx_budget *b)
{
    return (lx_json_budget){.limit = b->limit, .used = atomic_load(&b->used)};
}

static const char *state_name(lx_serving_state state)
{
    switch (state) {
    case LX_SERVING_LOADING:
        return "loading";
    case LX_SERVING_READY:
        return "ready";
    case LX_SERVING_LEAVING:
    case LX_SERVING_DRAINING:
        return "draining";
    case LX_SERVING_UNHEALTHY:
        break;
    }
    return "unhealthy";
}

void lx_handle_capacity(lx_api *api, const lx_request *rq, lx_response *rs)
{
    (void)rq;
    lx_json_capacity models[LX_MAX_MODELS];
    int32_t n = lx_serving_count(api->serving);
    for (int32_t i = 0; i < n; i++)
        models[i] = capacity_of(lx_serving_at(api->serving, i));
    lx_buffer body;
    lx_buffer_init(&body, MAX_BODY);
    lx_json_write_capacity(state_name(lx_serving_get_state(api->serving)), models, n,
                           budget_of(&api->answers), budget_of(&api->bodies), &body);
    lx_response_take(rs, 200, "application/json", &body);
    lx_response_add(rs, "Cache-Control", "no-store");
}

static void respond_health(lx_api *api, lx_response *rs)
{
    lx_json_health health = {
        .status = "ok",
        .version = LX_VERSION,
        .backend = lx_serving_backend(api->serving),
        .uptime_s = (lx_now_ns() - lx_serving_start_ns(api->serving)) / LX_NS_PER_S,
        .last_step_ms = lx_serving_last_step_ms(api->serving),
    };
    lx_buffer body;
    lx_buffer_init(&body, MAX_BODY);
    lx_json_write_health(&health, &body);
    lx_response_take(rs, 200, json_type, &body);
    lx_response_add(rs, "Cache-Control", "no-store");
}

/* /health and /readyz: 200 when a request sent now would be worked on, and further ones too. */
void lx_handle_health(lx_api *api, const lx_request *rq, lx_response *rs)
{
    (void)rq;
    lx_error err = {0};
    lx_status st = lx_api_check_ready(api, &err);
    if (st == LX_OK && lx_serving_get_state(api->serving) == LX_SERVING_LEAVING)
        st = lx_fail(&err, LX_ERR_UNAVAILABLE, NULL, "the server is about to shut down");
    if (st != LX_OK)
        lx_respond_status(rs, st, &err);
    else
        respond_health(api, rs);
}

/* /livez: the process answers, whatever the models do. */
void lx_handle_livez(lx_api *api, const lx_request *rq, lx_response *rs)
{
    (void)rq;
    respond_health(api, rs);
}

static void append_family(lx_buffer *out, const char *name, const char *kind, const char *help)
{
    lx_buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static void append_gauge(lx_buffer *out, const char *name, const char *help, int64_t value)
{
    append_family(out, name, "gauge", help);
    lx_buffer_printf(out, "%s %lld\n", name, (long long)value);
}

static void append_counter(lx_buffer *out, const char *name, const char *help, uint64_t value)
{
    append_family(out, name, "counter", help);
    lx_buffer_printf(out, "%s %llu\n", name, (unsigned long long)value);
}

static void append_http(lx_http *http, lx_buffer *out)
{
    static const char responses[] = "linnet_http_responses_total";
    lx_http_stats s = lx_http_get_stats(http);
    append_gauge(out, "linnet_http_connections", "Open connections.", s.connections);
    append_gauge(out, "linnet_http_requests_active", "Requests being read or answered.",
                 s.exchanges);
    append_counter(out, "linnet_http_requests_abandoned_total",
                   "Requests whose client left, or was too slow, before all of it was read.",
                   s.abandoned);
    append_family(out, responses, "counter", "Answers by class of status.");
    for (int i = 1; i < 6; i++)
        lx_buffer_printf(out, "%s{code=\"%dxx\"} %llu\n", responses, i,
                         (unsigned long long)s.responses[i]);
}

static void append_budget(const char *series, const char *help, const lx_budget *b, lx_buffer *out)
{
    char name[64];
    append_gauge(out, series, help, atomic_load(&b->used));
    (void)snprintf(name, sizeof name, "%s_limit", series);
    append_gauge(out, name, "Bytes that may be reserved.", b->limit);
    (void)snprintf(name, sizeof name, "%s_refused_total", series);
    append_counter(out, name, "Requests for which there were too few bytes.",
                   atomic_load(&b->refused));
}

static void append_states(lx_state_store *store, lx_buffer *out)
{
    lx_store_stats s;
    store->ops->stats(store, &s);
    append_family(out, "linnet_state_store_up", "gauge", "1 when the state store answers.");
    lx_buffer_printf(out, "linnet_state_store_up{store=\"%s\"} %d\n", store->ops->name,
                     s.reachable);
    if (s.states < 0) /* a store that other servers share counts for itself */
        return;
    append_gauge(out, "linnet_states", "States kept.", s.states);
    append_gauge(out, "linnet_states_limit", "States that may be kept.", s.max_states);
    append_gauge(out, "linnet_state_bytes", "Bytes of the states kept.", s.bytes);
    append_gauge(out, "linnet_state_bytes_limit", "Bytes that they may have.", s.max_bytes);
}

void lx_handle_metrics(lx_api *api, const lx_request *rq, lx_response *rs)
{
    (void)rq;
    const char *names[LX_MAX_MODELS];
    const lx_metrics *metrics[LX_MAX_MODELS];
    int32_t n = lx_serving_count(api->serving);
    for (int32_t i = 0; i < n; i++) {
        names[i] = lx_serving_at(api->serving, i)->model->name;
        metrics[i] = &lx_serving_at(api->serving, i)->metrics;
    }
    lx_buffer body;
    lx_buffer_init(&body, MAX_BODY);
    lx_metrics_render(names, metrics, n, &body);
    append_family(&body, "linnet_build_info", "gauge", "Always 1; what runs, in the labels.");
    lx_buffer_printf(&body, "linnet_build_info{version=\"%s\",backend=\"%s\"} 1\n", LX_VERSION,
                     lx_serving_backend(api->serving));
    append_gauge(&body, "linnet_ready", "1 when new requests are worked on.",
                 lx_serving_get_state(api->serving) == LX_SERVING_READY);
    append_states(api->states, &body);
    append_counter(&body, "linnet_log_lines_dropped_total",
                   "Lines of the log dropped, as it was not read in time.", lx_log_sink_dropped());
    append_budget("linnet_answer_bytes", "Bytes reserved for requests being answered.",
                  &api->answers, &body);
    append_budget("linnet_body_bytes", "Bytes reserved for bodies and their reading.", &api->bodies,
                  &body);
    lx_http *http = atomic_load(&api->http);
    if (http != NULL)
        append_http(http, &body);
    lx_response_take(rs, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}

/* --- POST /v1/models/reload: new weights for new requests; the answer comes when they are in use
 * --- */

typedef struct reloading {
    lx_reload *reload;
    lx_json_notes notes;
} reloading;

static bool is_done(const void *context)
{
    return lx_reload_done(((const reloading *)context)->reload);
}

/* A fault of a model's files is no fault of the server: the operator who put them there mends it.
 */
static void refuse_reload(lx_status st, const lx_error *err, lx_response *rs)
{
    switch (st) {
    case LX_ERR_INVALID:
    case LX_ERR_NOT_FOUND:
    case LX_ERR_TOO_LARGE:
    case LX_ERR_FORMAT:
    case LX_ERR_IO:
    case LX_ERR_UNSUPPORTED:
        lx_respond_error(rs, 422, "invalid_model", err->param, err->text);
        return;
    default:
        lx_respond_status(rs, st, err);
    }
}

static void finish(void *context, lx_response *rs)
{
    const reloading *r = context;
    const lx_reloaded_model *models = NULL;
    lx_json_reloaded list[LX_MAX_MODELS];
    int32_t n = 0;
    lx_error err = {0};
    lx_status st = lx_reload_result(r->reload, &models, &n, &err);
    if (st != LX_OK) {
        refuse_reload(st, &err, rs);
        return;
    }
    for (int32_t i = 0; i < n; i++)
        list[i] = (lx_json_reloaded){
            .id = models[i].name,
            .fingerprint = models[i].fingerprint,
            .changed = models[i].changed,
        };
    lx_buffer body;
    lx_buffer_init(&body, MAX_BODY);
    lx_json_write_reload(list, n, &body);
    lx_json_append_notes(&r->notes, &body);
    lx_response_take(rs, 200, "application/json", &body);
}

/* A client that leaves does not stop a reload. */
static void release(void *context)
{
    reloading *r = context;
    lx_reload_release(r->reload);
    free(r);
}

static lx_status start_reload(lx_api *api, const lx_request *rq, reloading *r, lx_error *err)
{
    if (r == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a reload");
    lx_status st = lx_json_read_reload(rq->body, rq->body_bytes, &r->notes, err);
    return st == LX_OK ? lx_reload_start(api->serving, rq->wake, rq->wake_context, &r->reload, err)
                       : st;
}

void lx_handle_reload(lx_api *api, const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    if (!lx_request_reads(rq, "application/json", rs))
        return;
    reloading *r = calloc(1, sizeof *r);
    lx_status st = start_reload(api, rq, r, &err);
    if (st != LX_OK) {
        free(r);
        lx_respond_status(rs, st, &err);
        return;
    }
    rs->deferred = (lx_deferred){
        .context = r,
        .is_done = is_done,
        .finish = finish,
        .release = release,
        .deadline_ns = lx_now_ns() + PATIENCE_S * LX_NS_PER_S,
    };
}
