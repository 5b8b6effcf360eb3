/*
 * The handlers: a request in, a response out. They see neither the HTTP library nor tensors.
 */
#ifndef LINNET_SERVER_HANDLERS_H
#define LINNET_SERVER_HANDLERS_H

#include "server/http.h"
#include "server/serving.h"

/* What every handler may use; immutable once the server runs. */
typedef struct lx_api {
    lx_serving *serving;
    lx_http *_Atomic http; /* for its figures; NULL until it has started */
    int32_t max_n;
    int64_t timeout_ns; /* of a request */
} lx_api;

void lx_handle_completions(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_models(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_model(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_health(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_livez(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_metrics(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_page(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_form(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_asset(lx_api *api, const lx_request *rq, lx_response *rs);

/* --- errors, handlers_errors.c
 * -------------------------------------------------------------------- */

/* Appends the error envelope for a status; the message names the field at fault. */
void lx_api_write_error(lx_status status, const lx_error *err, lx_buffer *out);
/* The envelope as a response, with the status's HTTP code. */
void lx_respond_status(lx_response *rs, lx_status status, const lx_error *err);
/* The envelope with an HTTP code and error code of its own. */
void lx_respond_error(lx_response *rs, int http, const char *code, const char *param,
                      const char *message);
/* Whether new work may come; LX_ERR_UNAVAILABLE with the reason otherwise. */
lx_status lx_api_check_ready(lx_api *api, lx_error *err) LX_MUST_USE;

#endif
