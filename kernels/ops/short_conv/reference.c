#include "kernels/reference/reference.h"
#include "kernels/reference/functions.h"

/* Channel i of one token; s is the channel's oldest kept input, d floats before the next. */
static void token(const lx_short_conv_args *a, float *s, float x, int32_t i, float *y)
{
    int64_t d = a->d;
    double sum = a->bias != NULL ? (double)a->bias->data[i] : 0;
    for (int32_t j = 0; j < a->taps; j++) {
        double input = j + 1 < a->taps ? (double)s[j * d] : (double)x;
        sum += (double)a->weights->data[j * d + i] * input;
    }
    *y = (float)lx_reference_function(a->f, sum);
    for (int32_t j = 0; j + 2 < a->taps; j++)
        s[j * d] = s[(j + 1) * d];
    s[(a->taps - 2) * d] = x;
}

lx_status lx_reference_short_conv(const lx_batch *b, const void *args)
{
    const lx_short_conv_args *a = args;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        float *state = a->states->data + b->slot[i] * a->states->stride + a->offset;
        int64_t own = b->seq_start[i] + lx_batch_own_rows(b, i);
        for (int64_t t = b->seq_start[i]; t < b->seq_start[i + 1]; t++) {
            if (t == own)
                state = lx_host_branch(a->states, b, i, a->offset, (a->taps - 1) * (int64_t)a->d);
            const float *x = a->x.array->data + t * a->x.width + a->x.first;
            for (int32_t c = 0; c < a->d; c++)
                token(a, state + c, x[c], c, a->y->data + t * a->d + c);
        }
    }
    return LX_OK;
}
