/*
 * How linnet serve shares out the memory that it may take: a container's limit, or the machine's
 * free memory.
 *
 * Each part has a maximum, and their sum with weights and program is less than the whole, so that
 * no load of requests that are allowed can pass it. The operator's choices stay as they are; where
 * they pass the whole, the log says so.
 */
#ifndef LINNET_SERVER_CLI_MEMORY_H
#define LINNET_SERVER_CLI_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "server/api/api.h"
#include "server/cli/serve_options.h"

/* Bytes; 0 where nothing is asked for. */
typedef struct lx_memory_wishes {
    int64_t whole;   /* that this process may have in all */
    int64_t weights; /* as large as their files */
    int64_t answers, bodies, kept;
    int64_t one_body; /* most bytes that one body needs */
    int64_t prefixes; /* of all models */
    int32_t connections;
    bool tls;            /* connections are encrypted */
    bool kept_elsewhere; /* states are kept by another process */
} lx_memory_wishes;

typedef struct lx_memory {
    int64_t whole;
    int64_t states;   /* of all models' slots and steps */
    int64_t prefixes; /* states of prompts */
    int64_t kept;     /* of the store in memory, or of buffers on the way to another one */
    int64_t store; /* the limit of the store: that, or the blobs that answers may have under way */
    int64_t answers, bodies;
    int32_t connections;
    int64_t connection;  /* most bytes of one connection */
    bool chosen_answers; /* by the operator */
    /* Of lx_memory_settle; its thread only. */
    _Atomic int64_t *limit; /* of answers, which it sets */
    bool settled;
    int64_t own, weights; /* bytes of the process at its start, and of its models' weights then */
    int64_t models;       /* what program and models came to when it was last settled */
} lx_memory;

/* Pure functions, tested alone. */
lx_memory lx_memory_share(const lx_memory_wishes *w);
/* The bytes left for answers when the models are loaded: the process has `own` bytes, and slots and
   steps may take `held` more. */
int64_t lx_memory_answers(const lx_memory *m, int64_t own, int64_t held);
/* The number of states, at most `wanted`, that `kept` bytes allow: an empty state takes some, too.
 */
int64_t lx_memory_most_states(int64_t wanted, int64_t kept);
/* The memory of program and weights with so many bytes of weights. */
int64_t lx_memory_own(const lx_memory *m, int64_t weights);
/* The sum of all parts then. */
int64_t lx_memory_sum(const lx_memory *m, int64_t own, int64_t held, int64_t answers);

/* Shares out the memory that is free now, before any thread is started. LX_ERR_INVALID where
   --body-memory is too little for one body that is allowed. */
lx_status lx_memory_plan(const lx_serve_options *o, lx_serving_options *serving, lx_memory *out,
                         lx_error *err) LX_MUST_USE;
/* For lx_serving_options; `memory` is a lx_memory. */
lx_status lx_memory_has_room(void *memory, int64_t weights, lx_error *err) LX_MUST_USE;
/* Sets the budget of answers and logs all parts. LX_ERR_TOO_LARGE where a reload's models need more
   than those before and the sum is more than the whole: then nothing is changed. */
lx_status lx_memory_settle(void *memory, const lx_serving_bytes *all, lx_error *err) LX_MUST_USE;

#endif
