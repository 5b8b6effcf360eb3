/*
 * The rows of a step: the scheduler's choice becomes a ragged batch. Nothing is allocated here.
 *
 * A slot in its prompt feeds rows of the plan. A decoding slot feeds late rows, the row of its
 * newest token (at first the prompt's last row), and rows of guesses (drafts.c). Rows after which a
 * token is due are the output rows. The rows of targets are prompt rows whose outputs are forced.
 *
 * A slot advances when its rows are put into a step. Until the step is done, the job has
 * lx_drawn_id in place of a token, and the task puts that into the next input. A run whose task or
 * stop strings must see the token waits until no step of its slot is under way.
 */
#include <string.h>

#include "server/engine/internal.h"

/* --- which slots --- */

/* Whether the slot could compute rows in this step. *n_prompt: of its prompt; 0: it decodes. */
static bool has_rows(const lx_engine *e, const lx_slot *s, int32_t *n_prompt)
{
    *n_prompt = 0;
    if (!lx_slot_is_active(s) || s->moves > 0)
        return false;
    const lx_run *r = &e->runs[s->run];
    if (s->phase == LX_SLOT_CATCH_UP)
        return r->phase != LX_RUN_FAILED && s->steps == 0;
    if (r->phase != LX_RUN_OPEN)
        return false;
    if (s->phase == LX_SLOT_DECODE)
        return s->step < r->params->max_new && (s->steps == 0 || lx_run_goes_ahead(e, r));
    int32_t end = lx_run_prompt_end(r), limit = lx_prefix_limit(e, r, s->prompt_row);
    *n_prompt = (limit < end ? limit : end) - s->prompt_row;
    return *n_prompt > 0; /* else all of a score is under way */
}

/* Slots that could compute rows, as items to be ranked; returns how many. */
static int32_t list_items(lx_engine *e, int32_t *n_prompts)
{
    int32_t n = 0;
    for (int32_t i = 0; i < e->total_slots; i++) {
        int32_t n_prompt = 0;
        e->rows[i] = 0;
        if (!has_rows(e, &e->slots[i], &n_prompt))
            continue;
        int32_t request = e->runs[e->slots[i].run].request;
        e->items[n++] = (lx_fair_item){.client = e->requests.at[request].client,
                                       .request = request,
                                       .slot = i,
                                       .prompt_rows = n_prompt,
                                       .order = e->slots[i].order};
        *n_prompts += n_prompt > 0;
    }
    return n;
}

/* Samples that were in the newest step and miss this one. */
static void count_preempted(lx_engine *e, int32_t n)
{
    int64_t n_preempted = 0;
    for (int32_t i = 0; i < n && e->n_started > 0; i++)
        n_preempted +=
            e->items[i].rows == 0 && e->slots[e->items[i].slot].last_step == e->n_started;
    lx_counter_add(&e->metrics->preemptions, n_preempted);
}

static void charge(lx_engine *e, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        lx_fair_item *it = &e->items[i];
        int32_t most =
            it->prompt_rows < e->options.prompt_chunk ? it->prompt_rows : e->options.prompt_chunk;
        it->served = it->rows > 0;
        it->unserved = it->rows < (most > 0 ? most : 1);
    }
    lx_fair_charge(e->items, n, e->requests.clocks, e->clients.clocks, &e->level);
}

/* Ranks and clocks matter only if slots or rows for prompts are scarce. */
static int32_t choose_rows(lx_engine *e)
{
    lx_schedule_limits limits = {e->options.n_slots, e->options.max_tokens - lx_drafts_late_rows(e),
                                 e->options.prompt_chunk, e->options.prompt_beside};
    int32_t n_prompts = 0, n = list_items(e, &n_prompts);
    int32_t n_beyond = n > e->options.n_slots ? n - e->options.n_slots : 0;
    bool scarce = n_beyond > 0 || n_prompts > 1;
    if (scarce)
        lx_fair_rank(e->items, n, e->requests.clocks, e->clients.clocks, e->level);
    int32_t total = lx_schedule(e->items, n, &limits);
    for (int32_t i = 0; i < n; i++)
        e->rows[e->items[i].slot] = e->items[i].rows;
    if (n_beyond > 0)
        count_preempted(e, n);
    if (scarce)
        charge(e, n);
    atomic_store(&e->metrics->samples_waiting, n_beyond);
    return total > 0 ? lx_drafts_choose(e, total) : 0;
}

/* --- rows --- */

static const int32_t *sample_tokens(const lx_run *r, const lx_slot *s)
{
    const int32_t *tokens = NULL;
    (void)lx_job_tokens(r->job, s->sample, &tokens, NULL);
    return tokens;
}

/* After the batch's newest row comes token number `step`, which is drawn by the sampling returned.
 */
static lx_sampling *add_output(lx_engine *e, lx_frame *f, int32_t slot, int32_t step)
{
    lx_slot *s = &e->slots[slot];
    const lx_run *r = &e->runs[s->run];
    lx_batch *b = &f->step.batch;
    f->output_slot[b->n_outputs] = slot;
    f->output_row[b->n_outputs] = b->n_tokens - 1;
    f->guess[b->n_outputs] = -1;
    lx_sampling *sampling = &f->sampling[b->n_outputs++];
    s->step = step + 1;
    *sampling = lx_slot_sampling(s, r, step);
    sampling->n_top = r->params->n_top;
    sampling->top = lx_job_top_room(r->job, s->sample, step);
    sampling->biases = lx_job_biases(r->job, s->sample, &sampling->n_biases);
    return sampling;
}

static void add_generated(lx_engine *e, lx_frame *f, int32_t slot)
{
    const lx_slot *s = &e->slots[slot];
    const lx_run *r = &e->runs[s->run];
    lx_constraint *c = &f->constraints[f->step.batch.n_outputs];
    int32_t step = s->step;
    c->allowed = NULL;
    e->model->task->constrain(r->plan, step, sample_tokens(r, s), c);
    lx_sampling *sampling = add_output(e, f, slot, step);
    sampling->forced = c->forced;
    sampling->allowed = c->allowed;
    sampling->mask = c->use_mask ? e->masks[c->mask_idx] : NULL;
    sampling->n_banned = c->n_banned;
    sampling->banned = c->banned;
    if (lx_run_goes_ahead(e, r))
        lx_job_expect(r->job, s->sample, step, lx_drawn_id(step));
    else
        f->awaited = true;
}

/* Input row number `row` of the slot's sequence, of the prompt or of a token after it. */
static void add_row(lx_engine *e, lx_frame *f, int32_t slot, int32_t row)
{
    const lx_slot *s = &e->slots[slot];
    const lx_run *r = &e->runs[s->run];
    int32_t n_prompt = r->plan->n_prompt;
    size_t width = (size_t)e->model->config.n_inputs;
    int32_t *ids = f->ids + (size_t)f->step.batch.n_tokens++ * width;
    if (row < n_prompt)
        memcpy(ids, r->plan->prompt_ids + (size_t)row * width, width * sizeof *ids);
    else if (s->phase == LX_SLOT_PROMPT)
        e->model->task->input(r->plan, row - n_prompt, r->params->targets, ids);
    else
        e->model->task->input(r->plan, row - n_prompt, sample_tokens(r, s), ids);
}

static void add_prompt_rows(lx_engine *e, lx_frame *f, int32_t slot, int32_t n)
{
    lx_slot *s = &e->slots[slot];
    const lx_run *r = &e->runs[s->run];
    f->n_prompt_rows += n;
    for (; n > 0; n--) {
        int32_t step = s->prompt_row + 1 - r->plan->n_prompt; /* of the token after the row */
        add_row(e, f, slot, s->prompt_row++);
        if (step >= 0 && step < r->params->n_targets)
            add_output(e, f, slot, step)->forced = r->params->targets[step];
    }
    bool is_score = r->params->n_targets > 0 && r->params->n_targets == r->params->max_new;
    if (s->prompt_row < lx_run_prompt_end(r) || is_score)
        return; /* a score ends with its last token */
    lx_slot_phase next = lx_run_after_prompt(r);
    e->n_pending += next == LX_SLOT_SHARED; /* its samples ask for slots from now on */
    lx_slot_enter(e, slot, next);
    if (next == LX_SLOT_DECODE)
        add_generated(e, f, slot);
}

/* Late rows, the sure one, and guesses (drafts.c). */
static void add_decode_rows(lx_engine *e, lx_frame *f, int32_t slot)
{
    const lx_slot *s = &e->slots[slot];
    const lx_run *r = &e->runs[s->run];
    int32_t newest = r->plan->n_prompt + s->step - 1; /* row of the newest token */
    for (int32_t row = newest - s->late; row < newest; row++)
        add_row(e, f, slot, row);
    if (s->phase == LX_SLOT_CATCH_UP)
        return;
    f->n_prompt_rows += s->step == 0 && s->sample == 0; /* several samples: the prompt's last row */
    for (int32_t i = 0; i <= s->n_guessed; i++) {
        add_row(e, f, slot, newest + i);
        add_generated(e, f, slot);
        if (i < s->n_guessed)
            f->guess[f->step.batch.n_outputs - 1] = sample_tokens(r, s)[s->step - 1];
    }
}

/* The slot is the batch's next sequence. */
static void begin_sequence(lx_engine *e, lx_frame *f, int32_t slot)
{
    lx_batch *b = &f->step.batch;
    lx_slot *s = &e->slots[slot];
    f->seq_start[b->n_seqs] = b->n_tokens;
    f->position[b->n_seqs] = lx_slot_rows(s, &e->runs[s->run]) - s->late;
    f->seq_state[b->n_seqs] = s->state;
    f->branch[b->n_seqs] = s->n_guessed > 0 ? s->second : -1;
    f->branch_row[b->n_seqs] = s->late + 1;
    if (s->n_guessed > 0) {
        b->branch = f->branch;
        b->branch_row = f->branch_row;
    }
    f->seq_slot[b->n_seqs++] = slot;
    s->last_step = e->n_started + 1;
    lx_slot_count(e, slot, 1, 0);
}

static void build(lx_engine *e, lx_frame *f)
{
    lx_batch *b = &f->step.batch;
    for (int32_t slot = 0; slot < e->total_slots; slot++) {
        if (e->rows[slot] == 0)
            continue;
        begin_sequence(e, f, slot);
        if (e->slots[slot].phase == LX_SLOT_PROMPT)
            add_prompt_rows(e, f, slot, e->rows[slot]);
        else
            add_decode_rows(e, f, slot);
    }
    f->seq_start[b->n_seqs] = b->n_tokens;
}

void lx_frame_clear(lx_frame *f)
{
    f->n_prompt_rows = 0;
    f->awaited = false;
    f->step = (lx_step){
        .batch = {.seq_start = f->seq_start,
                  .slot = f->seq_state,
                  .output_row = f->output_row,
                  .position = f->position},
        .ids = f->ids,
        .sampling = f->sampling,
        .samples = f->samples,
    };
}

bool lx_engine_batch(lx_engine *e, lx_frame *f)
{
    if (choose_rows(e) == 0)
        return false;
    lx_frame_clear(f);
    build(e, f);
    return true;
}
