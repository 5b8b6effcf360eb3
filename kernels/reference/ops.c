/*
 * The oracle's operations but sampling: each is the formula in kernels.h, element by element.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/reference/reference.h"

/* Notes an error of this step; true when the operation may run. */
static bool may_run(lx_reference *r, lx_status checked)
{
    if (checked != LX_OK)
        r->failed = checked;
    return checked == LX_OK;
}

/* The id, or the drawn token that it stands for. */
static int64_t id_of(const lx_embed_args *a, const lx_table *t, int32_t slot, int32_t id)
{
    if (!lx_is_drawn_id(id))
        return id;
    int32_t token = a->states->drawn[lx_drawn_place_of(slot, id)];
    return token >= 0 && token < t->rows ? token : 0;
}

static void embed_row(const lx_embed_args *a, int32_t slot, int64_t row)
{
    int64_t d = a->tables[0]->cols;
    const int32_t *ids = a->ids + row * a->n_tables;
    for (int64_t i = 0; i < d; i++) {
        double sum = 0;
        for (int32_t j = 0; j < a->n_tables; j++)
            sum += (double)lx_host_table_at(a->tables[j], id_of(a, a->tables[j], slot, ids[j]), i);
        a->y->data[row * d + i] = (float)sum;
    }
}

void lx_reference_embed(lx_backend *be, const lx_embed_args *a)
{
    lx_reference *r = (lx_reference *)be;
    if (r->failed != LX_OK || !may_run(r, lx_host_check_embed(r->batch, a, &r->error)))
        return;
    const lx_batch *b = r->batch;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        for (int64_t row = b->seq_start[i]; row < b->seq_start[i + 1]; row++)
            embed_row(a, b->slot[i], row);
    }
}

static double activate(double x, lx_activation activation)
{
    if (activation == LX_ACT_RELU)
        return x > 0 || isnan(x) ? x : 0;
    if (activation == LX_ACT_GELU)
        return 0.5 * x * erfc(-x * 0.70710678118654752440);
    return x;
}

void lx_reference_linear(lx_backend *be, const lx_linear_args *a)
{
    lx_reference *r = (lx_reference *)be;
    const lx_matrix *w = a->w;
    lx_linear_shape shape = {w->rows, w->cols};
    if (r->failed != LX_OK || !may_run(r, lx_host_check_linear(r->batch, a, shape, &r->error)))
        return;
    int64_t rows = lx_host_row_count(r->batch, a->rows);
    for (int64_t row = 0; row < rows; row++) {
        const float *x = a->x->data + row * w->cols;
        for (int64_t o = 0; o < w->rows; o++) {
            double sum = (double)w->bias[o];
            for (int64_t k = 0; k < w->cols; k++)
                sum += (double)w->w[o * w->cols + k] * (double)x[k];
            double y = activate(sum, a->activation);
            if (a->residual != NULL)
                y += (double)a->residual->data[row * w->rows + o];
            a->y->data[row * w->rows + o] = (float)y;
        }
    }
}

static void norm_row(const lx_norm_args *a, const float *x, float *y)
{
    double mean = 0, var = 0;
    for (int32_t i = 0; i < a->d; i++)
        mean += (double)x[i];
    mean /= a->d;
    for (int32_t i = 0; i < a->d; i++)
        var += ((double)x[i] - mean) * ((double)x[i] - mean);
    double scale = 1.0 / sqrt(var / a->d + (double)a->eps);
    for (int32_t i = 0; i < a->d; i++)
        y[i] = (float)(((double)x[i] - mean) * scale * (double)a->gamma->data[i] +
                       (double)a->beta->data[i]);
}

void lx_reference_norm(lx_backend *be, const lx_norm_args *a)
{
    lx_reference *r = (lx_reference *)be;
    if (r->failed != LX_OK || !may_run(r, lx_host_check_norm(r->batch, a, &r->error)))
        return;
    int64_t rows = lx_host_row_count(r->batch, a->rows);
    for (int64_t row = 0; row < rows; row++)
        norm_row(a, a->x->data + row * a->d, a->y->data + row * a->d);
}

static double phi(float x)
{
    return x > 0 ? (double)x + 1.0 : exp((double)x);
}

/* One token of one head: q, k of length D, v and y of length M; s is D x M, z is D. */
static void attend_token(const lx_attend_linear_args *a, const float *q, const float *k,
                         const float *v, float *s, float *z, float *y)
{
    int32_t d_key = a->d_key, d_value = a->d_value;
    double norm = (double)a->eps;
    for (int32_t d = 0; d < d_key; d++) {
        double phi_k = phi(k[d]);
        for (int32_t m = 0; m < d_value; m++)
            s[d * d_value + m] = (float)((double)s[d * d_value + m] + phi_k * (double)v[m]);
        z[d] = (float)((double)z[d] + phi_k);
        norm += phi(q[d]) * (double)z[d];
    }
    for (int32_t m = 0; m < d_value; m++) {
        double sum = 0;
        for (int32_t d = 0; d < d_key; d++)
            sum += phi(q[d]) * (double)s[d * d_value + m];
        y[m] = (float)(sum / norm);
    }
}

void lx_reference_attend_linear(lx_backend *be, const lx_attend_linear_args *a)
{
    lx_reference *r = (lx_reference *)be;
    const lx_batch *b = r->batch;
    if (r->failed != LX_OK || !may_run(r, lx_host_check_attend(b, a, &r->error)))
        return;
    int64_t n = a->n_heads, dk = a->d_key, dv = a->d_value, width = n * (2 * dk + dv);
    for (int32_t i = 0; i < b->n_seqs; i++) {
        float *state = a->states->data + b->slot[i] * a->states->stride + a->offset;
        for (int64_t t = b->seq_start[i]; t < b->seq_start[i + 1]; t++) {
            const float *qkv = a->qkv->data + t * width;
            for (int64_t h = 0; h < n; h++) {
                float *s = state + h * (dk * dv + dk);
                attend_token(a, qkv + h * dk, qkv + n * dk + h * dk, qkv + 2 * n * dk + h * dv, s,
                             s + dk * dv, a->y->data + t * n * dv + h * dv);
            }
        }
    }
}

void lx_reference_gather(lx_backend *be, const lx_gather_args *a)
{
    lx_reference *r = (lx_reference *)be;
    if (r->failed != LX_OK || !may_run(r, lx_host_check_gather(r->batch, a, &r->error)))
        return;
    for (int64_t i = 0; i < r->batch->n_outputs; i++)
        memcpy(a->y->data + i * a->d, a->x->data + r->batch->output_row[i] * (int64_t)a->d,
               (size_t)a->d * sizeof(float));
}
