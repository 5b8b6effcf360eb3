/* One model that is served, by an engine or by a transcriber (see serving_internal.h). */
#include <string.h>

#include "server/registry/serving_internal.h"

enum { STEP_LIMIT_S = 10, MAX_RETRY_S = 60 };

bool lx_served_idle(const lx_served_model *m)
{
    return m->engine != NULL ? lx_engine_idle(m->engine) : lx_transcriber_idle(m->transcriber);
}

void lx_served_drain(lx_served_model *m)
{
    if (m->engine != NULL)
        lx_engine_drain(m->engine);
    else
        lx_transcriber_drain(m->transcriber);
}

/* A sound has no state from which another server could continue, so it is finished here. */
void lx_served_suspend(lx_served_model *m)
{
    if (m->engine != NULL)
        lx_engine_suspend(m->engine);
}

int64_t lx_served_last_step_ns(const lx_served_model *m)
{
    return m->engine != NULL ? lx_engine_last_step_ns(m->engine)
                             : lx_transcriber_last_step_ns(m->transcriber);
}

bool lx_served_is_stuck(const lx_served_model *m, int64_t probe_ns)
{
    int64_t step = lx_served_last_step_ns(m), work = atomic_load(&m->work_since_ns);
    int64_t age = lx_now_ns() - (step > work ? step : work);
    if (m->engine == NULL)
        return age > STEP_LIMIT_S * LX_NS_PER_S;
    if (!lx_engine_healthy(m->engine))
        return true;
    if (!lx_engine_idle(m->engine))
        return age > STEP_LIMIT_S * LX_NS_PER_S;
    return probe_ns > 0 && age > STEP_LIMIT_S * LX_NS_PER_S + probe_ns;
}

double lx_served_wait_s(const lx_served_model *m)
{
    return m->engine != NULL ? lx_engine_wait_s(m->engine) : lx_transcriber_wait_s(m->transcriber);
}

int32_t lx_served_retry_after_s(const lx_served_model *m)
{
    if (m->engine != NULL)
        return lx_engine_retry_after_s(m->engine);
    double s = lx_transcriber_wait_s(m->transcriber);
    return s >= MAX_RETRY_S ? MAX_RETRY_S : 1 + (int32_t)s;
}

double lx_served_step_s(const lx_served_model *m)
{
    return m->engine != NULL ? lx_engine_step_s(m->engine) : lx_transcriber_step_s(m->transcriber);
}

int64_t lx_serving_state_bytes(const lx_served_model *m)
{
    return lx_model_state_floats(m->model, m->model->max_rows) * (int64_t)sizeof(float);
}

void lx_served_ref(lx_served_model *m)
{
    atomic_fetch_add(&m->refs, 1);
}

void lx_served_unref(lx_served_model *m)
{
    lx_serving *s = m->serving;
    if (atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    LX_HOLD(&s->lock);
    (void)pthread_cond_signal(&s->changed);
}

void lx_served_count(lx_served_model *served, lx_status status)
{
    bool invalid =
        status == LX_ERR_INVALID || status == LX_ERR_NOT_FOUND || status == LX_ERR_TOO_LARGE;
    lx_outcome outcome = status == LX_OK                                   ? LX_OUTCOME_OK
                         : invalid                                         ? LX_OUTCOME_INVALID
                         : status == LX_ERR_BUSY || status == LX_ERR_LIMIT ? LX_OUTCOME_BUSY
                         : status == LX_ERR_CANCELLED                      ? LX_OUTCOME_CANCELLED
                         : status == LX_ERR_TIMEOUT                        ? LX_OUTCOME_TIMEOUT
                                                                           : LX_OUTCOME_ERROR;
    atomic_fetch_add(&served->metrics.requests[outcome], 1);
}

int32_t lx_served_place(lx_served_model *const *models, int32_t n, const char *name)
{
    while (n > 0 && strcmp(models[n - 1]->model->name, name) != 0)
        n--;
    return n - 1;
}

lx_status lx_serving_settle(const lx_serving *s, lx_served_model *const *models, int32_t n,
                            lx_error *err)
{
    lx_serving_bytes all = {0};
    for (int32_t i = 0; i < n; i++) {
        all.weights += models[i]->bytes.weights;
        all.held += models[i]->bytes.held;
        all.prefixes += models[i]->bytes.prefixes;
    }
    return s->options.settle != NULL ? s->options.settle(s->options.memory, &all, err) : LX_OK;
}
