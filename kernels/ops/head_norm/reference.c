#include <stdlib.h>

#include "kernels/reference/functions.h"
#include "kernels/reference/reference.h"

static double scale_of(const lx_head_norm_args *a, const double *u, double mean)
{
    double squares = 0;
    for (int32_t i = 0; i < a->d; i++)
        squares += (u[i] - mean) * (u[i] - mean);
    if (a->kind == LX_NORM_L2)
        return 1 / sqrt(squares + (double)a->eps);
    if (a->kind == LX_NORM_LENGTH)
        return 1 / fmax(sqrt(squares), (double)a->eps);
    return 1 / sqrt(squares / a->d + (double)a->eps);
}

/* Head `head` of a row; `u` has room for d numbers. */
static void norm_head(const lx_head_norm_args *a, int64_t row, int32_t head, double *u)
{
    lx_columns to = lx_head_norm_output(a);
    int64_t at = (int64_t)head * a->d;
    const float *x = a->x.array->data + row * a->x.width + a->x.first + at;
    const float *gate = NULL;
    float *y = a->y->data + row * to.width + to.first + at;
    double mean = 0;
    if (a->gate.array != NULL)
        gate = a->gate.array->data + row * a->gate.width + a->gate.first + at;
    for (int32_t i = 0; i < a->d; i++) {
        u[i] = (double)x[i];
        if (gate != NULL && a->gate_first)
            u[i] *= lx_reference_function(a->f, (double)gate[i]);
        mean += a->kind == LX_NORM_GROUP ? u[i] / a->d : 0;
    }
    double scale = scale_of(a, u, mean);
    for (int32_t i = 0; i < a->d; i++) {
        double z = (u[i] - mean) * scale;
        z *= a->gamma != NULL ? (double)a->gamma->data[at + i] : 1;
        z += a->beta != NULL ? (double)a->beta->data[at + i] : 0;
        if (gate != NULL && !a->gate_first)
            z *= lx_reference_function(a->f, (double)gate[i]);
        y[i] = (float)z;
    }
}

lx_status lx_reference_head_norm(const lx_batch *b, const void *args)
{
    const lx_head_norm_args *a = args;
    int64_t rows = lx_batch_rows(b, a->rows);
    double *u = malloc((size_t)a->d * sizeof *u);
    if (u == NULL)
        return LX_ERR_NO_MEMORY;
    for (int64_t row = 0; row < rows; row++) {
        for (int32_t head = 0; head < a->n_heads; head++)
            norm_head(a, row, head, u);
    }
    free(u);
    return LX_OK;
}
