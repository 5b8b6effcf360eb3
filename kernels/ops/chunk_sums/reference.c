#include "kernels/reference/reference.h"

static void token(const lx_chunk_sums_args *a, int64_t t, int32_t i, float *s)
{
    int64_t n = (int64_t)a->d_key * a->d_value;
    const float *q = lx_columns_at(&a->q, t, 0), *k = lx_columns_at(&a->k, t, 0),
                *v = lx_columns_at(&a->v, t, 0);
    float *y = a->y->data + t * a->d_value, *p = s + n;
    for (int64_t e = 0; i % a->chunk == 0 && e < n; e++) {
        s[e] = (float)((double)s[e] + (double)p[e]);
        p[e] = 0;
    }
    for (int64_t m = 0; m < a->d_value; m++) {
        double sum = 0;
        for (int64_t d = 0; d < a->d_key; d++)
            sum += (double)q[d] * (double)s[d * a->d_value + m];
        y[m] = (float)((double)y[m] + (double)a->scale * sum);
    }
    for (int64_t e = 0; e < n; e++)
        p[e] = (float)((double)p[e] + (double)k[e / a->d_value] * (double)v[e % a->d_value]);
}

lx_status lx_reference_chunk_sums(const lx_batch *b, const void *args)
{
    const lx_chunk_sums_args *a = args;
    for (int32_t s = 0; s < b->n_seqs; s++) {
        float *state = a->states->data + b->slot[s] * a->states->stride + a->offset;
        for (int32_t t = b->seq_start[s]; t < b->seq_start[s + 1]; t++)
            token(a, t, b->position[s] + t - b->seq_start[s], state);
    }
    return LX_OK;
}
