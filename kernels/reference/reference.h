/* The oracle's insides, shared by its files only. See backend.c. */
#ifndef LINNET_KERNELS_REFERENCE_REFERENCE_H
#define LINNET_KERNELS_REFERENCE_REFERENCE_H

#include "kernels/host.h"

typedef struct lx_reference {
    lx_backend base;
    lx_turn turn;
    lx_host_seen seen;
    const lx_batch *batch;
    lx_status failed; /* the first error of this step; the rest of it does nothing */
    lx_error error;
} lx_reference;

struct lx_matrix {
    int64_t rows, cols;
    float *w;    /* [rows, cols] */
    float *bias; /* [rows], zeros when there is none */
};

void lx_reference_embed(lx_backend *be, const lx_embed_args *args);
void lx_reference_linear(lx_backend *be, const lx_linear_args *args);
void lx_reference_norm(lx_backend *be, const lx_norm_args *args);
void lx_reference_attend_linear(lx_backend *be, const lx_attend_linear_args *args);
void lx_reference_gather(lx_backend *be, const lx_gather_args *args);
void lx_reference_sample(lx_backend *be, const lx_sample_args *args);
void lx_reference_sample_mixture(lx_backend *be, const lx_sample_mixture_args *args);

#endif
