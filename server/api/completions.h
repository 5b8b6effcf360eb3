/* What the files behind the completions routes share. */
#ifndef LINNET_SERVER_API_COMPLETIONS_H
#define LINNET_SERVER_API_COMPLETIONS_H

#include "server/api/completion.h"

/* All of an answer that does not depend on its choices. */
lx_json_completion lx_completion_frame(const lx_completion *c);

/* Marks the choice in JSON as the end of it: why it ended, and how likely it was. */
void lx_choice_end(const lx_completion *c, int32_t index, lx_json_choice *json);

/* The ids of its prompt's tokens, where they were asked for and a row is one id. */
void lx_choice_add_prompt_ids(const lx_completion *c, int32_t index, lx_json_choice *json);

/* pull of lx_deferred: events for the tokens that have come (completions_stream.c). */
bool lx_completion_pull(void *context, lx_buffer *out);

#endif
