/*
 * Choices of a completion in the form that JSON wants: text, and where log-probabilities are asked
 * for, every token of it.
 */
#ifndef LINNET_SERVER_API_CHOICE_H
#define LINNET_SERVER_API_CHOICE_H

#include "server/api/completion.h"

/* Text and tokens; owns what `json` points to. */
typedef struct lx_choice {
    lx_buffer text;
    lx_json_token *tokens; /* NULL unless log-probabilities are wanted */
    int32_t n_tokens;
    lx_json_logprobs logprobs;
    lx_json_choice json; /* valid after lx_choice_close */
} lx_choice;

/* Room for n tokens; fini in any case. */
lx_status lx_choice_open(const lx_completion *c, int32_t prompt, int32_t n, lx_choice *out,
                         lx_error *err) LX_MUST_USE;
/* The prompt as it was read. */
void lx_choice_add_prompt(lx_choice *o, const lx_completion *c, int32_t prompt);
/* Tokens from .. to - 1 of an answer. */
void lx_choice_add_tokens(lx_choice *o, const lx_answer *a, int32_t from, int32_t to);
/* Points json at what was added, which begins `offset` characters after the choice's start. */
lx_status lx_choice_close(lx_choice *o, int32_t index, int64_t offset, lx_error *err) LX_MUST_USE;
void lx_choice_fini(lx_choice *o);

/* Characters of what was added. */
int64_t lx_choice_chars(const lx_choice *o);

#endif
