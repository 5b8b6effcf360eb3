/*
 * The text task: any prompt in, what may follow it out, for a model of one input stream, `token`,
 * and a tokenizer (model/tokenizers).
 *
 * Sequence: the prompt's tokens, then the answer's; every row predicts the next token. A prompt
 * given as text is encoded as the tokenizer's file says, names of its special tokens as these
 * tokens, and text.begin of config.json stands before it unless that is there already; one given as
 * tokens is taken as it is. Prompt and answer together have at most text.context tokens.
 *
 * An answer has no fixed end: it ends with one of text.end, which is no part of its text, or after
 * n_new tokens. Tokens that an answer cannot show are never drawn: special ones but text.end, and
 * rows of the head that the tokenizer has no token for.
 *
 * Text is what decoding the prompt's and the answer's tokens together gives, cut where the answer
 * begins; bytes that are no UTF-8 become U+FFFD. An answer that is cut off within a character has
 * nothing of it: what goes on from its state has all of it. Refused, with param "prompt": no token
 * at all, tokens outside the vocabulary, more of them than fit, text that the tokenizer cannot
 * read.
 */
#ifndef LINNET_MODEL_TEXT_H
#define LINNET_MODEL_TEXT_H

#include "model/tasks/task.h"
#include "model/tokenizers/tokenizer.h"

extern const lx_task_ops lx_text_task;

/* The tokens of a text, into an empty list, by lx_tokenizer_encode's flags: with LX_ENCODE_TEMPLATE
   those of a prompt, without it those of text that goes on behind one. LX_ERR_INVALID with param
   `param` for what the tokenizer cannot read, and for more than the list may have. */
lx_status lx_text_encode(const lx_model *model, const char *text, size_t bytes, unsigned flags,
                         const char *param, lx_token_list *out, lx_error *err) LX_MUST_USE;

#endif
