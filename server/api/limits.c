/* How much room there is: GET /v1/capacity. */
#include "server/api/api.h"
#include "server/json/status.h"

enum { MAX_BODY = 1 << 20 };

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
        .wait_s = lx_engine_wait_s(m->engine),
        .step_s = lx_engine_step_s(m->engine),
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
