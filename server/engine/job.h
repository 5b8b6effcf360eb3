/*
 * A job is one request on its way through the engine, and the border between the HTTP threads and
 * the engine thread.
 *
 * An answer has n samples of at most max_new tokens, so a job holds room for all of it from the
 * start. The engine appends without waiting, a slow reader costs nothing, and no buffer overflows.
 *
 * The engine writes tokens and publishes their count. Readers read up to that count from any
 * thread. `wake` tells the reader that there is more. A job begins with one reference; the engine
 * holds another while it has the job.
 */
#ifndef LINNET_SERVER_ENGINE_JOB_H
#define LINNET_SERVER_ENGINE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/budget.h"
#include "common/client.h"
#include "model/tasks/task.h"
#include "server/engine/sampling.h"
#include "server/engine/stops.h"

typedef struct lx_job lx_job;

enum { LX_MAX_JOB_TOKENS = 1 << 24 };

/*
 * The beginning of all samples of a job. The state has absorbed the first `rows` input rows of the
 * plan. With a history these are all rows but the newest token's; without one, at most all rows of
 * the prompt but the last.
 */
typedef struct lx_job_start {
    int32_t n_tokens;      /* the history: tokens of the answer that are there already */
    const int32_t *tokens; /* [n_tokens], copied */
    int32_t rows;          /* n_prompt + n_tokens - 1, or 0 .. n_prompt - 1 without a history */
    const float *state;    /* lx_model_state_floats(rows) of them, copied; NULL when rows is 0 */
    uint32_t first_sample; /* the random numbers of sample i are those of first_sample + i */
} lx_job_start;

typedef struct lx_job_params {
    int32_t n; /* samples, 1 .. ; n * max_new <= LX_MAX_JOB_TOKENS */
    int32_t
        max_new; /* most tokens per sample, with its history, 1 .. plan->n_new; see keep_state */
    lx_sampling_params sampling; /* its seed is chosen */
    int64_t deadline_ns;         /* lx_now_ns() time at which the job fails with LX_ERR_TIMEOUT */
    /* When the job fails if it has no slot yet (LX_ERR_BUSY), or no token yet (LX_ERR_TIMEOUT).
       0: never. */
    int64_t queue_deadline_ns, first_deadline_ns;
    /* [n_targets], copied; NULL: generate. The first n_targets <= max_new tokens are these, and
       their log-probabilities are computed, many rows per step. Later tokens are generated. n is 1.
     */
    const int32_t *targets;
    int32_t n_targets;
    lx_job_start start;
    /* Keep the state with which each sample ends. Then n = 1 may ask for no new token, with max_new
       = start.n_tokens: the state is that before the first new token. */
    bool keep_state;
    /* With n = 1: lx_engine_suspend ends the job with its state, so that another server can
       continue it. With stops the job runs on until lx_job_may_suspend. */
    bool suspendable;
    int32_t n_biases;
    const lx_bias *biases; /* [n_biases], copied; as lx_sampling says */
    int32_t n_top;         /* likeliest ids that are kept with each token, 0 .. LX_MAX_TOP */
    const lx_stops *stops; /* copied, NULL: none; a sample ends with the token that completes one */
    lx_reserve *reserve;   /* held until the job is freed, NULL: none; see lx_job_bytes */
    lx_client client;      /* whose share of the slots it uses */
    /* The first job of the same request, with which the job shares its turns. NULL: this one. */
    lx_job *first;
    /* The job completes a request whose first job has ended, so the engine does not refuse it as
       new work: it takes the job while it drains and beyond the bound of its queue. The prompt is
       the server's own, so its states are not kept for other prompts. */
    bool follows;
} lx_job_params;

/*
 * Called by the engine thread after it published tokens or the end; must not block.
 *   - at most once per step;
 *   - always for the end, for tokens only when those are there that the reader wants (lx_job_want);
 *   - never after lx_job_detach has returned.
 */
typedef void (*lx_job_wake)(void *context);

typedef struct lx_job_times { /* lx_now_ns(), 0 = not yet */
    int64_t submitted, started, first_token, finished;
    int64_t last_token; /* of the sample that ended last */
    /* How many steps the engine had done at three of these. */
    uint64_t submitted_step, started_step, finished_step;
} lx_job_times;

/* Input rows that a sample's state has absorbed at its end: all but its last token's. */
int64_t lx_job_rows(const lx_plan *plan, const lx_job_params *params);
/* The most bytes that lx_job_new allocates with these params, and those of the plan. */
int64_t lx_job_bytes(const lx_plan *plan, const lx_job_params *params);

/* Takes the plan, also when it fails. LX_ERR_INVALID names the field of the params that does not
   fit the plan. wake may be NULL (poll or lx_job_wait). */
lx_status lx_job_new(lx_plan *plan, const lx_job_params *params, lx_job_wake wake, void *context,
                     lx_job **out, lx_error *err) LX_MUST_USE;
void lx_job_ref(lx_job *job);
void lx_job_unref(lx_job *job); /* NULL is allowed */

/* --- reader's side, any thread --- */
const lx_plan *lx_job_plan(const lx_job *job);
const lx_job_params *lx_job_get_params(const lx_job *job);
/* How many tokens of sample i are published, with its history, whose log-probabilities are NAN.
 *tokens and *logprobs (each may be NULL) point at that many. */
int32_t lx_job_tokens(const lx_job *job, int32_t i, const int32_t **tokens, const float **logprobs);
/* No wake for sample i before it has `count` tokens (one may still come). At first 1; it may only
   grow; one reader per job. */
void lx_job_want(lx_job *job, int32_t i, int32_t count);
/* [tokens published, n_top] the likeliest ids instead of each token; NULL with n_top 0. */
const lx_sample *lx_job_top(const lx_job *job, int32_t i);
/* Whether sample i gets no more tokens. If true, a later lx_job_tokens has all. */
bool lx_job_sample_ended(const lx_job *job, int32_t i);
bool lx_job_finished(const lx_job *job); /* all published; status and times are final */
lx_status lx_job_status(const lx_job *job, lx_error *err); /* after lx_job_finished */
lx_job_times lx_job_get_times(const lx_job *job);
/* Prompt rows that were not computed because another prompt began alike; 0 before the start. */
int32_t lx_job_cached_rows(const lx_job *job);
/* Rows of the longest beginning of the prompt whose state was kept for later jobs, 0: none. */
int32_t lx_job_kept_rows(const lx_job *job);
/* Tokens that were guessed so far, and how many of them were drawn. */
void lx_job_drafted(const lx_job *job, int64_t *drafted, int64_t *accepted);
/* Asks the engine to stop; the job finishes with LX_ERR_CANCELLED unless it had finished. */
void lx_job_cancel(lx_job *job);
bool lx_job_cancelled(const lx_job *job);
/* After return `wake` does not run and is not called again. Not to be called from wake, nor with a
   lock held that wake takes. */
void lx_job_detach(lx_job *job);
/* Blocks until finished; for the command line and tests. */
void lx_job_wait(lx_job *job);
/* Order of samples by mean log-probability, best first: order[n]. After lx_job_finished. */
void lx_job_rank(const lx_job *job, int32_t *order);
float lx_job_mean_logprob(const lx_job *job, int32_t i); /* of the new tokens */
/* After lx_job_finished: the kept state of sample i and the rows that it has absorbed, or NULL and
   0. The job's own. */
const float *lx_job_state(const lx_job *job, int32_t i, int32_t *rows);
/* After lx_job_finished: whether it was suspended and continues from its tokens and state. */
bool lx_job_suspended(const lx_job *job);

/* --- engine's side, the engine thread only --- */
typedef enum lx_job_event { LX_JOB_SUBMITTED, LX_JOB_STARTED, LX_JOB_ENDED } lx_job_event;
/* Notes the time of an event and the number of steps done by then; the time of the end is noted by
   lx_job_finish, which comes later. */
void lx_job_mark(lx_job *job, lx_job_event event, uint64_t step);
/* A note of the engine about the request, shared by all of its jobs; -1 at first. */
int32_t *lx_job_request_note(lx_job *job);
/* Biases and penalties for the logits of sample i's next token: *n, valid until the next push. */
const lx_bias *lx_job_biases(const lx_job *job, int32_t i, int32_t *n);
/* Whether these depend on the tokens. */
bool lx_job_penalizes(const lx_job_params *params);
/* Room for the likeliest ids of token `step`, filled before its push; NULL with n_top 0. */
lx_sample *lx_job_top_room(lx_job *job, int32_t i, int32_t step);
/* Writes a deferred token or a guess as token `step` until its push; readers do not see it. */
void lx_job_expect(lx_job *job, int32_t i, int32_t step, int32_t stand_in);
/* True when the reader is to be woken. */
bool lx_job_push(lx_job *job, int32_t i, int32_t token, float logprob);
void lx_job_count_drafted(lx_job *job, int32_t drafted, int32_t accepted); /* see lx_job_drafted */
void lx_job_mark_cached(lx_job *job, int32_t rows); /* see lx_job_cached_rows; before it started */
void lx_job_mark_kept(lx_job *job, int32_t rows);   /* see lx_job_kept_rows; ascending */
/* Room for the state of sample i after so many rows; NULL when none is kept. */
float *lx_job_state_room(lx_job *job, int32_t i, int32_t rows);
/* Whether no stop string may have begun at the end of its text. n is 1. */
bool lx_job_may_suspend(lx_job *job);
void lx_job_mark_suspended(lx_job *job);                                /* before it is finished */
void lx_job_finish(lx_job *job, lx_status status, const lx_error *err); /* also publishes */
void lx_job_notify(lx_job *job); /* calls wake once, if attached */

#endif
