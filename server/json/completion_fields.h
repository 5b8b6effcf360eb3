/*
 * What the readers of completions, chats and responses share (see fields.h). A failure leaves what
 * was read in *p, for its fini.
 */
#ifndef LINNET_SERVER_JSON_COMPLETION_FIELDS_H
#define LINNET_SERVER_JSON_COMPLETION_FIELDS_H

#include "server/json/answers.h"
#include "server/json/fields.h"

enum { LX_MAX_ASKED_TOKENS = 1000000 };

/* Room for n prompts, 1 .. LX_MAX_PROMPTS. */
lx_status lx_json_reserve_prompts(size_t n, lx_completion_params *p, lx_error *err) LX_MUST_USE;
/* A copy of a string. */
lx_status lx_json_keep_text(const json_t *value, lx_prompt *p, lx_error *err) LX_MUST_USE;
/* "messages" of a chat: the last one, the user's, is the prompt, too. */
lx_status lx_json_read_messages(const json_t *root, lx_completion_params *p,
                                lx_error *err) LX_MUST_USE;
/* "instructions" and "input" of a response, likewise; instructions are a system's message. */
lx_status lx_json_read_input(const json_t *root, lx_completion_params *p,
                             lx_error *err) LX_MUST_USE;
/* Everything about drawing a token but biases. */
lx_status lx_json_read_sampling(const json_t *root, lx_sampling_params *s,
                                lx_error *err) LX_MUST_USE;
lx_status lx_json_read_stop(const json_t *root, lx_stops *stops, lx_error *err) LX_MUST_USE;

#endif
