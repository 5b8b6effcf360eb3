/* lx_function in double, for the oracle. */
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

#endif
