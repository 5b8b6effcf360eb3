#include "kernels/reference/reference.h"

/* Element i of token row t; s is the last token's. */
static void element(const lx_token_shift_args *a, int64_t t, int32_t i, float *s)
{
    double x = (double)a->x->data[t * a->d + i], change = (double)*s - x;
    for (int32_t c = 0; c < a->n_mixes; c++) {
        double mix = (double)a->mixes->data[(int64_t)c * a->d + i];
        a->y[c]->data[t * a->d + i] = (float)(x + mix * change);
    }
    *s = a->x->data[t * a->d + i];
}

lx_status lx_reference_token_shift(const lx_batch *b, const void *args)
{
    const lx_token_shift_args *a = args;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        float *state = a->states->data + b->slot[i] * a->states->stride + a->offset;
        int64_t own = b->seq_start[i] + lx_batch_own_rows(b, i);
        for (int64_t t = b->seq_start[i]; t < b->seq_start[i + 1]; t++) {
            if (t == own)
                state = lx_host_branch(a->states, b, i, a->offset, a->d);
            for (int32_t j = 0; j < a->d; j++)
                element(a, t, j, state + j);
        }
    }
    return LX_OK;
}
