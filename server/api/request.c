/* What handlers check of a request before any work: its content type, its model; and how they
 * refuse. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "model/tasks/image.h"
#include "server/api/api.h"
#include "server/api/generation.h"
#include "server/json/scan.h"

static bool has_type(const lx_request *rq, const char *type)
{
    return lx_is_media_type(rq->content_type, strlen(rq->content_type), type);
}

bool lx_request_is_json(const lx_request *rq)
{
    return rq->content_type[0] == '\0' ? rq->body_bytes == 0 : has_type(rq, "application/json");
}

bool lx_request_is_multipart(const lx_request *rq)
{
    return has_type(rq, LX_FORM_TYPE);
}

void lx_respond_unread(lx_response *rs, const char *kinds)
{
    lx_error err = {0};
    (void)lx_fail(&err, LX_ERR_INVALID, NULL, "the Content-Type must be %s", kinds);
    lx_respond_error(rs, 415, "unsupported_media_type", "Content-Type", err.text);
}

int64_t lx_request_work_bytes(const lx_request *rq)
{
    lx_json_extent e;
    int64_t decoded = 2 * (int64_t)rq->body_bytes; /* base64 or a part of a form, and its state */
    if (rq->body_bytes == 0 || !lx_request_is_json(rq))
        return decoded;
    lx_json_scan(rq->body, rq->body_bytes, &e);
    lx_error err;
    return decoded + (lx_json_check_extent(&e, &err) == LX_OK ? lx_json_tree_bytes(&e) : 0);
}

void lx_respond_no_room(const lx_api *api, int64_t bytes, lx_response *rs)
{
    lx_error err = {0};
    (void)lx_fail(&err, LX_ERR_UNAVAILABLE, "body",
                  "reading the body may need %lld bytes, which the %lld for all bodies (--%s) do "
                  "not have left now",
                  (long long)bytes, (long long)api->bodies.limit, api->bodies.flag);
    lx_respond_status(rs, LX_ERR_UNAVAILABLE, &err);
}

/* The first model of that task or, with task NULL, of any that makes this; one that can be asked
   for its classes goes before one that cannot. */
static lx_served_model *first_of(lx_api *api, const char *task, lx_modality modality)
{
    lx_served_model *first = NULL;
    for (int32_t i = 0; i < lx_serving_count(api->serving); i++) {
        lx_served_model *m = lx_serving_at(api->serving, i);
        const lx_task_ops *t = m->model->task;
        if (task != NULL ? strcmp(t->name, task) != 0 : t->modality != modality)
            continue;
        if (t->modality == LX_IMAGE && lx_image_of(&m->model->config)->n_classes > 0)
            return m;
        first = first == NULL ? m : first;
    }
    return first;
}

lx_status lx_api_find_task(lx_api *api, const char *task, lx_served_model **out, lx_error *err)
{
    *out = first_of(api, task, LX_TEXT);
    return *out != NULL
               ? LX_OK
               : lx_fail(err, LX_ERR_NOT_FOUND, "model", "no %s model is being served", task);
}

lx_status lx_api_no_model(const lx_api *api, lx_error *err)
{
    char names[160] = "";
    size_t n = 0;
    for (int32_t i = 0; i < lx_serving_count(api->serving) && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "",
                              lx_serving_at(api->serving, i)->model->name);
    return lx_fail(err, LX_ERR_NOT_FOUND, "model", "there is no model of that name, there is: %s",
                   names);
}

/* In the order of lx_modality. */
static const struct {
    const char *name, *does, *route;
} modalities[] = {{"text", "makes text", "/v1/completions"},
                  {"image", "makes images", "/v1/images/generations"},
                  {"speech", "writes down what is said", "/v1/audio/transcriptions"}};

lx_modality lx_api_made_by(lx_api *api, const char *name, lx_modality otherwise)
{
    const lx_served_model *m = lx_serving_find(api->serving, name);
    return m != NULL && m->engine != NULL ? m->model->task->modality : otherwise;
}

int64_t lx_api_timeout_ns(const lx_api *api, int64_t timeout_ms)
{
    bool own = timeout_ms > 0 && timeout_ms * LX_NS_PER_MS < api->timeout_ns;
    return own ? timeout_ms * LX_NS_PER_MS : api->timeout_ns;
}

lx_status lx_api_find_model(lx_api *api, const char *name, lx_modality modality,
                            lx_served_model **out, lx_error *err)
{
    lx_served_model *m =
        name[0] == '\0' ? first_of(api, NULL, modality) : lx_serving_find(api->serving, name);
    if (m == NULL && name[0] == '\0')
        return lx_fail(err, LX_ERR_NOT_FOUND, "model", "no %s model is being served",
                       modalities[modality].name);
    if (m == NULL)
        return lx_api_no_model(api, err);
    lx_modality own = m->model->task->modality;
    if (own != modality)
        return lx_fail(err, LX_ERR_INVALID, "model", "model %s %s: use %s", m->model->name,
                       modalities[own].does, modalities[own].route);
    *out = m;
    return LX_OK;
}

lx_status lx_api_choose_model(lx_api *api, const char *name, lx_modality modality,
                              lx_served_model **out, lx_error *err)
{
    int32_t n = 0;
    for (int32_t i = 0; i < lx_serving_count(api->serving); i++)
        n += lx_serving_at(api->serving, i)->model->task->modality == modality;
    if (name[0] == '\0' && n > 1)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "model is missing: %d models of %s are served, see /v1/models", n,
                       modalities[modality].name);
    return lx_api_find_model(api, name, modality, out, err);
}

void lx_api_refuse(lx_api *api, const char *model, lx_status status, const lx_error *err,
                   lx_response *rs)
{
    lx_served_model *served = lx_serving_find(api->serving, model);
    if (served != NULL)
        lx_count_outcome(served, status);
    if (status == LX_ERR_NOT_FOUND && strcmp(err->param, "model") == 0)
        lx_respond_error(rs, 404, "model_not_found", "model", err->text);
    else
        lx_respond_status(rs, status, err);
}

void lx_respond_unstarted(lx_response *rs, lx_status status, const lx_error *err,
                          int32_t retry_after_s)
{
    lx_respond_status(rs, status, err);
    for (int32_t i = 0; retry_after_s > 0 && i < rs->n_headers; i++)
        if (strcmp(rs->headers[i].name, "Retry-After") == 0)
            (void)snprintf(rs->headers[i].value, sizeof rs->headers[i].value, "%d", retry_after_s);
}
