/* Rules of a request about its tokens: allowed_token_ids, logit_bias. Thread: any. */
#ifndef LINNET_SERVER_API_TOKEN_RULES_H
#define LINNET_SERVER_API_TOKEN_RULES_H

#include "server/json/requests.h"

/* LX_ERR_INVALID for an allowed_token_ids that the model cannot follow, and for a logit_bias that
   leaves no token. */
lx_status lx_tokens_check(const lx_model *model, const lx_completion_params *p,
                          lx_error *err) LX_MUST_USE;

/* Only ids of the request's list, which it has, are drawn: all others of the n_ids get the least
   bias. *out [*n], the caller's, has the request's own biases in it. */
lx_status lx_tokens_biases(const lx_completion_params *p, int32_t n_ids, lx_bias **out, int32_t *n,
                           lx_error *err) LX_MUST_USE;

#endif
