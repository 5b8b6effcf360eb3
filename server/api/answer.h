/*
 * The text of one choice, read from its job as it comes: every token is rendered once, however
 * often the reader comes back. Text that may yet become a stop string is held back until that is
 * decided; a stop string and what follows it are no part of the answer.
 *
 * The text read so far is kept here as JSON, and is taken piece by piece (a stream) or at once (a
 * whole answer). Thread: the reader's.
 */
#ifndef LINNET_SERVER_API_ANSWER_H
#define LINNET_SERVER_API_ANSWER_H

#include "server/api/generation.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

/* Of one choice, a stream renders at most so many before it sends them. */
enum { LX_STREAM_TOKENS = 16 };

typedef struct lx_answer {
    const lx_work *work;
    int32_t sample;
    bool wants_logprobs;
    const char *leading;   /* static: a text that is left out where the answer begins with it */
    int32_t first;         /* the job's tokens before it are of the prompt, or were there already */
    int32_t n_read;        /* new tokens rendered so far */
    lx_buffer text;        /* of the tokens that were rendered and are not taken */
    lx_json_token *tokens; /* [n_tokens], owned, too */
    int32_t n_tokens, room;
    int32_t taken;      /* of tokens: handed out, dropped with the next read */
    size_t taken_bytes; /* of text: handed out, dropped with the next read */
    int32_t n_ready;    /* tokens after the taken ones that are part of the answer for sure */
    int64_t chars;      /* characters handed out */
    bool behind;        /* the job has tokens that were not read */
    bool ended;         /* the ready tokens are the last ones */
    bool stopped;       /* by a stop string, with the number `stop` */
    int32_t stop;
    bool divided; /* the stop string begins within the last ready token */
    lx_json_logprobs logprobs;
} lx_answer;

/* The answer of a sample of the work, which outlives it. Needs no fini until it is read. */
void lx_answer_init(lx_answer *a, const lx_work *w, int32_t sample, bool wants_logprobs);
/* Zeros are allowed. */
void lx_answer_fini(lx_answer *a);

/* Reads what the job has, until `most` tokens are ready that were not taken: the memory of a stream
   is bounded by that and the longest stop string. */
lx_status lx_answer_read(lx_answer *a, int32_t most, lx_error *err) LX_MUST_USE;
/* Whether the newest token that was read is one that ends an answer (task.h: ends). */
bool lx_answer_at_end(const lx_answer *a);
/* Before anything is read: puts the prompt, as it was read, in front; all its tokens are ready. */
lx_status lx_answer_add_prompt(lx_answer *a, lx_error *err) LX_MUST_USE;
/* Hands out the next n ready tokens as *out, which has no finish_reason and no score. Its pointers
   are valid until the next read or fini. */
void lx_answer_take(lx_answer *a, int32_t n, lx_json_choice *out);

/* Mean log-probability of the new tokens, those of a stop string included; 0 without any. After it
   has ended. */
double lx_answer_mean_logprob(const lx_answer *a);

#endif
