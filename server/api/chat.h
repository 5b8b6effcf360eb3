/* A chat's messages as one prompt. */
#ifndef LINNET_SERVER_API_CHAT_H
#define LINNET_SERVER_API_CHAT_H

#include "model/model.h"
#include "server/json/requests.h"

/* Puts the model's template around the messages and makes their tokens the request's one prompt,
   with what ends the answer. Models whose answers are whole lines read the last message alone:
   nothing is done for them. With p->follows the tokens are those after an answer. LX_ERR_INVALID
   with the field's name. */
lx_status lx_chat_prompt(const lx_model *model, lx_completion_params *p, lx_error *err) LX_MUST_USE;

/* Appends the text that lx_chat_prompt reads as tokens. */
lx_status lx_chat_text(const lx_model *model, lx_completion_params *p, lx_buffer *out,
                       lx_error *err) LX_MUST_USE;
/* The most bytes that such a text has. */
size_t lx_chat_most_bytes(const lx_completion_params *p);

#endif
