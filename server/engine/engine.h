/*
 * Continuous batching: one thread that owns a transformer and its slots.
 *
 * Each turn it drops cancelled and late jobs in every phase, gives slots to waiting samples,
 * asks the scheduler for the next ragged batch, runs one step and hands the tokens to their jobs.
 * A job with n samples computes its prompt once: all rows but the last, then every sample starts
 * from a copy of that state with the prompt's last row as its first input. Samples wait beside that
 * state until they may start, so n may exceed n_slots, and all slots generate.
 *
 * A step computes rows of at most n_slots samples, but there are more slots, spare ones. So a new
 * request begins in the next step, and where there are more samples than slots they take turns:
 * slots are shared by the clients' weights, and within a client by its requests alike (fair.h). A
 * sample that misses a step keeps its state where it is, so taking turns costs nothing and changes
 * no byte.
 *
 * With `ahead` (the depth of the pipeline), a step is started before the tokens of those before it
 * are read: a sample whose next input nothing but its own tokens decides (lx_plan.runs_ahead, no
 * stop strings) feeds them back on the device. So tokens reach their jobs, and cancelled jobs end,
 * at most that many steps late; how many tokens a sample gets is known, so no step is wasted, and
 * no answer changes.
 *
 * submit() reserves a slot or a place in a bounded queue, or refuses; nothing is computed before.
 */
#ifndef LINNET_SERVER_ENGINE_ENGINE_H
#define LINNET_SERVER_ENGINE_ENGINE_H

#include "model/transformer.h"
#include "server/engine/job.h"
#include "server/engine/metrics.h"

typedef struct lx_engine lx_engine;

typedef struct lx_engine_options {
    int32_t n_slots;       /* slots that a step computes rows of, >= 1 */
    int32_t n_spare;       /* more slots, of samples that miss steps; 0: as lx_fair_spare says */
    int32_t max_queue;     /* jobs that wait or take turns while all slots are in use, >= 0 */
    int32_t max_tokens;    /* rows per step, >= n_slots */
    int32_t prompt_chunk;  /* prompt rows a slot and step, >= 1 */
    int32_t prompt_beside; /* see scheduler.h, >= 1 */
    int64_t page_bytes;    /* of the pool that growing states share, 0: what all slots can use */
    int64_t prefix_bytes;  /* of states kept for prompts that begin alike, 0: none */
    int32_t prefix_every;  /* also keep one every so many prompt rows, 0: at ends, branches, and
    every  prompt_chunk rows where prompts go on from answers */
    /* Clients use what others' requests have left: kept states, and the lessons of drafts.
       Otherwise a key's requests use their own only. */
    bool share_prefixes;
    int64_t move_bytes; /* a state of so many bytes is copied in and out beside steps, 0: 1 MiB */
    int64_t probe_ns;   /* idle for so long, it computes one row to see that it can; 0: never */
    int32_t ahead;      /* steps started before the results of one are read, 0 .. LX_MAX_AHEAD */
    int32_t draft;      /* tokens that are guessed of a sample in a step, 0 .. LX_MAX_DRAFT */
    const struct lx_guesser *guesser; /* by what; NULL: the one for what the model makes */
} lx_engine_options;

/* Guesses of a sample in a step. A model whose states cannot branch has none, whatever is asked
   for; a run that goes ahead has none either. */
enum { LX_MAX_DRAFT = 32 };

/* The most steps that may be under way before a step, their tokens unread. */
enum { LX_MAX_AHEAD = LX_DRAWN - 1 };

/* The best depth on this back end: 2 where steps run on a device of their own, so that it is never
   without work; 0 where they run on the processor that would read the results. */
int32_t lx_engine_best_ahead(const lx_backend *be);
/* `wanted` guesses, or with -1 what is best here: on a device, which goes ahead, none. */
int32_t lx_engine_draft_of(int64_t wanted, const lx_backend *be);
/* The most second states that samples which guess may have, 0 of a model that cannot: few where
   states are large. An engine makes at most half as many as it has slots. */
int32_t lx_engine_most_drafts(const lx_model *m, int32_t draft);

/* Starts the engine's thread. Takes nothing: transformer and metrics must outlive the engine. The
   transformer allows max_tokens rows and as many output rows (a scored job's). */
lx_status lx_engine_start(lx_transformer *t, const lx_engine_options *options, lx_metrics *metrics,
                          lx_engine **out, lx_error *err) LX_MUST_USE;

/* Queues a job (the engine takes its own reference). LX_ERR_BUSY when the queue is full,
   LX_ERR_UNAVAILABLE when draining, LX_ERR_DEVICE when not healthy. Any thread; never blocks on a
   step. */
lx_status lx_engine_submit(lx_engine *e, lx_job *job, lx_error *err) LX_MUST_USE;

/* Wakes the engine so that it notices a cancelled job at once. (It never sleeps while a job is with
   it, so calling this is not needed for a cancelled job to be noticed within a step.) Any thread.
 */
void lx_engine_poke(lx_engine *e);

/* Refuses new jobs from now on. */
void lx_engine_drain(lx_engine *e);
/* Suspends every job that allows it, those in the queue too: it ends with LX_ERR_UNAVAILABLE and,
   if it had begun, its state (lx_job_suspended). A job that is submitted later is suspended at
   once.
 */
void lx_engine_suspend(lx_engine *e);
/* True when no job is queued or running. */
bool lx_engine_idle(lx_engine *e);
/* Ends the thread; jobs still there finish with LX_ERR_UNAVAILABLE. Frees the engine. NULL allowed.
 */
void lx_engine_stop(lx_engine *e);

/* Seconds until a place in the queue is likely free: steps left in slots and queue times the mean
   step time, rounded up, at least 1. For Retry-After. */
int32_t lx_engine_retry_after_s(const lx_engine *e);
/* The same as a number, 0 while a slot is free: until a job sent now would begin. */
double lx_engine_wait_s(const lx_engine *e);
/* Mean time of a step, 0 before the first. */
double lx_engine_step_s(const lx_engine *e);
/* lx_now_ns() of the newest completed step, probes included; engine start time before the first. */
int64_t lx_engine_last_step_ns(const lx_engine *e);
/* False once the device failed; every later submit is refused. */
bool lx_engine_healthy(const lx_engine *e);

#endif
