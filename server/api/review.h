/*
 * Reviews: after the job of a pool its best samples are scored once more (lx_task_pool.review), by
 * a job each with a known answer, and the choice counts these scores. The jobs belong to the
 * request: they share its turns, its deadline and its reserved bytes, and the limits of its key
 * have their tokens in from the start. The engine does not refuse them (lx_job_params: follows).
 *
 * Thread: the reader's, but for lx_review_cancel, which any thread may call at the same time.
 */
#ifndef LINNET_SERVER_API_REVIEW_H
#define LINNET_SERVER_API_REVIEW_H

#include <stdatomic.h>

#include "server/api/pending.h"

enum { LX_MOST_REVIEWED = 32 };

/* Of one prompt. Zeros at first, but for its first four members. */
typedef struct lx_review {
    lx_job *pool;     /* the pool's job, which outlives this */
    lx_job_wake wake; /* the reader's */
    void *wake_context;
    int32_t most;                           /* samples that get one, at most */
    int32_t n;                              /* jobs */
    bool begun;                             /* the pool has ended, and the jobs are submitted */
    int32_t samples[LX_MOST_REVIEWED];      /* [n] their numbers in the pool */
    lx_job *_Atomic jobs[LX_MOST_REVIEWED]; /* [n], owned */
    atomic_bool cancelled;
    lx_status status; /* why the jobs could not be submitted */
    lx_error err;
} lx_review;

/* The most bytes of so many reviews of samples with max_new tokens. */
int64_t lx_review_bytes(const lx_plan *plan, int32_t n_reviews, int32_t max_new);

/* Submits the jobs to the model of the request once the pool's job has ended. */
void lx_review_advance(lx_review *r, const lx_pending *pending);
bool lx_review_is_done(const lx_review *r);
/* Whether a job was cancelled that had not ended, so that the engine must look. */
bool lx_review_cancel(lx_review *r);
/* After it is done: LX_OK, or why there are no scores. */
lx_status lx_review_status(const lx_review *r, lx_error *err);
/* The times' end becomes that of the reviews. */
void lx_review_add_end(const lx_review *r, lx_job_times *times);
void lx_review_fini(lx_review *r);

/* The samples of a finished job as its task judges them, [n], for free(); NULL: no memory. */
lx_pool_sample *lx_review_samples(const lx_job *job, lx_error *err);
/* Notes the scores of the reviews with their samples. */
void lx_review_note(const lx_review *r, lx_pool_sample *samples);

#endif
