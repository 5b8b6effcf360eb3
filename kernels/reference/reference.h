/* The oracle's insides, shared by its files only. See backend.c. */
#ifndef LINNET_KERNELS_REFERENCE_REFERENCE_H
#define LINNET_KERNELS_REFERENCE_REFERENCE_H

#include "kernels/host.h"
#include "kernels/op.h"

typedef struct lx_reference {
    lx_host_backend host;
    lx_turn turn;
    lx_batch_seen seen;
    const lx_batch *batch;
    lx_status failed; /* the first error of this step; the rest of it does nothing */
    lx_error error;
} lx_reference;

struct lx_matrix {
    lx_matrix_shape shape;
    float *w;    /* [rows, cols] */
    float *bias; /* [rows], zeros when there is none */
};

/* Carries out an operation whose arguments have been checked, over the whole batch. LX_OK, or
   LX_ERR_NO_MEMORY. */
typedef lx_status lx_reference_run(const lx_batch *b, const void *args);

#define LX_OP(name) lx_reference_run lx_reference_##name;
#include "kernels/ops.def"

#endif
