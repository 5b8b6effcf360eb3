/*
 * The handlers: a request in, a response out. They see neither the HTTP library nor tensors.
 */
#ifndef LINNET_SERVER_API_API_H
#define LINNET_SERVER_API_API_H

#include <pthread.h>

#include "common/budget.h"
#include "server/http/server.h"
#include "server/registry/serving.h"
#include "server/states/store.h"

/* Parts that a running server reads again. The registry counts those of models (serving.h). */
enum { LX_RELOADED_MODELS, LX_RELOADED_KEYS, LX_RELOADED_CERTIFICATE, LX_N_RELOADED };

typedef struct lx_reload_counter {
    _Atomic uint64_t done, failed;
} lx_reload_counter;

/* The parts of the server that handlers use. Once it runs, the claims and counters alone change. */
typedef struct lx_api {
    lx_serving *serving;
    lx_http *_Atomic http;          /* for its figures; NULL until it has started */
    int32_t max_n;                  /* of a completion */
    int32_t max_prompt, max_tokens; /* of a completion without a fixed end: tokens */
    int32_t max_images;             /* n of an images request */
    bool model_sampling;            /* fields that a request leaves out are the model's own */
    int64_t timeout_ns;             /* of a request */
    /* from its submission to its first slot, and to its first token; 0: no limit but timeout_ns */
    int64_t queue_timeout_ns, first_token_timeout_ns;
    lx_state_store *states;
    int64_t state_ttl_ms;  /* of a state, from its last use */
    const void *state_key; /* signs states and is asked for; NULL: no signature */
    size_t state_key_bytes;
    int32_t max_forks;          /* of a state, in one request */
    lx_budget answers;          /* bytes of jobs, states on their way and answers */
    lx_budget bodies;           /* bytes of bodies, and of what reading them takes */
    struct lx_painter *painter; /* draws the pictures of links */
    struct lx_claims {
        pthread_mutex_t mutex;
        struct lx_claim *first;
    } claims; /* conversations that requests are changing (claims.h) */
    lx_reload_counter reloads[LX_N_RELOADED];
} lx_api;

void lx_handle_completions(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_chat(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_responses(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_messages(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_message_tokens(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_response_get(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_response_delete(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_response_items(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_conversation_create(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_conversation_get(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_conversation_update(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_conversation_delete(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_items_list(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_items_create(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_item_get(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_item_delete(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_images_generations(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_images_edits(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_transcriptions(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_tokenize(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_detokenize(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_apply_template(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_score(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_states_list(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_states_create(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_state_get(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_state_put(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_state_delete(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_state_fork(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_state_inspect(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_models(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_model(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_capacity(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_reload(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_health(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_livez(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_metrics(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_page(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_form(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_link_picture(lx_api *api, const lx_request *rq, lx_response *rs);
void lx_handle_asset(lx_api *api, const lx_request *rq, lx_response *rs);

/* The form of errors on the path. */
lx_envelope lx_envelope_of(const char *path);
/* The `code` of such an error in an envelope. */
const char *lx_api_error_code(lx_status status);
/* Appends the error envelope for a status; the message names the field at fault. */
void lx_api_write_error(lx_envelope form, lx_status status, const lx_error *err, lx_buffer *out);
/* The envelope as a response in the form of rs->envelope, with the status's HTTP code. */
void lx_respond_status(lx_response *rs, lx_status status, const lx_error *err);
/* The body as JSON with 200, or the envelope of the error. Frees the body. */
void lx_respond_whole(lx_response *rs, lx_status status, const lx_error *err, lx_buffer *body);
/* The envelope with an HTTP code and error code of its own. */
void lx_respond_error(lx_response *rs, int http, const char *code, const char *param,
                      const char *message);
/* Whether new work may come; LX_ERR_UNAVAILABLE with the reason otherwise. */
lx_status lx_api_check_ready(lx_api *api, lx_error *err) LX_MUST_USE;

/* --- before any work; request.c has these and the errors above --- */

/* Whether the body is of a kind that is in the text `kinds`: "application/json" (or no body),
   "multipart/form-data". Otherwise false, and 415 is the answer. A page of another origin can post
   other kinds without asking the browser for permission, so their refusal is a protection. */
bool lx_request_reads(const lx_request *rq, const char *kinds, lx_response *rs);
/* lx_request_reads, and whether new work may come: otherwise 503 is the answer. */
bool lx_request_begins(lx_api *api, const lx_request *rq, const char *kinds, lx_response *rs);
bool lx_request_is_multipart(const lx_request *rq);
/* 415, with the types that the route reads. */
void lx_respond_unread(lx_response *rs, const char *kinds);

/* The most bytes that reading the body takes in addition to the body: a JSON tree, decoded base64.
 */
int64_t lx_request_work_bytes(const lx_request *rq);
/* 503: so many bytes are not left for reading the body. */
void lx_respond_no_room(const lx_api *api, int64_t bytes, lx_response *rs);

/* The time of a request that names so many milliseconds, at most the server's; 0: the server's. */
int64_t lx_api_timeout_ns(const lx_api *api, int64_t timeout_ms);

/* Answers a request that never became a job, counting it for the model it names, if that exists. */
void lx_api_refuse(lx_api *api, const char *model, lx_status status, const lx_error *err,
                   lx_response *rs);
/* Answers a request whose job could not start (that was counted); retry_after_s 0: not said. */
void lx_respond_unstarted(lx_response *rs, lx_status status, const lx_error *err,
                          int32_t retry_after_s);

#endif
