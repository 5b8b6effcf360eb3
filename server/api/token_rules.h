/* What a request for text says about the tokens of its answer: which may be drawn, and how many
   come before the end. */
#ifndef LINNET_SERVER_API_TOKEN_RULES_H
#define LINNET_SERVER_API_TOKEN_RULES_H

#include "server/api/generation.h"

/* Notes those of these fields that a request sets and that the task does not read. */
void lx_note_unread(const lx_task_ops *task, bool rules, bool normalize, lx_json_notes *notes);
/* LX_ERR_INVALID for an allowed_token_ids that the model cannot follow, and for a logit_bias that
   leaves no token. */
lx_status lx_check_allowed(const lx_model *model, const lx_completion_params *p,
                           lx_error *err) LX_MUST_USE;
/* Only ids of the request's list, which it has, are drawn: all others get the least bias. *out
   [*n], the caller's, has the request's own biases in it. */
lx_status lx_make_biases(const lx_completion_params *p, int32_t n_ids, lx_bias **out, int32_t *n,
                         lx_error *err) LX_MUST_USE;
/* Tells the plan how many tokens come before the answer may end. */
lx_status lx_open_plan(lx_plan *plan, const lx_work_params *w, const lx_completion_params *p,
                       lx_error *err) LX_MUST_USE;

#endif
