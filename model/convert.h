/*
 * A model's folder with its matrices in blocks of 8 or 4 bits, written once. A server that loads
 * such a folder rounds nothing, and reads a half or a quarter of the bytes.
 *
 * A matrix becomes blocks if its rows are whole blocks. All other tensors stay as they are: norms,
 * biases, and tables of inputs, whose rows no product multiplies. A head that is tied to such a
 * table gets a tensor of its own, except with LX_Q8_0, where both become blocks. Tensors that
 * the model does not use are left out. The text files of the folder are copied.
 */
#ifndef LINNET_MODEL_CONVERT_H
#define LINNET_MODEL_CONVERT_H

#include "model/model.h"

/* What became of a tensor. */
typedef struct lx_converted {
    const char *name;
    lx_host_tensor from; /* its type and shape before; data is NULL */
    lx_dtype to;
    bool is_matrix; /* products multiply it */
    double error;   /* the root of the mean squared error over that of the mean square; 0: none */
} lx_converted;

/* Called for every tensor, in the order of the file. */
typedef void lx_convert_report(void *context, const lx_converted *t);

/*
 * Makes the folder `out`, which must not exist, from a loaded folder. `to` is LX_Q8_0 or LX_Q4_0.
 * After an error there is no folder `out`. LX_ERR_INVALID: `out` exists, or the model is a GGUF
 * file, a folder with a base, or has no matrix that can become blocks. LX_ERR_UNSUPPORTED: a weight
 * is too large for a block. LX_ERR_IO has the system's reason.
 */
lx_status lx_model_convert(const lx_model *m, lx_dtype to, const char *out,
                           lx_convert_report *report, void *context, lx_error *err) LX_MUST_USE;

#endif
