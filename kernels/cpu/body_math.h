/*
 * exp, the feature map, GELU and the functions of gates on sixteen lanes. No branches, so a lane's
 * result does not depend on its neighbours. Coefficients are minimax fits; errors are in
 * docs/numerics.md, measured by tests/conformance.
 */
#include "kernels/gelu.h"

#define BODY_ROUND 12582912.0f /* 1.5 * 2^23: adding it rounds to a whole number */

/* exp(x) for x <= 80, NaN stays NaN. Exact scaling in two steps, so that tiny results fade to 0. */
V16_FN v16 v16_exp(v16 x)
{
    v16 one = v16_set1(1.0f), magic = v16_set1(BODY_ROUND);
    x = v16_max(v16_set1(-104.0f), x);
    v16 n = v16_sub(v16_fma(x, v16_set1(0x1.715476p+0f), magic), magic); /* x / ln 2 */
    v16 r = v16_fma(n, v16_set1(-0x1.62e4p-1f), x);                      /* x - n ln 2, */
    r = v16_fma(n, v16_set1(-0x1.7f7d1cp-20f), r);                       /* ln 2 in two parts */
    v16 p = v16_set1(0x1.6a2430p-10f);
    p = v16_fma(p, r, v16_set1(0x1.1239e4p-7f));
    p = v16_fma(p, r, v16_set1(0x1.5558f2p-5f));
    p = v16_fma(p, r, v16_set1(0x1.555492p-3f));
    p = v16_fma(p, r, v16_set1(0x1.fffffcp-2f));
    p = v16_fma(p, r, one);
    p = v16_fma(p, r, one);
    v16 half = v16_fma(n, v16_set1(0.5f), magic);
    v16 rest = v16_add(v16_sub(n, v16_sub(half, magic)), magic);
    return v16_mul(v16_mul(p, v16_pow2(half)), v16_pow2(rest));
}

V16_FN v16 v16_phi(v16 x, lx_feature_map map)
{
    v16 zero = v16_set1(0.0f), above = v16_max(zero, x), most = v16_set1(LX_PHI_MOST);
    if (map == LX_PHI_RELU)
        return above;
    if (map == LX_PHI_RELU2)
        return v16_mul(above, above);
    if (map == LX_PHI_EXP)
        return v16_exp(v16_select_gt(x, most, most, x));
    v16 below = v16_exp(v16_select_gt(x, zero, zero, x));
    return v16_select_gt(x, zero, v16_add(x, v16_set1(1.0f)), below);
}

static const float gelu_tail[LX_GELU_DEGREE + 1][16] = LX_GELU_TAIL;

/* x Phi(x), see gelu.h. */
V16_FN v16 v16_gelu(v16 x)
{
    v16 zero = v16_set1(0.0f), magic = v16_set1(BODY_ROUND), size = v16_abs(x);
    v16 a = v16_min(size, v16_set1(LX_GELU_END));
    v16 t = v16_fma(a, v16_set1(1.0f / LX_GELU_WIDTH), magic);
    v16 r = v16_fma(v16_sub(t, magic), v16_set1(-LX_GELU_WIDTH), a);
    v16 p = v16_pick(gelu_tail[LX_GELU_DEGREE], t);
    for (int n = LX_GELU_DEGREE - 1; n >= 0; n--)
        p = v16_fma(p, r, v16_pick(gelu_tail[n], t));
    return v16_fma(v16_sub(zero, size), p, v16_max(zero, x)); /* NaN stays */
}

/* 1 / (1 + exp(-x)) */
V16_FN v16 v16_sigmoid(v16 x)
{
    v16 zero = v16_set1(0.0f), one = v16_set1(1.0f);
    v16 e = v16_exp(v16_sub(zero, v16_abs(x))), s = v16_div(one, v16_add(one, e));
    return v16_select_gt(zero, x, v16_mul(e, s), s);
}

/* A polynomial in x^2 where 1 - 2 / (exp(2 |x|) + 1) would lose digits; odd, as it should be. */
V16_FN v16 v16_tanh(v16 x)
{
    v16 zero = v16_set1(0.0f), one = v16_set1(1.0f), size = v16_abs(x), t = v16_mul(x, x);
    v16 p = v16_set1(-0x1.825856p-8f);
    p = v16_fma(p, t, v16_set1(0x1.54b8a0p-6f));
    p = v16_fma(p, t, v16_set1(-0x1.b898dep-5f));
    p = v16_fma(p, t, v16_set1(0x1.1109aep-3f));
    p = v16_fma(p, t, v16_set1(-0x1.55553ep-2f));
    v16 near = v16_fma(v16_mul(p, t), x, x);
    v16 twice = v16_select_gt(size, v16_set1(20.0f), v16_set1(40.0f), v16_add(size, size));
    v16 far = v16_sub(one, v16_div(v16_set1(2.0f), v16_add(v16_exp(twice), one)));
    far = v16_select_gt(zero, x, v16_sub(zero, far), far);
    return v16_select_gt(size, v16_set1(0.6f), far, near);
}

/* log(1 + exp(x)) = max(x, 0) + log(1 + t), t = exp(-|x|) */
V16_FN v16 v16_softplus(v16 x)
{
    v16 zero = v16_set1(0.0f), t = v16_exp(v16_sub(zero, v16_abs(x)));
    v16 p = v16_set1(0x1.0a1b88p-9f);
    p = v16_fma(p, t, v16_set1(-0x1.b75670p-7f));
    p = v16_fma(p, t, v16_set1(0x1.53ca1cp-5f));
    p = v16_fma(p, t, v16_set1(-0x1.51ae6cp-4f));
    p = v16_fma(p, t, v16_set1(0x1.fca8bap-4f));
    p = v16_fma(p, t, v16_set1(-0x1.49d834p-3f));
    p = v16_fma(p, t, v16_set1(0x1.975ccep-3f));
    p = v16_fma(p, t, v16_set1(-0x1.ffbd44p-3f));
    p = v16_fma(p, t, v16_set1(0x1.55534ep-2f));
    p = v16_fma(p, t, v16_set1(-0x1.fffff4p-2f));
    p = v16_fma(p, t, v16_set1(1.0f));
    return v16_fma(p, t, v16_max(zero, x));
}

V16_FN v16 v16_function(v16 x, lx_function f)
{
    v16 zero = v16_set1(0.0f), most = v16_set1(80.0f), above = v16_max(zero, x);
    switch (f) {
    case LX_FN_SIGMOID:
        return v16_sigmoid(x);
    case LX_FN_SILU:
        return v16_mul(x, v16_sigmoid(x));
    case LX_FN_TANH:
        return v16_tanh(x);
    case LX_FN_SOFTPLUS:
        return v16_softplus(x);
    case LX_FN_LOG_SIGMOID:
        return v16_sub(zero, v16_softplus(v16_sub(zero, x)));
    case LX_FN_RELU2:
        return v16_mul(above, above);
    case LX_FN_EXP:
        return v16_exp(v16_select_gt(x, most, most, x));
    default:
        return x;
    }
}
