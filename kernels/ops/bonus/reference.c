#include "kernels/reference/reference.h"

static void add_head(const lx_bonus_args *a, int64_t row, int64_t head)
{
    int64_t key = head * a->d_key, value = head * a->d_value;
    const float *q = lx_columns_at(&a->q, row, key), *k = lx_columns_at(&a->k, row, key);
    const float *x = lx_columns_at(&a->x, row, value), *v = lx_columns_at(&a->v, row, value);
    const float *z = lx_columns_at(&a->z, row, value);
    float *y = a->y->data + row * a->n_heads * a->d_value + value;
    double sum = 0;
    for (int32_t d = 0; d < a->d_key; d++)
        sum += (double)a->u->data[key + d] * (double)q[d] * (double)k[d];
    for (int32_t m = 0; m < a->d_value; m++)
        y[m] = (float)(((double)x[m] + sum * (double)v[m]) * (z != NULL ? (double)z[m] : 1));
}

lx_status lx_reference_bonus(const lx_batch *b, const void *args)
{
    const lx_bonus_args *a = args;
    for (int64_t row = 0; row < b->n_tokens; row++) {
        for (int64_t head = 0; head < a->n_heads; head++)
            add_head(a, row, head);
    }
    return LX_OK;
}
