/*
 * Samples one row of a logistic mixture per half warp, with component k in lane k mod 16. Steps and
 * sums are those of cpu.c and cpu.h, so the levels are too.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/philox.h"

#define THREADS 128
#define ROWS (THREADS / 16)
#define MOST (LX_MIXTURE_MAX_COMPONENTS / 16) /* components of a lane */

struct mixture {
    const float *logits, *means, *log_scales; /* [n] */
    int32_t n, levels, lane;
    float largest;
};

LX_DEVICE float clean(float x)
{
    return fabsf(x) < LX_INFINITY ? x : LX_INFINITY;
}

/* The largest logit; infinite when a parameter is not finite. */
LX_DEVICE float scan(const mixture &x)
{
    float largest = -LX_INFINITY, broken = -LX_INFINITY;
    for (int32_t k = x.lane; k < x.n; k += 16) {
        float l = clean(x.logits[k]);
        largest = l > largest ? l : largest;
        bool bad = clean(x.means[k]) == LX_INFINITY || clean(x.log_scales[k]) == LX_INFINITY;
        broken = bad ? LX_INFINITY : broken;
    }
    largest = broken > largest ? broken : largest;
    return lx_max16(largest);
}

/* --- the level --- */

/* The first k whose cumulative weight exceeds u of the whole, in all lanes. */
LX_DEVICE int32_t draw_component(const mixture &x, float temperature, float u, float *weights)
{
    float sum = 0.0f;
    for (int32_t k = x.lane; k < x.n; k += 16) {
        weights[k] = lx_exp((x.logits[k] - x.largest) / temperature);
        sum += weights[k];
    }
    double wanted = (double)u * (double)lx_sum16(sum), reached = 0.0;
    __syncwarp(lx_half_warp());
    int32_t last = 0;
    for (int32_t k = 0; k < x.n; k++) {
        reached += (double)weights[k];
        if (reached > wanted)
            return k;
        last = weights[k] > 0.0f ? k : last;
    }
    return last;
}

LX_DEVICE int32_t first_largest(const mixture &x)
{
    int32_t k = 0;
    while (x.logits[k] != x.largest)
        k++;
    return k;
}

LX_DEVICE int32_t to_level(double x, int32_t levels)
{
    x += 0.5;
    if (!(x >= 1.0))
        return 0;
    return x >= (double)levels ? levels - 1 : (int32_t)x;
}

/* The logistic's quantile: log(u) - log(1 - u) scales away from the mean, in levels. */
LX_DEVICE double distance(float log_scale, float temperature, int32_t levels, float u)
{
    u = u > 0.0f ? u : 0x1p-24f; /* it is a multiple of 2^-24 below 1 */
    double s = fmax((double)log_scale, (double)LX_MIXTURE_MIN_LOG_SCALE);
    double r = fmax(2.0 / (levels - 1) * exp(-s), 0x1p-1022); /* never 0 / 0 when u = 1/2 */
    return (double)temperature * log((double)u / (1.0 - (double)u)) / r;
}

LX_DEVICE int32_t choose(const mixture &x, const lx_cuda_row &s, float *weights)
{
    if (s.forced >= 0)
        return s.forced;
    int32_t k = 0;
    double away = 0.0;
    if (s.temperature == 0.0f) {
        k = first_largest(x);
    } else {
        k = draw_component(x, s.temperature, lx_uniform(s.seed, s.sample, s.step, 0), weights);
        away = distance(x.log_scales[k], s.temperature, x.levels,
                        lx_uniform(s.seed, s.sample, s.step, 1));
    }
    return to_level(((double)x.means[k] + 1.0) * (x.levels - 1) / 2 + away, x.levels);
}

/* --- its probability: see cpu.h for the equations --- */

/* (1 - exp(-r)) / r for r >= 0 */
LX_DEVICE float decay(float r)
{
    float p = -1.0f / 40320;
    p = fmaf(p, r, 1.0f / 5040);
    p = fmaf(p, r, -1.0f / 720);
    p = fmaf(p, r, 1.0f / 120);
    p = fmaf(p, r, -1.0f / 24);
    p = fmaf(p, r, 1.0f / 6);
    p = fmaf(p, r, -0.5f);
    p = fmaf(p, r, 1.0f);
    return r > 0.5f ? (1.0f - lx_exp(0.0f - r)) / r : p;
}

/* (edge - m) r, the edge given in levels from the middle; finite or infinite, never NaN */
LX_DEVICE float edge_at(float mean, float half, float edge, float r)
{
    float d = fmaf(mean, 0.0f - half, edge);
    d = d > -1e38f ? d : -1e38f;
    return (d > 1e38f ? 1e38f : d) * r;
}

/* e and q of one component at level v: P_k(v) = exp(e) q */
LX_DEVICE void terms(float mean, float log_scale, int32_t levels, int32_t v, float *e, float *q)
{
    float half = (float)(levels - 1) * 0.5f, value = (float)v - half;
    float s = log_scale > LX_MIXTURE_MIN_LOG_SCALE ? log_scale : LX_MIXTURE_MIN_LOG_SCALE;
    float narrow = lx_exp(0.0f - s), unit = 1.0f / half;
    float r = unit * narrow, top = 1.0f, below = 1.0f;
    *e = 0.0f;
    if (v > 0) {
        float b = edge_at(mean, half, value - 0.5f, r);
        below = below + lx_exp(0.0f - fabsf(b));
        *e = *e - (b > 0.0f ? b : 0.0f);
    }
    if (v < levels - 1) {
        float a = edge_at(mean, half, value + 0.5f, r);
        below = below * (1.0f + lx_exp(0.0f - fabsf(a)));
        *e = *e + (a > 0.0f ? 0.0f : a);
    }
    if (v > 0 && v < levels - 1) {
        top = unit * decay(r) * (narrow > 1.0f ? narrow : 1.0f);
        *e = *e - (s > 0.0f ? s : 0.0f);
    }
    *q = top / below;
}

LX_DEVICE double log_probability(const mixture &x, int32_t v)
{
    float most = -LX_INFINITY, all = 0.0f, sum = 0.0f, e[MOST], q[MOST];
    LX_UNROLL
    for (int32_t i = 0; i < MOST; i++) {
        int32_t k = x.lane + 16 * i;
        e[i] = -LX_INFINITY;
        q[i] = 0.0f;
        if (k < x.n) {
            float logit = x.logits[k] - x.largest;
            terms(x.means[k], x.log_scales[k], x.levels, v, &e[i], &q[i]);
            e[i] += logit;
            most = e[i] > most ? e[i] : most;
            all += lx_exp(logit);
        }
    }
    most = lx_max16(most);
    if (!(most > -LX_INFINITY))
        return -(double)LX_INFINITY;
    LX_UNROLL
    for (int32_t i = 0; i < MOST; i++) {
        if (x.lane + 16 * i < x.n)
            sum = fmaf(lx_exp(e[i] - most), q[i], sum);
    }
    return (double)most + log((double)lx_sum16(sum) / (double)lx_sum16(all));
}

LX_KERNEL(THREADS) sample_mixture(const lx_cuda_sample_mixture a)
{
    LX_SHARED(float, weights, [ROWS][LX_MIXTURE_MAX_COMPONENTS]);
    int32_t in_block = (int32_t)threadIdx.x / 16;
    int64_t i = (int64_t)blockIdx.x * ROWS + in_block;
    if (i >= *a.live)
        return; /* a whole half warp */
    const float *p = a.parameters + i * 3 * a.n;
    mixture x = {p, p + a.n, p + 2 * a.n, a.n, a.levels, (int32_t)threadIdx.x % 16, 0.0f};
    lx_sample out = {-1, LX_NAN};
    x.largest = scan(x);
    if (x.largest < LX_INFINITY) {
        out.token = choose(x, a.rows[i], weights[in_block]);
        double most = -3.4028234663852886e38; /* the least finite f32 */
        out.logprob = (float)fmax(log_probability(x, out.token), most);
    }
    if (x.lane == 0) {
        a.out[i] = out;
        if (a.rows[i].keep_at >= 0)
            a.drawn[a.rows[i].keep_at] = out.token;
    }
}

extern "C" cudaError_t lx_cuda_launch_sample_mixture(const lx_cuda_sample_mixture *a,
                                                     cudaStream_t stream)
{
    return LX_LAUNCH(sample_mixture, (a->n_rows + ROWS - 1) / ROWS, THREADS, 0, stream, *a);
}
