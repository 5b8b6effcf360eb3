/* Parts that the routes of /v1/states share. Thread: a worker. */
#ifndef LINNET_SERVER_API_STATES_H
#define LINNET_SERVER_API_STATES_H

#include "common/buffer.h"
#include "server/api/api.h"
#include "server/states/blob.h"

enum { LX_STATE_MAX_LIST = 1 << 20 }; /* bytes of a list of states */

/* The id is the first *n bytes of rq->tail. LX_ERR_INVALID with param "id" for a text that is not
   an id. */
lx_status lx_state_request_id(lx_api *api, const lx_request *rq, size_t *n,
                              lx_error *err) LX_MUST_USE;
/* Appends the facts of a state, as an object. Between lx_serving_enter and _leave. */
void lx_state_put_facts(lx_api *api, const char *id, const lx_saved_state *s, size_t bytes,
                        int64_t ttl_ms, lx_buffer *out);
/* Takes the body, of JSON; 503 when it did not fit. */
void lx_state_respond_json(lx_response *rs, int status, lx_buffer *body);

#endif
