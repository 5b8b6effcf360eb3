#include "kernels/reference/reference.h"
#include "kernels/reference/functions.h"

/* The rows of a head: q, k and v at its first token. */
typedef struct head {
    const lx_attend_both_args *a;
    const float *q, *k, *v;
    float *y;
    int64_t n_tokens, x_stride, y_stride;
} head;

/* Element (d, m) of s; of z with m = -1. */
static double sum_of(const head *h, int32_t d, int32_t m)
{
    double sum = 0;
    for (int64_t t = 0; t < h->n_tokens; t++) {
        double phi_k = lx_reference_phi(h->k[t * h->x_stride + d], h->a->feature_map);
        sum += m < 0 ? phi_k : phi_k * (double)h->v[t * h->x_stride + m];
    }
    return sum;
}

static void read_token(const head *h, int64_t t, const float *s, const float *z)
{
    int32_t d_key = h->a->d_key, d_value = h->a->d_value;
    const float *q = h->q + t * h->x_stride;
    double norm = (double)h->a->eps;
    for (int32_t d = 0; d < d_key; d++)
        norm += lx_reference_phi(q[d], h->a->feature_map) * (double)z[d];
    for (int32_t m = 0; m < d_value; m++) {
        double sum = 0;
        for (int32_t d = 0; d < d_key; d++)
            sum += lx_reference_phi(q[d], h->a->feature_map) * (double)s[d * d_value + m];
        h->y[t * h->y_stride + m] = (float)(sum / norm);
    }
}

static void attend_head(const head *h, float *s, float *z)
{
    for (int32_t d = 0; d < h->a->d_key; d++) {
        for (int32_t m = 0; m < h->a->d_value; m++)
            s[d * h->a->d_value + m] = (float)sum_of(h, d, m);
        z[d] = (float)sum_of(h, d, -1);
    }
    for (int64_t t = 0; t < h->n_tokens; t++)
        read_token(h, t, s, z);
}

lx_status lx_reference_attend_both(const lx_batch *b, const void *args)
{
    const lx_attend_both_args *a = args;
    int64_t n = a->n_heads, dk = a->d_key, dv = a->d_value, width = n * (2 * dk + dv);
    for (int32_t i = 0; i < b->n_seqs; i++) {
        float *sums = a->states->data + b->slot[i] * a->states->stride + a->offset;
        const float *x = a->qkv->data + b->seq_start[i] * width;
        for (int64_t h = 0; h < n; h++) {
            head own = {.a = a,
                        .q = x + h * dk,
                        .k = x + n * dk + h * dk,
                        .v = x + 2 * n * dk + h * dv,
                        .y = a->y->data + b->seq_start[i] * n * dv + h * dv,
                        .n_tokens = b->seq_start[i + 1] - b->seq_start[i],
                        .x_stride = width,
                        .y_stride = n * dv};
            float *s = sums + h * (dk * dv + dk);
            attend_head(&own, s, s + dk * dv);
        }
    }
    return LX_OK;
}
