/*
 * The common parts of all passes through a model's layers: the weights on a back end, and the
 * activations that all layers share. Functions queue norms, products and branches.
 * model/transformer.h and model/encoder.h are made of these parts.
 *
 * Thread: one at a time per lx_forward. The queue functions go between begin() and end() of a step.
 */
#ifndef LINNET_MODEL_FORWARD_H
#define LINNET_MODEL_FORWARD_H

#include "model/weights.h"

typedef struct lx_forward {
    const lx_model *model;
    lx_backend *be;
    lx_weights weights;
    /* residual streams (a second one for reversible wiring) and the normed copy of a stream, [rows,
     * d]
     */
    lx_array *streams[2], *normed;
    lx_array *output; /* of a branch, [rows, d], where a norm follows; else NULL */
    /* The mixers', for each branch of a layer as large as the largest layer wants them. */
    lx_array *scratch[LX_MAX_BRANCHES][LX_MAX_MIXER_SCRATCH];
    lx_array *carried; /* from layer 0 to all other layers; NULL where it leaves nothing */
    int64_t bytes;     /* of the activations */
    int32_t
        last_state; /* the last branch, counted through all layers, that has a state; -1: none */
} lx_forward;

/* LX_ERR_UNSUPPORTED with the mixer's name where the back end lacks one of the model's mixers. */
lx_status lx_forward_check(const lx_model *model, const lx_backend *be, lx_error *err) LX_MUST_USE;
/* Prepares the weights on `be` and allocates for steps of at most so many rows. Model and back end
   must outlive it. LX_ERR_UNSUPPORTED where the back end lacks a mixer. On an error there is
   nothing to be freed. */
lx_status lx_forward_init(lx_forward *f, const lx_model *model, lx_backend *be, int32_t max_rows,
                          lx_error *err) LX_MUST_USE;
void lx_forward_fini(lx_forward *f); /* all zero is allowed */
/* The activations of a row. */
int64_t lx_forward_row_floats(const lx_model *model);

/* y[r] = W x[r] + b + residual[r]; residual NULL: none. */
void lx_forward_product(const lx_forward *f, lx_array *y, const lx_array *x, const lx_matrix *w,
                        const lx_array *residual, lx_rows rows);
/* y = the model's kind of norm of rows of d numbers. */
void lx_forward_norm(const lx_forward *f, lx_array *y, const lx_array *x, const lx_norm_weights *n,
                     int32_t d, lx_rows rows);
/* x = sum of the inputs' embeddings; states: whose drawn tokens the ids may name, or NULL. */
void lx_forward_embed(const lx_forward *f, lx_array *x, const int32_t *ids,
                      const lx_states *states);
/* The norm of the streams before the first layer, where the model has one. */
void lx_forward_input_norm(const lx_forward *f);
/* All layers, from the streams to the streams. states: the sequences', or the room that layers
   without a state have (mixer.h: room); NULL where no layer has any. With `outputs`, [n_outputs,
   d_model], only the batch's n_outputs rows with an output are needed at the end. True: they are
   there, and nothing after the last state was computed for other rows. */
bool lx_forward_layers(const lx_forward *f, lx_states *states, int32_t n_outputs,
                       lx_array *outputs);

#endif
