/*
 * A request about one state, by its id: the store is called, and the answer is made of its result.
 * Shared by the routes of /v1/states. Thread: a worker.
 */
#ifndef LINNET_SERVER_API_STATE_REQUEST_H
#define LINNET_SERVER_API_STATE_REQUEST_H

#include "server/api/state_flow.h"

typedef struct lx_state_request {
    lx_api *api;
    char id[LX_STATE_ID_MAX + 1];
    lx_store_call *call;
    /* Makes the answer of what the store has found; called without its failure. */
    void (*answer)(struct lx_state_request *r, lx_response *rs);
    lx_saved_state uploaded; /* PUT: its facts */
    size_t uploaded_bytes;
    lx_reserve *reserve;
    int32_t layer, head; /* inspect */
} lx_state_request;

/* The id is the first *n bytes of rq->tail. LX_ERR_INVALID with param "id" for what can be none. */
lx_status lx_state_request_id(lx_api *api, const lx_request *rq, size_t *n,
                              lx_error *err) LX_MUST_USE;
/* NULL when the response says why: no such id can be, or no memory. */
lx_state_request *lx_state_request_new(lx_api *api, const lx_request *rq, lx_response *rs);
/* Asks the store and defers the answer. Takes r. */
void lx_state_request_store(lx_state_request *r, lx_store_op op, const void *bytes, size_t n,
                            const lx_request *rq, lx_response *rs);
/* For `answer`: what a get has found. Free *out with lx_state_fini, also after a failure. */
lx_status lx_state_request_read(const lx_state_request *r, lx_saved_state *out, size_t *bytes,
                                int64_t *ttl_ms, lx_error *err) LX_MUST_USE;
void lx_state_request_free(void *request);

/* The name of the model that made the state, NULL when it is not served. Between lx_serving_enter
   and _leave, like every answer here. */
const char *lx_state_model_name(lx_api *api, const lx_saved_state *s);
/* Takes the body, of JSON; 503 when it did not fit. */
void lx_respond_json(lx_response *rs, int status, lx_buffer *body);

#endif
