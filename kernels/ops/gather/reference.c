#include <string.h>

#include "kernels/reference/reference.h"

lx_status lx_reference_gather(const lx_batch *b, const void *args)
{
    const lx_gather_args *a = args;
    for (int64_t i = 0; i < b->n_outputs; i++)
        memcpy(a->y->data + i * a->width + a->column, a->x->data + b->output_row[i] * (int64_t)a->d,
               (size_t)a->d * sizeof(float));
    return LX_OK;
}
