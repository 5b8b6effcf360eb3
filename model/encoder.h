/*
 * A model that sees its whole input at once: rows of features in, log-probabilities out. It is the
 * counterpart of model/transformer.h, with which it shares weights, layers and mixers. It has no
 * slots and keeps nothing between two passes.
 *
 *     x      = W_features row + b + embed.position[place of the row in its input]
 *     layers   as in transformer.h (pre-norm or post-norm), each of which sees all rows of an input
 *     log_p  = log softmax(W_head final_norm(x) + b), in double
 *
 * A pass takes several inputs, whole, of different lengths. An input's log-probabilities equal, bit
 * for bit, its log-probabilities alone, with any number of threads of the back end and on any
 * instruction set of a precision.
 *
 * Thread: one at a time per encoder (its activations are shared by all passes). A pass cannot be
 * interrupted; what bounds its time is max_rows.
 */
#ifndef LINNET_MODEL_ENCODER_H
#define LINNET_MODEL_ENCODER_H

#include "model/model.h"

typedef struct lx_encoder lx_encoder;

typedef struct lx_encoder_input {
    const float *rows; /* [n_rows, lx_encoder_width(model)] */
    int32_t n_rows;    /* 1 .. model->max_rows */
    float *log_p;      /* [n_rows, model->config.head_size], written by a pass */
} lx_encoder_input;

/* Floats of a row of features. */
int32_t lx_encoder_width(const lx_model *model);

/*
 * Prepares the weights on `be` and allocates for passes of at most max_inputs inputs with max_rows
 * rows in all, max_rows from model->max_rows on, so that every input fits. Both must outlive the
 * encoder. LX_ERR_INVALID for a model of another task and for limits that do not fit,
 * LX_ERR_UNSUPPORTED where the back end lacks a mixer, LX_ERR_NO_MEMORY.
 */
lx_status lx_encoder_new(const lx_model *model, lx_backend *be, int32_t max_rows,
                         int32_t max_inputs, lx_encoder **out, lx_error *err) LX_MUST_USE;
void lx_encoder_free(lx_encoder *e); /* NULL is allowed */

const lx_model *lx_encoder_model(const lx_encoder *e);
int32_t lx_encoder_max_rows(const lx_encoder *e);
int32_t lx_encoder_max_inputs(const lx_encoder *e);
/* Bytes of its activations, without the weights; equal for every pass. */
int64_t lx_encoder_bytes(const lx_encoder *e);

/* One pass over n inputs, 1 .. max_inputs, whose rows are at most max_rows together. Allocates
   nothing. LX_ERR_INVALID when they are not, LX_ERR_DEVICE when the back end fails or what comes
   out is no number; then no log_p is of use. */
lx_status lx_encoder_run(lx_encoder *e, const lx_encoder_input *inputs, int32_t n,
                         lx_error *err) LX_MUST_USE;

#endif
