/*
 * Streamed completions: one event per new token of any choice, marked with the choice's index, and
 * before them one with the prompt where it is to be echoed. A choice's last event carries its
 * finish_reason and mean_logprob; it has no text when a stop string ended the choice.
 */
#include "server/api/completions.h"
#include "server/http/sse.h"

/* A pull stops at so many bytes: a slow reader's backlog is made piecewise. */
enum { PULL_BYTES = 16 * 1024 };

static void write_chunk(lx_completion *c, const lx_json_choice *choice, lx_buffer *out)
{
    lx_json_completion chunk = lx_completion_frame(c);
    chunk.choices = choice;
    chunk.n_choices = 1;
    lx_json_usage usage = lx_completion_usage_so_far(c);
    chunk.null_usage = c->include_usage;
    chunk.usage = c->usage_always ? &usage : NULL;
    chunk.chunk = true;
    chunk.notes = c->warned ? NULL : &c->notes;
    c->warned = true;
    lx_sse_begin(out);
    lx_json_write_completion(&chunk, out);
    lx_sse_end(out);
}

/* The event of what was taken of the choice. */
static void write_event(lx_completion *c, int32_t index, lx_json_choice *json, lx_buffer *out)
{
    lx_choice *choice = &c->choices[index];
    json->index = index;
    json->first = !choice->begun;
    if (json->first)
        lx_choice_add_prompt_ids(c, index, json);
    write_chunk(c, json, out);
    choice->begun = true;
}

/* The prompt is an answer of its own that stands before the tokens. */
static lx_status write_prompt(lx_completion *c, int32_t index, lx_buffer *out, lx_error *err)
{
    lx_answer prompt;
    lx_json_choice json;
    lx_answer *a = &c->choices[index].answer;
    lx_answer_init(&prompt, a->work, a->sample, a->wants_logprobs);
    lx_status st = lx_answer_add_prompt(&prompt, err);
    if (st == LX_OK) {
        lx_answer_take(&prompt, prompt.n_ready, &json);
        write_event(c, index, &json, out);
        a->chars = prompt.chars;
    }
    lx_answer_fini(&prompt);
    return st;
}

static void write_token(lx_completion *c, int32_t index, lx_buffer *out)
{
    lx_choice *choice = &c->choices[index];
    lx_answer *a = &choice->answer;
    lx_json_choice json;
    lx_answer_take(a, a->n_ready > 0, &json);
    choice->ended = a->ended && a->n_ready == 0;
    if (choice->ended)
        lx_choice_end(c, index, &json);
    write_event(c, index, &json, out);
}

/* Events for what was read of a choice; *more when there was no room for all of it. */
static lx_status write_ready(lx_completion *c, int32_t index, lx_buffer *out, bool *more,
                             lx_error *err)
{
    lx_choice *choice = &c->choices[index];
    const lx_answer *a = &choice->answer;
    lx_status st = LX_OK;
    if (c->echo && !choice->begun && a->n_ready + a->ended > 0)
        st = write_prompt(c, index, out, err);
    while (st == LX_OK && !choice->ended && a->n_ready + a->ended > 0) {
        *more = out->length >= PULL_BYTES;
        if (*more)
            break;
        write_token(c, index, out);
    }
    return st;
}

static lx_status write_choice(lx_completion *c, int32_t index, lx_buffer *out, bool *more)
{
    lx_error err;
    lx_choice *choice = &c->choices[index];
    lx_status st = LX_OK;
    do {
        st = lx_answer_read(&choice->answer, LX_STREAM_TOKENS, &err);
        if (st == LX_OK)
            st = write_ready(c, index, out, more, &err);
    } while (st == LX_OK && !*more && choice->answer.behind);
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
        lx_json_notes late = {.unkept = lx_works_unkept(c->works, c->n_prompts)};
        last.notes = &late;
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
