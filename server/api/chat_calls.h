/* Calls of tools in the answers of chats. */
#ifndef LINNET_SERVER_API_CHAT_CALLS_H
#define LINNET_SERVER_API_CHAT_CALLS_H

#include "model/model.h"
#include "server/json/requests.h"

/* With tools, gives the answer the shape of the model's calls: p->calls and p->shape. `thinks`: the
   thoughts that the model's template begins. LX_ERR_INVALID with the field's name. */
lx_status lx_chat_set_calls(const lx_model *model, lx_thinking_begin thinks,
                            lx_completion_params *p, lx_error *err) LX_MUST_USE;

#endif
