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

/* The expert from `first` on with the greatest key of n that are not taken; -1: all are. */
static int32_t next_expert(const double *keys, const bool *taken, int32_t first, int32_t n)
{
    int32_t best = -1;
    for (int32_t i = first; i < first + n; i++) {
        if (!taken[i] && (best < 0 || keys[i] > keys[best]))
            best = i;
    }
    return best;
}

/* Takes the experts of all groups but the best. */
static void take_groups(const lx_route_args *a, const double *keys, bool *taken)
{
    double sums[LX_MOST_EXPERTS] = {0};
    int32_t size = a->n_groups > 0 ? a->n_experts / a->n_groups : 0;
    for (int32_t g = 0; g < a->n_groups; g++) {
        int32_t best = next_expert(keys, taken, g * size, size);
        taken[best] = true;
        sums[g] = keys[best] + keys[next_expert(keys, taken, g * size, size)];
        taken[best] = false;
    }
    bool chosen[LX_MOST_EXPERTS] = {false}; /* groups: those that are best by turns */
    for (int32_t k = 0; k < a->active_groups && a->n_groups > 0; k++)
        chosen[next_expert(sums, chosen, 0, a->n_groups)] = true;
    for (int32_t i = 0; i < size * a->n_groups; i++)
        taken[i] = !chosen[i / size];
}

static void choose(const lx_route_args *a, const float *x, float *y)
{
    double p[LX_MOST_EXPERTS] = {0}, keys[LX_MOST_EXPERTS] = {0}, sum = (double)a->eps;
    bool taken[LX_MOST_EXPERTS] = {false};
    shares(a, x, p);
    for (int32_t i = 0; i < a->n_experts; i++)
        keys[i] = p[i] + (a->bias != NULL ? (double)a->bias->data[i] : 0);
    take_groups(a, keys, taken);
    for (int32_t k = 0; k < a->n_active; k++) {
        int32_t best = next_expert(keys, taken, 0, a->n_experts);
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
    for (int64_t row = 0; row < lx_batch_rows(b, a->rows); row++)
        choose(a, a->x->data + row * a->n_experts, a->y->data + 2 * row * a->n_active);
    return LX_OK;
}
