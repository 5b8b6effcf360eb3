#include "kernels/reference/reference.h"
#include "kernels/reference/functions.h"

/* One token of one head: q, k of length D, v and y of length M; s is D x M, z is D. */
static void attend_token(const lx_attend_linear_args *a, double w, const float *q, const float *k,
                         const float *v, float *s, float *z, float *y)
{
    int32_t d_key = a->d_key, d_value = a->d_value;
    double norm = (double)a->eps;
    for (int32_t d = 0; d < d_key; d++) {
        double phi_k = lx_reference_phi(k[d], a->feature_map);
        for (int32_t m = 0; m < d_value; m++)
            s[d * d_value + m] = (float)(w * (double)s[d * d_value + m] + phi_k * (double)v[m]);
        z[d] = (float)(w * (double)z[d] + phi_k);
        norm += lx_reference_phi(q[d], a->feature_map) * (double)z[d];
    }
    for (int32_t m = 0; m < d_value; m++) {
        double sum = 0;
        for (int32_t d = 0; d < d_key; d++)
            sum += lx_reference_phi(q[d], a->feature_map) * (double)s[d * d_value + m];
        y[m] = (float)(sum / norm);
    }
}

lx_status lx_reference_attend_linear(const lx_batch *b, const void *args)
{
    const lx_attend_linear_args *a = args;
    int64_t n = a->n_heads, dk = a->d_key, dv = a->d_value, width = n * (2 * dk + dv);
    for (int32_t i = 0; i < b->n_seqs; i++) {
        float *state = a->states->data + b->slot[i] * a->states->stride + a->offset;
        int64_t own = b->seq_start[i] + lx_batch_own_rows(b, i);
        for (int64_t t = b->seq_start[i]; t < b->seq_start[i + 1]; t++) {
            if (t == own)
                state = lx_host_branch(a->states, b, i, a->offset, n * (dk * dv + dk));
            const float *qkv = a->qkv->data + t * width;
            for (int64_t h = 0; h < n; h++) {
                float *s = state + h * (dk * dv + dk);
                double w = a->decay != NULL ? (double)a->decay->data[t * n + h] : 1;
                attend_token(a, w, qkv + h * dk, qkv + n * dk + h * dk, qkv + 2 * n * dk + h * dv,
                             s, s + dk * dv, a->y->data + t * n * dv + h * dv);
            }
        }
    }
    return LX_OK;
}
