/*
 * The checks of every handler before any work, and its refusals: one table from lx_status to the
 * type and code of the error's envelope. The HTTP code is lx_status_http's.
 */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "server/api/api.h"
#include "server/json/answers.h"
#include "server/json/scan.h"

enum { MAX_ERROR_BYTES = 4096, RETRY_UNAVAILABLE_S = 1 };

static const char invalid_request[] = "invalid_request_error";
static const char unavailable[] = "service_unavailable_error";
static const char rate_limit[] = "rate_limit_error";
static const char server_error[] = "server_error";

static const struct error_kind {
    lx_status status;
    const char *type, *code;
} kinds[] = {
    {LX_ERR_INVALID, invalid_request, "invalid_value"},
    {LX_ERR_NOT_FOUND, invalid_request, "not_found"},
    {LX_ERR_TOO_LARGE, invalid_request, "too_large"},
    {LX_ERR_BUSY, rate_limit, "server_is_overloaded"},
    {LX_ERR_LIMIT, rate_limit, "rate_limit_exceeded"},
    {LX_ERR_CONFLICT, invalid_request, "conflict"},
    {LX_ERR_UNAVAILABLE, unavailable, "unavailable"},
    {LX_ERR_TIMEOUT, "timeout_error", "deadline_exceeded"},
    {LX_ERR_CANCELLED, invalid_request, "cancelled"},
    {LX_ERR_UNSUPPORTED, "not_supported_error", "not_supported"},
    {LX_ERR_NO_MEMORY, unavailable, "out_of_memory"},
    {LX_ERR_DEVICE, unavailable, "device_failure"},
    {LX_ERR_INTERNAL, server_error, "internal_error"}, /* and all others */
};

static const struct error_kind *kind_of(lx_status status)
{
    const struct error_kind *k = kinds;
    while (k->status != status && k->status != LX_ERR_INTERNAL)
        k++;
    return k;
}

const char *lx_api_error_code(lx_status status)
{
    return kind_of(status)->code;
}

lx_envelope lx_envelope_of(const char *path)
{
    static const char messages[] = "/v1/messages";
    size_t n = sizeof messages - 1;
    bool is_below = strncmp(path, messages, n) == 0 && (path[n] == '\0' || path[n] == '/');
    return is_below ? LX_ENVELOPE_ANTHROPIC : LX_ENVELOPE_OPENAI;
}

/* Anthropic's name of the errors with this HTTP code. */
static const char *anthropic_type(int http)
{
    return http == 401   ? "authentication_error"
           : http == 403 ? "permission_error"
           : http == 404 ? "not_found_error"
           : http == 413 ? "request_too_large"
           : http == 429 ? rate_limit
           : http == 503 ? "overloaded_error"
           : http == 504 ? "timeout_error"
           : http >= 500 ? "api_error"
                         : invalid_request;
}

/* `type` is OpenAI's name of the error, `where` the field at fault. */
static void write_envelope(lx_envelope form, int http, const char *type, const char *where,
                           const char *code, const char *message, lx_buffer *out)
{
    if (form == LX_ENVELOPE_ANTHROPIC)
        lx_json_write_message_error(message, anthropic_type(http), where, code, out);
    else
        lx_json_write_error(message, type, where, code, out);
}

void lx_api_write_error(lx_envelope form, lx_status status, const lx_error *err, lx_buffer *out)
{
    const struct error_kind *kind = kind_of(status);
    const char *text = err->text[0] != '\0' ? err->text : lx_status_text(status);
    char named[sizeof err->param + sizeof err->text + 2];
    bool names_field = strstr(text, err->param) != NULL; /* also when there is none */
    (void)snprintf(named, sizeof named, "%s%s%s", names_field ? "" : err->param,
                   names_field ? "" : ": ", text);
    write_envelope(form, lx_status_http(status), kind->type, err->param, kind->code, named, out);
}

void lx_respond_status(lx_response *rs, lx_status status, const lx_error *err)
{
    lx_buffer body;
    lx_buffer_init(&body, MAX_ERROR_BYTES);
    lx_api_write_error(rs->envelope, status, err, &body);
    lx_response_take(rs, lx_status_http(status), "application/json", &body);
    if (status == LX_ERR_BUSY || status == LX_ERR_UNAVAILABLE || status == LX_ERR_NO_MEMORY ||
        status == LX_ERR_DEVICE || status == LX_ERR_LIMIT)
        lx_response_add(rs, "Retry-After", "%d", RETRY_UNAVAILABLE_S);
}

void lx_respond_whole(lx_response *rs, lx_status status, const lx_error *err, lx_buffer *body)
{
    if (status == LX_OK)
        lx_response_take(rs, 200, "application/json", body);
    else
        lx_respond_status(rs, status, err);
    lx_buffer_fini(body);
}

static const char *type_of(int http)
{
    return http == 401   ? "authentication_error"
           : http == 403 ? "permission_error"
           : http == 429 ? rate_limit
           : http == 503 ? unavailable
           : http >= 500 ? server_error
                         : invalid_request;
}

void lx_respond_error(lx_response *rs, int http, const char *code, const char *param,
                      const char *message)
{
    lx_buffer body;
    lx_buffer_init(&body, MAX_ERROR_BYTES);
    write_envelope(rs->envelope, http, type_of(http), param, code, message, &body);
    lx_response_take(rs, http, "application/json", &body);
}

lx_status lx_api_check_ready(lx_api *api, lx_error *err)
{
    static const char *const reasons[] = {
        [LX_SERVING_LOADING] = "the models are being loaded",
        [LX_SERVING_DRAINING] = "the server is shutting down",
        [LX_SERVING_UNHEALTHY] = "a model makes no progress",
        [LX_SERVING_READY] = NULL,
        [LX_SERVING_LEAVING] = NULL,
    };
    const char *reason = reasons[lx_serving_get_state(api->serving)];
    return reason == NULL ? LX_OK : lx_fail(err, LX_ERR_UNAVAILABLE, NULL, "%s", reason);
}

/* --- before any work --- */

static bool has_type(const lx_request *rq, const char *type)
{
    return lx_is_media_type(rq->content_type, strlen(rq->content_type), type);
}

static bool is_json(const lx_request *rq)
{
    return rq->content_type[0] == '\0' ? rq->body_bytes == 0 : has_type(rq, "application/json");
}

bool lx_request_is_multipart(const lx_request *rq)
{
    return has_type(rq, LX_FORM_TYPE);
}

void lx_respond_unread(lx_response *rs, const char *kinds_read)
{
    lx_error err = {0};
    (void)lx_fail(&err, LX_ERR_INVALID, NULL, "the Content-Type must be %s", kinds_read);
    lx_respond_error(rs, 415, "unsupported_media_type", "Content-Type", err.text);
}

bool lx_request_reads(const lx_request *rq, const char *kinds_read, lx_response *rs)
{
    if ((strstr(kinds_read, "json") != NULL && is_json(rq)) ||
        (strstr(kinds_read, LX_FORM_TYPE) != NULL && lx_request_is_multipart(rq)))
        return true;
    lx_respond_unread(rs, kinds_read);
    return false;
}

bool lx_request_begins(lx_api *api, const lx_request *rq, const char *kinds_read, lx_response *rs)
{
    lx_error err = {0};
    if (!lx_request_reads(rq, kinds_read, rs))
        return false;
    lx_status st = lx_api_check_ready(api, &err);
    if (st != LX_OK)
        lx_respond_status(rs, st, &err);
    return st == LX_OK;
}

int64_t lx_request_work_bytes(const lx_request *rq)
{
    lx_json_extent e;
    int64_t decoded = 2 * (int64_t)rq->body_bytes; /* base64 or a part of a form, and its state */
    if (rq->body_bytes == 0 || !is_json(rq))
        return decoded;
    lx_json_scan(rq->body, rq->body_bytes, &e);
    lx_error err;
    return decoded + (lx_json_check_extent(&e, &err) == LX_OK ? lx_json_tree_bytes(&e) : 0);
}

void lx_respond_no_room(const lx_api *api, int64_t bytes, lx_response *rs)
{
    lx_error err = {0};
    (void)lx_fail(&err, LX_ERR_UNAVAILABLE, "body",
                  "reading the body may need %lld bytes, more than is free of the %lld bytes for "
                  "all bodies (--%s)",
                  (long long)bytes, (long long)api->bodies.limit, api->bodies.flag);
    lx_respond_status(rs, LX_ERR_UNAVAILABLE, &err);
}

int64_t lx_api_timeout_ns(const lx_api *api, int64_t timeout_ms)
{
    bool own = timeout_ms > 0 && timeout_ms * LX_NS_PER_MS < api->timeout_ns;
    return own ? timeout_ms * LX_NS_PER_MS : api->timeout_ns;
}

void lx_api_refuse(lx_api *api, const char *model, lx_status status, const lx_error *err,
                   lx_response *rs)
{
    lx_served_model *served = lx_serving_find(api->serving, model);
    if (served != NULL)
        lx_served_count(served, status);
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
