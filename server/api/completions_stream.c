/*
 * Streamed completions: one event per new token of any choice, marked with the choice's index, and
 * before them one with the prompt where it is to be echoed. A choice's last event carries its
 * finish_reason and mean_logprob; it has no text when a stop string ended the choice.
 */
#include "server/api/completions.h"
#include "server/http/sse.h"

enum { PULL_BYTES = 16 * 1024 /* a pull stops here: a slow reader's backlog is made piecewise */ };

static void write_chunk(const lx_completion *c, const lx_json_choice *choice, lx_buffer *out)
{
    lx_json_completion chunk = lx_completion_frame(c);
    chunk.choices = choice;
    chunk.n_choices = 1;
    chunk.null_usage = c->include_usage;
    chunk.chunk = true;
    lx_sse_begin(out);
    lx_json_write_completion(&chunk, out);
    lx_sse_end(out);
}

/* What one event tells. */
typedef struct piece {
    bool prompt;      /* the prompt, else: */
    int32_t from, to; /* tokens */
    bool last;
} piece;

static lx_status write_piece(lx_completion *c, int32_t index, const lx_answer *a, const piece *p,
                             lx_buffer *out)
{
    lx_error err;
    lx_choice choice;
    lx_cursor *at = &c->cursor[index];
    int32_t prompt = index / c->n;
    int32_t n = p->prompt ? lx_job_plan(c->works[prompt].job)->n_pieces : p->to - p->from;
    lx_status st = lx_choice_open(c, prompt, n, &choice, &err);
    if (st == LX_OK && p->prompt)
        lx_choice_add_prompt(&choice, c, prompt);
    else if (st == LX_OK)
        lx_choice_add_tokens(&choice, a, p->from, p->to);
    if (st == LX_OK)
        st = lx_choice_close(&choice, index, at->chars, &err);
    if (st == LX_OK) {
        choice.json.first = !at->begun;
        choice.json.finish_reason = p->last ? lx_completion_finish_reason(c, prompt, a) : NULL;
        choice.json.has_score = p->last;
        choice.json.mean_logprob = a->mean_logprob;
        write_chunk(c, &choice.json, out);
        at->begun = true;
        at->chars += lx_choice_chars(&choice);
        at->ended = p->last;
    }
    lx_choice_fini(&choice);
    return st;
}

/* Events for what has come of one choice; *more when there was no room for all of it. */
static lx_status write_news(lx_completion *c, int32_t index, const lx_answer *a, lx_buffer *out,
                            bool *more)
{
    lx_cursor *at = &c->cursor[index];
    lx_status st = LX_OK;
    if (c->echo && !at->begun && a->n_tokens + a->ended > 0)
        st = write_piece(c, index, a, &(piece){.prompt = true}, out);
    while (st == LX_OK && !at->ended && (at->tokens < a->n_tokens || a->ended)) {
        *more = out->length >= PULL_BYTES;
        if (*more)
            break;
        int32_t from = at->tokens;
        at->tokens += from < a->n_tokens;
        piece p = {.from = from, .to = at->tokens, .last = a->ended && at->tokens == a->n_tokens};
        st = write_piece(c, index, a, &p, out);
    }
    return st;
}

static lx_status write_choice(lx_completion *c, int32_t index, lx_buffer *out, bool *more)
{
    const lx_cursor *at = &c->cursor[index];
    const lx_job *job = c->works[index / c->n].job;
    int32_t sample = index % c->n, first = lx_job_get_params(job)->start.n_tokens;
    if (at->ended ||
        (!lx_work_parked(&c->works[index / c->n]) &&
         lx_job_tokens(job, sample, NULL, NULL) == first + at->tokens && c->stops.n == 0))
        return LX_OK; /* the common case costs nothing */
    lx_error err;
    lx_answer a;
    lx_status st = lx_answer_read(c, index / c->n, sample, &a, &err);
    if (st == LX_OK)
        st = write_news(c, index, &a, out, more);
    lx_answer_fini(&a);
    return st;
}

static void write_end(lx_completion *c, lx_buffer *out)
{
    lx_error err = {0};
    lx_status st = lx_completion_finish(c, &err);
    if (st != LX_OK) {
        lx_sse_begin(out);
        lx_api_write_error(st, &err, out);
        lx_sse_end(out);
        return;
    }
    lx_buffer kept;
    const char *states = lx_completion_states(c, &kept);
    if (c->include_usage || states != NULL) {
        lx_json_usage usage = lx_completion_usage(c);
        lx_json_timings timings = lx_completion_timings(c);
        lx_json_completion last = lx_completion_frame(c);
        last.chunk = true;
        last.usage = c->include_usage ? &usage : NULL;
        last.timings = &timings;
        last.states = states;
        lx_sse_begin(out);
        lx_json_write_completion(&last, out);
        lx_sse_end(out);
    }
    lx_buffer_fini(&kept);
    lx_sse_done(out);
}

bool lx_completion_pull(void *context, lx_buffer *out)
{
    lx_completion *c = context;
    lx_completion_advance(c);
    bool done = lx_completion_is_done(c),
         more = false; /* before the tokens are read: no more come */
    for (int32_t i = 0; i < c->n_prompts * c->n && !more; i++) {
        lx_status st = write_choice(c, i, out, &more);
        if (st != LX_OK)
            out->status = out->status == LX_OK ? st : out->status;
    }
    if (done && !more)
        write_end(c, out);
    return done && !more;
}
