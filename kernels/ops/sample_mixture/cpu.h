/*
 * log P(v) of a mixture of logistics (op.h), with one component per lane.
 *
 * Very small factors are kept as an exponent e, the others as a factor q: P_k(v) = exp(e) q with
 *     e = min(a, 0) + min(-b, 0) - max(log_scale, 0)
 *     q = (1 - exp(-r)) exp(max(log_scale, 0)) / ((1 + exp(-|a|)) (1 + exp(-|b|)))
 *
 * q lies between 1e-6 and 2 for any parameters. All terms of e are negative and every a comes from
 * one rounding, so no digits cancel. The components are added as in logsumexp.
 */

/* (1 - exp(-r)) / r for r >= 0: its series below 1/2, where the difference would lose digits */
V16_FN v16 v16_decay(v16 r)
{
    v16 zero = v16_set1(0.0f), one = v16_set1(1.0f);
    v16 p = v16_set1(-1.0f / 40320);
    p = v16_fma(p, r, v16_set1(1.0f / 5040));
    p = v16_fma(p, r, v16_set1(-1.0f / 720));
    p = v16_fma(p, r, v16_set1(1.0f / 120));
    p = v16_fma(p, r, v16_set1(-1.0f / 24));
    p = v16_fma(p, r, v16_set1(1.0f / 6));
    p = v16_fma(p, r, v16_set1(-0.5f));
    p = v16_fma(p, r, one);
    v16 far = v16_div(v16_sub(one, v16_exp(v16_sub(zero, r))), r);
    return v16_select_gt(r, v16_set1(0.5f), far, p);
}

/* (edge - m) r, the edge given in levels from the middle; finite or infinite, never NaN */
V16_FN v16 v16_edge(v16 mean, v16 half, float edge, v16 r)
{
    v16 most = v16_set1(0x1.fffffep+127f), zero = v16_set1(0.0f);
    v16 d = v16_fma(mean, v16_sub(zero, half), v16_set1(edge));
    d = v16_max(d, v16_sub(zero, most));
    return v16_mul(v16_select_gt(d, most, most, d), r);
}

/* e and q of 16 components at level v */
V16_FN void mixture_terms(v16 mean, v16 log_scale, int32_t levels, int32_t v, v16 *e, v16 *q)
{
    v16 zero = v16_set1(0.0f), one = v16_set1(1.0f);
    float middle = (float)(levels - 1) * 0.5f, value = (float)v - middle;
    v16 half = v16_set1(middle), s = v16_max(log_scale, v16_set1(LX_MIXTURE_MIN_LOG_SCALE));
    v16 narrow = v16_exp(v16_sub(zero, s)), unit = v16_div(one, half);
    v16 r = v16_mul(unit, narrow), top = one, below = one;
    *e = zero;
    if (v > 0) {
        v16 b = v16_edge(mean, half, value - 0.5f, r);
        below = v16_add(below, v16_exp(v16_sub(zero, v16_abs(b))));
        *e = v16_sub(*e, v16_max(b, zero));
    }
    if (v < levels - 1) {
        v16 a = v16_edge(mean, half, value + 0.5f, r);
        v16 by_a = v16_add(one, v16_exp(v16_sub(zero, v16_abs(a))));
        below = v16_mul(below, by_a);
        *e = v16_add(*e, v16_select_gt(a, zero, zero, a));
    }
    if (v > 0 && v < levels - 1) {
        top = v16_mul(v16_mul(unit, v16_decay(r)), v16_max(narrow, one));
        *e = v16_sub(*e, v16_max(s, zero));
    }
    *q = v16_div(top, below);
}

static double sample_mixture(const lx_cpu_sample_mixture *x, int32_t v)
{
    v16 zero = v16_set1(0.0f), nothing = v16_set1(-INFINITY), largest = v16_set1(x->largest);
    v16 most = nothing, all = zero, sum = zero, e[LX_CPU_MIXTURE / 16], q[LX_CPU_MIXTURE / 16];
    for (int32_t k = 0, i = 0; k < x->n; k += 16, i++) {
        int n = x->n - k < 16 ? x->n - k : 16;
        v16 logit = v16_sub(v16_load_n(x->logits + k, n, nothing), largest);
        mixture_terms(v16_load_n(x->means + k, n, zero), v16_load_n(x->log_scales + k, n, zero),
                      x->levels, v, &e[i], &q[i]);
        e[i] = v16_add(e[i], logit);
        most = v16_max(e[i], most);
        all = v16_add(all, v16_exp(logit));
    }
    float greatest = v16_greatest(most);
    if (!(greatest > -INFINITY))
        return -INFINITY;
    most = v16_set1(greatest);
    for (int32_t k = 0, i = 0; k < x->n; k += 16, i++)
        sum = v16_fma(v16_exp(v16_sub(e[i], most)), q[i], sum);
    return (double)greatest + log((double)v16_sum(sum) / (double)v16_sum(all));
}
