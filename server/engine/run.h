/*
 * Runs and slots, and questions about them.
 *
 * A slot is the memory of one sequence. A run is a request's part in the engine, from admission to
 * its last token. Of a prompt that several samples share, the prompt slot computes the rows and
 * then holds the state from which they start. Thread: the engine's.
 */
#ifndef LINNET_SERVER_ENGINE_RUN_H
#define LINNET_SERVER_ENGINE_RUN_H

#include "server/engine/engine.h"

/*
 * Whether a run goes on.
 *
 *     OPEN   -> ENDING   it was cancelled, is late or is to be suspended: it gets no more rows
 *     ENDING -> OPEN     a step under way brought its first token in time, or a token with which a
 *                        stop string may have begun (then it may not be suspended yet)
 *     ENDING -> SAVED    it is suspended, and its state is with its job or on its way there
 *     OPEN, ENDING -> FAILED   a sample had no finite logits
 *
 * A run that is not open ends as soon as none of its steps and moves is under way.
 */
typedef enum lx_run_phase { LX_RUN_OPEN, LX_RUN_ENDING, LX_RUN_SAVED, LX_RUN_FAILED } lx_run_phase;

typedef struct lx_run {
    lx_job *job;
    const lx_plan *plan;
    const lx_job_params *params;
    lx_run_phase phase;
    bool advanced;       /* its reader waits for a token of this step */
    int32_t next_sample; /* the first sample without a slot */
    int32_t n_done;      /* complete samples */
    int64_t n_tokens;    /* tokens of all samples that the job has */
    int32_t first_slot;  /* n > 1: the prompt slot, -1 after the last sample took it */
    int32_t granted;     /* samples that were granted a slot and have not taken it */
    int32_t pages;       /* of a growing state, per slot; reserved at the grant */
    int32_t
        shared_pages;  /* n > 1: of these, full ones of the prompt slot, which all samples read */
    int32_t n_slots;   /* that it has taken */
    int32_t request;   /* index of the request's lx_usage */
    int32_t under_way; /* steps and moves of all its slots */
    int32_t first_row; /* of the prompt that is computed; a state had the rows before it */
    bool awaits_state; /* its first slot waits for the stored state of first_row rows */
    int32_t branch;    /* rows after which the prompt parts from a known one, 0: none */
    uint64_t order;    /* older runs have smaller ones */
} lx_run;

/*
 * The phases of a slot. It is active in the phases PROMPT, DECODE and CATCH_UP.
 *
 *     FREE      no run has it
 *     PROMPT    it computes rows of a prompt or of a score
 *     DECODE    it computes tokens of a sample
 *     CATCH_UP  it computes its late rows and nothing else, because its state is wanted
 *     SHARED    it is a prompt slot with a complete state. Samples start from copies of it
 *     PROMPTED  no token is wanted. Its state is complete once nothing of it is under way
 *     LEAVING   its sample is complete, and its state is on its way to the job
 *
 *     FREE -> PROMPT, DECODE, SHARED, PROMPTED   a run starts; DECODE: also any of its samples
 *     PROMPT -> DECODE, SHARED, PROMPTED         the last row of the prompt is in a step
 *     SHARED -> DECODE                           the last sample takes the prompt slot
 *     DECODE -> CATCH_UP -> DECODE               its late rows were computed
 *     PROMPT, DECODE, PROMPTED -> LEAVING        its sample is complete (PROMPT: a score)
 *     any but FREE -> FREE                       its sample is complete, or its run ends
 */
typedef enum lx_slot_phase {
    LX_SLOT_FREE,
    LX_SLOT_PROMPT,
    LX_SLOT_DECODE,
    LX_SLOT_CATCH_UP,
    LX_SLOT_SHARED,
    LX_SLOT_PROMPTED,
    LX_SLOT_LEAVING,
    LX_SLOT_PHASES
} lx_slot_phase;

typedef struct lx_slot {
    lx_slot_phase phase;
    int32_t run;          /* -1: free */
    int32_t sample;       /* of the run; -1 in a prompt slot */
    int32_t prompt_row;   /* the next row of the prompt or the score */
    int32_t step;         /* tokens of the sample, with the tokens of steps under way */
    int32_t pages;        /* its chain of lx_run.pages pages; -1: none */
    int32_t steps, moves; /* under way; with a move, of which it has at most one, it gets no rows */
    int32_t state;        /* the back end's slot with its state: this one, or the second one */
    int32_t second;       /* its second slot, -1: none */
    int32_t late;         /* rows of known tokens, before the newest, that its state lacks */
    int32_t n_guessed;    /* guesses in the step under way */
    uint64_t order;       /* older samples of a request have smaller ones */
    uint64_t last_step;   /* number of the newest step with rows of it */
    int64_t token_ns;     /* time of its newest token */
} lx_slot;

static inline bool lx_slot_is_active(const lx_slot *s)
{
    return s->phase == LX_SLOT_PROMPT || s->phase == LX_SLOT_DECODE || s->phase == LX_SLOT_CATCH_UP;
}
static inline bool lx_slot_is_idle(const lx_slot *s)
{
    return s->steps + s->moves == 0;
}
/* Changes the slot's phase. A slot that was granted counts as active from the grant on (admit.c),
   so a free slot that becomes active is counted already. */
void lx_slot_enter(lx_engine *e, int32_t slot, lx_slot_phase phase);
/* n > 1: whether the shared prompt's state is complete, so that samples may start from it. */
bool lx_run_is_ready(const lx_engine *e, const lx_run *r);
/* Adds to the steps and moves of the slot that are under way. */
void lx_slot_count(lx_engine *e, int32_t slot, int32_t n_steps, int32_t n_moves);
/* The prompt rows that the run's first slot computes before a sample decodes. */
int32_t lx_run_prompt_end(const lx_run *r);
/* The phase of that slot after these rows. */
lx_slot_phase lx_run_after_prompt(const lx_run *r);
/* Whether the run's next input may be computed before its newest token is known. */
bool lx_run_goes_ahead(const lx_engine *e, const lx_run *r);
/* The owner of the kept states and lessons of drafts that the run uses and leaves: its client's
   key, or NULL where all clients share them. */
const void *lx_run_owner(const lx_engine *e, const lx_run *r);
/* Rows that the slot's state has absorbed, with late ones and those of steps under way. */
int32_t lx_slot_rows(const lx_slot *s, const lx_run *r);
/* How token number `step` of the slot's sample is drawn, before any rule. */
lx_sampling lx_slot_sampling(const lx_slot *s, const lx_run *r, int32_t step);
#endif
