/*
 * Conversations of stored responses: a response is kept with the state after its answer
 * (server/states/stored.h), and the next response continues from that state.
 *
 * Any number of responses may follow one, because each keeps a state of its own.
 */
#ifndef LINNET_SERVER_API_CONVERSATION_H
#define LINNET_SERVER_API_CONVERSATION_H

#include "server/api/completion.h"

/* The input as stored objects. */
typedef struct lx_input_items {
    lx_buffer text;       /* objects without anything between them */
    uint32_t *item_bytes; /* [n], owned */
    uint32_t n;
} lx_input_items;

/* Writes the messages as items, but for the instructions. LX_ERR_NO_MEMORY. */
lx_status lx_input_items_init(lx_input_items *items, const lx_completion_params *p,
                              lx_error *err) LX_MUST_USE;
void lx_input_items_fini(lx_input_items *items); /* zeros are allowed */

/*
 * Makes p's prompt the conversation of the state, which outlives p, with p's messages after it:
 * p->ahead is the state where its rows are the beginning of the prompt. LX_ERR_INVALID with param
 * "previous_response_id": the model cannot continue from the state.
 */
lx_status lx_conversation_prompt(const lx_served_model *served, const lx_saved_state *state,
                                 lx_completion_params *p, lx_error *err) LX_MUST_USE;

/* Begins to store the finished response under its id: `answer` is its JSON. */
lx_status lx_conversation_store(const lx_completion *c, const lx_answer *whole,
                                const lx_stored *stored, lx_store_call **out,
                                lx_error *err) LX_MUST_USE;

/* The error of a response that is not there: by previous_response_id, or by the route. */
void lx_respond_no_response(lx_response *rs, const char *id, bool previous);

#endif
