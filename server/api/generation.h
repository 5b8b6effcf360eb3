/*
 * One request's job: made from a plan, submitted, followed to its end, counted. The common part of
 * completions, images and scores. Each embeds an lx_work as the FIRST member of its own struct, so
 * that lx_work_advance, _is_done and _cancel serve as callbacks of its lx_deferred.
 */
#ifndef LINNET_SERVER_API_GENERATION_H
#define LINNET_SERVER_API_GENERATION_H

#include "server/api/pending.h"
#include "server/api/review.h"
#include "server/api/state_flow.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

/* The number of tokens and the way to choose them; fields that a request leaves out are zero. */
typedef struct lx_work_params {
    int32_t n;       /* samples, at least 1 */
    int32_t max_new; /* tokens per sample, 0 or too large: the whole answer */
    lx_sampling_params sampling;
    int64_t timeout_ms; /* 0: the server's; never longer than that */
    /* see lx_job_params; only read by lx_work_start */
    const int32_t *targets;
    const lx_bias *biases;
    const lx_stops *stops;
    int32_t n_biases, n_top;
    const lx_saved_state
        *from; /* the state to continue from, NULL: none; read by lx_work_start only */
    const lx_saved_state *ahead; /* with `from` NULL: of the first start.rows rows of the prompt;
                                    NULL: none; read by lx_work_start only */
    bool return_state;           /* keep the state of every sample in the store */
    bool kept_twice;             /* in two objects */
    bool state_only;             /* with it and n = 1: no new token */
    bool prompt_only;            /* with a plan that is scored: no new token */
    const char *suspend;         /* with n = 1: may end with its state when the server stops; see
                                    lx_completion_params */
    lx_reserve *reserve;         /* memory for it and its answer; every user takes a reference */
    lx_job *first;               /* the first job of the same request; NULL: this one */
    lx_key_load load;            /* of all jobs of the request, which the first one takes */
    int32_t n_reviews;           /* samples that get a review: see review.h */
    const lx_json_notes *notes;  /* of lx_work_defer's request, copied; NULL: none */
} lx_work_params;

typedef struct lx_work {
    lx_pending pending;
    lx_job *job;
    const lx_job_params *params; /* the job's */
    int64_t created;             /* Unix time */
    int64_t deadline_ns;         /* by which the client must have read it all */
    bool return_state, keeping, kept;
    const char *suspend; /* as in the params; static */
    lx_state_saver saver;
    lx_review *review;    /* owned; NULL: none */
    lx_json_notes *notes; /* owned; NULL: none */
    lx_request rq;        /* of it only wake, owner and facts; valid until the answer is released */
    bool noted;           /* its tokens are in the facts of the request */
} lx_work;

/* Notes those of these fields that a request sets and that the task does not read. */
void lx_note_unread(const lx_task_ops *task, bool rules, bool normalize, lx_json_notes *notes);

/* The plan for a request; a fault is counted and described in *err. */
lx_status lx_work_plan(lx_served_model *served, const lx_task_request *request, lx_plan **out,
                       lx_error *err) LX_MUST_USE;

/* For a request that continues from a state of the model. */
lx_status lx_work_plan_from(lx_served_model *served, const lx_saved_state *from, bool ignore_end,
                            lx_plan **out, lx_error *err) LX_MUST_USE;

/* The most bytes that the plans' jobs may take, with the states they write to the store. */
int64_t lx_work_bytes(const lx_api *api, lx_plan *const *plans, int32_t n_plans,
                      const lx_work_params *p);
/* lx_pending_reserve, whose failure is counted. */
lx_status lx_work_reserve(lx_api *api, lx_served_model *served, int64_t bytes, const char *param,
                          lx_reserve **out, int32_t *retry_after_s, lx_error *err) LX_MUST_USE;

/* New tokens of a sample of the plan, at most. */
int32_t lx_work_new_tokens(const lx_work_params *p, const lx_plan *plan);

/* Fills in the load of a request with these plans, but for the names of fields. */
void lx_work_set_load(lx_work_params *p, lx_plan *const *plans, int32_t n_plans);

/* Where no seed was given: that of the state it continues from, or a random one. For
   several jobs that share it; lx_work_start does it for one. */
void lx_work_choose_seed(lx_work_params *p);

/* Submits a job for the plan, which is taken in any case; rq->wake is called as it proceeds. A
   failure is counted, and *w needs no fini after it. When the queue is full (LX_ERR_BUSY), or the
   key over a limit (LX_ERR_LIMIT), *retry_after_s is when to try again. */
lx_status lx_work_start(lx_work *w, lx_api *api, lx_served_model *served, lx_plan *plan,
                        const lx_work_params *p, const lx_request *rq, int32_t *retry_after_s,
                        lx_error *err) LX_MUST_USE;

/* As above, with the whole memory of a deferred answer of answer_bytes reserved here: `finish` gets
   the work, which is freed after it. A fault is answered. */
void lx_work_defer(lx_api *api, lx_served_model *served, lx_plan *plan, const lx_work_params *p,
                   int64_t answer_bytes, const lx_request *rq,
                   void (*finish)(void *work, lx_response *rs), lx_response *rs);
/* No wake comes after it. */
void lx_work_fini(lx_work *w);

/* advance, is_done and cancel of lx_deferred; context is a struct that begins with an lx_work.
   Advancing begins to keep the states that the answer promises, once it is complete, and sees how
   far the store is. The work is done when the answer is complete and its states are kept. */
void lx_work_advance(void *context);
bool lx_work_is_done(const void *context);
void lx_work_cancel(void *context);
/* For a reader of the whole answer: new tokens wake it no longer, only the end does. */
void lx_work_await_end(lx_work *w);

/* Notes how the request ended in the metrics; the first call counts, and is true. */
bool lx_work_count(lx_work *w, lx_status status);

/* How the job ended, in words for the client. After it is done. */
lx_status lx_work_status(const lx_work *w, lx_error *err);
/* Of several that are one request: the first fault. The tokens of all are noted for the log. */
lx_status lx_works_status(lx_work *works, int32_t n, lx_error *err);

/* Whether the answer was ended early because the server stops, and its state is in the store. */
bool lx_work_suspended(const lx_work *w);

/* New tokens of all samples so far. */
int64_t lx_work_tokens(const lx_work *w);
/* Rows that stand before the first new token: the prompt's, and those of a history. */
int64_t lx_work_prompt_rows(const lx_work *w);
lx_json_timings lx_work_timings(const lx_work *w);
/* Of several that are one request: from the first's start to the last's end. */
lx_json_timings lx_works_timings(const lx_work *works, int32_t n);
/* A JSON list of the states that these kept, NULL when the answer lists none; in
 *text, which is initialised by the call and freed by the caller. `chosen` [n, n_chosen] has the
   samples of the choices: a state has the index of its choice, and states of other samples have the
   indices after these. With n_chosen 0 the samples are the choices. */
const char *lx_works_states(const lx_work *works, int32_t n, const int32_t *chosen,
                            int32_t n_chosen, lx_buffer *text);
/* How many of these states are not in the store. */
int32_t lx_works_unkept(const lx_work *works, int32_t n);

#endif
