/* How the tokens of a request are chosen: read once, and passed on unchanged down to the job. */
#ifndef LINNET_SERVER_ENGINE_SAMPLING_H
#define LINNET_SERVER_ENGINE_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "model/tasks/task.h"

/* Seeds stay below 2^53, so that a client that reads numbers as doubles gets them exactly. */
#define LX_MAX_SEED ((INT64_C(1) << 53) - 1)

typedef struct lx_sampling_params {
    double temperature;
    lx_temperatures
        temperatures; /* of the samples of a pool, in turns, in the place of temperature */
    double top_p;
    /* On tokens of the answer (server/engine/penalties.h); 0: none. A run with a penalty waits for
       every token before it draws the next. */
    double frequency_penalty, presence_penalty;
    double repetition_penalty; /* on tokens of answer and prompt; 0 or 1: none */
    double min_p, typical_p;   /* see lx_sampling (kernels/ops/sample/op.h); 0: none */
    int32_t top_k;             /* 0: no limit */
    bool has_seed;             /* false: none is chosen yet, as before a request becomes a job */
    int64_t seed;              /* 0 .. LX_MAX_SEED */
    bool no_draft;             /* no token is guessed before it is drawn: slower, the same answer */
} lx_sampling_params;

/* Whether repetition_penalty says anything. */
static inline bool lx_sampling_repeats(const lx_sampling_params *s)
{
    return s->repetition_penalty != 0 && s->repetition_penalty != 1;
}

#endif
