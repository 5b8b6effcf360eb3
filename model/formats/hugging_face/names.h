/* Names of tensors in folders of others, beside our own. */
#ifndef LINNET_MODEL_HUGGING_FACE_NAMES_H
#define LINNET_MODEL_HUGGING_FACE_NAMES_H

#include "model/config.h"

enum { LX_HF_NAME = 128 };

/* What a folder calls tensors whose own names (docs/weights-format.md) begin with `own`. */
typedef struct lx_tensor_name {
    /* Whole parts between dots; NULL behind the last. `theirs` of a layer with a / before it is of
       the model, the same for every layer. */
    const char *own, *theirs;
} lx_tensor_name;

struct lx_tensor_names {
    const lx_tensor_name *layer;   /* behind "layers.I." */
    const char *layers;            /* "model.layers." */
    const lx_tensor_name *model;   /* the others */
    const lx_tensor_name *softmax; /* in place of `layer` in layers of grouped_query; or NULL */
    const char *const *unused;     /* how tensors begin that text does not need; or NULL */
};

/* The name in the folder of the tensor `own`; the same where the config has no names or none for
   it. */
void lx_hf_tensor_name(const lx_config *c, const char *own, char out[LX_HF_NAME]);

/* The name under which a head is stored that is tied to the table of the inputs, all the same; NULL
   where the config has no such names. */
const char *lx_hf_stored_head(const lx_config *c);

/* Whether a tensor of the folder is one that may be left alone. */
bool lx_hf_is_unused(const lx_config *c, const char *theirs);

#endif
