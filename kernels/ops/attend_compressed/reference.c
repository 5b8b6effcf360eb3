#include <math.h>
#include <string.h>

#include "kernels/reference/reference.h"

typedef struct head {
    const lx_attend_compressed_args *a;
    int32_t slot;
    int64_t h;
    float *open; /* then the first token's row */
} head;

static int64_t row_floats(const lx_attend_compressed_args *a)
{
    return (int64_t)a->d_key + a->d_value;
}

static float *page_of(const head *at, int32_t page)
{
    const lx_attend_compressed_args *a = at->a;
    return lx_states_page(a->states, at->slot, page) + a->page_offset +
           at->h * lx_compressed_rows(a->factor) * row_floats(a);
}

static float *first_of(const head *at)
{
    const lx_attend_compressed_args *a = at->a;
    return a->first != NULL ? a->first->data + at->h * row_floats(a) : at->open + row_floats(a);
}

/* Element d of the key of row 0, the first one, or c + 1, that of block c. */
static float *key_at(const head *at, int32_t row, int64_t d)
{
    const lx_attend_compressed_args *a = at->a;
    if (row == 0)
        return first_of(at) + d;
    return page_of(at, lx_compressed_page(a->factor, row - 1)) + d * lx_compressed_rows(a->factor) +
           lx_compressed_place(a->factor, row - 1);
}

/* The value of such a row. */
static float *value_of(const head *at, int32_t row)
{
    const lx_attend_compressed_args *a = at->a;
    if (row == 0)
        return first_of(at) + a->d_key;
    return page_of(at, lx_compressed_page(a->factor, row - 1)) +
           (int64_t)a->d_key * lx_compressed_rows(a->factor) +
           (int64_t)lx_compressed_place(a->factor, row - 1) * a->d_value;
}

/* open += x W for the tap's W [n, n]; `done`: with the bias there, where the block ends, elements
   so far apart. */
static void add_tap(float *open, const float *x, const float *w, const float *bias, int64_t n,
                    float *done, int64_t apart)
{
    for (int64_t e = 0; e < n; e++) {
        double sum = (double)open[e];
        for (int64_t d = 0; d < n; d++)
            sum += (double)x[d] * (double)w[d * n + e];
        open[e] = done != NULL ? 0 : (float)sum;
        if (done != NULL)
            done[e * apart] = (float)(sum + (double)bias[e]);
    }
}

static void keep(const head *at, int32_t i, const float *k, const float *v)
{
    const lx_attend_compressed_args *a = at->a;
    int64_t n = a->d_key, m = a->d_value, tap = i % a->factor, taps = at->h * a->factor + tap;
    if (i % LX_PAGE_TOKENS == 0)
        memset(page_of(at, i / LX_PAGE_TOKENS), 0,
               (size_t)(lx_compressed_rows(a->factor) * row_floats(a)) * sizeof(float));
    if (i == 0 && a->first == NULL) {
        memcpy(first_of(at), k, (size_t)n * sizeof *k);
        memcpy(first_of(at) + n, v, (size_t)m * sizeof *v);
    }
    bool ends = tap + 1 == a->factor;
    int32_t row = i / a->factor + 1;
    add_tap(at->open, k, a->taps_k->data + taps * n * n, a->bias_k->data + at->h * n, n,
            ends ? key_at(at, row, 0) : NULL, lx_compressed_rows(a->factor));
    add_tap(at->open + n, v, a->taps_v->data + taps * m * m, a->bias_v->data + at->h * m, m,
            ends ? value_of(at, row) : NULL, 1);
}

static double logit(const head *at, const float *q, int32_t row)
{
    double sum = 0;
    for (int32_t d = 0; d < at->a->d_key; d++)
        sum += (double)q[d] * (double)*key_at(at, row, d);
    return sum * (double)at->a->scale;
}

static void attend(const head *at, int32_t i, const float *q, float *y)
{
    const lx_attend_compressed_args *a = at->a;
    int32_t rows = 1 + (i + a->inclusive) / a->factor;
    double largest = -INFINITY, sum = 0, o[1024] = {0}; /* d_value at most */
    for (int32_t row = 0; row < rows; row++)
        largest = fmax(largest, logit(at, q, row));
    for (int32_t row = 0; row < rows; row++) {
        double w = exp(logit(at, q, row) - largest);
        const float *v = value_of(at, row);
        sum += w;
        for (int32_t m = 0; m < a->d_value; m++)
            o[m] += w * (double)v[m];
    }
    for (int32_t m = 0; m < a->d_value; m++)
        y[m] = (float)(o[m] / sum);
}

lx_status lx_reference_attend_compressed(const lx_batch *b, const void *args)
{
    const lx_attend_compressed_args *a = args;
    int64_t n = a->n_heads, dk = a->d_key, dv = a->d_value, width = n * (2 * dk + dv);
    int64_t part = row_floats(a) * (a->first == NULL ? 2 : 1);
    for (int32_t s = 0; s < b->n_seqs; s++) {
        float *state = a->states->data + b->slot[s] * a->states->stride + a->offset;
        for (int32_t t = b->seq_start[s]; t < b->seq_start[s + 1]; t++) {
            const float *x = a->qkv->data + t * width;
            int32_t i = b->position[s] + t - b->seq_start[s];
            for (int64_t h = 0; h < n; h++) {
                head at = {a, b->slot[s], h, state + h * part};
                keep(&at, i, x + (n + h) * dk, x + 2 * n * dk + h * dv);
                attend(&at, i, x + h * dk, a->y->data + (t * n + h) * dv);
            }
        }
    }
    return LX_OK;
}
