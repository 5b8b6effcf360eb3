/*
 * The oracle's mixture of logistics: the text at lx_sample_mixture_args in op.h, step by step,
 * in double. Probabilities are worked with as logarithms, since a level may lie thousands of scales
 * away from every mean.
 */
#include <float.h>
#include <math.h>

#include "kernels/philox.h"
#include "kernels/reference/reference.h"

typedef struct mixture {
    int32_t n, levels;
    const float *logits, *means, *log_scales; /* [n] */
} mixture;

static bool all_finite(const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return false;
    }
    return true;
}

/* m and log r of component k */
static double centre(const mixture *x, int32_t k)
{
    return ((double)x->means[k] + 1) * (x->levels - 1) / 2;
}

static double log_rate(const mixture *x, int32_t k)
{
    double log_scale = fmax((double)x->log_scales[k], (double)LX_MIXTURE_MIN_LOG_SCALE);
    return log(2.0 / (x->levels - 1)) - log_scale;
}

static double log_sigmoid(double x)
{
    return fmin(x, 0) - log1p(exp(-fabs(x)));
}

/* log(1 - exp(-r)), also where r is too small for a double */
static double log_width(double log_r)
{
    return log_r < -20 ? log_r : log(-expm1(-exp(log_r)));
}

/* log P_k(v) */
static double log_component(const mixture *x, int32_t k, int32_t v)
{
    double log_r = log_rate(x, k), r = exp(log_r);
    double a = (v + 0.5 - centre(x, k)) * r, b = (v - 0.5 - centre(x, k)) * r;
    if (v == 0)
        return log_sigmoid(a);
    if (v == x->levels - 1)
        return log_sigmoid(-b);
    return log_sigmoid(a) + log_sigmoid(-b) + log_width(log_r);
}

/* log(exp(a) + exp(b)) */
static double log_add(double a, double b)
{
    return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}

static int32_t likeliest(const mixture *x)
{
    int32_t best = 0;
    for (int32_t k = 1; k < x->n; k++)
        best = x->logits[k] > x->logits[best] ? k : best;
    return best;
}

static double log_probability(const mixture *x, int32_t v)
{
    double largest = (double)x->logits[likeliest(x)], all = -INFINITY, sum = -INFINITY;
    for (int32_t k = 0; k < x->n; k++) {
        double logit = (double)x->logits[k] - largest;
        all = log_add(all, logit);
        sum = log_add(sum, logit + log_component(x, k, v));
    }
    return sum - all;
}

/* The first k whose cumulative softmax(logits / temperature) exceeds u. */
static int32_t draw_component(const mixture *x, float temperature, float u)
{
    double largest = (double)x->logits[likeliest(x)], weight[64], total = 0, sum = 0;
    int32_t last = 0;
    for (int32_t k = 0; k < x->n; k++) {
        weight[k] = exp(((double)x->logits[k] - largest) / (double)temperature);
        total += weight[k];
    }
    for (int32_t k = 0; k < x->n; k++) {
        sum += weight[k];
        if (sum > (double)u * total)
            return k;
        last = weight[k] > 0 ? k : last;
    }
    return last;
}

static int32_t to_level(double x, int32_t levels)
{
    return (int32_t)fmin(fmax(floor(x + 0.5), 0), levels - 1);
}

static int32_t choose(const mixture *x, const lx_sampling *s)
{
    if (s->forced >= 0)
        return s->forced;
    if (s->temperature == 0)
        return to_level(centre(x, likeliest(x)), x->levels);
    int32_t k = draw_component(x, s->temperature, lx_uniform(s->seed, s->sample, s->step, 0));
    double u = (double)lx_uniform(s->seed, s->sample, s->step, 1);
    u = fmin(fmax(u, 0x1p-24), 1 - 0x1p-24);
    double r = fmax(exp(log_rate(x, k)), DBL_MIN); /* never 0 / 0 when u = 1/2 */
    return to_level(centre(x, k) + (double)s->temperature * (log(u) - log(1 - u)) / r, x->levels);
}

lx_status lx_reference_sample_mixture(const lx_batch *b, const void *args)
{
    const lx_sample_mixture_args *a = args;
    int32_t n = a->n_components;
    for (int64_t i = 0; i < b->n_outputs; i++) {
        const float *row = a->parameters->data + i * 3 * n;
        mixture x = {n, a->n_levels, row, row + n, row + 2 * n};
        a->out[i] = (lx_sample){-1, NAN};
        if (all_finite(row, 3 * n)) {
            int32_t v = choose(&x, &a->rows[i]);
            a->out[i] = (lx_sample){v, (float)fmax(log_probability(&x, v), -(double)FLT_MAX)};
        }
    }
    return LX_OK;
}
