/*
 * One completion: the job on its way, where each sample's reader stands, and what the answer says
 * about it. The JSON handlers and the page's form are two faces of it.
 */
#ifndef LINNET_SERVER_COMPLETION_H
#define LINNET_SERVER_COMPLETION_H

#include "server/json_api.h"
#include "server/work.h"

typedef struct lx_completion {
    lx_work work; /* first, see work.h */
    char id[32];
    bool include_usage, chat;
    int32_t cursor[]; /* [n] tokens of each sample already streamed */
} lx_completion;

/* Checks the prompt and submits the job; rq->wake is called as it proceeds. When the queue is full
   (LX_ERR_BUSY), *retry_after_s is when to try again. */
lx_status lx_completion_start(lx_api *api, lx_served_model *served, const lx_completion_params *p,
                              const lx_request *rq, lx_completion **out, int32_t *retry_after_s,
                              lx_error *err) LX_MUST_USE;

/* release of lx_deferred; ready and cancel are lx_work's. */
void lx_completion_release(void *context);

typedef struct lx_answer {
    size_t begin, bytes; /* in the common text buffer */
    double mean_logprob;
} lx_answer;

/* Fills answers[n], best first. After it is ready, status LX_OK. */
lx_status lx_completion_answers(const lx_completion *c, lx_answer *answers, lx_buffer *text,
                                lx_error *err) LX_MUST_USE;

/* "stop" when the answer is whole, "length" when max_tokens cut it. */
const char *lx_completion_finish_reason(const lx_completion *c);
lx_json_usage lx_completion_usage(const lx_completion *c);

#endif
