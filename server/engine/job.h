/*
 * A job is one request on its way through the engine, and the border between the HTTP threads and
 * the engine thread.
 *
 * The size of an answer is known before it is made (n samples of at most max_new tokens), so a job
 * holds room for all of it from the start: the engine appends without ever waiting, a slow reader
 * costs nothing, and there is no buffer that could overflow.
 *
 * The engine writes tokens and publishes their count; readers read up to that count from any
 * thread, each with its own cursor. `wake` tells the reader that there is more. References: created
 * with one; the engine takes one more while the job is with it.
 */
#ifndef LINNET_SERVER_ENGINE_JOB_H
#define LINNET_SERVER_ENGINE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/budget.h"
#include "common/client.h"
#include "model/tasks/task.h"
#include "server/engine/penalties.h"
#include "server/engine/sampling.h"
#include "server/engine/stops.h"

typedef struct lx_job lx_job;

enum { LX_MAX_JOB_TOKENS = 1 << 24 };

/*
 * Where a job begins that goes on from a state instead of from nothing. All samples begin there.
 * The state has seen the first `rows` input rows of the plan: with a history all of the prompt's
 * and those of every token but the newest, without one at most all of the prompt's but the last.
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
    /* tokens a sample with its history, 1 .. plan->n_new, at most where the task says when one
       ends; see keep_state */
    int32_t max_new;
    lx_sampling_params sampling; /* its seed is chosen */
    int64_t deadline_ns;         /* lx_now_ns() time at which the job fails with LX_ERR_TIMEOUT */
    /* The same for a job that has no slot by then (LX_ERR_BUSY, as nothing was computed), and for
       one that has no token by then (LX_ERR_TIMEOUT). 0: none. */
    int64_t queue_deadline_ns, first_deadline_ns;
    /* [n_targets], copied; NULL: generate. The first n_targets <= max_new tokens are these: they
       are scored, their log-probabilities come from the same forward pass, many rows per step. What
       follows is generated. n is 1. */
    const int32_t *targets;
    int32_t n_targets;
    lx_job_start start;
    /* Keep the state each sample ends with. Then n = 1 may also ask for no new token at all,
       max_new = start.n_tokens: what comes back is the state that its first one would start from.
     */
    bool keep_state;
    /* With n = 1: lx_engine_suspend ends it with its state, so that another server can continue it.
       With stops it runs on until lx_job_may_suspend, for at most the tokens of the longest stop
       string. */
    bool suspendable;
    int32_t n_biases;
    const lx_bias *biases; /* [n_biases], copied; as lx_sampling says */
    int32_t n_top;         /* likeliest ids that are kept beside each token, 0 .. LX_MAX_TOP */
    const lx_stops *stops; /* copied, NULL: none; a sample ends with the token that completes one */
    lx_reserve *reserve;   /* held until the job is freed, NULL: none; see lx_job_bytes */
    lx_client client;      /* whose share of the slots it uses */
    /* The first job of the same request, of the same engine: they share as one. NULL: this one. */
    lx_job *first;
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
/* The most bytes a job of these params has, its plan included: what lx_job_new allocates. */
int64_t lx_job_bytes(const lx_plan *plan, const lx_job_params *params);

/* Whether the plan can be worked on with these params: LX_ERR_INVALID names the one at fault. */
lx_status lx_job_check(const lx_plan *plan, const lx_job_params *params, lx_error *err) LX_MUST_USE;

/* Checks the params. Takes the plan, also when it fails. wake may be NULL (poll or lx_job_wait). */
lx_status lx_job_new(lx_plan *plan, const lx_job_params *params, lx_job_wake wake, void *context,
                     lx_job **out, lx_error *err) LX_MUST_USE;
void lx_job_ref(lx_job *job);
void lx_job_unref(lx_job *job); /* NULL is allowed */

/* --- reader's side, any thread --- */
const lx_plan *lx_job_plan(const lx_job *job);
const lx_job_params *lx_job_get_params(const lx_job *job);
/* Tokens of sample i published so far, its history included (whose log-probabilities are NAN);
 * *tokens, *logprobs (each may be NULL) point at that many. */
int32_t lx_job_tokens(const lx_job *job, int32_t i, const int32_t **tokens, const float **logprobs);
/* The reader has nothing to do for sample i until `count` tokens of it are there: no wake before
   that (one may still be on its way). Initially 1; it may only grow; one reader per job. */
void lx_job_want(lx_job *job, int32_t i, int32_t count);
/* [tokens published so far, n_top] the likeliest ids in each token's place; NULL with n_top 0. */
const lx_sample *lx_job_top(const lx_job *job, int32_t i);
/* Whether sample i gets no more tokens. True: what lx_job_tokens says afterwards is all. */
bool lx_job_sample_ended(const lx_job *job, int32_t i);
bool lx_job_finished(const lx_job *job); /* all published; status and times are final */
lx_status lx_job_status(const lx_job *job, lx_error *err); /* after lx_job_finished */
lx_job_times lx_job_get_times(const lx_job *job);
/* Prompt rows that were not computed because another prompt began with them; 0 before it started.
 */
int32_t lx_job_cached_rows(const lx_job *job);
/* Tokens that were guessed so far, and how many of them were drawn. */
void lx_job_drafted(const lx_job *job, int64_t *drafted, int64_t *accepted);
/* Asks the engine to stop; the job finishes with LX_ERR_CANCELLED unless it had finished. */
void lx_job_cancel(lx_job *job);
bool lx_job_cancelled(const lx_job *job);
/* After return `wake` is not running and will not be called again. Not to be called from wake, nor
   with a lock held that wake takes. */
void lx_job_detach(lx_job *job);
/* Blocks until finished; for the command line and tests. */
void lx_job_wait(lx_job *job);
/* Order of samples by mean log-probability, best first: order[n]. After lx_job_finished. */
void lx_job_rank(const lx_job *job, int32_t *order);
float lx_job_mean_logprob(const lx_job *job, int32_t i); /* of the new tokens */
/* After lx_job_finished: the state of sample i and the rows it has seen; NULL when none was kept,
   or it has seen none (*rows 0). The job's own. */
const float *lx_job_state(const lx_job *job, int32_t i, int32_t *rows);
/* Whether it was suspended: its tokens and state are where it continues. After lx_job_finished. */
bool lx_job_suspended(const lx_job *job);

/* --- engine's side, the engine thread only --- */
/* By lx_engine_submit, before the engine sees it. `step`, here and below: the steps done so far. */
void lx_job_mark_submitted(lx_job *job, uint64_t step);
/* A place for a note of the engine about the request, shared by all of its jobs; -1 at first. */
int32_t *lx_job_request_note(lx_job *job);
/* What is added to logits before sample i's next token: its biases, with the penalties on what it
   has. *n of them, valid until the next push. */
const lx_bias *lx_job_biases(const lx_job *job, int32_t i, int32_t *n);
/* Whether that depends on the tokens. */
bool lx_job_penalizes(const lx_job_params *params);
/* What the penalties of such params are given. */
lx_penalties_params lx_job_penalties(const lx_plan *plan, const lx_job_params *params);
/* Room for the likeliest ids beside token `step`, filled before it is pushed; NULL with n_top 0. */
lx_sample *lx_job_top_room(lx_job *job, int32_t i, int32_t step);
/* Writes a deferred token or a guess in the place of token `step`, until that is pushed; readers
   do not see it. */
void lx_job_expect(lx_job *job, int32_t i, int32_t step, int32_t stand_in);
/* True when the reader is to be woken. */
bool lx_job_push(lx_job *job, int32_t i, int32_t token, float logprob);
void lx_job_mark_started(lx_job *job, uint64_t step);
void lx_job_mark_ended(lx_job *job, uint64_t step); /* before it is finished */
void lx_job_count_drafted(lx_job *job, int32_t drafted, int32_t accepted); /* see lx_job_drafted */
void lx_job_mark_cached(lx_job *job, int32_t rows); /* see lx_job_cached_rows; before it started */
/* Where to write the state of sample i that has seen so many rows; NULL when none is kept. */
float *lx_job_state_room(lx_job *job, int32_t i, int32_t rows);
/* Whether its text so far is final: none of it can become part of a stop string with what follows.
 * For lx_engine_suspend; n is 1. */
bool lx_job_may_suspend(lx_job *job);
void lx_job_mark_suspended(lx_job *job);                                /* before it is finished */
void lx_job_finish(lx_job *job, lx_status status, const lx_error *err); /* also publishes */
void lx_job_notify(lx_job *job); /* calls wake once, if attached */

#endif
