/*
 * A state as bytes: all that a server with the same model needs to continue an answer.
 * docs/state-format.md describes every byte.
 *
 * The blob has the request as the task read it (the upper line, the given pixels), the tokens after
 * it, and the key of the random numbers. It also has the state in f32 in the layout of its mixers.
 * A CRC-32C guards it, and with a server's key an HMAC-SHA-256.
 */
#ifndef LINNET_SERVER_STATES_BLOB_H
#define LINNET_SERVER_STATES_BLOB_H

#include "common/buffer.h"
#include "server/engine/job.h"
#include "server/states/stored.h"

enum { LX_STATE_MADE_BY = 96, LX_MAX_STATE_REQUEST = 1 << 20 };

typedef struct lx_saved_state {
    uint64_t model_hash;
    int32_t n_layers;
    int64_t fixed_floats;           /* of a slot of the model, also when start.state is NULL */
    int64_t page_floats;            /* of a page of its growing part */
    uint64_t layout;                /* the model's state_hash; 0: of a version without it */
    lx_modality modality;           /* of the request */
    bool rules;                     /* of a line */
    const void *request;            /* the line's UTF-8, or the given values */
    size_t request_bytes;           /* at most LX_MAX_STATE_REQUEST */
    uint64_t seed;                  /* the sample's own number is start.first_sample */
    char made_by[LX_STATE_MADE_BY]; /* fingerprint of the server that made it */
    lx_job_start start;
    lx_stored stored; /* of a stored response: its front, without pointers. Else n_kept alone */
    void *memory;     /* of a state that was read: the pointers above point into it */
} lx_saved_state;

/* Appends the blob, signed with the key if that is not NULL. LX_ERR_NO_MEMORY or LX_ERR_TOO_LARGE
   of the buffer. */
lx_status lx_state_write(const lx_saved_state *s, const void *key, size_t key_bytes, lx_buffer *out,
                         lx_error *err) LX_MUST_USE;

/*
 * Reads and checks a blob, which lx_state_fini frees. LX_ERR_INVALID with param "state": it is no
 * state, cut off, of another version, damaged, or not signed with the key (NULL: none is needed).
 * lx_state_check checks that it fits a model.
 */
lx_status lx_state_read(const void *bytes, size_t n, const void *key, size_t key_bytes,
                        lx_saved_state *out, lx_error *err) LX_MUST_USE;
void lx_state_fini(lx_saved_state *s);
/* The state without its content, for answers that describe it: it points to nothing. */
lx_saved_state lx_state_facts(const lx_saved_state *s);

/* Fills the fields that states of this model have in common, but for made_by. */
void lx_state_describe(const lx_model *model, lx_saved_state *s);
/* Floats of start.state. */
int64_t lx_state_floats(const lx_saved_state *s);
/* Checks that the model made it: hash, layers, layout, numbers. LX_ERR_INVALID, param "state". */
lx_status lx_state_check(const lx_saved_state *s, const lx_model *model, lx_error *err) LX_MUST_USE;

/* The most bytes a blob of the model has. */
size_t lx_state_max_bytes(const lx_model *model);

#endif
