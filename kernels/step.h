/*
 * Steps of all back ends: the checks of a step's batch, the slots that keep its tokens, and the
 * lock by which the steps of several engines follow each other.
 */
#ifndef LINNET_KERNELS_STEP_H
#define LINNET_KERNELS_STEP_H

#include <pthread.h>

#include "kernels/objects.h"

#define LX_MAX_POSITION (1 << 30)
#define LX_MAX_ROWS (1 << 20) /* of a batch */

/*
 * `seen` remembers which slots a batch named, so that "distinct" costs one look per sequence; it
 * grows to the highest slot ever named.
 */
typedef struct lx_batch_seen {
    uint64_t *stamp; /* owned */
    int32_t n;
    uint64_t now;
} lx_batch_seen;

lx_status lx_batch_check(const lx_batch *batch, lx_batch_seen *seen, lx_error *err);

static inline int32_t lx_batch_rows(const lx_batch *batch, lx_rows rows)
{
    return rows == LX_ROWS_TOKENS ? batch->n_tokens : batch->n_outputs;
}

/* The slot that keeps output row i's token; -1 if a later output row of the sequence follows. Call
   it with ascending i; *seq is 0 for i = 0 and belongs to this function from then on. */
int32_t lx_batch_keeper(const lx_batch *b, int32_t i, int32_t *seq);

/*
 * A lock that threads get in the order of their requests. With a plain mutex, an engine that begins
 * its next step at once would shut the other engine out.
 */
typedef struct lx_turn {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t next, serving;
} lx_turn;

int lx_turn_init(lx_turn *t); /* 0 or an errno value */
void lx_turn_fini(lx_turn *t);
void lx_turn_take(lx_turn *t);
void lx_turn_give(lx_turn *t);

#endif
