/*
 * The bf16 matrix product of the cuda back end by NVIDIA's library, y = x w^T + b + r with f32 sums
 * (product.c). Tests without a GPU link a library of their own (tests/simt/fake).
 *
 * A plan belongs to a matrix and pins one algorithm for it: one kernel that does not split the sum.
 * So a row's result does not depend on the number of rows.
 */
#ifndef LINNET_KERNELS_CUDA_PRODUCT_H
#define LINNET_KERNELS_CUDA_PRODUCT_H

#include <cuda_runtime_api.h>

#include "common/status.h"

#include <stdbool.h>
#include <stdint.h>

#define LX_CUDA_PAD 8 /* rows and columns of a matrix are padded to multiples of it */

typedef struct lx_cuda_blas lx_cuda_blas;
typedef struct lx_cuda_product lx_cuda_product;

lx_status lx_cuda_blas_new(lx_cuda_blas **out, lx_error *err) LX_MUST_USE;
void lx_cuda_blas_free(lx_cuda_blas *b); /* NULL is allowed */

/* For w [outputs, inputs], both multiples of LX_CUDA_PAD; bias [outputs] in device memory, borrowed
   until the product is freed. */
lx_status lx_cuda_product_new(lx_cuda_blas *b, int32_t outputs, int32_t inputs, const float *bias,
                              lx_cuda_product **out, lx_error *err) LX_MUST_USE;
void lx_cuda_product_free(lx_cuda_product *p); /* NULL is allowed */

/* Whether run() adds the bias: not where no such algorithm of the library keeps the law. */
bool lx_cuda_product_adds_bias(const lx_cuda_product *p);

/* Queues y [rows, outputs] = x [rows, inputs] w^T (+ bias) + add; add [rows, outputs], NULL for
   none, may be y. Device memory, no allocation. */
lx_status lx_cuda_product_run(lx_cuda_product *p, const uint16_t *w, const uint16_t *x,
                              const float *add, float *y, int32_t rows, cudaStream_t stream,
                              lx_error *err) LX_MUST_USE;

#endif
