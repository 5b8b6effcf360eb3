/* The inputs and outputs of a transformer's step. */
#ifndef LINNET_MODEL_STEP_H
#define LINNET_MODEL_STEP_H

#include "model/model.h"

typedef struct lx_step {
    lx_batch batch;
    /* [n_tokens, n_inputs], each checked against its table's size, or of lx_drawn_id */
    const int32_t *ids;
    const lx_sampling *sampling; /* [n_outputs] */
    lx_sample *samples;          /* [n_outputs] out */
    float *logits;               /* [n_outputs, head_size] out, the head's rows; NULL: not wanted */
} lx_step;

#endif
