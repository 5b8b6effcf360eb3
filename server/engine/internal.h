/*
 * What the engine's files share. Each file calls only files that stand below it:
 *
 *     start.c    makes and ends the engine; prepares steps, so that they allocate nothing
 *     engine.c   the thread and its turns
 *     admit.c    which jobs and samples get a slot
 *     step.c     steps under way, and their results
 *     batch.c    the rows of a step
 *     runs.c     runs begin, fork and end
 *     drafts.c   guesses at tokens
 *     prefix.c   states of prompts that are kept
 *     moves.c    states that are copied beside steps
 *     run.c      questions about runs and slots
 *     queue.c    jobs come, wait and end; what clients use
 *
 * Below them are the files with a header of their own, which do not know the engine. Everything
 * outside the part marked "shared" is touched by the engine's thread only.
 *
 * A slot is the memory of one sequence, in the engine an lx_slot with its number. A row is one
 * token of one sequence in a step. A run is a request's part in the engine, from admission to its
 * last token. A step computes rows of at most options.n_slots slots; there are more slots, spare
 * ones, so that a sample can miss steps while its state stays where it is. A slot is active while
 * its prompt or sample has rows to compute; of a prompt that several samples share, the prompt slot
 * holds the state from which these start.
 */
#ifndef LINNET_SERVER_ENGINE_INTERNAL_H
#define LINNET_SERVER_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "model/drafts/draft.h"
#include "server/engine/drafts.h"
#include "server/engine/engine.h"
#include "server/engine/fair.h"
#include "server/engine/pages.h"
#include "server/engine/prefix_cache.h"
#include "server/engine/run.h"

/* What a client, or a request of one, that has jobs with the engine has of it. */
typedef struct lx_usage {
    const void *key;      /* the client's */
    int32_t client;       /* a request's */
    int32_t n_jobs;       /* 0: unused; shared, under the engine's mutex */
    int32_t n_requests;   /* a client's; likewise */
    int32_t active;       /* slots, those that were granted and not yet given too */
    int32_t prompt_slots; /* of shared prompts */
    int32_t pages;        /* a client's: that its runs have, when slots were last granted */
} lx_usage;

/* Usages and their clocks, two arrays with the same indices, since the clocks are what a pure
   function sees. */
typedef struct lx_usage_table {
    lx_usage *at;
    lx_fair_clock *clocks;
    int32_t *unused;
    int32_t n_unused, n_used; /* n_used: none beyond was ever in use */
} lx_usage_table;

typedef struct lx_queued {
    lx_job *job;
    uint64_t order;
} lx_queued;

/* A step that is being made or under way; its arrays are the back end's until it is done. */
typedef struct lx_frame {
    lx_step step;
    uint64_t number; /* the back end's */
    int64_t begin_ns;
    int32_t n_prompt_rows;
    bool awaited;                      /* what a slot computes next depends on what it draws here */
    int32_t *seq_start;                /* [n_slots + 1] */
    int32_t *seq_slot;                 /* [n_slots], like those below */
    int32_t *seq_state, *position;     /* lx_batch.slot: the back end's slots; and .position */
    int32_t *branch, *branch_row;      /* likewise */
    lx_constraint *constraints;        /* [max_tokens] of the outputs */
    int32_t *ids;                      /* [max_tokens, n_inputs] */
    int32_t *output_row, *output_slot; /* [max_tokens], like those below */
    int32_t *guess;                    /* what the next row takes its token to be, -1: nothing */
    lx_sampling *sampling;
    lx_sample *samples;
} lx_frame;

/* One of `to` and `from` is the job's memory, the other NULL. */
typedef struct lx_move {
    int32_t slot, rows;
    int32_t state; /* the slot's, filled in when it is asked for */
    float *to;
    const float *from;
    lx_status status;
    lx_error error;
} lx_move;

enum { LX_MOST_SECOND = 16 }; /* slots that guess in a step */

/* See drafts.c. */
typedef struct lx_drafts {
    lx_drafter *drafter;            /* NULL: nothing is guessed */
    int32_t most_rows;              /* guesses of a step */
    int32_t n_second;               /* second slots, the last ones of the back end's */
    int32_t unused[LX_MOST_SECOND]; /* those that no slot has */
    int32_t n_unused;
    int32_t lessons; /* tokens that the drafter may still learn from in this step */
    lx_step_cost cost;
    lx_constraint rule; /* of the token that is being guessed */
} lx_drafts;

/* Moves in the order they were asked for; number i is ring[i % total_slots]. */
typedef struct lx_moves {
    bool runs; /* there is a thread: the model has states that are large */
    pthread_t thread;
    pthread_cond_t wanted;
    int64_t large; /* bytes from which a state is moved beside steps */
    lx_move *ring;
    uint64_t asked, taken; /* written by the engine's thread; asked under the engine's mutex */
    uint64_t done;         /* by the other one, likewise */
    bool stopping;
} lx_moves;

enum { LX_ENGINE_ARRAYS = 24 + 13 * (LX_MAX_AHEAD + 1) };

struct lx_engine {
    lx_transformer *transformer;
    const lx_model *model;
    lx_backend *be;
    lx_metrics *metrics;
    lx_engine_options options;
    /* [total_slots + kept + second]: the engine's slots, those of prefixes, those of drafts */
    lx_states *states;
    int32_t total_slots;
    lx_mask **masks; /* [lx_task_masks] */
    pthread_t thread;

    /* --- shared, under `mutex` --- */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool draining, stopping;
    lx_queued *queue; /* [max_queue + n_slots], oldest first */
    lx_usage_table clients, requests;
    int64_t total_weight; /* of the clients */
    int32_t n_queue;
    int32_t n_sure;   /* of those: sure to get a slot in the next turn, so not counted as waiting */
    int32_t n_beyond; /* jobs that have begun beyond the slots; they count as waiting */
    int32_t credit;   /* slots that are unclaimed */
    int32_t page_credit; /* and pages */
    uint64_t next_order;

    /* --- shared, atomic --- */
    atomic_bool healthy, suspending;
    _Atomic int64_t n_jobs;    /* queued or running */
    _Atomic int64_t work_left; /* tokens still to generate, of all of them */
    _Atomic int64_t step_ns;   /* mean time of a step */
    _Atomic int64_t last_step_ns;

    /* --- the thread's own --- */
    lx_slot *slots; /* [total_slots] */
    int32_t *free_slots;
    int32_t n_free;
    int32_t n_active, n_prompt_slots; /* of all clients */
    lx_run *runs;       /* [total_slots]: every run has a slot, or had one and has not ended */
    int32_t *run_order; /* [total_slots] numbers of all runs: first n_runs in use, oldest first */
    int32_t n_runs;
    int32_t n_pending; /* slots that runs will still ask for */
    int32_t n_granted; /* of these, for now */
    uint64_t next_slot_order, level;
    bool awaits_moves;            /* nothing goes on before one is done, or a job comes */
    bool probe_due;               /* nothing happened for probe_ns */
    lx_job **admitted, **dropped; /* taken from the queue in this turn */
    uint64_t *admitted_order;
    int32_t n_admitted, n_dropped;

    lx_pages pages;     /* admitting and freeing is the thread's, under the mutex or not */
    int32_t slot_pages; /* that a slot may have */
    int32_t *page_list; /* [slot_pages] */

    lx_moves moves;
    lx_drafts drafts;

    lx_prefix_cache *prefixes; /* NULL: none are kept */
    int32_t *answer_ids;       /* [max_rows, n_inputs] of an answer that is kept; with prefixes */
    int32_t *kept_pages;       /* [its slots] the chains of their pages, -1: none */
    int32_t most_kept_pages;

    int32_t *rows;       /* [total_slots] that slots compute in the next step */
    lx_fair_item *items; /* [total_slots] those that could */

    /* steps in order: those up to n_done are done, those up to n_started under way */
    lx_frame frames[LX_MAX_AHEAD + 1]; /* step i has number i % (ahead + 1) */
    uint64_t n_started, n_done;
    int64_t done_ns; /* when the newest was done */

    void *memory[LX_ENGINE_ARRAYS]; /* all arrays named here, to be freed */
    int32_t n_memory;
    bool has_memory; /* none of them is NULL */
};

/* --- queue.c --- */
/* So many more active slots and prompt slots of a request. */
void lx_usage_count(lx_engine *e, int32_t request, int32_t n_active, int32_t n_prompt_slots);
/* LX_OK, or why a job must not go on; LX_ERR_UNAVAILABLE: it is to be suspended. */
lx_status lx_engine_check_job(const lx_engine *e, lx_job *job, int64_t now, lx_error *err);
static inline int64_t lx_engine_page_bytes(const lx_engine *e)
{
    return e->model->state.page_floats * (int64_t)sizeof(float);
}
/* Pages that a slot of the job has; those that its samples share; and how many must be left before
   it is admitted. */
int32_t lx_job_pages(const lx_engine *e, const lx_job *job);
int32_t lx_job_shared_pages(const lx_engine *e, const lx_job *job);
int32_t lx_job_first_pages(const lx_engine *e, const lx_job *job);
/* Tells the metrics how many slots and pages are used. */
void lx_engine_publish_slots(lx_engine *e);
/* Under the mutex: counts the jobs that have begun beyond the slots. */
void lx_engine_count_beyond(lx_engine *e);
/* The end of a job: status, wake, the engine's reference. */
void lx_engine_end_job(lx_engine *e, lx_job *job, int64_t n_tokens, lx_status status,
                       const lx_error *err);
/* Ends the jobs in the queue. lx_engine_submit refuses others by now. */
void lx_engine_end_queued(lx_engine *e, lx_status status, const lx_error *err);

/* --- moves.c --- */
/* Starts a thread that takes no signals: they are for the main thread. */
bool lx_engine_thread(pthread_t *thread, void *(*run)(void *), void *context);
lx_status lx_moves_init(lx_engine *e, lx_error *err) LX_MUST_USE;
/* Moves that were asked for are finished first. */
void lx_moves_fini(lx_engine *e);
/* Moves a state now, or asks for it: then a move of the slot is under way until it is taken. */
lx_status lx_moves_ask(lx_engine *e, const lx_move *m, lx_error *err);
/* Whether a move was asked for and not taken; under the mutex: whether the next one is done. */
bool lx_moves_pending(const lx_engine *e);
bool lx_moves_done(const lx_engine *e);
/* The slot of the next move that is done, and how it ended; -1 if none is (wait: none is pending).
 */
int32_t lx_moves_take(lx_engine *e, bool wait, lx_status *status, lx_error *err);

/* --- drafts.c --- */
lx_status lx_drafts_init(lx_engine *e, lx_error *err) LX_MUST_USE;
/* Second states are those of the arena from `first` on. */
void lx_drafts_use_slots(lx_engine *e, int32_t first);
/* Rows that slots will compute beside those of a schedule. */
int32_t lx_drafts_late_rows(const lx_engine *e);
/* Adds late rows and guesses to the rows of decoding slots, which are `total` with those of
   prompts; returns how many rows there are then. */
int32_t lx_drafts_choose(lx_engine *e, int32_t total);
/* A token that was drawn, before its job has it: the drafter learns from the first of a step. */
void lx_drafts_learn(lx_engine *e, const lx_run *r, const lx_slot *s, int32_t token);
/* The slot's step is done, and n_tokens that were drawn in it count. */
void lx_drafts_settle(lx_engine *e, int32_t slot, int32_t n_tokens);
/* Whether the states of the run's slots have seen all they should; those that have not will. */
bool lx_drafts_catch_up(lx_engine *e, int32_t run);
/* The slot is over: its second state is free. */
void lx_drafts_give_back(lx_engine *e, int32_t slot);

/* --- prefix.c --- */
/* Where the run's state may start from instead of nothing: a slot of the arena, -1 for none. Sets
   first_row. */
int32_t lx_prefix_begin(lx_engine *e, lx_run *r);
/* How many prompt rows, more than `row`, a step may at most bring the run to, INT32_MAX for any. */
int32_t lx_prefix_pause(const lx_engine *e, const lx_run *r, int32_t row);
/* The full pages that a state of so many rows in this slot (-1: none) shares with what starts from
   it: their chain, and how many they are. */
int32_t lx_prefix_shared(const lx_engine *e, int32_t slot, int32_t rows, int32_t *n);
/* Kept states give way to a run that has reserved so many pages: as many are free then. */
void lx_prefix_make_room(lx_engine *e, int32_t n);
/* Keeps the state of a slot that pauses after a step, if it does; row: its first one in the step.
 */
lx_status lx_prefix_keep(lx_engine *e, int32_t slot, int32_t row, lx_error *err);
/* Whether the states that the run's answers end with are kept: a prompt may go on from them. */
bool lx_prefix_keeps_answers(const lx_engine *e, const lx_run *r);
/* Keeps the state that a slot's answer ended with, where that is so. */
lx_status lx_prefix_keep_answer(lx_engine *e, int32_t slot, lx_error *err);

/* --- runs.c --- */
void lx_runs_init(lx_engine *e);
/* Gives an admitted job its first slot, which is counted. */
lx_status lx_runs_start(lx_engine *e, lx_job *job, uint64_t order, lx_error *err);
/* Starts the samples that may. */
lx_status lx_runs_fork(lx_engine *e, lx_error *err);
void lx_runs_free_slot(lx_engine *e, int32_t slot);
/* Ends a run and frees whatever it holds. */
void lx_runs_end(lx_engine *e, int32_t run, lx_status status, const lx_error *err);
/* Ends runs that were cancelled, are late or are to be suspended. */
lx_status lx_runs_drop(lx_engine *e, int64_t now, lx_error *err);
/* Moves the state of the slot's sample to its job, if that keeps states, now or by a move. */
lx_status lx_runs_keep_state(lx_engine *e, int32_t slot, lx_error *err);

/* --- batch.c --- */
/* The frame's step has no rows. */
void lx_frame_clear(lx_frame *f);
/* Fills the frame with rows of the slots that have some and advances these; false: none has. */
bool lx_engine_batch(lx_engine *e, lx_frame *f);
/* --- step.c --- */
/* Starts a step if a slot has work, waits for the steps that must be done by now, and hands out
   what has come of them. */
lx_status lx_engine_step(lx_engine *e, lx_error *err);
/* Waits for the steps and moves under way and drops what comes of them. */
void lx_engine_abandon(lx_engine *e);

/* --- admit.c --- */
/* Under the mutex: sorts the queue into admitted, dropped and still waiting, and says which runs'
   samples may start. */
void lx_engine_admit(lx_engine *e, int64_t now);

/* --- engine.c --- */
/* The thread's function; its argument is the engine. */
void *lx_engine_run(void *context);

#endif
