/*
 * The product of kernels/cuda/product.h for tests without a GPU: sums in double, as the oracle has
 * them. It checks what the real one relies on: padded sizes, aligned memory.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "kernels/cuda/product.h"
#include "kernels/kernels.h"

int simt_fail_now(void); /* fake/runtime.c */

struct lx_cuda_product {
    int32_t outputs, inputs;
    const float *bias; /* NULL: left to the caller, as the library may */
};

lx_status lx_cuda_blas_new(lx_cuda_blas **out, lx_error *err)
{
    if (simt_fail_now() != 0)
        return lx_fail(err, LX_ERR_DEVICE, NULL, "cuda: the matrix library fails as told");
    *out = NULL; /* nothing to hold */
    return LX_OK;
}

void lx_cuda_blas_free(lx_cuda_blas *b)
{
    (void)b;
}

/* Of every five widths one has no algorithm that adds the bias, so that both ways are tested. */
lx_status lx_cuda_product_new(lx_cuda_blas *b, int32_t outputs, int32_t inputs, const float *bias,
                              lx_cuda_product **out, lx_error *err)
{
    (void)b;
    if (outputs % LX_CUDA_PAD != 0 || inputs % LX_CUDA_PAD != 0 || simt_fail_now() != 0)
        return lx_fail(err, LX_ERR_DEVICE, NULL, "cuda: no product [%d, %d]", outputs, inputs);
    lx_cuda_product *p = calloc(1, sizeof *p);
    if (p == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a product");
    *p = (lx_cuda_product){outputs, inputs, outputs / LX_CUDA_PAD % 5 == 0 ? NULL : bias};
    *out = p;
    return LX_OK;
}

void lx_cuda_product_free(lx_cuda_product *p)
{
    free(p);
}

bool lx_cuda_product_adds_bias(const lx_cuda_product *p)
{
    return p->bias != NULL;
}

static double dot(const uint16_t *a, const uint16_t *b, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)lx_bf16_to_f32(a[i]) * (double)lx_bf16_to_f32(b[i]);
    return sum;
}

typedef struct work {
    lx_cuda_product shape;
    const uint16_t *w, *x;
    const float *add;
    float *y;
    int32_t rows;
} work;

static int multiply(void *p)
{
    const work *m = p;
    const int64_t outputs = m->shape.outputs, inputs = m->shape.inputs;
    if (simt_fail_now() != 0)
        return cudaErrorIllegalAddress;
    for (int64_t row = 0; row < m->rows; row++) {
        for (int64_t o = 0; o < outputs; o++) {
            double y = dot(m->w + o * inputs, m->x + row * inputs, m->shape.inputs);
            if (m->add != NULL)
                y += (double)m->add[row * outputs + o];
            if (m->shape.bias != NULL)
                y += (double)m->shape.bias[o];
            m->y[row * outputs + o] = (float)y;
        }
    }
    return 0;
}

lx_status lx_cuda_product_run(lx_cuda_product *p, const uint16_t *w, const uint16_t *x,
                              const float *add, float *y, int32_t rows, cudaStream_t stream,
                              lx_error *err)
{
    bool aligned = ((uintptr_t)w | (uintptr_t)x | (uintptr_t)y | (uintptr_t)add) % 16 == 0;
    work *m = malloc(sizeof *m);
    if (m == NULL || !aligned || simt_fail_now() != 0) {
        free(m);
        return lx_fail(err, LX_ERR_DEVICE, NULL, "cuda: a product fails");
    }
    *m = (work){*p, w, x, add, y, rows};
    simt_queue(stream, multiply, free, m);
    return LX_OK;
}
