/*
 * A model's weights as a back end has them: prepared once, for all steps.
 *
 * Thread: one at a time while they are made or freed; they never change between.
 */
#ifndef LINNET_MODEL_WEIGHTS_H
#define LINNET_MODEL_WEIGHTS_H

#include "model/model.h"

typedef struct lx_norm_weights {
    lx_array *gamma, *beta; /* beta: NULL with RMSNorm */
} lx_norm_weights;

/* A residual branch: its norm, and its mixer's parameters in the order of their declaration. */
typedef struct lx_branch_weights {
    lx_norm_weights norm, post_norm; /* of its input and of its output */
    lx_matrix *products[LX_MAX_MIXER_TENSORS];
    lx_array *arrays[LX_MAX_MIXER_TENSORS];
    lx_array *derived[LX_MAX_MIXER_DERIVED];
} lx_branch_weights;

typedef struct lx_layer_weights {
    lx_branch_weights branches[LX_MAX_BRANCHES];
} lx_layer_weights;

typedef struct lx_weights {
    const lx_model *model;
    lx_backend *be;
    lx_table *tables[LX_MAX_INPUTS];
    lx_layer_weights *layers;   /* [n_layers] */
    lx_matrix *features;        /* of rows of features; NULL where the model has none */
    lx_array *embedding_scale;  /* [d_model] a factor; NULL: none */
    lx_array *zeros, *ones;     /* [d_model]; NULL where no branch has a norm of its output */
    lx_norm_weights input_norm; /* NULLs where the model has none */
    lx_norm_weights final_norm;
    lx_matrix *head;
    int64_t n_rerounded; /* values that the file has in blocks of a type that the back end does not
                            keep: they were rounded again, to Q8_0 */
} lx_weights;

/* Model and back end must outlive the weights. On an error there is nothing to be freed. */
lx_status lx_weights_load(const lx_model *model, lx_backend *be, lx_weights *out,
                          lx_error *err) LX_MUST_USE;
void lx_weights_free(lx_weights *w); /* all zero is allowed */
/* Bytes that they take in the process's memory, within some percent; 0 on a device. */
int64_t lx_weights_bytes(const lx_model *model, lx_backend *be);

#endif
