/*
 * States of requests: from a job's end to a blob in the store, and from a blob back to where a job
 * begins. Both the API's routes for states and the routes that make answers use
 * it.
 */
#ifndef LINNET_SERVER_API_STATE_FLOW_H
#define LINNET_SERVER_API_STATE_FLOW_H

#include "server/api/api.h"
#include "server/json/requests.h"
#include "server/states/blob.h"
#include "server/states/store.h"

/* Until then a client has read an answer of the store, which ends every call much sooner. */
enum { LX_STORE_GRACE_S = 60 };

/* The prefix and 128 random bits in hexadecimal. */
void lx_state_make_id(const char *prefix, char *id, size_t size);
/* Whether it is an id that lx_state_make_id can make: the prefix and hexadecimal digits. */
bool lx_state_id_has(const char *prefix, const char *id);
#define LX_RESPONSE_PREFIX "resp_"
#define LX_CONVERSATION_PREFIX "conv_"
/* 1 .. LX_STATE_ID_MAX of A-Z a-z 0-9 - _ */
bool lx_state_id_ok(const char *id, size_t n);

/* lx_state_write with the server's key. */
lx_status lx_state_to_blob(const lx_api *api, const lx_saved_state *s, lx_buffer *out,
                           lx_error *err) LX_MUST_USE;
/* Appends the state that sample i of a finished job ended with. */
lx_status lx_state_of_job(const lx_api *api, const lx_served_model *served, const lx_job *job,
                          int32_t i, lx_buffer *out, lx_error *err) LX_MUST_USE;
/* The parts of an object of the store, whose bytes may be a state alone. LX_ERR_INVALID with param
   "state": they are damaged, or a conversation without a state. */
lx_status lx_state_part(const void *bytes, size_t n, lx_stored *out, lx_error *err) LX_MUST_USE;
/* lx_state_read with the server's key. The bytes may also be a stored response or a conversation,
   whose state is read. LX_ERR_INVALID with param "state": a conversation without a state, too. */
lx_status lx_state_from_blob(const lx_api *api, const void *bytes, size_t n, lx_saved_state *out,
                             lx_error *err) LX_MUST_USE;

/* The served model whose weights made it. LX_ERR_INVALID with param "state". */
lx_status lx_state_model(const lx_api *api, const lx_saved_state *s, lx_served_model **out,
                         lx_error *err) LX_MUST_USE;
/* The plan of the request the state belongs to; its history fits it. ignore_end is no part of the
   state: as in lx_task_request. */
lx_status lx_state_plan(const lx_saved_state *s, const lx_model *model, bool ignore_end,
                        lx_plan **out, lx_error *err) LX_MUST_USE;

/* The request as one that waits for the store. */
lx_store_waiter lx_api_waiter(const lx_request *rq);

/* --- the states that a request with return_state keeps --- */

typedef struct lx_kept_state {
    char id[LX_STATE_ID_MAX + 1];
    lx_store_call *call; /* NULL: it could not be begun, see err */
    lx_status status;    /* final once kept */
    lx_error err;
    int32_t tokens, rows;
    size_t bytes;
    int64_t memory_bytes; /* of the network's state in it */
} lx_kept_state;

typedef struct lx_state_saver {
    lx_kept_state *states; /* [n] */
    int32_t n;
} lx_state_saver;

/* Begins to write the state of every sample to the store. */
lx_status lx_state_saver_start(lx_state_saver *k, const lx_api *api, const lx_served_model *served,
                               const lx_job *job, const lx_request *rq, lx_error *err) LX_MUST_USE;
/* Sees how far the store is: whether all of them are kept, or are known not to be. */
bool lx_state_saver_advance(lx_state_saver *k);
void lx_state_saver_fini(lx_state_saver *k);

/* Reserves the memory of one state on its way out of the store: its blob with so many bytes of
   text, the state that is read, and an answer with its facts. See lx_reserve_new; param "state". */
lx_status lx_state_reserve(lx_api *api, int64_t text_bytes, lx_reserve **out,
                           lx_error *err) LX_MUST_USE;

/* --- where a request with `state` begins: the state is fetched from the store by its id, or read
   from the request, then the request continues. Thread: a worker --- */

/* Continues a request once its state is there, or with the reason why it is not. *state is
   borrowed. */
typedef void (*lx_state_continuation)(lx_api *api, void *params, lx_status status, lx_error *err,
                                      const lx_saved_state *state, const lx_request *rq,
                                      lx_response *rs);
/* Answers a request about one state after the store has succeeded. bytes[n] are the blob of a get,
   borrowed. */
typedef void (*lx_state_answer)(lx_api *api, void *params, const void *bytes, size_t n,
                                int64_t ttl_ms, lx_response *rs);
/* Starts a request inside a state of the model, and answers also when it cannot. */
typedef void (*lx_state_start)(lx_api *api, lx_served_model *served, void *params,
                               const lx_saved_state *state, const lx_request *rq, lx_response *rs);

/* Goes on with the store's bytes as they are, or with the reason of a failure: it answers, or hands
   over to one more deferred object. */
typedef void (*lx_state_raw)(lx_api *api, void *params, lx_status status, lx_error *err,
                             const void *bytes, size_t n, const lx_request *rq, lx_response *rs);

typedef struct lx_state_source {
    const char *text; /* an id, or a blob in base64 */
    size_t bytes;
    lx_state_continuation then;
    /* Instead of `then`, for a request that a model answers. The model of the state is found here;
       the request is refused unless the model has the modality and the requested name ("": any). */
    lx_state_start start;
    /* Instead of both, for a request about one state by its id, or for a list. `op` is the
       operation of the store. put_bytes are those of a put, or the most entries of a list. A
       failure is answered here. */
    lx_state_answer answer;
    lx_state_raw raw; /* in place of `answer`: failures are its own */
    lx_store_op op;
    const void *put;
    size_t put_bytes;
    int64_t text_bytes; /* that the object has with its state, at most; 0: little */
    char model[LX_MAX_MODEL_NAME];
    lx_modality modality;
    /* For the function: params_bytes that are moved away, so that the caller's own nothing any
       more. When the function has returned, fini_params frees their memory; NULL: they own none. */
    void *params;
    size_t params_bytes;
    void (*fini_params)(void *params);
} lx_state_source;

/* Calls the function now, or later when the store has answered. */
void lx_state_resolve(lx_api *api, const lx_state_source *source, const lx_request *rq,
                      lx_response *rs);

#endif
