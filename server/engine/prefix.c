/*
 * States of prompts that are kept, so that later prompts which begin alike start from them. A
 * client finds only the states of its own key (lx_client), unless the operator has clients share
 * them (share_prefixes). Otherwise the time of an answer would show a key the prompts of other
 * keys.
 *
 * Kept states have slots of the back end after the engine's, so keeping one and starting from one
 * are copies on the device. The bits of rows do not depend on the step that computes them, so an
 * answer does not depend on where its prompt started.
 *
 * A prompt pauses where its state is worth keeping:
 *   - before its last row, or at a border shortly before that, since the same prompt or a longer
 * one may come again
 *   - where it parts from a known prompt, since a third one may part there too, but not shortly
 *     after a border
 *   - where a message of a chat begins (lx_plan.borders), since an edit parts there
 *   - every prefix_every rows; without that option, every prompt_chunk rows if prompts go on from
 *     answers, as in a chat. The beginning of a message that is nearer than that goes first
 *
 * A step ends there, or the sequence branches there (lx_batch.branch). Then its own slot is the one
 * with the kept state, and the run's slot is the branch, which takes the rows up to the next pause.
 * This saves a step, which for a lone prompt reads all weights. lx_model_can_branch says whether
 * the state can.
 *
 * In a chat the state at the end of an answer is kept too: the next prompt begins with that answer.
 *
 * A kept state shares the pages of a growing state with its run. In the last page, if it is not
 * full, the run goes on, and what it adds there is not the kept state's. So a run that starts from
 * the kept state copies that page. Where states cannot branch the kept state has a copy of it, too:
 * their pages are not only rows. Kept states may have all pages that no run has, since the pool has
 * its memory in any case. They reserve no pages: one gives way when a run takes pages that it has
 * reserved.
 *
 * Kept states may also be stored in a place that outlives the process (stored.c). A run whose
 * prompt has a longer stored beginning than any kept one waits until that state is read. Then the
 * state is kept.
 *
 * Only states that this engine computed from nothing are kept. An imported state is the client's
 * word and must not become another client's answer.
 */
#include <string.h>

#include "server/engine/internal.h"

/* A prompt that parts from another does not pause for fewer rows than these. */
enum { MIN_BRANCH = 3 };
enum { MEAN_STEPS = 64 }; /* about so many steps count in the mean time of a prompt row */

static bool shares(const lx_engine *e, const lx_run *r)
{
    const lx_job_start *start = &r->params->start;
    return e->prefixes != NULL && start->rows == 0 && start->n_tokens == 0 && !r->params->follows;
}

static lx_prefix_key key_of(const lx_engine *e, const lx_run *r, const int32_t *ids, int32_t rows)
{
    return (lx_prefix_key){.owner = lx_run_owner(e, r), .ids = ids, .n_rows = rows};
}

static void note_cached(lx_engine *e, int32_t rows)
{
    lx_counter_add(&e->metrics->cached_prompt_tokens, rows);
    e->spared_rows += rows;
}

void lx_prefix_count_spared(lx_engine *e, int32_t n_rows, double row_ns)
{
    double *mean = &e->prompt_row_ns;
    if (n_rows > 0)
        *mean += *mean > 0 ? (row_ns - *mean) / MEAN_STEPS : row_ns;
    if (*mean > 0 && e->spared_rows > 0) {
        lx_counter_add(&e->metrics->spared_ns, (int64_t)((double)e->spared_rows * *mean));
        e->spared_rows = 0;
    }
}

/* The first border after a row; INT32_MAX: there is none. */
static int32_t next_border(const lx_plan *p, int32_t row)
{
    int32_t low = 0, high = p->n_borders;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (p->borders[middle] <= row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->n_borders ? p->borders[low] : INT32_MAX;
}

static int32_t nearer(int32_t row, int32_t a, int32_t b)
{
    return b > row && b < a ? b : a;
}

/* Rows of the longest stored beginning of the prompt. At least one row of the prompt is left for
   the run's first slot, which waits for the state in the phase PROMPT. */
static int32_t stored_rows(const lx_engine *e, const lx_run *r)
{
    int32_t end = lx_run_prompt_end(r), n = r->plan->n_prompt;
    return lx_stored_find(e, key_of(e, r, r->plan->prompt_ids, (end < n ? end : n) - 1));
}

int32_t lx_prefix_begin(lx_engine *e, lx_run *r)
{
    if (!shares(e, r) || r->plan->n_prompt < 2)
        return -1;
    /* The last row is computed: its output is the first token. */
    lx_prefix_key key = key_of(e, r, r->plan->prompt_ids, r->plan->n_prompt - 1);
    lx_prefix found = lx_prefix_cache_find(e->prefixes, key);
    int32_t stored = stored_rows(e, r);
    r->awaits_state = stored >= found.rows + LX_PREFIX_WORTH;
    r->first_row = r->awaits_state ? stored : found.rows;
    bool parts = found.shared - r->first_row >= MIN_BRANCH &&
                 next_border(r->plan, found.shared - LX_BORDER_ROWS) > found.shared;
    r->branch = parts ? found.shared : 0;
    lx_job_mark_cached(r->job, r->first_row);
    if (r->awaits_state)
        return -1;
    note_cached(e, found.rows);
    return found.slot >= 0 ? e->total_slots + found.slot : -1;
}

/* Whether prompts go on from answers. Lines and pictures are complete. */
static bool is_open(const lx_engine *e)
{
    return e->model->task->ends != NULL;
}

/* The last rows of a chat only begin its answer: after a border there is no other pause. */
static int32_t last_pause(const lx_plan *p)
{
    int32_t last = p->n_prompt - 1, border = next_border(p, last - LX_BORDER_ROWS);
    return border < last ? border : last;
}

int32_t lx_prefix_pause(const lx_engine *e, const lx_run *r, int32_t row)
{
    if (row >= r->plan->n_prompt - 1 || !shares(e, r))
        return INT32_MAX;
    int32_t every = e->options.prefix_every, last = last_pause(r->plan);
    if (every == 0 && is_open(e))
        every = e->options.prompt_chunk;
    int32_t pause = nearer(row, INT32_MAX, last);
    pause = nearer(row, pause, r->branch);
    pause = nearer(row, pause, next_border(r->plan, row));
    for (int32_t at = every > 0 ? (row / every + 1) * every : pause; at < pause && at < last;
         at += every) {
        if (next_border(r->plan, at - every) - at >= every)
            return at;
    }
    return pause;
}

int32_t lx_prefix_limit(const lx_engine *e, const lx_run *r, int32_t row)
{
    int32_t pause = lx_prefix_pause(e, r, row);
    return pause < INT32_MAX && lx_model_can_branch(e->model) ? lx_prefix_pause(e, r, pause)
                                                              : pause;
}

/* Whether the state after so many rows is worth storing even if prompts do not part there. Most
   conversations of a client begin with the rows before the first border, its instructions and
   tools. The next prompt may lack what begins the answer, so it goes on from the last border. */
static bool is_lasting(const lx_plan *p, int32_t rows)
{
    int32_t last = p->n_prompt - 1, border = p->n_borders > 0 ? p->borders[p->n_borders - 1] : 0;
    return rows == (last - border < LX_PREFIX_WORTH && border > 0 ? border : last) ||
           (p->n_borders > 0 && rows == p->borders[0]);
}

/* --- pages --- */

/* Pages of a state of so many rows that are not full: 0 or 1. */
static int32_t open_pages(const lx_engine *e, int32_t rows)
{
    return e->pages.n > 0 && rows % LX_PAGE_TOKENS != 0;
}

int32_t lx_prefix_shared(const lx_engine *e, int32_t kept, int32_t rows, int32_t *n)
{
    *n = kept >= 0 && e->pages.n > 0 ? rows / LX_PAGE_TOKENS : 0;
    return *n > 0 ? lx_pages_before(&e->pages, e->kept_pages[kept - e->total_slots],
                                    open_pages(e, rows))
                  : -1;
}

static void drop_pages(lx_engine *e, int32_t kept)
{
    (void)lx_pages_drop(&e->pages, LX_PAGES_KEPT, e->kept_pages[kept]);
    e->kept_pages[kept] = -1;
}

/* The state that the run has just found gives way last. If it does, its page that is not full keeps
   its bytes until the run has copied them. */
void lx_prefix_make_room(lx_engine *e, int32_t n)
{
    while (e->pages.n_free < n)
        drop_pages(e, lx_prefix_cache_forget(e->prefixes));
}

void lx_prefix_forget_all(lx_engine *e)
{
    while (e->prefixes != NULL && lx_prefix_cache_count(e->prefixes) > 0)
        drop_pages(e, lx_prefix_cache_forget(e->prefixes));
}

/* Pages of a kept state of so many rows that are copies: 0 or 1. */
static int32_t copied_pages(const lx_engine *e, int32_t rows)
{
    return lx_model_can_branch(e->model) ? 0 : open_pages(e, rows);
}

/* Whether a state of so many rows can be kept next to the pages of runs. */
static bool has_room(const lx_engine *e, int32_t rows)
{
    return copied_pages(e, rows) <= e->pages.n - e->pages.n_used[LX_PAGES_RUN];
}

/* The kept state shares pages of the slot. For a copy it takes a free page, for which other kept
   states give way. */
static lx_status take_pages(lx_engine *e, int32_t kept, int32_t slot, int32_t rows, lx_error *err)
{
    const lx_slot *s = &e->slots[slot];
    int32_t n = lx_model_state_pages(e->model, rows), copied = copied_pages(e, rows);
    int32_t chain = lx_pages_before(&e->pages, s->pages, e->runs[s->run].pages - (n - copied));
    drop_pages(e, kept); /* of the state that it had before */
    (void)lx_pages_share(&e->pages, LX_PAGES_KEPT, chain);
    e->kept_pages[kept] = chain;
    lx_prefix_make_room(e, copied);
    chain = lx_pages_extend(&e->pages, LX_PAGES_KEPT, chain, copied);
    e->kept_pages[kept] = chain;
    lx_pages_list(&e->pages, chain, n, e->page_list);
    return lx_transformer_state_map(e->transformer, e->states, e->total_slots + kept, n,
                                    e->page_list, err);
}

/* --- keeping --- */

/* A number of a kept state for the key's rows, -1: it is kept already, or there is no room. */
static int32_t make_kept(lx_engine *e, const lx_run *r, lx_prefix_key key)
{
    if (!has_room(e, key.n_rows))
        return -1;
    int32_t kept = lx_prefix_cache_add(e->prefixes, key);
    e->unstored = true;
    if (kept >= 0 && key.n_rows <= r->plan->n_prompt)
        lx_job_mark_kept(r->job, key.n_rows);
    return kept;
}

/* Keeps the state of a slot that has absorbed the key's rows and nothing else. */
static lx_status keep(lx_engine *e, int32_t slot, lx_prefix_key key, lx_error *err)
{
    int32_t rows = key.n_rows, kept = make_kept(e, &e->runs[e->slots[slot].run], key);
    if (kept < 0)
        return LX_OK;
    lx_status st = e->pages.n > 0 ? take_pages(e, kept, slot, rows, err) : LX_OK;
    if (st != LX_OK)
        return st;
    return lx_transformer_state_copy(e->transformer, e->states, e->total_slots + kept,
                                     e->slots[slot].state, rows, err);
}

/* The first rows of the run's prompt, up to a pause. */
static lx_prefix_key key_of_pause(const lx_engine *e, const lx_run *r, int32_t pause)
{
    lx_prefix_key key = key_of(e, r, r->plan->prompt_ids, pause);
    key.passing = pause != r->branch && !is_lasting(r->plan, pause);
    return key;
}

/* A new kept state may take the place of a state that an earlier sequence of the step would leave.
   That sequence then computes all rows in its run's slot. */
static void give_way(lx_frame *f, int32_t seq, int32_t state)
{
    for (int32_t i = 0; i < seq; i++) {
        if (f->seq_state[i] != state)
            continue;
        f->seq_state[i] = f->branch[i];
        f->branch[i] = -1;
    }
}

lx_status lx_prefix_branch(lx_engine *e, lx_frame *f, int32_t seq, lx_error *err)
{
    lx_batch *b = &f->step.batch;
    const lx_slot *s = &e->slots[f->seq_slot[seq]];
    const lx_run *r = &e->runs[s->run];
    int32_t row = f->position[seq], n_rows = b->seq_start[seq + 1] - b->seq_start[seq];
    int32_t pause = lx_prefix_pause(e, r, row);
    if (pause >= row + n_rows)
        return LX_OK;
    int32_t kept = make_kept(e, r, key_of_pause(e, r, pause));
    if (kept < 0)
        return LX_OK;
    lx_status st = e->pages.n > 0 ? take_pages(e, kept, f->seq_slot[seq], pause, err) : LX_OK;
    if (st != LX_OK)
        return st;
    give_way(f, seq, e->total_slots + kept);
    f->seq_state[seq] = e->total_slots + kept;
    f->branch[seq] = s->state;
    f->branch_row[seq] = pause - row;
    b->branch = f->branch;
    b->branch_row = f->branch_row;
    return lx_transformer_state_copy(e->transformer, e->states, f->seq_state[seq], s->state, row,
                                     err);
}

lx_status lx_prefix_keep(lx_engine *e, int32_t slot, int32_t row, lx_error *err)
{
    const lx_slot *s = &e->slots[slot];
    const lx_run *r = &e->runs[s->run];
    int32_t at = s->prompt_row;
    bool pauses = at == lx_prefix_pause(e, r, row) || at == lx_prefix_limit(e, r, row);
    return pauses ? keep(e, slot, key_of_pause(e, r, at), err) : LX_OK;
}

lx_status lx_prefix_arrived(lx_engine *e, int32_t slot, lx_status st, lx_error *err)
{
    lx_slot *s = &e->slots[slot];
    lx_run *r = &e->runs[s->run];
    r->awaits_state = false;
    if (st == LX_ERR_NOT_FOUND) { /* the prompt is computed */
        lx_counter_add(&e->metrics->lost_prefixes, 1);
        r->first_row = s->prompt_row = 0;
        lx_job_mark_cached(r->job, 0);
        return lx_transformer_state_zero(e->transformer, e->states, s->state, err);
    }
    if (st != LX_OK)
        return st;
    lx_counter_add(&e->metrics->read_prefixes, 1);
    note_cached(e, r->first_row);
    lx_prefix_key key = key_of(e, r, r->plan->prompt_ids, r->first_row);
    st = keep(e, slot, key, err);
    lx_prefix_cache_mark_stored(e->prefixes, key);
    return st;
}

bool lx_prefix_keeps_answers(const lx_engine *e, const lx_run *r)
{
    return shares(e, r) && is_open(e) && r->params->n == 1;
}

lx_status lx_prefix_keep_answer(lx_engine *e, int32_t slot, lx_error *err)
{
    const lx_slot *s = &e->slots[slot];
    const lx_run *r = &e->runs[s->run];
    int32_t n = 0, rows = lx_slot_rows(s, r), n_prompt = r->plan->n_prompt;
    size_t width = (size_t)e->model->config.n_inputs;
    const int32_t *tokens = NULL;
    if (!lx_prefix_keeps_answers(e, r) || rows <= n_prompt)
        return LX_OK;
    n = lx_job_tokens(r->job, s->sample, &tokens, NULL);
    if (rows != n_prompt + n - 1)
        return LX_OK; /* it ended between a row and its token */
    memcpy(e->answer_ids, r->plan->prompt_ids, (size_t)n_prompt * width * sizeof *e->answer_ids);
    for (int32_t i = 0; i + 1 < n; i++)
        e->model->task->input(r->plan, i, tokens, e->answer_ids + (size_t)(n_prompt + i) * width);
    return keep(e, slot, key_of(e, r, e->answer_ids, rows), err);
}
