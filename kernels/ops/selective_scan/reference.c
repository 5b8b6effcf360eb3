#include <math.h>

#include "kernels/reference/reference.h"

static double at(const lx_columns *c, int64_t row, int64_t i)
{
    return (double)c->array->data[row * c->width + c->first + i];
}

/* Channel m of one token; s is the channel's first number of state, d floats before the next. */
static float token(const lx_selective_scan_args *a, int64_t row, int64_t m, float *s)
{
    double t = at(&a->t, row, m), x = at(&a->x, row, m);
    double y = (double)a->skip->data[m] * x;
    for (int64_t k = 0; k < a->d_key; k++, s += a->d) {
        double w = exp(t * (double)a->a->data[k * a->d + m]);
        *s = (float)(w * (double)*s + at(&a->b, row, k) * t * x);
        y += at(&a->c, row, k) * (double)*s;
    }
    return (float)y;
}

lx_status lx_reference_selective_scan(const lx_batch *b, const void *args)
{
    const lx_selective_scan_args *a = args;
    int64_t d = a->d;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        float *state = a->states->data + b->slot[i] * a->states->stride + a->offset;
        int64_t own = b->seq_start[i] + lx_batch_own_rows(b, i);
        for (int64_t row = b->seq_start[i]; row < b->seq_start[i + 1]; row++) {
            if (row == own)
                state = lx_host_branch(a->states, b, i, a->offset, a->d_key * d);
            for (int64_t m = 0; m < d; m++)
                a->y->data[row * d + m] = token(a, row, m, state + m);
        }
    }
    return LX_OK;
}
