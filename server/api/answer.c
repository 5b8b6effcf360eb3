/*
 * Reading answers (see answer.h). Text that was handed out or is ready can be no part of a stop
 * string, so only later text is searched.
 */
#include "server/api/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 16 };

void lx_answer_init(lx_answer *a, const lx_work *w, int32_t sample, bool wants_logprobs)
{
    *a = (lx_answer){.work = w, .sample = sample, .wants_logprobs = wants_logprobs};
    const lx_plan *plan = lx_job_plan(w->job);
    a->first = w->params->start.n_tokens + plan->n_given;
    size_t most = (size_t)plan->n_pieces + (size_t)w->params->max_new + 1;
    lx_buffer_init(&a->text, most * (size_t)plan->model->token_bytes);
}

void lx_answer_fini(lx_answer *a)
{
    lx_buffer_fini(&a->text);
    free(a->tokens);
    a->tokens = NULL;
    a->n_tokens = a->room = 0;
}

/* Forgets the text that was handed out, so that its room is used again. */
static void drop_taken(lx_answer *a)
{
    if (a->taken == 0)
        return;
    a->n_tokens -= a->taken;
    a->text.length -= a->taken_bytes;
    memmove(a->tokens, a->tokens + a->taken, (size_t)a->n_tokens * sizeof *a->tokens);
    if (a->taken_bytes > 0) /* with the final NUL */
        memmove(a->text.data, a->text.data + a->taken_bytes, a->text.length + 1);
    a->taken = 0;
    a->taken_bytes = 0;
}

static bool make_room(lx_answer *a, int32_t n)
{
    int32_t room = a->room > 0 ? a->room : FIRST_ROOM;
    while (room < a->n_tokens + n)
        room *= 2;
    if (room == a->room)
        return true;
    lx_json_token *tokens = realloc(a->tokens, (size_t)room * sizeof *tokens);
    if (tokens == NULL)
        return false;
    a->tokens = tokens;
    a->room = room;
    return true;
}

/* The token that the text from `begin` on is. */
static void add_token(lx_answer *a, size_t begin, int32_t id, double logprob, const lx_sample *top)
{
    a->tokens[a->n_tokens++] =
        (lx_json_token){.bytes = a->text.length - begin, .id = id, .logprob = logprob, .top = top};
}

static lx_status text_status(const lx_answer *a, lx_error *err)
{
    return a->text.status == LX_OK ? LX_OK
                                   : lx_fail(err, a->text.status, NULL, "the answer does not fit");
}

/* Of the first token with a text: takes away the omitted beginning. */
static void drop_leading(lx_answer *a, size_t begin)
{
    size_t n = a->leading != NULL ? strlen(a->leading) : 0, bytes = a->text.length - begin;
    if (bytes == 0 || a->text.status != LX_OK)
        return;
    if (n > 0 && n <= bytes && memcmp(a->text.data + begin, a->leading, n) == 0) {
        memmove(a->text.data + begin, a->text.data + begin + n, bytes - n + 1);
        a->text.length -= n;
    }
    a->leading = NULL;
}

/* Renders the next n new tokens of the job. */
static lx_status render(lx_answer *a, int32_t n, lx_error *err)
{
    const lx_job *job = a->work->job;
    const lx_plan *plan = lx_job_plan(job);
    const int32_t *tokens = NULL;
    const float *logprobs = NULL;
    const lx_sample *top = lx_job_top(job, a->sample);
    int32_t n_top = a->work->params->n_top;
    if (!make_room(a, n))
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    (void)lx_job_tokens(job, a->sample, &tokens, &logprobs);
    for (int32_t k = 0; k < n; k++) {
        int32_t step = a->first + a->n_read++;
        size_t begin = a->text.length;
        plan->model->task->render(plan, step, tokens, &a->text);
        drop_leading(a, begin);
        add_token(a, begin, tokens[step], (double)logprobs[step],
                  top != NULL ? top + (int64_t)step * n_top : NULL);
    }
    return text_status(a, err);
}

static size_t ready_bytes(const lx_answer *a)
{
    size_t bytes = 0;
    for (int32_t k = 0; k < a->taken + a->n_ready; k++)
        bytes += a->tokens[k].bytes;
    return bytes;
}

/* How many of the bytes before a cut are no part of a character that the cut divides. */
static size_t whole_characters(const char *text, size_t cut)
{
    while (cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80)
        cut--;
    return cut;
}

/* Of tokens that come before any stop string counts the text is settled. */
static void skip_open(lx_answer *a)
{
    int32_t open = lx_job_plan(a->work->job)->n_open - a->first;
    int32_t waiting = a->n_tokens - a->taken - a->n_ready; /* newest of the n_read */
    for (; waiting > 0 && a->n_read - waiting < open; waiting--)
        a->n_ready++;
}

/* Cuts at a stop string, which may begin in the middle of a token. Text that may be its beginning
 * is not ready. */
static void settle(lx_answer *a)
{
    const lx_stops *stops = a->work->params->stops;
    skip_open(a);
    size_t end = ready_bytes(a), bytes = a->text.length - end;
    size_t settled = bytes;
    if (stops != NULL && bytes > 0) {
        a->stop = lx_stops_cut(stops, a->text.data + end, bytes, &settled);
        a->stopped = a->stop >= 0;
        settled = a->stopped ? settled : bytes;
        a->ended = a->ended || a->stopped;
        if (!a->ended)
            settled = lx_stops_settled(stops, a->text.data + end, bytes);
    }
    int32_t k = a->taken + a->n_ready;
    size_t at = 0;
    for (; k < a->n_tokens && at + a->tokens[k].bytes <= settled; k++)
        at += a->tokens[k].bytes;
    if (a->stopped)
        settled = whole_characters(a->text.data + end, settled);
    a->divided = a->stopped && at < settled;
    if (a->divided)
        a->tokens[k++].bytes = settled - at;
    a->n_ready = k - a->taken;
}

bool lx_answer_at_end(const lx_answer *a)
{
    const lx_job *job = a->work->job;
    const lx_task_ops *task = lx_job_plan(job)->model->task;
    int32_t n = a->first + a->n_read;
    const int32_t *tokens = NULL;
    if (task->ends == NULL || a->n_read == 0)
        return false;
    (void)lx_job_tokens(job, a->sample, &tokens, NULL);
    return task->ends(lx_job_plan(job), tokens[n - 1]);
}

lx_status lx_answer_read(lx_answer *a, int32_t most, lx_error *err)
{
    const lx_work *w = a->work;
    if (a->ended)
        return LX_OK;
    bool over = lx_job_sample_ended(w->job, a->sample); /* before its tokens are counted */
    int32_t first = a->first;                           /* the earlier bytes are not the answer's */
    int32_t there = lx_job_tokens(w->job, a->sample, NULL, NULL) - first;
    int32_t n = there - a->n_read;
    n = n < most - a->n_ready ? n : most - a->n_ready;
    lx_status st = LX_OK;
    if (n > 0) {
        drop_taken(a);
        st = render(a, n, err);
    }
    a->behind = a->n_read < there;
    a->ended = !a->behind && (over || lx_work_suspended(w) || first + there == w->params->max_new ||
                              lx_answer_at_end(a));
    if (st == LX_OK)
        settle(a);
    return st;
}

lx_status lx_answer_add_prompt(lx_answer *a, lx_error *err)
{
    const lx_plan *plan = lx_job_plan(a->work->job);
    const float *logprobs = NULL;
    const lx_sample *top = lx_job_top(a->work->job, a->sample);
    int32_t n_top = a->work->params->n_top;
    if (!make_room(a, plan->n_pieces))
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    (void)lx_job_tokens(a->work->job, a->sample, NULL, &logprobs);
    for (int32_t i = 0; i < plan->n_pieces; i++) {
        size_t begin = a->text.length;
        int32_t step = plan->n_given > 0 ? i - plan->n_prompt : -1; /* -1: not predicted */
        plan->model->task->render_prompt(plan, i, &a->text);
        add_token(a, begin, -1, step >= 0 ? (double)logprobs[step] : (double)NAN,
                  step >= 0 && top != NULL ? top + (int64_t)step * n_top : NULL);
    }
    a->n_ready = plan->n_pieces;
    return text_status(a, err);
}

static int64_t count_chars(const char *text, size_t bytes)
{
    int64_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

void lx_answer_take(lx_answer *a, int32_t n, lx_json_choice *out)
{
    const char *begin = a->text.data != NULL ? a->text.data + a->taken_bytes : "";
    const char *text = begin;
    for (int32_t i = 0; i < n; i++) {
        lx_json_token *t = &a->tokens[a->taken + i];
        t->text = text;
        text += t->bytes;
    }
    a->logprobs = (lx_json_logprobs){.tokens = a->tokens != NULL ? a->tokens + a->taken : NULL,
                                     .n = n,
                                     .n_top = a->work->params->n_top,
                                     .offset = a->chars,
                                     .model = a->work->pending.served->model};
    *out = (lx_json_choice){.text = begin,
                            .text_bytes = (size_t)(text - begin),
                            .tokens = a->logprobs.tokens,
                            .n_tokens = n,
                            .logprobs = a->wants_logprobs && n > 0 ? &a->logprobs : NULL};
    a->taken += n;
    a->taken_bytes += out->text_bytes;
    a->n_ready -= n;
    a->chars += count_chars(begin, out->text_bytes);
}

double lx_answer_mean_logprob(const lx_answer *a)
{
    return a->n_read > 0 ? (double)lx_job_mean_logprob(a->work->job, a->sample) : 0;
}
