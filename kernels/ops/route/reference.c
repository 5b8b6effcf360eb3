#include <math.h>
#include <string.h>

#include "kernels/reference/reference.h"

/* p of all experts of a row. */
static void shares(const lx_route_args *a, const float *x, double *p)
{
    double most = -INFINITY, sum = 0;
    for (int32_t i = 0; i < a->n_experts; i++)
        most = (double)x[i] > most ? (double)x[i] : most;
    for (int32_t i = 0; i < a->n_experts; i++) {
        p[i] = a->sigmoid ? 1 / (1 + exp(-(double)x[i])) : exp((double)x[i] - most);
        sum += p[i];
    }
    for (int32_t i = 0; i < a->n_experts && !a->sigmoid; i++)
        p[i] /= sum;
}

/* The expert with the greatest key of those that are not taken. */
static int32_t next_expert(const lx_route_args *a, const double *p, const bool *taken)
{
    int32_t best = -1;
    double best_key = 0;
    for (int32_t i = 0; i < a->n_experts; i++) {
        double key = p[i] + (a->bias != NULL ? (double)a->bias->data[i] : 0);
        if (!taken[i] && (best < 0 || key > best_key)) {
            best = i;
            best_key = key;
        }
    }
    return best;
}

static void choose(const lx_route_args *a, const float *x, float *y)
{
    double p[LX_MOST_EXPERTS] = {0}, sum = 0;
    bool taken[LX_MOST_EXPERTS] = {false};
    shares(a, x, p);
    for (int32_t k = 0; k < a->n_active; k++) {
        int32_t best = next_expert(a, p, taken);
        taken[best] = true;
        y[k] = (float)best;
        sum += p[best];
    }
    for (int32_t k = 0; k < a->n_active; k++)
        y[a->n_active + k] =
            (float)((double)a->scale * p[(int32_t)y[k]] / (a->normalise ? sum : 1));
}

lx_status lx_reference_route(const lx_batch *b, const void *args)
{
    const lx_route_args *a = args;
    for (int64_t row = 0; row < b->n_tokens; row++)
        choose(a, a->x->data + row * a->n_experts, a->y->data + 2 * row * a->n_active);
    return LX_OK;
}
