#include <math.h>

#include "kernels/reference/functions.h"
#include "kernels/reference/reference.h"

/* A head of a sequence: its first token's rows. */
typedef struct head {
    const lx_attend_whole_args *a;
    const float *q, *k, *v;
    float *y, *sorted;
    int64_t n_tokens, x_stride, y_stride, sorted_stride;
} head;

/* Where token i comes in the order of round r. */
static float *place_of(const head *h, int64_t i, int32_t r)
{
    return h->sorted + i * h->sorted_stride + h->a->rounds + r;
}

/* Until every bucket of the round is known, it stands in the token's own place. */
static void sort_round(const head *h, int32_t r)
{
    const lx_attend_whole_args *a = h->a;
    const float *hash = a->hashes->data + (int64_t)r * a->d_key * (a->n_buckets / 2);
    for (int64_t i = 0; i < h->n_tokens; i++) {
        int32_t place = 0;
        int32_t own = lx_reference_bucket(hash, a->d_key, a->n_buckets, h->q + i * h->x_stride);
        for (int64_t j = 0; j < i; j++)
            place += *place_of(h, j, r) <= (float)own;
        h->sorted[i * h->sorted_stride + r] = (float)place; /* of those before it */
        *place_of(h, i, r) = (float)own;
    }
    for (int64_t i = 0; i < h->n_tokens; i++) {
        float behind = 0;
        for (int64_t j = i + 1; j < h->n_tokens; j++)
            behind += (float)(*place_of(h, j, r) < *place_of(h, i, r));
        h->sorted[i * h->sorted_stride + r] += behind;
    }
    for (int64_t i = 0; i < h->n_tokens; i++)
        *place_of(h, i, r) = h->sorted[i * h->sorted_stride + r];
}

/* How often token i sees token j. */
static int32_t times(const head *h, int64_t i, int64_t j)
{
    int32_t n = 0;
    if (h->a->hashes == NULL)
        return 1;
    for (int32_t r = 0; r < h->a->rounds && i != j; r++) {
        int32_t own = (int32_t)*place_of(h, i, r) / h->a->chunk;
        int32_t other = (int32_t)*place_of(h, j, r) / h->a->chunk;
        n += other - own >= -1 && other - own <= 1;
    }
    return n;
}

static double logit(const head *h, int64_t i, int64_t j)
{
    const float *q = h->q + i * h->x_stride, *k = h->k + j * h->x_stride;
    double sum = 0, squares = 1e-12;
    for (int32_t d = 0; d < h->a->d_key; d++) {
        sum += (double)q[d] * (double)k[d];
        squares += (double)k[d] * (double)k[d];
    }
    return sum * (double)h->a->scale / (h->a->hashes != NULL ? sqrt(squares) : 1);
}

static void token(const head *h, int64_t i)
{
    int32_t d_value = h->a->d_value;
    float *y = h->y + i * h->y_stride;
    double largest = -INFINITY, sum = 0, o[1024] = {0}; /* d_value at most */
    for (int64_t j = 0; j < h->n_tokens; j++) {
        if (times(h, i, j) > 0)
            largest = fmax(largest, logit(h, i, j));
    }
    for (int64_t j = 0; j < h->n_tokens; j++) {
        int32_t n = times(h, i, j);
        double w = n > 0 ? n * exp(logit(h, i, j) - largest) : 0;
        sum += w;
        for (int32_t m = 0; m < d_value && n > 0; m++)
            o[m] += w * (double)h->v[j * h->x_stride + m];
    }
    for (int32_t m = 0; m < d_value; m++)
        y[m] = sum > 0 ? (float)(o[m] / sum) : h->v[i * h->x_stride + m];
}

static void attend_head(const head *h)
{
    for (int32_t r = 0; r < h->a->rounds && h->a->hashes != NULL; r++)
        sort_round(h, r);
    for (int64_t i = 0; i < h->n_tokens; i++)
        token(h, i);
}

lx_status lx_reference_attend_whole(const lx_batch *b, const void *args)
{
    const lx_attend_whole_args *a = args;
    bool hashed = a->hashes != NULL;
    int64_t n = a->n_heads, dk = a->d_key, dv = a->d_value, own = lx_whole_sorted(a->rounds);
    int64_t keys = hashed ? 0 : n * dk, width = n * (dk + dv) + keys;
    for (int32_t s = 0; s < b->n_seqs; s++) {
        int64_t row = b->seq_start[s];
        const float *x = a->qkv->data + row * width;
        for (int64_t i = 0; i < n; i++)
            attend_head(&(head){.a = a,
                                .q = x + i * dk,
                                .k = x + keys + i * dk,
                                .v = x + keys + n * dk + i * dv,
                                .y = a->y->data + row * n * dv + i * dv,
                                .sorted = hashed ? a->sorted->data + (row * n + i) * own : NULL,
                                .n_tokens = b->seq_start[s + 1] - row,
                                .x_stride = width,
                                .y_stride = n * dv,
                                .sorted_stride = n * own});
    }
    return LX_OK;
}
