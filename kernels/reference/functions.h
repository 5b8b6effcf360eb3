/* lx_function and lx_feature_map in double, and buckets of hashes, for the oracle. */
#ifndef LINNET_KERNELS_REFERENCE_FUNCTIONS_H
#define LINNET_KERNELS_REFERENCE_FUNCTIONS_H

#include <math.h>

#include "kernels/kernels.h"

static inline double lx_reference_softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static inline double lx_reference_function(lx_function f, double x)
{
    switch (f) {
    case LX_FN_SIGMOID:
        return 1 / (1 + exp(-x));
    case LX_FN_SILU:
        return x / (1 + exp(-x));
    case LX_FN_TANH:
        return tanh(x);
    case LX_FN_SOFTPLUS:
        return lx_reference_softplus(x);
    case LX_FN_LOG_SIGMOID:
        return -lx_reference_softplus(-x);
    case LX_FN_RELU2:
        return x > 0 ? x * x : 0;
    case LX_FN_EXP:
        return exp(fmin(x, 80));
    default:
        return x;
    }
}

static inline double lx_reference_phi(float x, lx_feature_map map)
{
    double above = x < 0 ? 0.0 : (double)x; /* NaN stays */
    switch (map) {
    case LX_PHI_RELU:
        return above;
    case LX_PHI_RELU2:
        return above * above;
    case LX_PHI_EXP:
        return exp((double)(x > LX_PHI_MOST ? LX_PHI_MOST : x));
    default:
        return x > 0 ? (double)x + 1.0 : exp((double)x);
    }
}

/* argmax([x R ; -x R]) of a round's hashes, the first of the largest; in f32, as attend_lsh says.
 */
static inline int32_t lx_reference_bucket(const float *hash, int32_t d_key, int32_t n_buckets,
                                          const float *x)
{
    int32_t half = n_buckets / 2, best = 0;
    float most = -INFINITY;
    for (int32_t b = 0; b < n_buckets; b++) {
        float sum = 0;
        for (int64_t d = 0; d < d_key; d++)
            sum = fmaf(x[d], hash[d * half + b % half], sum);
        sum = b < half ? sum : -sum;
        if (sum > most) {
            most = sum;
            best = b;
        }
    }
    return best;
}

#endif
