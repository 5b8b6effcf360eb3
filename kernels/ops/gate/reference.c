#include "kernels/reference/reference.h"
#include "kernels/reference/functions.h"

static double parameter(const lx_array *a, int32_t i, double missing)
{
    return a != NULL ? (double)a->data[i] : missing;
}

static double element(const lx_gate_args *a, int64_t row, int32_t i)
{
    double f = lx_reference_function(a->f, (double)*lx_columns_at(&a->x, row, i) +
                                               parameter(a->bias, i, 0));
    double g = parameter(a->offset, i, 0) + parameter(a->factor, i, 1) * f;
    g = a->exponent ? lx_reference_function(LX_FN_EXP, g) : g;
    if (a->weighing == LX_WEIGH_NONE)
        return g;
    double z = (double)*lx_columns_at(&a->z, row, i);
    if (a->weighing == LX_WEIGH_TIMES)
        return g * z;
    double other = (double)*lx_columns_at(&a->other, row, i);
    return z + g * (a->weighing == LX_WEIGH_TOWARDS ? other - z : other);
}

lx_status lx_reference_gate(const lx_batch *b, const void *args)
{
    const lx_gate_args *a = args;
    const lx_columns y = lx_gate_output(a);
    int64_t rows = lx_batch_rows(b, a->rows);
    for (int64_t row = 0; row < rows; row++) {
        for (int32_t i = 0; i < a->d; i++)
            a->y->data[row * y.width + y.first + i] = (float)element(a, row, i);
    }
    return LX_OK;
}
