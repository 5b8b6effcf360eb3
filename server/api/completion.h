/*
 * One request for completions: a job for each prompt, its answers as text. Used by the JSON routes,
 * whole or streamed, and by the page's form.
 *
 * All prompts of a request share seed and settings, so each is answered as if it had come alone.
 */
#ifndef LINNET_SERVER_API_COMPLETION_H
#define LINNET_SERVER_API_COMPLETION_H

#include "server/api/answer.h"
#include "server/api/chat_thinking.h"

typedef struct lx_choice {
    lx_answer answer;
    lx_thinking thinking;
    bool begun, ended; /* of a stream: its first event, its last one is written */
    int32_t n_told;    /* its tokens that lx_completion_usage_so_far has counted */
} lx_choice;

typedef struct lx_completion {
    char id[48];
    bool include_usage, usage_always, token_ids, chat, echo;
    int32_t n;          /* choices a prompt; its samples are the job's n */
    int32_t n_logprobs; /* see lx_completion_params, as are the next */
    const char *leading;
    lx_thinking_begin thinks;
    lx_calls *calls; /* one owner; NULL: none can be in the answers */
    int32_t n_prompts;
    lx_json_notes notes;
    bool pooled;         /* the task chooses the answers among the samples */
    bool warned;         /* in a stream: the notes are in its first event */
    size_t max_text;     /* a whole answer has at most */
    int32_t n_ended;     /* of a stream: so many choices from the first on have ended */
    int64_t n_told;      /* sum of the choices' n_told */
    lx_work *works;      /* [n_prompts] */
    lx_choice choices[]; /* [n_prompts, n] */
} lx_completion;

/* Checks the prompts, reserves the memory of their jobs and of the answer, and submits the jobs,
   all or none; rq->wake is called as they proceed. When the queue is full (LX_ERR_BUSY),
   *retry_after_s is when to try again. */
lx_status lx_completion_start(lx_api *api, lx_served_model *served, const lx_completion_params *p,
                              const lx_request *rq, lx_completion **out, int32_t *retry_after_s,
                              lx_error *err) LX_MUST_USE;

/* The answer of a sample of prompt i, to be read from its begin. */
void lx_completion_begin_answer(const lx_completion *c, int32_t i, int32_t sample, lx_answer *a);

/* advance, is_done, cancel and release of lx_deferred; see lx_work_advance. */
void lx_completion_advance(void *context);
bool lx_completion_is_done(const void *context);
void lx_completion_cancel(void *context);
void lx_completion_release(void *context);
/* The same three for an object that begins with a pointer to its completion. */
void lx_completion_held_advance(void *context);
bool lx_completion_held_is_done(const void *context);
void lx_completion_held_cancel(void *context);
/* As lx_work_await_end. */
void lx_completion_await_end(lx_completion *c);

/* How it ended, counted. After it is done. */
lx_status lx_completion_finish(lx_completion *c, lx_error *err);

/* All of the answer to prompt i, best first: reads choice k of it, k < n, from the sample that is
   the k-th best. After done. */
lx_status lx_completion_read_all(lx_completion *c, int32_t i, lx_error *err) LX_MUST_USE;

/* "stop" when the answer is whole or at a stop string, "length" when max_tokens cut it, "parked"
   when its rest is to be asked of another server. */
const char *lx_completion_finish_reason(const lx_completion *c, int32_t i, const lx_answer *a);
lx_json_usage lx_completion_usage(const lx_completion *c);
/* As above, for the text that a stream has sent so far, with the event that is written now, of the
   choice at index. Each event must ask: only this choice is counted, as a request may have
   thousands. */
lx_json_usage lx_completion_usage_so_far(lx_completion *c, int32_t index);
/* JSON of the states that were kept, NULL when none was asked for; in *text, which is initialised
   by the call and freed by the caller. */
const char *lx_completion_states(const lx_completion *c, lx_buffer *text);
lx_json_timings lx_completion_timings(const lx_completion *c);

/* All of an answer that does not depend on its choices. */
lx_json_completion lx_completion_frame(const lx_completion *c);

/* Marks the choice in JSON as the end of it: why it ended, and how likely it was. */
void lx_choice_end(const lx_completion *c, int32_t index, lx_json_choice *json);

/* The ids of its prompt's tokens, where they were asked for and a row is one id. */
void lx_choice_add_prompt_ids(const lx_completion *c, int32_t index, lx_json_choice *json);

/* pull of lx_deferred: events for the tokens that have come (completions.c). */
bool lx_completion_pull(void *context, lx_buffer *out);

#endif
