#include <math.h>
#include <string.h>

#include "kernels/reference/functions.h"
#include "kernels/reference/reference.h"

typedef struct head {
    const lx_attend_lsh_args *a;
    int32_t slot;
    int64_t h;
    float *last;
} head;

static float *row_of(const head *at, int64_t j)
{
    const lx_attend_lsh_args *a = at->a;
    float *page = lx_states_page(a->states, at->slot, (int32_t)(j / LX_PAGE_TOKENS));
    return page + a->page_offset + (at->h * LX_PAGE_TOKENS + j % LX_PAGE_TOKENS) * lx_lsh_row(a);
}

/* Keeps the row and enters it into its buckets; *seen: the tokens of all P_r(i). */
static int32_t keep(const head *at, int64_t i, const float *qk, const float *v, int32_t *seen)
{
    const lx_attend_lsh_args *a = at->a;
    float *row = row_of(at, i), *prev = row + a->d_key + 1 + a->d_value;
    double squares = 1e-12;
    int32_t n = 0;
    if (i % LX_PAGE_TOKENS == 0)
        memset(row, 0, (size_t)(LX_PAGE_TOKENS * lx_lsh_row(a)) * sizeof *row);
    memcpy(row, qk, (size_t)a->d_key * sizeof *row);
    memcpy(row + a->d_key + 1, v, (size_t)a->d_value * sizeof *row);
    for (int32_t d = 0; d < a->d_key; d++)
        squares += (double)qk[d] * (double)qk[d];
    row[a->d_key] = (float)(1 / sqrt(squares));
    for (int32_t r = 0; r < a->rounds; r++) {
        const float *hash = a->hashes->data + (int64_t)r * a->d_key * (a->n_buckets / 2);
        float *last = at->last + (int64_t)r * a->n_buckets +
                      lx_reference_bucket(hash, a->d_key, a->n_buckets, qk);
        prev[r] = *last;
        *last = (float)(i + 1);
        int32_t j = (int32_t)prev[r];
        for (int32_t k = 0; k < a->cap && j > 0; k++) {
            seen[n++] = j - 1;
            j = (int32_t)row_of(at, j - 1)[a->d_key + 1 + a->d_value + r];
        }
    }
    return n;
}

static double logit(const head *at, const float *q, int32_t j)
{
    const float *k = row_of(at, j);
    double sum = 0;
    for (int32_t d = 0; d < at->a->d_key; d++)
        sum += (double)q[d] * (double)k[d];
    return sum * (double)k[at->a->d_key] * (double)at->a->scale;
}

static void token(const head *at, int32_t i, const float *qk, const float *v, float *y)
{
    const lx_attend_lsh_args *a = at->a;
    int32_t seen[LX_LSH_MOST_SEEN], n = keep(at, i, qk, v, seen);
    double largest = -INFINITY, sum = 0, o[1024] = {0}; /* d_value at most */
    for (int32_t k = 0; k < n; k++)
        largest = fmax(largest, logit(at, qk, seen[k]));
    for (int32_t k = 0; k < n; k++) {
        double w = exp(logit(at, qk, seen[k]) - largest);
        const float *value = row_of(at, seen[k]) + a->d_key + 1;
        sum += w;
        for (int32_t m = 0; m < a->d_value; m++)
            o[m] += w * (double)value[m];
    }
    for (int32_t m = 0; m < a->d_value; m++)
        y[m] = n == 0 ? v[m] : (float)(o[m] / sum);
}

lx_status lx_reference_attend_lsh(const lx_batch *b, const void *args)
{
    const lx_attend_lsh_args *a = args;
    int64_t n = a->n_heads, width = n * (a->d_key + a->d_value);
    for (int32_t s = 0; s < b->n_seqs; s++) {
        float *state = a->states->data + b->slot[s] * a->states->stride + a->offset;
        for (int32_t t = b->seq_start[s]; t < b->seq_start[s + 1]; t++) {
            const float *x = a->qkv->data + t * width;
            int32_t i = b->position[s] + t - b->seq_start[s];
            for (int64_t h = 0; h < n; h++) {
                head at = {a, b->slot[s], h, state + h * a->rounds * a->n_buckets};
                token(&at, i, x + h * a->d_key, x + n * a->d_key + h * a->d_value,
                      a->y->data + (t * n + h) * a->d_value);
            }
        }
    }
    return LX_OK;
}
