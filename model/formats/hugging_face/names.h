/* Names of tensors in other programs' folders, next to our own. */
#ifndef LINNET_MODEL_HUGGING_FACE_NAMES_H
#define LINNET_MODEL_HUGGING_FACE_NAMES_H

#include "model/config.h"

enum { LX_HF_NAME = 128 };

/* A folder's name for tensors whose own names (docs/weights-format.md) begin with `own`, in whole
   parts between dots. `theirs` with a / before it names a tensor of the model, one for all layers.
   A * in both is the number of an expert.
   The last row of a table has NULLs. */
typedef struct lx_tensor_name {
    const char *own, *theirs;
} lx_tensor_name;

enum { LX_LAYER_TABLES = 3 };

struct lx_tensor_names {
    const char *layers; /* "model.layers." */
    const char *embed, *input_norm, *final_norm;
    const char *head; /* NULL: "lm_head" */
    /* For the rest of a name after "layers.I.": the first row that fits, of the tables in turn. A
       table is for layers of one mixer, or with NULL for all layers. */
    struct {
        const char *mixer;
        const lx_tensor_name *names;
    } tables[LX_LAYER_TABLES];
    const char *const *unused; /* beginnings of names that text does not need; or NULL */
    /* Names that a library gives when it saves the folder again: all tensors have these, or all
       have the names above. NULL: none. */
    const struct lx_tensor_names *other;
};

/* The folder's name of the tensor `own`, which is `own` itself where no table has it. */
void lx_hf_tensor_name(const lx_config *c, const char *own, char out[LX_HF_NAME]);

/* The name of a head that is tied to the table of the inputs and nevertheless stored; NULL where
   the config has no such names. */
const char *lx_hf_stored_head(const lx_config *c);

/* Whether a tensor of the folder is one that may be left alone. */
bool lx_hf_is_unused(const lx_config *c, const char *theirs);

#endif
