/* The routes that describe the server: models, capacity, health, metrics. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/process.h"
#include "common/version.h"
#include "model/tasks/task.h"
#include "server/api/api.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

/* Loading has no deadline of its own; the connection of a client that waits for it has this one. */
enum { MAX_BODY = 1 << 20, PATIENCE_S = 3600 };

static const char json_type[] = "application/json";

/* --- models --- */

/* The kinds of attention of the layers, in the order of their first layers. */
static void write_kinds(const lx_config *c, lx_buffer *out)
{
    for (int32_t i = 0; i < c->n_mixers; i++) {
        const char *name = c->mixers[i].mixer->name;
        int32_t first = 0;
        while (strcmp(c->mixers[first].mixer->name, name) != 0)
            first++;
        if (first == i)
            lx_json_put(out, i > 0 ? ",%s" : "%s", name);
    }
}

/* A field of the task's own. */
static void write_field(const lx_card_field *f, lx_buffer *out)
{
    lx_json_put(out, ",%s:", f->name);
    switch (f->kind) {
    case LX_CARD_INT:
        lx_json_put(out, "%jd", (int64_t)f->number);
        return;
    case LX_CARD_FLAG:
        lx_json_put(out, "%i", f->number > 0);
        return;
    case LX_CARD_REAL:
        lx_json_put(out, "%f", f->number);
        return;
    case LX_CARD_WORD:
        lx_json_put(out, "%s", f->text);
        return;
    case LX_CARD_WORDS:
        break;
    }
    lx_buffer_puts(out, "[");
    for (int32_t i = 0; i < f->n; i++) {
        const char *text = f->text + (size_t)i * f->apart;
        lx_json_put(out, i > 0 ? ",%.*s" : "%.*s", (int)strcspn(text, " "), text);
    }
    lx_buffer_puts(out, "]");
}

static void write_model(const lx_served_model *m, lx_buffer *out)
{
    const lx_config *c = &m->model->config;
    lx_modality modality = m->model->task->modality;
    const char *made = modality == LX_IMAGE ? "image" : "text";
    lx_task_card card = {0};
    lx_json_put(out,
                "{'id':%s,'object':'model','created':%jd,'owned_by':'linnet','architecture':"
                "{'input_modalities':[%s],'output_modalities':[%s]},'meta':{'task':%s,"
                "'n_params':%jd,'n_vocab':%d,'n_embd':%d,'n_layers':%d,'n_heads':%d,"
                "'state_bytes':%jd,'slots':%d,'fingerprint':%s,'attention':[",
                m->model->name, m->created, modality == LX_SPEECH ? "audio" : made, made, c->task,
                m->model->n_parameters, c->n_values, c->d_model, c->n_layers, c->n_heads,
                lx_serving_state_bytes(m), m->n_slots, m->fingerprint);
    write_kinds(c, out);
    lx_json_put(out, "],'state_grows':%i,'chat':%i", m->model->state.page_floats > 0,
                m->model->has_template || m->model->chat != NULL);
    m->model->task->card(m->model, &card);
    for (int32_t i = 0; i < card.n; i++)
        write_field(&card.fields[i], out);
    lx_buffer_puts(out, "}}");
}

void lx_handle_models(lx_api *api, const lx_request *rq, lx_response *rs)
{
    (void)rq;
    lx_buffer body;
    lx_buffer_init(&body, MAX_BODY);
    lx_json_put(&body, "{'object':'list','data':[");
    for (int32_t i = 0; i < lx_serving_count(api->serving); i++) {
        lx_buffer_puts(&body, i > 0 ? "," : "");
        write_model(lx_serving_at(api->serving, i), &body);
    }
    lx_buffer_puts(&body, "]}");
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
    lx_buffer body;
    lx_buffer_init(&body, MAX_BODY);
    write_model(m, &body);
    lx_response_take(rs, 200, json_type, &body);
}

/* --- capacity and health --- */

static void write_capacity(const lx_served_model *m, lx_buffer *out)
{
    const lx_metrics *metrics = &m->metrics;
    int64_t slots = atomic_load(&metrics->slots_total), used = atomic_load(&metrics->slots_used);
    lx_json_put(out,
                "{'id':%s,'slots':{'total':%jd,'used':%jd,'free':%jd},"
                "'queue':{'length':%jd,'limit':%jd},'state_bytes':%jd,'estimated_wait_s':%f,"
                "'step_s':%f}",
                m->model->name, slots, used, slots - used,
                (int64_t)atomic_load(&metrics->queue_length),
                (int64_t)atomic_load(&metrics->queue_limit), lx_serving_state_bytes(m),
                lx_served_wait_s(m), lx_served_step_s(m));
}

static void write_budget(const char *name, const lx_budget *b, lx_buffer *out)
{
    int64_t limit = atomic_load(&b->limit), used = atomic_load(&b->used);
    lx_json_put(out, ",%s:{'limit':%jd,'used':%jd,'free':%jd}", name, limit, used, limit - used);
}

static const char *const state_names[] = {
    [LX_SERVING_LOADING] = "loading",     [LX_SERVING_READY] = "ready",
    [LX_SERVING_LEAVING] = "draining",    [LX_SERVING_DRAINING] = "draining",
    [LX_SERVING_UNHEALTHY] = "unhealthy",
};

void lx_handle_capacity(lx_api *api, const lx_request *rq, lx_response *rs)
{
    (void)rq;
    lx_buffer body;
    lx_buffer_init(&body, MAX_BODY);
    lx_json_put(&body, "{'object':'capacity','status':%s,'models':[",
                state_names[lx_serving_get_state(api->serving)]);
    for (int32_t i = 0; i < lx_serving_count(api->serving); i++) {
        lx_buffer_puts(&body, i > 0 ? "," : "");
        write_capacity(lx_serving_at(api->serving, i), &body);
    }
    lx_buffer_puts(&body, "]");
    write_budget("answer_bytes", &api->answers, &body);
    write_budget("body_bytes", &api->bodies, &body);
    lx_buffer_puts(&body, "}");
    lx_response_take(rs, 200, json_type, &body);
    lx_response_add(rs, "Cache-Control", "no-store");
}

static void respond_health(lx_api *api, lx_response *rs)
{
    lx_buffer body;
    lx_buffer_init(&body, MAX_BODY);
    lx_json_put(&body,
                "{'status':'ok','version':%s,'backend':%s,'uptime_s':%jd,'last_step_ms':%jd}",
                LX_VERSION, lx_serving_backend(api->serving),
                (lx_now_ns() - lx_serving_start_ns(api->serving)) / LX_NS_PER_S,
                lx_serving_last_step_ms(api->serving));
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

/* By the names that Prometheus' own client libraries use. A fact that is unknown is left out. */
static void append_process(lx_buffer *out)
{
    lx_process_facts f = lx_process_get_facts();
    const struct {
        const char *name, *kind, *help;
        double value;
    } rows[] = {
        {"process_cpu_seconds_total", "counter", "Processor time of all threads.", f.cpu_seconds},
        {"process_resident_memory_bytes", "gauge", "Bytes of memory in use (RSS).",
         (double)f.resident_bytes},
        {"process_virtual_memory_bytes", "gauge", "Bytes of address space in use.",
         (double)f.virtual_bytes},
        {"process_open_fds", "gauge", "Open files, connections included.", (double)f.open_files},
        {"process_max_fds", "gauge", "Files that may be open.", (double)f.most_files},
        {"process_start_time_seconds", "gauge", "Start of the process, in Unix time.",
         f.start_seconds},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].value < 0)
            continue;
        append_family(out, rows[i].name, rows[i].kind, rows[i].help);
        lx_buffer_printf(out, "%s %.17g\n", rows[i].name, rows[i].value);
    }
}

/* Counts the parts that SIGHUP and POST /v1/models/reload have read again. */
static void append_reloads(lx_api *api, lx_buffer *out)
{
    static const char name[] = "linnet_reloads_total";
    static const char *const parts[LX_N_RELOADED] = {"models", "keys", "certificate"};
    lx_reload_counts models = lx_serving_reloads(api->serving);
    append_family(out, name, "counter", "Reloads by part of the server and by result.");
    for (int i = 0; i < LX_N_RELOADED; i++) {
        uint64_t done = i == LX_RELOADED_MODELS ? models.done : atomic_load(&api->reloads[i].done);
        uint64_t failed =
            i == LX_RELOADED_MODELS ? models.failed : atomic_load(&api->reloads[i].failed);
        lx_buffer_printf(out, "%s{part=\"%s\",result=\"ok\"} %llu\n", name, parts[i],
                         (unsigned long long)done);
        lx_buffer_printf(out, "%s{part=\"%s\",result=\"failed\"} %llu\n", name, parts[i],
                         (unsigned long long)failed);
    }
    append_gauge(out, "linnet_models_loaded_timestamp_seconds",
                 "Unix time of the last load or reload of the models that succeeded.", models.when);
}

static void append_http(lx_http *http, lx_buffer *out)
{
    static const char responses[] = "linnet_http_responses_total";
    lx_http_stats s = lx_http_get_stats(http);
    append_gauge(out, "linnet_http_connections", "Open connections.", s.connections);
    append_gauge(out, "linnet_http_requests_active", "Requests being read or answered.",
                 s.exchanges);
    append_counter(out, "linnet_http_requests_abandoned_total",
                   "Requests whose client left, or was too slow, before the end of the request.",
                   s.abandoned);
    if (s.certificate_ends > 0)
        append_gauge(out, "linnet_tls_certificate_expiry_timestamp_seconds",
                     "Unix time at which the certificate of --tls-cert ends.", s.certificate_ends);
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
    append_counter(out, name, "Requests refused for lack of these bytes.",
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
    append_gauge(out, "linnet_state_bytes_limit", "Most bytes of the states kept.", s.max_bytes);
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
    append_family(&body, "linnet_build_info", "gauge",
                  "Always 1; the labels have the version and back end.");
    lx_buffer_printf(&body, "linnet_build_info{version=\"%s\",backend=\"%s\"} 1\n", LX_VERSION,
                     lx_serving_backend(api->serving));
    append_gauge(&body, "linnet_ready", "1 when the server accepts new requests.",
                 lx_serving_get_state(api->serving) == LX_SERVING_READY);
    append_reloads(api, &body);
    append_process(&body);
    append_states(api->states, &body);
    append_counter(&body, "linnet_log_lines_dropped_total",
                   "Log lines dropped because the reader was too slow.", lx_log_sink_dropped());
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
    int32_t n = 0;
    lx_error err = {0};
    lx_status st = lx_reload_result(r->reload, &models, &n, &err);
    if (st != LX_OK) {
        refuse_reload(st, &err, rs);
        return;
    }
    lx_buffer body;
    lx_buffer_init(&body, MAX_BODY);
    lx_json_put(&body, "{'object':'reload','status':'done','models':[");
    for (int32_t i = 0; i < n; i++) {
        lx_buffer_puts(&body, i > 0 ? "," : "");
        lx_json_put(&body, "{'id':%s,'system_fingerprint':%s,'changed':%i", models[i].name,
                    models[i].fingerprint, models[i].changed);
        lx_buffer_puts(&body, models[i].removed ? ",\"removed\":true}" : "}");
    }
    lx_buffer_puts(&body, "]}");
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
