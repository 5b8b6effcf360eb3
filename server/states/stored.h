/*
 * A stored response as bytes: the answer and the input as JSON, then the state after the answer
 * (blob.h). A conversation is such bytes, too: its answer is the conversation's JSON, its items are
 * all messages, and its state has read the first n_read of them. Without a state the rest is empty.
 * docs/state-format.md describes every byte.
 */
#ifndef LINNET_SERVER_STATES_STORED_H
#define LINNET_SERVER_STATES_STORED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/status.h"

enum { LX_MAX_TAIL = 256 };

typedef enum lx_stored_kind {
    LX_STORED_NOTHING, /* bytes of something else */
    LX_STORED_RESPONSE,
    LX_STORED_CONVERSATION
} lx_stored_kind;

typedef struct lx_stored {
    lx_stored_kind kind;
    /* The answer may be cut at a stop string. A conversation continues after n_kept tokens of the
       state's answer and the text of the tail, which is a part of the next token's text. */
    int32_t n_kept;
    char tail[LX_MAX_TAIL];
    uint32_t tail_bytes;
    uint32_t instructions_sum, instructions_bytes; /* lx_crc32c of the conversation's; 0: none */
    const char *answer, *items; /* JSON: an object, and objects without a separator */
    size_t answer_bytes, items_bytes;
    const uint32_t *item_bytes; /* [n_items] of each object */
    uint32_t n_items;
    uint32_t n_read;   /* of a conversation: the items that the state has read */
    const void *state; /* the rest */
    size_t state_bytes;
} lx_stored;

/* The kind by the first bytes alone. */
lx_stored_kind lx_stored_kind_of(const void *bytes, size_t n);
/* Appends all but the state, which the caller appends. */
void lx_stored_write(const lx_stored *s, lx_buffer *out);
/* The pointers of *out point into the bytes, which begin at a multiple of 8. LX_ERR_INVALID with
   param "state": they are damaged. */
lx_status lx_stored_read(const void *bytes, size_t n, lx_stored *out, lx_error *err) LX_MUST_USE;

#endif
