/*
 * exp, the feature map and GELU on sixteen lanes. No branches, so a lane's result does not depend
 * on its neighbours. Coefficients are minimax fits; errors are in docs/numerics.md, measured by
 * tests/conformance.
 */
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

/* elu(x) + 1 */
V16_FN v16 v16_phi(v16 x)
{
    v16 zero = v16_set1(0.0f);
    v16 below = v16_exp(v16_select_gt(x, zero, zero, x));
    return v16_select_gt(x, zero, v16_add(x, v16_set1(1.0f)), below);
}

/*
 * x Phi(x) by the tail Phi(-a) = exp(-a^2 / 2) t P(t), t = 1 / (1 + 0.3 a), a = |x|: for x > 0 it
 * is x - x tail, else x tail.
 */
V16_FN v16 v16_gelu(v16 x)
{
    v16 zero = v16_set1(0.0f), one = v16_set1(1.0f), a = v16_abs(x);
    v16 t = v16_div(one, v16_fma(a, v16_set1(0.3f), one));
    v16 p = v16_set1(-0.020623552f);
    p = v16_fma(p, t, v16_set1(0.11243606f));
    p = v16_fma(p, t, v16_set1(-0.22821465f));
    p = v16_fma(p, t, v16_set1(0.19178593f));
    p = v16_fma(p, t, v16_set1(-0.079424635f));
    p = v16_fma(p, t, v16_set1(0.09615744f));
    p = v16_fma(p, t, v16_set1(0.07838944f));
    p = v16_fma(p, t, v16_set1(0.11023547f));
    p = v16_fma(p, t, v16_set1(0.11957181f));
    p = v16_fma(p, t, v16_set1(0.11968669f));
    v16 gauss = v16_exp(v16_mul(v16_mul(a, a), v16_set1(-0.5f)));
    v16 part = v16_mul(x, v16_mul(gauss, v16_mul(t, p))); /* x tail */
    return v16_select_gt(x, zero, v16_sub(x, part), part);
}

static float v16_greatest(v16 v)
{
    float lanes[16];
    v16_store(lanes, v);
    for (int i = 1; i < 16; i++)
        lanes[0] = lanes[i] > lanes[0] ? lanes[i] : lanes[0];
    return lanes[0];
}
