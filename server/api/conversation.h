/*
 * Conversations of stored responses: a response is kept with the state after its answer
 * (server/states/stored.h), and the next response continues from that state. Any number of
 * responses may follow one, because each keeps a state of its own.
 *
 * A conversation object has all items and one state, which each of its responses replaces. Items
 * that the state has not read are messages before the next input. Without a state that the model
 * can continue all items are.
 */
#ifndef LINNET_SERVER_API_CONVERSATION_H
#define LINNET_SERVER_API_CONVERSATION_H

#include "server/api/claims.h"
#include "server/api/completion.h"

/* The input as stored objects. */
typedef struct lx_input_items {
    lx_buffer text;       /* objects without anything between them */
    uint32_t *item_bytes; /* [n], owned */
    uint32_t n;
} lx_input_items;

/* Writes the request's messages as items, but for the instructions. LX_ERR_NO_MEMORY. */
lx_status lx_input_items_init(lx_input_items *items, const lx_completion_params *p,
                              lx_error *err) LX_MUST_USE;
void lx_input_items_fini(lx_input_items *items); /* zeros are allowed */

/* LX_ERR_INVALID with param "previous_response_id": the model has no conversations, or the state is
   of another precision. */
lx_status lx_conversation_can_follow(const lx_served_model *served, const lx_saved_state *state,
                                     lx_error *err) LX_MUST_USE;

/*
 * Makes p's prompt the conversation of the state, which outlives p, with p's messages after it:
 * p->ahead is the state where its rows are the beginning of the prompt. LX_ERR_INVALID with param
 * "previous_response_id": the model cannot continue from the state.
 */
lx_status lx_conversation_prompt(const lx_served_model *served, const lx_saved_state *state,
                                 lx_completion_params *p, lx_error *err) LX_MUST_USE;

/* Begins to store the finished response or its conversation under the id, with the state after the
   answer in the place of the object's. */
lx_status lx_conversation_store(const lx_completion *c, const lx_answer *whole, const char *id,
                                const lx_stored *stored, lx_store_call **out,
                                lx_error *err) LX_MUST_USE;

/* --- conversation objects --- */

/* An answer may pass the bytes. */
enum { LX_MAX_CONVERSATION_ITEMS = 16384, LX_MAX_CONVERSATION_BYTES = 2 << 20 };

/* Zeros, or the conversation of a request. */
typedef struct lx_conversation {
    char id[LX_STATE_ID_MAX + 1];
    lx_claim *claim; /* owned */
    char *front;     /* owned: the object but for its state; `stored` points into it */
    lx_stored stored;
} lx_conversation;

/* Keeps the id. A second call does nothing. */
void lx_conversation_fini(lx_conversation *v);
/* Copies the object, whose bytes *s points into, but for its state. */
lx_status lx_conversation_keep(const lx_stored *s, const void *bytes, lx_conversation *v,
                               lx_error *err) LX_MUST_USE;
/* Whether n more items with so many bytes fit: LX_ERR_TOO_LARGE, param "conversation". */
lx_status lx_conversation_check_room(const lx_stored *s, int64_t bytes, int64_t n,
                                     lx_error *err) LX_MUST_USE;
/* Appends the items; the state has not read them. */
lx_status lx_conversation_add(lx_conversation *v, const lx_input_items *items,
                              lx_error *err) LX_MUST_USE;

/* The error 404 of an object that is not there. */
typedef enum lx_missing {
    LX_MISSING_RESPONSE,
    LX_MISSING_PREVIOUS, /* of previous_response_id */
    LX_MISSING_CONVERSATION,
    LX_MISSING_TALK, /* of the field conversation */
    LX_MISSING_ITEM
} lx_missing;

void lx_respond_missing(lx_response *rs, lx_missing what, const char *id);

#endif
