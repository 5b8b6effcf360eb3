#include <math.h>

#include "kernels/reference/reference.h"

static double activate(double x, lx_activation activation)
{
    if (activation == LX_ACT_RELU)
        return x > 0 || isnan(x) ? x : 0;
    if (activation == LX_ACT_GELU)
        return 0.5 * x * erfc(-x * 0.70710678118654752440);
    return x;
}

/* Four sums: one would wait for itself. */
static double dot(const float *w, const float *x, int64_t n)
{
    double sums[4] = {0};
    int64_t k = 0;
    for (; k + 4 <= n; k += 4)
        for (int j = 0; j < 4; j++)
            sums[j] += (double)w[k + j] * (double)x[k + j];
    for (; k < n; k++)
        sums[0] += (double)w[k] * (double)x[k];
    return sums[0] + sums[1] + sums[2] + sums[3];
}

lx_status lx_reference_linear(const lx_batch *b, const void *args)
{
    const lx_linear_args *a = args;
    const lx_matrix *w = a->w;
    int64_t rows = lx_batch_rows(b, a->rows), outputs = w->shape.rows, cols = w->shape.cols;
    for (int64_t row = 0; row < rows; row++) {
        const float *x = a->x->data + row * cols;
        for (int64_t o = 0; o < outputs; o++) {
            double sum = (double)w->bias[o] + dot(w->w + o * cols, x, cols);
            double y = activate(sum, a->activation);
            if (a->residual != NULL)
                y += (double)a->residual->data[row * outputs + o];
            a->y->data[row * outputs + o] = (float)y;
        }
    }
    return LX_OK;
}
