/*
 * Where a request with `state` begins: the state is fetched from the store by its id, or read from
 * the request, then the request continues. Thread: a worker.
 */
#ifndef LINNET_SERVER_API_STATE_RESOLVE_H
#define LINNET_SERVER_API_STATE_RESOLVE_H

#include "server/api/state_flow.h"
#include "server/json/limits.h"

/* Continues a request once its state is there, or with the reason why it is not. *state is
   borrowed. */
typedef void (*lx_state_continuation)(lx_api *api, void *params, lx_status status, lx_error *err,
                                      const lx_saved_state *state, const lx_request *rq,
                                      lx_response *rs);
/* Starts a request inside a state of the model, and answers also when it cannot. */
typedef void (*lx_state_start)(lx_api *api, lx_served_model *served, void *params,
                               const lx_saved_state *state, const lx_request *rq, lx_response *rs);

typedef struct lx_state_source {
    const char *text; /* an id, or a blob in base64 */
    size_t bytes;
    lx_state_continuation then;
    /* Instead of `then`, for a request that a model answers: the model of the state is found here,
       which makes what is requested and has the requested name ("": any), or the request refused.
     */
    lx_state_start start;
    char model[LX_MAX_MODEL_NAME];
    lx_modality modality;
    /* For `then` or `start`: params_bytes that are moved away, so that the caller's no longer own
       anything; fini_params frees what they own when the function has returned. */
    void *params;
    size_t params_bytes;
    void (*fini_params)(void *params);
} lx_state_source;

/* Calls `then` or `start` now, or answers later with what that answers. */
void lx_state_resolve(lx_api *api, const lx_state_source *source, const lx_request *rq,
                      lx_response *rs);

#endif
