#include <math.h>

#include "kernels/reference/reference.h"

static void norm_row(const lx_norm_args *a, const float *x, float *y)
{
    double mean = 0, var = 0;
    for (int32_t i = 0; i < a->d; i++)
        mean += (double)x[i];
    mean /= a->d;
    for (int32_t i = 0; i < a->d; i++)
        var += ((double)x[i] - mean) * ((double)x[i] - mean);
    double scale = 1.0 / sqrt(var / a->d + (double)a->eps);
    for (int32_t i = 0; i < a->d; i++)
        y[i] = (float)(((double)x[i] - mean) * scale * (double)a->gamma->data[i] +
                       (double)a->beta->data[i]);
}

lx_status lx_reference_norm(const lx_batch *b, const void *args)
{
    const lx_norm_args *a = args;
    int64_t rows = lx_batch_rows(b, a->rows);
    for (int64_t row = 0; row < rows; row++)
        norm_row(a, a->x->data + row * a->d, a->y->data + row * a->d);
    return LX_OK;
}
