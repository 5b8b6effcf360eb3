/*
 * The text task continues any prompt, for a model of one input stream, `token`,
 * and a tokenizer (model/tokenizers).
 *
 * Sequence: the prompt's tokens, then the answer's; every row predicts the next token. A prompt
 * given as text is encoded as the tokenizer's file says, names of its special tokens as these
 * tokens. text.begin of config.json stands before it unless it is there already. A prompt given as
 * tokens is taken unchanged. Prompt and answer together have at most text.context tokens.
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

#include "model/config_reader.h"
#include "model/tasks/task.h"
#include "model/tasks/text_config.h"

extern const lx_task_ops lx_text_task;

/* The tokens of a text, into an empty list, by lx_tokenizer_encode's flags: with LX_ENCODE_TEMPLATE
   those of a prompt, without it the tokens of text after a prompt. LX_ERR_INVALID with param
   `param` for text that the tokenizer cannot read, and for more tokens than the list may have. */
lx_status lx_text_encode(const lx_model *model, const char *text, size_t bytes, unsigned flags,
                         const char *param, lx_token_list *out, lx_error *err) LX_MUST_USE;

/* As above for a rendered chat, whose marks show the client's text: see lx_tokenizer_encode_marked.
   text.begin stands before it; the tokens of the tokenizer's own template do not. */
lx_status lx_text_encode_marked(const lx_model *model, const char *text, const char *marks,
                                size_t bytes, const char *param, lx_token_list *out,
                                lx_error *err) LX_MUST_USE;

/* Parts of a task of text with rules of its own: see lx_task_ops. The plan has no data of its own
   then. The constraint of a step is mask 0, and bans the tokens that end an answer where the end is
   ignored. */
void lx_text_read_config(lx_config_reader *r, lx_config_object s, lx_config *c);
lx_status lx_text_load(lx_model *model, lx_error *err) LX_MUST_USE;
void lx_text_card(const lx_model *model, lx_task_card *card);
lx_status lx_text_check_model(const lx_model *model, lx_error *err) LX_MUST_USE;
int32_t lx_text_max_rows(const lx_model *model);
void lx_text_fill_mask(const lx_model *model, int32_t mask_idx, uint8_t *banned);
lx_status lx_text_plan_init(lx_plan *plan, const lx_task_request *request,
                            lx_error *err) LX_MUST_USE;
void lx_text_input(const lx_plan *plan, int32_t step, const int32_t *tokens, int32_t *ids);
void lx_text_constrain(const lx_plan *plan, int32_t step, const int32_t *tokens,
                       lx_constraint *out);
bool lx_text_ends(const lx_plan *plan, int32_t token);
bool lx_text_is_end(const lx_config *c, int32_t id);
bool lx_text_restate(const lx_plan *plan, lx_buffer *out);
lx_status lx_text_reread(const void *bytes, size_t n, bool flag, lx_task_request *request,
                         lx_error *err) LX_MUST_USE;
lx_status lx_text_read_answer(const lx_plan *plan, const char *text, size_t bytes,
                              lx_token_list *out, lx_error *err) LX_MUST_USE;
void lx_text_render(const lx_plan *plan, int32_t step, const int32_t *tokens, lx_buffer *out);
void lx_text_render_prompt(const lx_plan *plan, int32_t i, lx_buffer *out);
void lx_text_spell(const lx_model *model, int32_t id, lx_buffer *out);
int32_t lx_text_token_bytes(const lx_model *model);

#endif
