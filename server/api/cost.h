/*
 * What the answer of a request may cost in memory beside its jobs (lx_job_bytes): known from the
 * request before any work, so that it is reserved or refused. All are upper bounds; cost.c says
 * from which code they come. Thread: any.
 */
#ifndef LINNET_SERVER_API_COST_H
#define LINNET_SERVER_API_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "model/config.h"
#include "model/tokenizers/tokenizer.h"
#include "server/json/parts.h"

/* An lx_choice has at most so many bytes (completion.h). */
enum { LX_COST_CHOICE = 512 };

typedef struct lx_completion_size {
    int64_t n_choices;   /* of all prompts */
    int64_t n_states;    /* that are kept and listed in the answer */
    int64_t tokens;      /* of a choice, at most; with the prompt's where it is echoed */
    int64_t pending;     /* of a stream's choice: tokens that are rendered and not sent, at most */
    int64_t token_bytes; /* of text that a token adds, see lx_model.token_bytes */
    int32_t n_warnings;
    int32_t n_top;          /* likeliest tokens beside each; -1: no log-probabilities at all */
    int64_t prompt_ids;     /* that a choice tells; with the ids of its own tokens: -1 neither */
    int64_t repeated_bytes; /* of the request's text, which the answer has in it again */
    bool chat, stream;
    bool response; /* whose stream ends with all of its text once more */
} lx_completion_size;

/* The most bytes of text a whole answer has, and all that making it takes, that text included. */
int64_t lx_cost_completion_text(const lx_completion_size *s);
int64_t lx_cost_completion(const lx_completion_size *s);

typedef struct lx_images_size {
    int64_t n, n_states;
    bool contact_sheet, stream;
} lx_images_size;

int64_t lx_cost_images(const lx_config *config, const lx_images_size *s);

/* Of a list of the states that were kept: the most bytes of its text. */
int64_t lx_cost_states_text(int64_t n);

/* The most bytes of a list of n tokens as JSON, with their pieces, that have so many bytes, or
   without. */
int64_t lx_cost_tokens_text(int64_t n, int64_t piece_bytes, bool with_pieces);
/* The same of the text of n tokens. */
int64_t lx_cost_content_text(const lx_tokenizer *t, const int32_t *tokens, size_t n);
/* All that making a text of so many bytes takes. */
int64_t lx_cost_text(int64_t bytes);

/* Of the warnings of an answer that is not one of the above; NULL: none. */
int64_t lx_cost_notes(const lx_json_notes *notes);

/* What of a stream its client has not taken. */
int64_t lx_cost_stream(void);
/* Of scores of n values. */
int64_t lx_cost_score(int64_t n);
/* Of the facts of one state. */
int64_t lx_cost_facts(void);

#endif
