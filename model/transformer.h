/*
 * The forward pass, written once over kernels/ for every back end.
 *
 *   x = sum of input embeddings times embedding_scale, or norm of that (input_norm)
 *   pre-norm:   x += A(norm1(x));  x += F(norm2(x))           (then final norm)
 *   norm after: x += norm1(A(x));  x += norm2(F(x))           (of some layers, or both norms)
 *   with two mixers: x += A(norm1(x)) + B(norm1(x));  x += F(norm2(x))
 *   post-norm:  x = norm1(x + A(x));  x = norm2(x + F(x))     (then final norm)
 *   A(x) = W_o attend(W_qkv x + b) + b_o,  F(x) = W_down act(W_up x + b) + b; a mixer may be both
 *   logits = W_head (head_scale x) + b, for the output rows only; a mixture head's rows are its
 * parameters
 *
 * Thread: one at a time per transformer (its activation buffers are shared by all calls), but for
 * moving states.
 */
#ifndef LINNET_MODEL_TRANSFORMER_H
#define LINNET_MODEL_TRANSFORMER_H

#include "model/step.h"

typedef struct lx_transformer lx_transformer;

/* Prepares the weights on `be` and allocates activations for steps of at most max_tokens rows and
   max_outputs output rows. The model must outlive the transformer. */
lx_status lx_transformer_new(const lx_model *model, lx_backend *be, int32_t max_tokens,
                             int32_t max_outputs, lx_transformer **out, lx_error *err) LX_MUST_USE;
void lx_transformer_free(lx_transformer *t); /* NULL is allowed */
/* Bytes of the activations of a row that is also an output row. */
int64_t lx_transformer_row_bytes(const lx_model *model);

const lx_model *lx_transformer_model(const lx_transformer *t);
lx_backend *lx_transformer_backend(const lx_transformer *t);
/* lx_weights.n_rerounded */
int64_t lx_transformer_rerounded(const lx_transformer *t);

/*
 * States of n_slots sequences, all of nothing yet. A state that grows (lx_model_state_pages) takes
 * pages from a pool of n_pages. A slot has at most slot_pages mapped. Both are ignored for a model
 * whose states do not grow. The calls below may follow steps that were not waited for; they fail
 * with LX_ERR_DEVICE, LX_ERR_INVALID for a slot or page that is not there. `rows`: input rows that
 * the state has absorbed.
 */
lx_status lx_transformer_states_pool(lx_transformer *t, int32_t n_slots, int32_t n_pages,
                                     int32_t slot_pages, lx_states **out,
                                     lx_error *err) LX_MUST_USE;
/* As above where every slot has already mapped the pages of `rows` input rows. */
lx_status lx_transformer_states_new(lx_transformer *t, int32_t n_slots, int64_t rows,
                                    lx_states **out, lx_error *err) LX_MUST_USE;
void lx_transformer_states_free(lx_transformer *t, lx_states *s); /* NULL is allowed */
/* The slot's first n pages are pages[0 .. n - 1] of the pool. A page may be another slot's too
   while neither has rows to add to it. */
lx_status lx_transformer_state_map(lx_transformer *t, lx_states *s, int32_t slot, int32_t n,
                                   const int32_t *pages, lx_error *err) LX_MUST_USE;
/* Back to a slot's state before the first token: zeros, or the values of the model's tensors. */
lx_status lx_transformer_state_zero(lx_transformer *t, lx_states *s, int32_t slot,
                                    lx_error *err) LX_MUST_USE;
/* Pages that both have stay as they are. */
lx_status lx_transformer_state_copy(lx_transformer *t, lx_states *s, int32_t to, int32_t from,
                                    int64_t rows, lx_error *err) LX_MUST_USE;
/* To and from lx_model_state_floats(rows) floats. Any thread, also during steps that have no row of
 * the slot. */
lx_status lx_transformer_state_save(lx_transformer *t, const lx_states *s, int32_t slot,
                                    int64_t rows, float *to, lx_error *err) LX_MUST_USE;
lx_status lx_transformer_state_load(lx_transformer *t, lx_states *s, int32_t slot, int64_t rows,
                                    const float *from, lx_error *err) LX_MUST_USE;

/*
 * Starts a step, without waiting for those before it, and says its number. The step and everything
 * it points to are borrowed until lx_transformer_wait has returned, which waits for it and for
 * earlier steps; logits must be NULL. Errors as below.
 */
lx_status lx_transformer_start(lx_transformer *t, lx_states *states, const lx_step *step,
                               uint64_t *number, lx_error *err) LX_MUST_USE;
lx_status lx_transformer_wait(lx_transformer *t, uint64_t number, lx_error *err) LX_MUST_USE;

/* Does not run the step, but allocates the memory for it and for smaller ones; see kernels.h:
   prepare, which the back end must have. */
lx_status lx_transformer_prepare(lx_transformer *t, lx_states *states, const lx_step *step,
                                 lx_error *err) LX_MUST_USE;

/* Runs one step and waits for it. LX_ERR_INVALID when sizes or ids are out of range (no state is
   changed then), LX_ERR_DEVICE when the device is lost. */
lx_status lx_transformer_step(lx_transformer *t, lx_states *states, const lx_step *step,
                              lx_error *err) LX_MUST_USE;

/* Runs one token from an empty state in the slot, which is changed. LX_ERR_DEVICE when what comes
   out is no number, otherwise as a step. */
lx_status lx_transformer_probe(lx_transformer *t, lx_states *states, int32_t slot,
                               lx_error *err) LX_MUST_USE;

#endif
