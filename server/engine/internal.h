/*
 * Declarations for the engine's files. Each file calls only files that stand below it:
 *
 *     start.c    makes and ends the engine; prepares steps, so that they allocate nothing
 *     engine.c   the thread and its turns
 *     admit.c    which jobs and samples get a slot
 *     step.c     steps under way, and their results
 *     batch.c    the rows of a step
 *     runs.c     runs begin, fork and end
 *     drafts.c   guesses at tokens
 *     prefix.c   states of prompts that are kept
 *     stored.c   kept states that outlive the process
 *     moves.c    states that are copied during steps
 *     run.c      questions about runs and slots
 *     queue.c    jobs come, wait and end; what clients use
 *
 * The files with a header of their own stand below all these; they do not know the engine. The
 * engine's thread alone touches everything outside the parts marked "shared".
 *
 * A row is one token of one sequence in a step. Slots and runs: see run.h. A step computes rows of
 * at most options.n_slots slots. The engine has more slots, spare ones, in which the states of
 * samples stay while they miss steps.
 */
#ifndef LINNET_SERVER_ENGINE_INTERNAL_H
#define LINNET_SERVER_ENGINE_INTERNAL_H

#include <stdatomic.h>

#include "common/lock.h"
#include "model/drafts/draft.h"
#include "server/engine/drafts.h"
#include "server/engine/engine.h"
#include "server/engine/pages.h"
#include "server/engine/prefix_cache.h"
#include "server/engine/run.h"
#include "server/engine/scheduler.h"

/* The jobs, slots and pages of a client, or of one of its requests. */
typedef struct lx_usage {
    const void *key;      /* the client's */
    int32_t client;       /* a request's */
    int32_t n_jobs;       /* 0: no such client or request; shared, under the engine's mutex */
    int32_t n_requests;   /* a client's; shared, under the engine's mutex */
    int32_t active;       /* active slots, and granted ones that are not taken yet */
    int32_t prompt_slots; /* prompt slots, and granted ones that are not taken yet */
    int32_t pages;        /* of a client's runs, counted whenever slots are granted */
} lx_usage;

/* Usages and their clocks have the same indices: the clocks are an argument of a pure function. */
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

/* A step that is being made or under way. The back end reads its arrays until the step is done. */
typedef struct lx_frame {
    lx_step step;
    uint64_t number; /* the back end's */
    int64_t begin_ns;
    int32_t n_prompt_rows;
    bool awaited;                  /* a run's next rows depend on a token that this step draws */
    int32_t *seq_start;            /* [n_slots + 1] */
    int32_t *seq_slot;             /* [n_slots], and so the next two lines */
    int32_t *seq_state, *position; /* lx_batch.slot, the back end's slots, and .position */
    int32_t *branch, *branch_row;
    int32_t *ids;               /* [max_tokens, n_inputs] */
    lx_constraint *constraints; /* [max_tokens], an output each, as all below */
    uint32_t *allowed;          /* [max_tokens, words of a grammar's mask] */
    int32_t *output_row, *output_slot;
    int32_t *guess; /* the token that the next row assumes, -1: none */
    lx_sampling *sampling;
    lx_sample *samples;
} lx_frame;

/* A copy of a state. One of `to` and `from` is the job's memory, the other NULL. Both are NULL if
   the state is read from the place of kept states: it is that of the first rows of the prompt. */
typedef struct lx_move {
    int32_t slot, rows;
    lx_prefix_key key; /* of a state that is read */
    int32_t state;     /* lx_slot.state, set by lx_moves_ask */
    float *to;
    const float *from;
    lx_status status;
    lx_error error;
} lx_move;

enum { LX_MOST_SECOND = 16 }; /* slots that guess in a step */

typedef struct lx_drafts {
    lx_drafter *drafter;            /* NULL: nothing is guessed */
    int32_t most_rows;              /* guesses per step */
    int32_t n_second;               /* second slots, the last ones of the back end's */
    int32_t unused[LX_MOST_SECOND]; /* the free ones */
    int32_t n_unused;
    int32_t lessons; /* tokens from which the drafter may still learn in this step */
    lx_step_cost cost;
    lx_constraint rule; /* of the token that is being guessed */
    uint32_t *allowed;  /* its bits, see lx_constraint */
} lx_drafts;

/* Moves in the order in which they were asked for; number i is ring[i % total_slots]. */
typedef struct lx_moves {
    bool runs; /* there is a thread, because the model has large states */
    pthread_t thread;
    pthread_cond_t wanted;
    int64_t large; /* bytes from which a state is moved during steps */
    lx_move *ring;
    uint64_t asked, taken; /* the engine's thread writes these; asked: under the mutex */
    uint64_t done;         /* the moves' thread writes it, under the mutex */
    bool stopping;
} lx_moves;

enum { LX_ENGINE_ARRAYS = 24 + 14 * (LX_MAX_AHEAD + 1) };

struct lx_engine {
    lx_transformer *transformer;
    const lx_model *model;
    lx_backend *be;
    lx_metrics *metrics;
    lx_engine_options options;
    lx_states *states;   /* [n_states] */
    int32_t total_slots; /* n_slots and the spare ones */
    int32_t n_states;    /* total_slots, then kept states, then second slots of drafts */
    lx_mask **masks;     /* [lx_task_masks] */
    pthread_t thread;

    /* --- shared, under `mutex` --- */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool draining, stopping;
    lx_queued *queue; /* [n_room], oldest first */
    lx_usage_table clients, requests;
    int64_t total_weight; /* of the clients */
    int32_t n_queue;
    int32_t n_room;      /* twice max_queue + n_slots: half of it for jobs that follow others */
    int32_t n_sure;      /* of these: sure of a slot in the next turn, so they do not wait */
    int32_t n_beyond;    /* jobs that have begun beyond n_slots; they count as waiting */
    int32_t credit;      /* unclaimed slots */
    int32_t page_credit; /* unclaimed pages */
    uint64_t next_order;

    /* --- shared, atomic --- */
    atomic_bool healthy, suspending;
    _Atomic int64_t n_jobs;    /* queued or running, without the jobs that follow others */
    _Atomic int64_t n_follows; /* these jobs */
    _Atomic int64_t work_left; /* tokens that the first of these two still need */
    _Atomic int64_t step_ns;   /* mean time of a step and of the pause before it */
    /* Of the latest steps, where older ones count less: slots that had rows, and tokens made. These
       two are the engine's thread's; their ratio, tokens per slot and step in millionths, is for
       all threads. 0: unknown. */
    double busy_slots, busy_tokens;
    int64_t n_averaged; /* steps in the mean step_ns; the thread's, too */
    _Atomic int64_t yield_ppm;
    _Atomic int64_t last_step_ns;

    /* --- the thread's own --- */
    lx_slot *slots; /* [total_slots] */
    int32_t *free_slots;
    int32_t n_free;
    int32_t n_active, n_prompt_slots; /* of all clients, as in lx_usage */
    lx_run *runs;                     /* [total_slots]; each has a slot, or had one */
    int32_t *run_order; /* [total_slots] numbers of all runs: first n_runs in use, oldest first */
    int32_t n_runs;
    int32_t n_pending; /* slots for which the runs will still ask */
    int32_t n_granted; /* of these: granted */
    uint64_t next_slot_order, level;
    bool awaits_moves;   /* nothing can be done before a move is done or a job comes */
    bool probe_due;      /* nothing was done for probe_ns */
    lx_queued *admitted; /* taken from the queue in this turn, like the dropped ones */
    lx_job **dropped;
    int32_t n_admitted, n_dropped;

    lx_pages pages;     /* the thread admits and frees, under the mutex or not */
    int32_t slot_pages; /* most pages of a slot */
    int32_t *page_list; /* [slot_pages + 1] */

    lx_moves moves;
    lx_drafts drafts;

    lx_prefix_cache *prefixes;   /* NULL: no state is kept */
    int32_t *answer_ids;         /* [max_rows, n_inputs] of an answer whose state is kept */
    int32_t *kept_pages;         /* chain of each kept state, -1: none */
    char maker[LX_PREFIX_MAKER]; /* see lx_prefix_name */
    bool unstored;               /* a state was kept since the last look for one to store */
    atomic_bool storing;         /* a state is on its way to the place; false: under the mutex */
    double prompt_row_ns;        /* mean time of a prompt row, 0: unknown */
    int64_t spared_rows;         /* whose time is not counted yet */

    int32_t *rows;       /* [total_slots] that slots compute in the next step */
    lx_fair_item *items; /* [total_slots] slots that could compute some */

    lx_frame frames[LX_MAX_AHEAD + 1]; /* step i is frame i % (ahead + 1) */
    uint64_t n_started, n_done;        /* steps; those between are under way */
    int64_t done_ns;                   /* when the newest was done */
    int64_t paced_ns;                  /* when it was done, or work came to an engine without any */

    void *memory[LX_ENGINE_ARRAYS]; /* the arrays named above */
    int32_t n_memory;
    bool has_memory; /* no array is NULL */
};

static inline int64_t lx_engine_page_bytes(const lx_engine *e)
{
    return e->model->state.page_floats * (int64_t)sizeof(float);
}

/* --- queue.c --- */
/* Adds to the active slots and the prompt slots of a request. */
void lx_usage_count(lx_engine *e, int32_t request, int32_t n_active, int32_t n_prompt_slots);
/* LX_OK, or why a job must not go on; LX_ERR_UNAVAILABLE: it is to be suspended. */
lx_status lx_engine_check_job(const lx_engine *e, lx_job *job, int64_t now, lx_error *err);
/* Pages of one slot of the job; pages that its samples share; pages that must be left before the
   job is admitted. */
int32_t lx_job_pages(const lx_engine *e, const lx_job *job);
int32_t lx_job_shared_pages(const lx_engine *e, const lx_job *job);
int32_t lx_job_first_pages(const lx_engine *e, const lx_job *job);
/* Writes the used slots and pages to the metrics. */
void lx_engine_publish_slots(lx_engine *e);
/* Under the mutex: counts the jobs that have begun beyond n_slots. */
void lx_engine_count_beyond(lx_engine *e);
/* Ends a job, wakes its reader, gives back the engine's reference. */
void lx_engine_end_job(lx_engine *e, lx_job *job, int64_t n_tokens, lx_status status,
                       const lx_error *err);
/* Ends the jobs in the queue. lx_engine_submit refuses others by now. */
void lx_engine_end_queued(lx_engine *e, lx_status status, const lx_error *err);

/* --- moves.c --- */
/* Starts a thread that takes no signals: they are for the main thread. */
bool lx_engine_thread(pthread_t *thread, void *(*run)(void *), void *context);
lx_status lx_moves_init(lx_engine *e, lx_error *err) LX_MUST_USE;
void lx_moves_fini(lx_engine *e); /* finishes the moves that were asked for */
/* Moves a small state at once. For a large one a move of the slot is under way until it is taken.
 */
lx_status lx_moves_ask(lx_engine *e, const lx_move *m, lx_error *err);
/* Whether a move was asked for and not taken; under the mutex: whether the next one is done. */
static inline bool lx_moves_pending(const lx_engine *e)
{
    return e->moves.taken < e->moves.asked;
}
static inline bool lx_moves_done(const lx_engine *e)
{
    return e->moves.taken < e->moves.done;
}
/* Takes the next move that is done (wait: the next one): its slot and status; -1: there is none. */
int32_t lx_moves_take(lx_engine *e, bool wait, lx_status *status, lx_error *err);

/* --- drafts.c --- */
/* The second slots are those of the back end from number `first` on. */
lx_status lx_drafts_init(lx_engine *e, int32_t first, lx_error *err) LX_MUST_USE;
/* Rows that slots compute in addition to those of a schedule. */
int32_t lx_drafts_late_rows(const lx_engine *e);
/* Adds late rows and guesses to the `total` rows of the next step; returns the new total. */
int32_t lx_drafts_choose(lx_engine *e, int32_t total);
/* The drafter learns from a token that was drawn, before the job has it. */
void lx_drafts_learn(lx_engine *e, const lx_run *r, const lx_slot *s, int32_t token);
/* The slot's step is done, and n_tokens that were drawn in it count. */
void lx_drafts_settle(lx_engine *e, int32_t slot, int32_t n_tokens);
/* Whether the slot has no late rows. If it has some, its next step computes them. */
bool lx_drafts_catch_up(lx_engine *e, int32_t slot);
/* Takes back the slot's second slot. */
void lx_drafts_give_back(lx_engine *e, int32_t slot);

/* --- prefix.c --- */
/* The back end's slot with a kept state from which the run may start, -1: none. Sets first_row. */
int32_t lx_prefix_begin(lx_engine *e, lx_run *r);
/* The number of prompt rows, more than `row`, after which the run pauses; INT32_MAX: never. */
int32_t lx_prefix_pause(const lx_engine *e, const lx_run *r, int32_t row);
/* The chain of the n full pages that a kept state of so many rows lends to runs; slot -1: none. */
int32_t lx_prefix_shared(const lx_engine *e, int32_t slot, int32_t rows, int32_t *n);
/* Frees so many pages of kept states, for a run that has reserved them. */
void lx_prefix_make_room(lx_engine *e, int32_t n);
/* After a failed step: a state that it was to leave is none. */
void lx_prefix_forget_all(lx_engine *e);
/* The number of prompt rows, more than `row`, after which a step must end that begins there. */
int32_t lx_prefix_limit(const lx_engine *e, const lx_run *r, int32_t row);
/* Before a step: where the rows of a sequence go beyond a pause, the sequence branches there. */
lx_status lx_prefix_branch(lx_engine *e, lx_frame *f, int32_t seq, lx_error *err);
/* Keeps the state of a slot that pauses after a step, if it does; row: its first one in the step.
 */
lx_status lx_prefix_keep(lx_engine *e, int32_t slot, int32_t row, lx_error *err);
/* Whether the states are kept with which the run's answers end, because prompts may go on there. */
bool lx_prefix_keeps_answers(const lx_engine *e, const lx_run *r);
/* Keeps the state with which a slot's answer ended, if lx_prefix_keeps_answers says so. */
lx_status lx_prefix_keep_answer(lx_engine *e, int32_t slot, lx_error *err);

/* Counts the time that cached rows would have taken, by the mean time of prompt rows. The newest
   step computed n_rows prompt rows, and any row took row_ns. */
void lx_prefix_count_spared(lx_engine *e, int32_t n_rows, double row_ns);
/* The state that the run awaits from the place was read, or not; the slot takes rows from now on.
 */
lx_status lx_prefix_arrived(lx_engine *e, int32_t slot, lx_status st, lx_error *err);

/* --- stored.c --- */
/* Names all on which the bits of states depend, before any is stored. */
void lx_stored_init(lx_engine *e);
/* Rows of the longest stored beginning of the key's rows, 0: none. */
int32_t lx_stored_find(const lx_engine *e, lx_prefix_key key);
/* Reads the state and loads it into the slot. LX_ERR_NOT_FOUND: it cannot be read. Any thread. */
lx_status lx_stored_load(const lx_engine *e, lx_prefix_key key, int32_t state, lx_error *err);
/* Whether lx_stored_save may find a state to store. */
static inline bool lx_stored_due(const lx_engine *e)
{
    return e->options.place != NULL && e->unstored && !atomic_load(&e->storing);
}
/* Gives one kept state to the place, if one needs it and the place has the one before it. */
lx_status lx_stored_save(lx_engine *e, lx_error *err);
/* At the engine's end: stores the states that need it, for a limited time, and waits. */
void lx_stored_finish(lx_engine *e);

/* --- runs.c --- */
void lx_runs_init(lx_engine *e);
/* Begins the run of an admitted job in its first slot, which was granted. */
lx_status lx_runs_start(lx_engine *e, lx_job *job, uint64_t order, lx_error *err);
/* Starts the samples that were granted a slot. */
lx_status lx_runs_fork(lx_engine *e, lx_error *err);
void lx_runs_free_slot(lx_engine *e, int32_t slot);
/* Ends a run and frees its slots. */
void lx_runs_end(lx_engine *e, int32_t run, lx_status status, const lx_error *err);
/* Ends runs that were cancelled, are late or are to be suspended. */
lx_status lx_runs_drop(lx_engine *e, int64_t now, lx_error *err);
/* Moves the state of the slot's sample to its job, if that keeps states. */
lx_status lx_runs_keep_state(lx_engine *e, int32_t slot, lx_error *err);

/* --- batch.c --- */
/* Empties the frame's step. */
void lx_frame_clear(lx_frame *f);
/* Fills the frame with rows of slots and advances these; false: no slot has rows. */
bool lx_engine_batch(lx_engine *e, lx_frame *f);

/* --- step.c --- */
/* Starts a step if a slot has rows, waits for the steps that must be done by now, and hands their
   tokens to jobs. */
lx_status lx_engine_step(lx_engine *e, lx_error *err);
/* Waits for the steps and moves under way and drops their results. */
void lx_engine_abandon(lx_engine *e);

/* --- admit.c --- */
/* Under the mutex: sorts the queue into admitted, dropped and waiting jobs, and grants slots to
   samples. */
void lx_engine_admit(lx_engine *e, int64_t now);

/* --- engine.c --- */
void *lx_engine_run(void *engine); /* the thread's function */

#endif
