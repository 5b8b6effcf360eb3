/*
 * A model without a memory of its own: a sequence's state holds the inputs of its rows, and every
 * step computes all earlier rows again. It is what stateful attention is compared with
 * (Katharopoulos et al. 2020, C.1).
 *
 * The state of a sequence is its rows' ids, as f32, in pages: [LX_PAGE_TOKENS, n_inputs]. A step
 * computes its sequences in turn. The mixers' states during a computation lie in states of their
 * own (lx_model: `work`), which hold nothing between steps.
 *
 * Thread: as a transformer, whose part it is.
 */
#ifndef LINNET_MODEL_RECOMPUTE_H
#define LINNET_MODEL_RECOMPUTE_H

#include "model/step.h"

typedef struct lx_recompute lx_recompute;

/* Runs a step of a transformer on these states, waits for it, and reads its logits if wanted. */
typedef lx_status (*lx_recompute_run)(void *transformer, lx_states *work, const lx_step *step,
                                      lx_error *err);

/* For steps of `run` of max_tokens rows, on a back end that is no device. */
lx_status lx_recompute_new(const lx_model *m, lx_backend *be, int32_t max_tokens,
                           lx_recompute **out, lx_error *err) LX_MUST_USE;
void lx_recompute_free(lx_recompute *r); /* NULL is allowed */

/* A step whose arguments have been checked, to its end. An id of a state that is none of its input
   counts as 0. LX_ERR_INVALID without positions, for one beyond the model's longest sequence and
   for an id that is not known yet. */
lx_status lx_recompute_step(lx_recompute *r, void *transformer, lx_recompute_run run,
                            lx_states *states, const lx_step *step, lx_error *err) LX_MUST_USE;

#endif
