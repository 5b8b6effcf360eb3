/*
 * The common part of all requests until their answer is read: the model, the limits of the key, the
 * reserved bytes, and whether the end is in the metrics. Each lx_work and each request for a
 * transcription has one. Thread: a worker's, or the connection's; count: any.
 */
#ifndef LINNET_SERVER_API_PENDING_H
#define LINNET_SERVER_API_PENDING_H

#include "server/api/api.h"
#include "server/auth/keys.h"
#include "server/json/parts.h"
#include "server/json/requests.h"

typedef struct lx_pending {
    lx_api *api;
    lx_served_model *served; /* a reference */
    lx_reserve *reserve;     /* a reference; NULL: none yet */
    lx_key *key;             /* whose limits it uses, NULL: none */
    lx_key_load load;
    _Atomic bool counted; /* its outcome is in the metrics */
} lx_pending;

void lx_pending_init(lx_pending *p, lx_api *api, lx_served_model *served);
/* Gives everything back. Zeros are allowed, and a second call. */
void lx_pending_fini(lx_pending *p);

/* Reserves bytes for a request of the model, before work: lx_reserve_new of the server's budget.
 *retry_after_s is set with LX_ERR_BUSY. */
lx_status lx_pending_reserve(lx_api *api, lx_served_model *served, int64_t bytes, const char *param,
                             lx_reserve **out, int32_t *retry_after_s, lx_error *err) LX_MUST_USE;
/* Only the names of the fields to change where a request for texts is too much for its key. */
lx_key_load lx_pending_load_fields(const lx_completion_params *p);
/* Takes the most tokens and samples of the answer from the limits of the request's key. With
   LX_ERR_LIMIT *retry_after_s is when to try again. */
lx_status lx_pending_take(lx_pending *p, const lx_request *rq, const lx_key_load *load,
                          int32_t *retry_after_s, lx_error *err) LX_MUST_USE;
/* The request is refused as a whole: its key may ask for its tokens again. */
void lx_pending_refund(lx_pending *p);

/* Notes in the metrics how the request ended; the first call counts, and is true. */
bool lx_pending_count(lx_pending *p, lx_status status, int64_t submitted_ns);
/* The client left: counts in which phase, unless the answer was complete. */
void lx_pending_abandon(lx_pending *p, lx_phase phase, int64_t submitted_ns);
/* LX_ERR_UNAVAILABLE where work was cancelled because the server stops; else the status. */
lx_status lx_pending_status(const lx_pending *p, lx_status status, lx_error *err);
/* The time by which a client must have read its answer, which is due at deadline_ns. */
int64_t lx_pending_read_by(int64_t deadline_ns);

/* A pull of a stream stops here. Pulls are the turns of an HTTP thread, and a new client waits for
   one turn of each stream that has a backlog. */
enum { LX_PULL_BYTES = 4 * 1024 };
/* Moves events, of which the first *sent bytes are gone, as far as there is room. True when all of
   them are gone and there is room. Without memory for the events the stream breaks off. */
bool lx_pending_hand_out(lx_buffer *events, size_t *sent, lx_buffer *out);

/*
 * Upper bounds of the memory of an answer, in addition to its jobs (lx_job_bytes). They follow from
 * the request before any work, so that the bytes are reserved or the request is refused. An answer
 * is text that is written piece by piece (server/json/fields.h), so it costs its text, and each
 * route says how long that may be.
 */
enum {
    LX_COST_GROWN = 3,    /* a buffer that doubles: while it grows there are the old and the new */
    LX_COST_ESCAPED = 6,  /* a byte of a text in JSON */
    LX_COST_HEAD = 8192,  /* of a text: usage, timings, names; and a piece that is written */
    LX_COST_FIRST = 1024, /* that a buffer and a list begin with */
    LX_COST_WARNING = 320,
    LX_COST_STATE = 1024, /* lx_json_append_kept: facts, or an error's text */
    LX_COST_ITEM = 192,   /* an input message but for its text */
    LX_COST_REAL = 24,    /* a number with its comma */
    LX_COST_STREAM =
        3 * 128 * 1024 /* what of a stream the client has not taken: OUT_BYTES of http */
};

/* The text of a list of the states that were kept. */
static inline int64_t lx_cost_states(int64_t n)
{
    return n > 0 ? LX_COST_HEAD + n * LX_COST_STATE : 0;
}

/* The messages of a request as items in JSON. */
static inline int64_t lx_cost_messages(const lx_completion_params *p)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < p->n_messages; i++) {
        size_t text = p->messages[i].bytes + lx_json_indented_bytes(p->messages[i].more);
        bytes += LX_COST_ITEM + (int64_t)text * LX_COST_ESCAPED;
    }
    return bytes;
}

/* The notes of a request that waits, and their text. NULL: none. */
static inline int64_t lx_cost_notes(const lx_json_notes *notes)
{
    int64_t n = notes != NULL ? lx_json_count_notes(notes) : 0;
    return n > 0 ? (int64_t)sizeof *notes + n * LX_COST_GROWN * LX_COST_WARNING : 0;
}

#endif
