/*
 * How linnet serve shares out the memory that it may take: of a container's limit, or of what the
 * machine has free.
 *
 * Each part has a maximum, and their sum with weights and program is less than the whole, so that
 * no load of requests that are allowed can pass it. What the operator chose stays as it is; where
 * that passes the whole, the log says so.
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
} lx_memory;

/* Pure functions, tested alone. */
lx_memory lx_memory_share(const lx_memory_wishes *w);
/* The bytes left for answers when the models are loaded: the process has `own` bytes, and slots and
   steps may take `held` more. */
int64_t lx_memory_answers(const lx_memory *m, int64_t own, int64_t held);
/* The number of states, at most `wanted`, that `kept` bytes allow: an empty state takes some, too.
 */
int64_t lx_memory_most_states(int64_t wanted, int64_t kept);
/* The sum of all parts then. */
int64_t lx_memory_sum(const lx_memory *m, int64_t own, int64_t held, int64_t answers);

/* Shares out the memory that is free now, before any thread is started. LX_ERR_INVALID where
   --body-memory is too little for one body that is allowed. */
lx_status lx_memory_plan(const lx_serve_options *o, lx_serving_options *serving, lx_memory *out,
                         lx_error *err) LX_MUST_USE;
/* With all models loaded: sets the budget of answers, and logs all parts. */
void lx_memory_settle(const lx_memory *m, lx_api *api);

#endif
