#include <math.h>
#include <string.h>

#include "kernels/reference/functions.h"
#include "kernels/reference/reference.h"

enum { MOST = 4096 }; /* cells */

/* One token of a way: x and y at its columns; h and c [n] go on. */
static void step(const lx_lstm_both_args *a, const float *x, const float *u, double *h, double *c,
                 float *y)
{
    int64_t n = a->n;
    double before[MOST];
    memcpy(before, h, (size_t)n * sizeof *h);
    for (int64_t j = 0; j < n; j++) {
        double gate[4];
        for (int k = 0; k < 4; k++) {
            gate[k] = (double)x[k * n + j];
            for (int64_t l = 0; l < n; l++)
                gate[k] += (double)u[l * 4 * n + k * n + j] * before[l];
        }
        c[j] = lx_reference_function(LX_FN_SIGMOID, gate[1]) * c[j] +
               lx_reference_function(LX_FN_SIGMOID, gate[0]) * tanh(gate[2]);
        h[j] = lx_reference_function(LX_FN_SIGMOID, gate[3]) * tanh(c[j]);
        y[j] = (float)h[j];
    }
}

lx_status lx_reference_lstm_both(const lx_batch *b, const void *args)
{
    const lx_lstm_both_args *a = args;
    int64_t n = a->n;
    for (int32_t s = 0; s < b->n_seqs; s++) {
        int64_t first = b->seq_start[s], end = b->seq_start[s + 1];
        for (int64_t way = 0; way < 2; way++) {
            double h[MOST] = {0}, c[MOST] = {0};
            for (int64_t i = first; i < end; i++) {
                int64_t t = way == 0 ? i : first + end - 1 - i;
                step(a, a->x->data + (2 * t + way) * 4 * n, a->u->data + way * 4 * n * n, h, c,
                     a->y->data + (2 * t + way) * n);
            }
        }
    }
    return LX_OK;
}
