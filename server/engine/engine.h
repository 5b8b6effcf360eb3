/*
 * Continuous batching: one thread owns a transformer and its slots. Requests join and leave the
 * batch at every step.
 *
 * Each turn the thread ends cancelled and late jobs and gives slots to waiting samples. The
 * scheduler chooses the rows of the next step; the thread starts that step, and hands tokens to
 * jobs. A job with n samples computes its prompt once; each sample starts from a copy of the state
 * before the prompt's last row. n may exceed n_slots. Where there are more samples than slots in a
 * step, they take turns (scheduler.h), and each keeps its state in its slot meanwhile.
 *
 * With `ahead` a step is started before the tokens of earlier steps are read. A sample whose next
 * input follows from its own tokens alone (lx_plan.runs_ahead, no stop strings) reads them on the
 * device. Tokens reach their jobs, and cancelled jobs end, at most that many steps later. Answers
 * have the same bytes.
 */
#ifndef LINNET_SERVER_ENGINE_ENGINE_H
#define LINNET_SERVER_ENGINE_ENGINE_H

#include "model/transformer.h"
#include "server/engine/job.h"
#include "server/engine/metrics.h"
#include "server/engine/prefix_place.h"

typedef struct lx_engine lx_engine;

typedef struct lx_engine_options {
    int32_t n_slots;        /* slots that a step computes rows of, >= 1 */
    int32_t n_spare;        /* spare slots, for samples that miss steps; 0: as lx_fair_spare says */
    int32_t max_queue;      /* jobs that wait or take turns while all slots are in use, >= 0 */
    int32_t max_tokens;     /* rows per step, >= n_slots */
    int32_t prompt_chunk;   /* prompt rows per slot and step, >= 1 */
    int32_t prompt_beside;  /* see lx_schedule_limits, >= 1 */
    int64_t page_bytes;     /* of the pool that growing states share, 0: for all slots */
    int64_t prefix_bytes;   /* of states kept for prompts that begin alike, 0: none */
    int32_t prefix_every;   /* prompt rows from one kept state to the next; 0: see prefix.c */
    bool share_prefixes;    /* kept states and lessons of drafts serve all clients */
    lx_prefix_place *place; /* where kept states outlive the process; NULL: nowhere */
    int64_t move_bytes;     /* a state of so many bytes is copied during steps, 0: 1 MiB */
    int64_t probe_ns;       /* idle for so long, the engine computes one row as a probe; 0: never */
    int32_t ahead;          /* steps started before the oldest result is read, <= LX_MAX_AHEAD */
    int32_t draft;          /* guesses per sample and step, <= LX_MAX_DRAFT */
    const struct lx_guesser *guesser; /* NULL: the guesser for the model's task */
} lx_engine_options;

/* Models whose states have no place for guesses (lx_model_can_guess) guess nothing; nor do runs
   that go ahead. */
enum { LX_MAX_DRAFT = 32, LX_MAX_AHEAD = LX_DRAWN - 1 };

/* The best `ahead` on this back end: 2 on a device, so that it never waits for work; 0 on the
   processor that also reads the results. */
int32_t lx_engine_best_ahead(const lx_backend *be);
/* `wanted` guesses; -1: the best number here, which is 0 on a device, as runs go ahead there. */
int32_t lx_engine_draft_of(int64_t wanted, const lx_backend *be);
/* The most second slots of drafts; 0 for a model that cannot guess, few where states are large. An
   engine has at most half as many as slots. */
int32_t lx_engine_most_drafts(const lx_model *m, int32_t draft);

/* Starts the engine's thread. Takes nothing: transformer and metrics must outlive the engine. The
   transformer allows max_tokens rows and as many output rows (a scored job's). */
lx_status lx_engine_start(lx_transformer *t, const lx_engine_options *options, lx_metrics *metrics,
                          lx_engine **out, lx_error *err) LX_MUST_USE;

/* Queues a job; the engine takes a reference. LX_ERR_BUSY when the queue is full,
   LX_ERR_UNAVAILABLE when draining, LX_ERR_DEVICE when not healthy. A job that follows another
   (lx_job_params) is queued when draining, and finds a queue of twice the length. Any thread; waits
   for no step. */
lx_status lx_engine_submit(lx_engine *e, lx_job *job, lx_error *err) LX_MUST_USE;

/* Wakes the engine, so that it sees a cancelled job at once and not only in its next turn. Any
   thread. */
void lx_engine_poke(lx_engine *e);

/* Refuses new jobs from now on. */
void lx_engine_drain(lx_engine *e);
/* Suspends every job that allows it, queued and later ones too: the job ends with
   LX_ERR_UNAVAILABLE and, if it had begun, its state (lx_job_suspended). */
void lx_engine_suspend(lx_engine *e);
/* Jobs that are queued or running, without those that follow another. */
int64_t lx_engine_jobs(const lx_engine *e);
/* True when no job is queued or running. */
bool lx_engine_idle(lx_engine *e);
/* Ends the thread and frees the engine. Its jobs end with LX_ERR_UNAVAILABLE. NULL is allowed. */
void lx_engine_stop(lx_engine *e);

/* For Retry-After: the time of all steps that the jobs need, in whole seconds, at least 1. */
int32_t lx_engine_retry_after_s(const lx_engine *e);
/* Seconds until a job sent now would begin: that time, or 0 while a slot is free and no job waits.
 */
double lx_engine_wait_s(const lx_engine *e);
/* Mean time of a step and of the pause before it while there is work, 0 before the first. */
double lx_engine_step_s(const lx_engine *e);
/* lx_now_ns() of the newest completed step or probe, at first of the engine's start. */
int64_t lx_engine_last_step_ns(const lx_engine *e);
/* False once the device failed; every later submit is refused. */
bool lx_engine_healthy(const lx_engine *e);

#endif
