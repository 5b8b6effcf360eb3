#include "kernels/reference/reference.h"

static double product(const lx_experts_args *a, int64_t expert, int64_t output, const float *x)
{
    int64_t cols = a->w->shape.cols;
    const float *w = a->w->w + (expert * lx_expert_rows(a->n) + output) * cols;
    double sum = 0;
    for (int64_t i = 0; i < cols; i++)
        sum += (double)w[i] * (double)x[i];
    return sum;
}

/* Output `output` of a row with `sums`. */
static float sum_of(const lx_experts_args *a, const float *choice, const float *x, double start,
                    int64_t output)
{
    double y = start;
    for (int64_t j = 0; j < a->n_active; j++)
        y += (double)choice[a->n_active + j] *
             product(a, (int64_t)choice[j], output, x + j * a->w->shape.cols);
    return (float)y;
}

lx_status lx_reference_experts(const lx_batch *b, const void *args)
{
    const lx_experts_args *a = args;
    int64_t cols = a->w->shape.cols, active = a->n_active, n = a->n;
    for (int64_t row = 0; row < lx_batch_rows(b, a->rows); row++) {
        const float *choice = a->choice->data + 2 * row * active;
        for (int64_t i = 0; a->sums && i < n; i++)
            a->y->data[row * n + i] =
                sum_of(a, choice, a->x->data + row * active * cols,
                       a->residual != NULL ? (double)a->residual->data[row * n + i] : 0, i);
        for (int64_t i = 0; !a->sums && i < active * n; i++)
            a->y->data[row * active * n + i] =
                (float)product(a, (int64_t)choice[i / n], i % n, a->x->data + row * cols);
    }
    return LX_OK;
}
