/* A request on its way to its answer (see pending.h). */
#include "server/api/pending.h"

#include "common/clock.h"

/* How long after the request's own deadline a slow reader may take. */
enum { READ_GRACE_S = 60 };

void lx_pending_init(lx_pending *p, lx_api *api, lx_served_model *served)
{
    *p = (lx_pending){.api = api, .served = served};
    lx_served_ref(served);
}

void lx_pending_fini(lx_pending *p)
{
    if (p->key != NULL)
        lx_key_give_back(p->key, &p->load, false);
    p->key = NULL;
    lx_reserve_unref(p->reserve);
    p->reserve = NULL;
    if (p->served != NULL)
        lx_served_unref(p->served);
    p->served = NULL;
}

lx_status lx_pending_reserve(lx_api *api, lx_served_model *served, int64_t bytes, const char *param,
                             lx_reserve **out, int32_t *retry_after_s, lx_error *err)
{
    lx_status st = lx_reserve_new(&api->answers, bytes, param, out, err);
    if (st == LX_ERR_BUSY)
        *retry_after_s = lx_served_retry_after_s(served);
    return st;
}

lx_key_load lx_pending_load_fields(const lx_completion_params *p)
{
    const char *samples = p->best_of > p->n ? "best_of" : p->n > 1 ? "n" : "prompt";
    bool is_one = samples[0] == 'p' && p->n_prompts == 1;
    const char *tokens = p->response ? "max_output_tokens" : p->max_tokens_field;
    return (lx_key_load){.samples_field = samples,
                         .tokens_field = p->max_tokens > 0 || is_one ? tokens : samples};
}

lx_status lx_pending_take(lx_pending *p, const lx_request *rq, const lx_key_load *load,
                          int32_t *retry_after_s, lx_error *err)
{
    lx_key *key = lx_key_of(&rq->client);
    if (key == NULL)
        return LX_OK;
    p->load = *load;
    lx_status st = lx_key_take(key, &p->load, lx_now_ns(), retry_after_s, err);
    p->key = st == LX_OK ? key : NULL;
    return st;
}

void lx_pending_refund(lx_pending *p)
{
    if (p->key != NULL)
        lx_key_give_back(p->key, &p->load, true);
    p->key = NULL;
}

bool lx_pending_count(lx_pending *p, lx_status status, int64_t submitted_ns)
{
    if (atomic_exchange(&p->counted, true))
        return false;
    lx_served_count(p->served, status);
    lx_histogram_observe(&p->served->metrics.request_time, lx_now_ns() - submitted_ns);
    return true;
}

void lx_pending_abandon(lx_pending *p, lx_phase phase, int64_t submitted_ns)
{
    if (lx_pending_count(p, LX_ERR_CANCELLED, submitted_ns))
        atomic_fetch_add(&p->served->metrics.abandoned[phase], 1);
}

lx_status lx_pending_status(const lx_pending *p, lx_status status, lx_error *err)
{
    if (status != LX_ERR_CANCELLED || lx_serving_get_state(p->api->serving) != LX_SERVING_DRAINING)
        return status;
    return lx_fail(err, LX_ERR_UNAVAILABLE, NULL,
                   "the server is shutting down and could not finish this answer");
}

int64_t lx_pending_read_by(int64_t deadline_ns)
{
    return deadline_ns + READ_GRACE_S * LX_NS_PER_S;
}

bool lx_pending_hand_out(lx_buffer *events, size_t *sent, lx_buffer *out)
{
    size_t room = out->length < LX_PULL_BYTES ? LX_PULL_BYTES - out->length : 0;
    size_t left = events->length - *sent, n = left < room ? left : room;
    if (events->status != LX_OK) {
        out->status = out->status == LX_OK ? events->status : out->status;
        return false;
    }
    if (n > 0)
        lx_buffer_append(out, events->data + *sent, n);
    *sent += n;
    if (n < left || room == 0)
        return false;
    events->length = *sent = 0;
    return true;
}
