/* What linnet eval has a model write: many answers at once, by the engine that serves them. */
#ifndef LINNET_SERVER_CLI_EVAL_ANSWERS_H
#define LINNET_SERVER_CLI_EVAL_ANSWERS_H

#include "server/cli/cli.h"
#include "server/engine/job.h"

typedef struct lx_eval_answers {
    int32_t n;                   /* answers, one sample each */
    lx_sampling_params sampling; /* the same for all */
    void *context;               /* of the two functions, which the calling thread calls */
    /* The plan of answer i, to its whole length; *out is the callee's caller's. */
    lx_status (*plan)(void *context, int32_t i, lx_plan **out, lx_error *err);
    /* Answer i, which is finished; in the order of i. */
    void (*judge)(void *context, int32_t i, const lx_job *job);
} lx_eval_answers;

/* Returns the first fault of a plan or a job. The model is open for LX_EVAL_ROWS rows. */
lx_status lx_eval_answer(const lx_cli_model *local, const lx_eval_answers *a,
                         lx_error *err) LX_MUST_USE;

#endif
