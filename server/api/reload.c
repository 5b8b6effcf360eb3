/* POST /v1/models/reload: new weights for new requests; the answer comes when they are in use. */
#include <stdlib.h>

#include "common/clock.h"
#include "server/api/api.h"
#include "server/json/request_fields.h"
#include "server/json/status.h"

/* Loading has no deadline of its own; the client's connection has this one. */
enum { MAX_BODY = 1 << 20, PATIENCE_S = 3600 };

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
static void refuse(lx_status st, const lx_error *err, lx_response *rs)
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
        refuse(st, &err, rs);
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

static lx_status start(lx_api *api, const lx_request *rq, reloading *r, lx_error *err)
{
    if (r == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a reload");
    lx_status st = lx_json_read_nothing(rq->body, rq->body_bytes, LX_JSON_RELOAD, &r->notes, err);
    return st == LX_OK ? lx_reload_start(api->serving, rq->wake, rq->wake_context, &r->reload, err)
                       : st;
}

void lx_handle_reload(lx_api *api, const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    if (!lx_request_is_json(rq)) {
        lx_respond_unread(rs, "application/json");
        return;
    }
    reloading *r = calloc(1, sizeof *r);
    lx_status st = start(api, rq, r, &err);
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
