/*
 * Several tokens of a sample in one step: after the row of the newest token come rows of guessed
 * tokens. Those count whose guesses turn out to be the tokens that are drawn. A token is a function
 * of its logits and its number. Logits do not depend on how rows are cut into steps, so guesses
 * change no byte of an answer.
 *
 * The rows of a sample in a step are
 *     late   rows of known tokens that its state has not absorbed
 *     sure   the row of the newest token
 *     guess  rows of guessed tokens, each correct only if all before it are
 *
 * The rows of guesses are computed in the second slot (lx_batch.branch). If all guesses were right,
 * the two slots swap. Otherwise the first one has the state after the sure row, and the rows of the
 * right guesses are late rows of the next step. That costs less than a copy of a state per row.
 *
 * If the state is wanted, because its sample ends or is suspended, the slot first computes a step
 * with its late rows alone: it catches up.
 */
#include "server/engine/internal.h"

#define FADE 0.995        /* weight of a step when the next one comes */
#define LEAST_STEPS 8.0   /* before the line is believed */
#define LEAST_SPREAD 0.25 /* variance of the rows before the line is believed */
#define FIRST_SLOPE 0.5   /* of the base, before anything is known */
#define LEAST_SLOPE 0.02  /* of the mean time: a row is never free */
#define BRANCH 0.5        /* rows that writing a second state costs; measured */
#define TRUST 0.95        /* a gain below 5 % is as likely a loss */

enum {
    MOST_ROWS = 32,    /* guesses per step */
    MOST_LESSONS = 16, /* tokens per step from which the drafter learns: streams in hundreds never
                          guess, and should not spend time on lessons */
    MOST_SECOND_BYTES = 32 << 20, /* of second slots, out of a server's 64 MiB for small things */
};

/* --- the cost of a guess --- */

void lx_step_cost_observe(lx_step_cost *c, int32_t rows, int64_t ns)
{
    double r = (double)rows, t = (double)ns;
    c->n = c->n * FADE + 1;
    c->rows = c->rows * FADE + r;
    c->rows2 = c->rows2 * FADE + r * r;
    c->ns = c->ns * FADE + t;
    c->rows_ns = c->rows_ns * FADE + r * t;
}

lx_step_line lx_step_cost_line(const lx_step_cost *c)
{
    lx_step_line line = {1, FIRST_SLOPE};
    if (c->n < LEAST_STEPS)
        return line;
    double mean = c->rows / c->n, time = c->ns / c->n;
    double spread = c->rows2 / c->n - mean * mean;
    if (spread < LEAST_SPREAD)
        return line;
    line.slope = (c->rows_ns / c->n - mean * time) / spread;
    if (line.slope > time / mean)
        line.slope = time / mean;
    if (line.slope < LEAST_SLOPE * time)
        line.slope = LEAST_SLOPE * time;
    line.base = time - line.slope * mean;
    if (line.base < 0)
        line.base = 0;
    return line;
}

bool lx_draft_pays(const lx_step_line *line, double tokens, int32_t rows, const lx_draft_row *row)
{
    double p = row->before * row->sure, now = line->base + line->slope * rows;
    double cost = 1 + (row->n == 0 ? BRANCH : 0) + row->before * (1 - row->sure) * row->n;
    return (tokens + p * TRUST) * now > tokens * (now + line->slope * cost);
}

/* --- the second slots --- */

int32_t lx_engine_most_drafts(const lx_model *m, int32_t draft)
{
    int64_t each = m->state.fixed_floats * (int64_t)sizeof(float);
    if (draft == 0 || !lx_model_can_guess(m))
        return 0;
    int64_t n = MOST_SECOND_BYTES / each;
    return n < LX_MOST_SECOND ? (int32_t)n : LX_MOST_SECOND;
}

lx_status lx_drafts_init(lx_engine *e, int32_t first, lx_error *err)
{
    lx_drafts *d = &e->drafts;
    int32_t room = (e->options.max_tokens - e->options.n_slots) / 2; /* guesses, and as many late */
    int32_t n = lx_engine_most_drafts(e->model, e->options.draft), half = e->total_slots / 2;
    d->n_second = room == 0 ? 0 : n < half ? n : half;
    if (d->n_second == 0)
        return LX_OK;
    d->most_rows = room < MOST_ROWS ? room : MOST_ROWS;
    for (; d->n_unused < d->n_second; d->n_unused++)
        d->unused[d->n_unused] = first + d->n_unused;
    return lx_drafter_new(e->model, e->options.guesser, &d->drafter, err);
}

/* --- guesses --- */

/* The guesses of a sample in this step, and its next one. */
typedef struct chain {
    int32_t slot, n;
    float sure; /* probability that all n are right */
    lx_guess next;
} chain;

static bool may_guess(const lx_engine *e, int32_t slot, int32_t n_unused)
{
    const lx_slot *s = &e->slots[slot];
    if (s->phase != LX_SLOT_DECODE || e->rows[slot] != 1)
        return false;
    const lx_run *r = &e->runs[s->run];
    return !r->params->sampling.no_draft && r->params->targets == NULL &&
           !lx_job_penalizes(r->params) && !lx_run_goes_ahead(e, r) &&
           (s->second >= 0 || n_unused > 0);
}

/* For token n, after these tokens. */
static lx_guess_context context_of(const lx_engine *e, const lx_slot *s, const int32_t *tokens,
                                   int32_t n)
{
    const lx_run *r = &e->runs[s->run];
    lx_sampling sampling = lx_slot_sampling(s, r, n);
    return (lx_guess_context){r->plan, tokens, n, lx_draw_of(e->model, &sampling),
                              lx_run_owner(e, r)};
}

/* The next guess of the chain. The job has its earlier guesses after the drawn tokens. */
static void look_ahead(lx_engine *e, chain *c)
{
    const lx_slot *s = &e->slots[c->slot];
    const lx_run *r = &e->runs[s->run];
    int32_t n = s->step + c->n;
    const int32_t *tokens = NULL;
    c->next.sure = 0;
    if (c->n >= e->options.draft || n + 1 >= r->params->max_new)
        return;
    (void)lx_job_tokens(r->job, s->sample, &tokens, NULL);
    lx_guess_context at = context_of(e, s, tokens, n);
    e->drafts.rule.allowed = NULL;
    e->model->task->constrain(r->plan, n, tokens, &e->drafts.rule);
    c->next = lx_drafter_guess(e->drafts.drafter, &at, &e->drafts.rule);
}

static void take_guess(lx_engine *e, chain *c)
{
    lx_slot *s = &e->slots[c->slot];
    lx_job_expect(e->runs[s->run].job, s->sample, s->step + c->n, c->next.token);
    if (s->second < 0)
        s->second = e->drafts.unused[--e->drafts.n_unused];
    c->n++;
    c->sure *= c->next.sure;
    s->n_guessed = c->n;
    e->rows[c->slot]++;
    look_ahead(e, c);
}

static int32_t surest(const chain *c, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        if (c[i].sure * c[i].next.sure > c[best].sure * c[best].next.sure)
            best = i;
    }
    return best;
}

/* Adds guesses, the surest first, while they pay; returns their number. */
static int32_t guess(lx_engine *e, int32_t tokens, int32_t rows)
{
    chain chains[LX_MOST_SECOND];
    int32_t n = 0, most = e->options.max_tokens - rows, guessed = 0, n_unused = e->drafts.n_unused;
    double expected = (double)tokens;
    lx_step_line line = lx_step_cost_line(&e->drafts.cost);
    most = most < e->drafts.most_rows ? most : e->drafts.most_rows;
    for (int32_t slot = 0; slot < e->total_slots && n < LX_MOST_SECOND; slot++) {
        if (!may_guess(e, slot, n_unused))
            continue;
        n_unused -= e->slots[slot].second < 0;
        chains[n] = (chain){.slot = slot, .sure = 1};
        look_ahead(e, &chains[n++]);
    }
    for (; n > 0 && guessed < most; guessed++) {
        chain *c = &chains[surest(chains, n)];
        lx_draft_row row = {c->n, (double)c->sure, (double)c->next.sure};
        if (row.sure <= 0 || !lx_draft_pays(&line, expected, rows + guessed, &row))
            break;
        expected += row.before * row.sure;
        take_guess(e, c);
    }
    return guessed;
}

int32_t lx_drafts_late_rows(const lx_engine *e)
{
    int32_t n = 0;
    for (int32_t i = 0; i < e->total_slots && e->drafts.drafter != NULL; i++)
        n += e->slots[i].late;
    return n;
}

int32_t lx_drafts_choose(lx_engine *e, int32_t total)
{
    if (e->drafts.drafter == NULL)
        return total;
    e->drafts.lessons = MOST_LESSONS;
    int32_t tokens = 0, late = 0;
    for (int32_t i = 0; i < e->total_slots; i++) {
        bool decodes = e->rows[i] > 0 && e->slots[i].phase != LX_SLOT_PROMPT;
        late += decodes ? e->slots[i].late : 0;
        tokens += decodes;
    }
    total += late;
    return tokens > 0 ? total + guess(e, tokens, total) : total;
}

/* --- results --- */

void lx_drafts_learn(lx_engine *e, const lx_run *r, const lx_slot *s, int32_t token)
{
    const int32_t *tokens = NULL;
    if (e->drafts.drafter == NULL || r->params->targets != NULL || e->drafts.lessons == 0)
        return;
    e->drafts.lessons--;
    int32_t n = lx_job_tokens(r->job, s->sample, &tokens, NULL);
    lx_guess_context at = context_of(e, s, tokens, n);
    lx_drafter_learn(e->drafts.drafter, &at, token);
}

void lx_drafts_settle(lx_engine *e, int32_t slot, int32_t n_tokens)
{
    lx_slot *s = &e->slots[slot];
    int32_t guessed = s->n_guessed, state = s->state;
    s->late = 0;
    if (guessed == 0)
        return;
    s->n_guessed = 0;
    s->step -= guessed + 1 - n_tokens;
    if (n_tokens == guessed + 1) {
        s->state = s->second;
        s->second = state;
    } else {
        s->late = n_tokens - 1;
    }
    lx_job_count_drafted(e->runs[s->run].job, guessed, n_tokens - 1);
    lx_counter_add(&e->metrics->drafted_tokens, guessed);
    lx_counter_add(&e->metrics->accepted_tokens, n_tokens - 1);
}

bool lx_drafts_catch_up(lx_engine *e, int32_t slot)
{
    const lx_slot *s = &e->slots[slot];
    if (s->late > 0 && s->phase == LX_SLOT_DECODE)
        lx_slot_enter(e, slot, LX_SLOT_CATCH_UP);
    return s->late == 0;
}

void lx_drafts_give_back(lx_engine *e, int32_t slot)
{
    const lx_slot *s = &e->slots[slot];
    if (s->second >= 0)
        e->drafts.unused[e->drafts.n_unused++] = s->state == slot ? s->second : s->state;
}
