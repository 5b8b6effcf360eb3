/*
 * A state as bytes: everything needed to go on with an answer, on this server or another one that
 * serves the same model. docs/state-format.md has it byte by byte.
 *
 * Numbers are little-endian. The blob carries the request as the task read it (the upper line, the
 * given pixels), the tokens that followed, the random numbers' key, and the state in f32 as its
 * layers' mixers lay it out, guarded by a CRC-32C and, when the server has a key, an HMAC-SHA-256.
 */
#ifndef LINNET_SERVER_STATES_BLOB_H
#define LINNET_SERVER_STATES_BLOB_H

#include "common/buffer.h"
#include "server/engine/job.h"

enum { LX_STATE_MADE_BY = 96, LX_MAX_STATE_REQUEST = 1 << 20 };

typedef struct lx_saved_state {
    uint64_t model_hash;
    int32_t n_layers;
    int64_t fixed_floats;           /* of a slot of the model, also when start.state is NULL */
    int64_t page_floats;            /* of a page of its growing part */
    uint64_t layout;                /* the model's state_hash; 0: of a version without it */
    lx_modality modality;           /* what the request is */
    bool rules;                     /* of a line */
    const void *request;            /* the line's UTF-8, or the given values */
    size_t request_bytes;           /* at most LX_MAX_STATE_REQUEST */
    uint64_t seed;                  /* the sample's own number is start.first_sample */
    char made_by[LX_STATE_MADE_BY]; /* fingerprint of the server that made it */
    lx_job_start start;
    void *memory; /* of a state that was read: what the pointers above point into */
} lx_saved_state;

/* Appends the blob; key NULL: not signed. LX_ERR_NO_MEMORY or LX_ERR_TOO_LARGE of the buffer. */
lx_status lx_state_write(const lx_saved_state *s, const void *key, size_t key_bytes, lx_buffer *out,
                         lx_error *err) LX_MUST_USE;

/*
 * Reads and checks a blob. LX_ERR_INVALID with param "state" and what is wrong: not a state, cut
 * off, of another version, damaged, not signed with the key. A signature is not asked for when key
 * is NULL. That it fits a model is lx_state_check's business. Free with fini.
 */
lx_status lx_state_read(const void *bytes, size_t n, const void *key, size_t key_bytes,
                        lx_saved_state *out, lx_error *err) LX_MUST_USE;
void lx_state_fini(lx_saved_state *s);
/* What answers say of a state, without its content: it points to nothing. */
lx_saved_state lx_state_facts(const lx_saved_state *s);

/* What a state of this model says of it; made_by is left. */
void lx_state_describe(const lx_model *model, lx_saved_state *s);
/* Floats of start.state. */
int64_t lx_state_floats(const lx_saved_state *s);
/* Whether the model made it: hash, layers, layout, numbers. LX_ERR_INVALID with param "state". */
lx_status lx_state_check(const lx_saved_state *s, const lx_model *model, lx_error *err) LX_MUST_USE;

/* The most bytes a blob of the model has. */
size_t lx_state_max_bytes(const lx_model *model);

#endif
