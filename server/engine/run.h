/*
 * Runs and slots, and what is asked of them.
 *
 * A slot is the memory of one sequence, in the engine an lx_slot with its number. A run is a
 * request's part in the engine, from admission to its last token. Thread: the engine's.
 */
#ifndef LINNET_SERVER_ENGINE_RUN_H
#define LINNET_SERVER_ENGINE_RUN_H

#include "server/engine/engine.h"
#include "server/engine/scheduler.h"

/* A job that has, or had, a slot. */
typedef struct lx_run {
    lx_job *job;
    const lx_plan *plan;
    const lx_job_params *params;
    int32_t next_sample;  /* the first one that has no slot yet */
    int32_t n_done;       /* samples that are complete */
    int64_t n_tokens;     /* pushed so far, of all samples */
    int32_t prompt_slot;  /* n > 1: holds the state after the shared prompt rows; -1: none */
    int32_t granted;      /* samples that may start now */
    int32_t pages;        /* of a growing state that a slot of it has, reserved when granted */
    int32_t shared_pages; /* n > 1: of those, full in the prompt slot: all samples read the same */
    int32_t n_slots;      /* that it has */
    int32_t request;      /* see lx_usage */
    bool ready;           /* n > 1: that state is complete, samples may start from it */
    bool advanced;        /* got a token in this step that its reader waits for */
    bool failed;          /* a sample had no finite logits */
    bool prompted;        /* no new token is wanted, and the state is there */
    bool saved;           /* it is to be suspended, and its states are kept or on their way */
    bool ending;          /* it ends as soon as its steps under way are done: nothing is added */
    int32_t under_way;    /* of its slots, in steps under way */
    int32_t first_row;    /* of the prompt that is computed, those before it were in a state */
    int32_t branch;       /* rows after which the prompt parts from a known one, 0: none */
    uint64_t order;
    int32_t older, newer; /* neighbours in the list of runs, -1 at its ends */
} lx_run;

/* One without a run is free. One with a run and LX_SLOT_FREE holds the state of a shared prompt, or
   of a sample that is complete. */
typedef struct lx_slot {
    lx_slot_phase phase;
    int32_t run;        /* -1: free */
    int32_t sample;     /* of the run; -1 while it computes a shared prompt */
    int32_t prompt_row; /* the next one to compute */
    int32_t step;       /* tokens generated, those of steps under way too */
    int32_t pages;      /* the chain of them, as many as its run says; -1: none */
    int32_t under_way;  /* steps that compute rows of it */
    bool moving;        /* its state is on its way: it computes nothing, and counts as under way */
    bool finished;      /* its sample ends with that move */
    bool paused;        /* the state after this step's rows is to be kept for other prompts */
    bool catching_up;   /* its next step computes its late rows, and nothing else */
    int32_t state;      /* the back end's slot that holds its state: this one, or the second one */
    int32_t second;     /* its second slot, for the rows of guesses; -1: it has none */
    int32_t late;       /* rows of known tokens, before the newest, that its state has not seen */
    int32_t n_guessed;  /* tokens of the step under way that are guesses */
    uint64_t order;     /* of those of a request, smaller is older */
    uint64_t last_step; /* the newest that computes rows of it */
    int64_t token_ns;   /* when the newest was */
} lx_slot;

/* How many of the plan's rows its first slot computes before a sample decodes. */
int32_t lx_run_prompt_end(const lx_run *r);
/* Whether the run's next input may be computed before its newest token is known. */
bool lx_run_goes_ahead(const lx_engine *e, const lx_run *r);
/* Whose kept states and lessons the run may use and leaves: its client's key, or NULL, which stands
   for all clients where they share. */
const void *lx_run_owner(const lx_engine *e, const lx_run *r);
/* How many input rows the slot's state has absorbed, late ones and those of steps under way too. */
int32_t lx_slot_rows(const lx_slot *s, const lx_run *r);
/* How token number `step` of the slot's sample is drawn, before any rule. */
lx_sampling lx_slot_sampling(const lx_slot *s, const lx_run *r, int32_t step);
/* The slot has no more rows to compute for now. */
void lx_runs_stop_active(lx_engine *e, int32_t slot);

#endif
