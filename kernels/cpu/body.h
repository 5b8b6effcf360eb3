/*
 * The inner loops of the cpu back end, written once over sixteen lanes (v16_*.h). isa_*.c includes
 * this after choosing the lanes; each inclusion defines one table `BODY_TABLE`.
 *
 * One rule makes results independent of batch, split, thread count and instruction set: what is
 * added to what, and in which order, depends only on the sizes of the model. An output of `linear`
 * belongs to one lane and sums over the inputs in their order; sums over a row go to lane i mod 16
 * and the lanes are added in the fixed tree of v16_sum. No product feeds a sum but through v16_fma.
 */
#include "kernels/cpu/body_math.h"

#include "kernels/cpu/body_linear.h"

/* --- embed ------------------------------------------------------------------------------------ */

static void add_row(float *y, const void *row, lx_dtype dtype, int64_t n)
{
    const float *f32 = row;
    const uint16_t *bf16 = row;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 v = dtype == LX_F32 ? v16_load(f32 + i) : v16_load_bf16(bf16 + i);
        v16_store(y + i, v16_add(v16_load(y + i), v));
    }
    for (; i < n; i++)
        y[i] += dtype == LX_F32 ? f32[i] : lx_bf16_to_f32(bf16[i]);
}

/* --- norm ------------------------------------------------------------------------------------- */

static void norm(float *y, const float *x, const float *gamma, const float *beta, int32_t d,
                 float eps)
{
    v16 zero = v16_set1(0.0f), sum = zero, squares = zero;
    int32_t whole = d / 16 * 16, rest = d - whole;
    for (int32_t i = 0; i < whole; i += 16)
        sum = v16_add(sum, v16_load(x + i));
    sum = v16_add(sum, v16_load_n(x + whole, rest, zero));
    float mean = v16_sum(sum) / (float)d;
    v16 centre = v16_set1(mean);
    for (int32_t i = 0; i < whole; i += 16) {
        v16 v = v16_sub(v16_load(x + i), centre);
        squares = v16_fma(v, v, squares);
    }
    v16 v = v16_keep_n(v16_sub(v16_load_n(x + whole, rest, zero), centre), rest);
    squares = v16_fma(v, v, squares);
    v16 scale = v16_set1(1.0f / sqrtf(v16_sum(squares) / (float)d + eps));
    for (int32_t i = 0; i < d; i += 16) {
        int n = d - i < 16 ? d - i : 16;
        v16 c = v16_mul(v16_sub(v16_load_n(x + i, n, zero), centre), scale);
        c = v16_fma(c, v16_load_n(gamma + i, n, zero), v16_load_n(beta + i, n, zero));
        v16_store_n(y + i, c, n);
    }
}

/* --- attend ----------------------------------------------------------------------------------- */

/* phi of one row of q and k, into scratch; lanes behind d_key are 0. */
static void feature_maps(const lx_cpu_attend *a, const float *q, const float *k)
{
    float *phi_q = a->scratch, *phi_k = a->scratch + lx_cpu_attend_scratch(a->d_key) / 2;
    for (int32_t d = 0; d < a->d_key; d += 16) {
        int n = a->d_key - d < 16 ? a->d_key - d : 16;
        v16 zero = v16_set1(0.0f);
        v16_store(phi_q + d, v16_keep_n(v16_phi(v16_load_n(q + d, n, zero)), n));
        v16_store(phi_k + d, v16_keep_n(v16_phi(v16_load_n(k + d, n, zero)), n));
    }
}

/* z += phi(k); returns phi(q) . z + eps */
static float normaliser(const lx_cpu_attend *a)
{
    const float *phi_q = a->scratch, *phi_k = a->scratch + lx_cpu_attend_scratch(a->d_key) / 2;
    v16 zero = v16_set1(0.0f), dot = zero;
    for (int32_t d = 0; d < a->d_key; d += 16) {
        int n = a->d_key - d < 16 ? a->d_key - d : 16;
        v16 z = v16_add(v16_load_n(a->z + d, n, zero), v16_load(phi_k + d));
        v16_store_n(a->z + d, z, n);
        dot = v16_fma(v16_load(phi_q + d), z, dot);
    }
    return v16_sum(dot) + a->eps;
}

/*
 * Asks for row d of the state that comes next, and with d = d_key for its z, which lies behind s.
 * States of many streams lie in memory, not in caches, and a head's 4 KiB are over before the
 * processor has seen in which direction they lie. The first cache has room for what is on its way
 * for one head only; so the second is asked for one that comes later.
 */
V16_FN void ask_for_row(const lx_cpu_attend *a, int32_t d)
{
    if (a->next != NULL) {
        const float *row = a->next + (int64_t)d * a->d_value;
        __builtin_prefetch(row, 1, 3);
        __builtin_prefetch(row + 16, 1, 3);
    }
    if (a->later != NULL) {
        const float *row = a->later + (int64_t)d * a->d_value;
        __builtin_prefetch(row, 0, 2);
        __builtin_prefetch(row + 16, 0, 2);
    }
}

/*
 * Values m .. of one token: s += phi(k) v^T and y = phi(q)^T s / normaliser in one pass over their
 * columns of s. 32 columns, or the n <= 16 that are left.
 */
V16_FN void attend_32_values(const lx_cpu_attend *a, const float *v, float *y, int32_t m, v16 norm)
{
    const float *phi_q = a->scratch, *phi_k = a->scratch + lx_cpu_attend_scratch(a->d_key) / 2;
    v16 v0 = v16_load(v + m), v1 = v16_load(v + m + 16), y0 = v16_set1(0.0f), y1 = y0;
    float *s = a->s + m;
    for (int32_t d = 0; d < a->d_key; d++, s += a->d_value) {
        if (m == 0)
            ask_for_row(a, d);
        v16 k = v16_set1(phi_k[d]), q = v16_set1(phi_q[d]);
        v16 s0 = v16_fma(k, v0, v16_load(s)), s1 = v16_fma(k, v1, v16_load(s + 16));
        v16_store(s, s0);
        v16_store(s + 16, s1);
        y0 = v16_fma(q, s0, y0);
        y1 = v16_fma(q, s1, y1);
    }
    v16_store(y + m, v16_div(y0, norm));
    v16_store(y + m + 16, v16_div(y1, norm));
}

V16_FN void attend_n_values(const lx_cpu_attend *a, const float *v, float *y, int32_t m, int n,
                            v16 norm)
{
    const float *phi_q = a->scratch, *phi_k = a->scratch + lx_cpu_attend_scratch(a->d_key) / 2;
    v16 zero = v16_set1(0.0f), v0 = v16_load_n(v + m, n, zero), y0 = zero;
    float *s = a->s + m;
    for (int32_t d = 0; d < a->d_key; d++, s += a->d_value) {
        v16 s0 = v16_fma(v16_set1(phi_k[d]), v0, v16_load_n(s, n, zero));
        v16_store_n(s, s0, n);
        y0 = v16_fma(v16_set1(phi_q[d]), s0, y0);
    }
    v16_store_n(y + m, v16_div(y0, norm), n);
}

static void attend(const lx_cpu_attend *a)
{
    for (int64_t t = 0; t < a->n_tokens; t++) {
        const float *v = a->v + t * a->x_stride;
        float *y = a->y + t * a->y_stride;
        int32_t m = 0;
        feature_maps(a, a->q + t * a->x_stride, a->k + t * a->x_stride);
        v16 norm = v16_set1(normaliser(a));
        ask_for_row(a, a->d_key); /* before the others: z is needed first */
        for (; m + 32 <= a->d_value; m += 32)
            attend_32_values(a, v, y, m, norm);
        for (; m < a->d_value; m += 16)
            attend_n_values(a, v, y, m, a->d_value - m < 16 ? a->d_value - m : 16, norm);
    }
}

/* --- sampling --------------------------------------------------------------------------------- */

static bool scan(const float *x, int32_t n, float *largest)
{
    v16 zero = v16_set1(0.0f), first = v16_set1(x[0]), most = first, nothing = zero;
    for (int32_t i = 0; i < n; i += 16) {
        v16 v = v16_load_n(x + i, n - i < 16 ? n - i : 16, first);
        most = v16_max(v, most);
        nothing = v16_fma(v, zero, nothing); /* 0, or NaN once a value is not finite */
    }
    *largest = v16_greatest(most);
    return v16_sum(nothing) == 0.0f;
}

static bool range(const float *x, int32_t n, float *least, float *greatest)
{
    v16 nothing = v16_set1(-INFINITY), low = nothing, high = nothing; /* low: of -x */
    for (int32_t i = 0; i < n; i += 16) {
        v16 v = v16_load_n(x + i, n - i < 16 ? n - i : 16, nothing);
        high = v16_max(v, high);
        low = v16_max(v16_select_gt(v, nothing, v16_sub(v16_set1(0.0f), v), nothing), low);
    }
    *least = -v16_greatest(low);
    *greatest = v16_greatest(high);
    return *greatest > -INFINITY;
}

static void add(float *y, const float *x, const float *bias, int32_t n)
{
    v16 zero = v16_set1(0.0f);
    for (int32_t i = 0; i < n; i += 16) {
        int k = n - i < 16 ? n - i : 16;
        v16 v = v16_load_n(x + i, k, zero);
        if (bias != NULL)
            v = v16_add(v, v16_load_n(bias + i, k, zero));
        v16_store_n(y + i, v, k);
    }
}

static double sum_block(const float *x, int32_t n)
{
    v16 zero = v16_set1(0.0f), sum = zero;
    for (int32_t i = 0; i < n; i += 16)
        sum = v16_add(sum, v16_load_n(x + i, n - i < 16 ? n - i : 16, zero));
    return (double)v16_sum(sum);
}

static double above(const float *x, const float *w, int32_t n, float level, int32_t *count)
{
    v16 zero = v16_set1(0.0f), one = v16_set1(1.0f), limit = v16_set1(level), number = zero;
    v16 nothing = v16_set1(-INFINITY);
    double total = 0;
    for (int32_t at = 0; at < n; at += LX_CPU_BLOCK) {
        int32_t end = n - at < LX_CPU_BLOCK ? n : at + LX_CPU_BLOCK;
        v16 sum = zero;
        for (int32_t i = at; i < end; i += 16) {
            int k = end - i < 16 ? end - i : 16;
            v16 v = v16_load_n(x + i, k, nothing);
            sum = v16_add(sum, v16_select_gt(limit, v, zero, v16_load_n(w + i, k, zero)));
            number = v16_add(number, v16_select_gt(limit, v, zero, one));
        }
        total += (double)v16_sum(sum);
    }
    *count = (int32_t)v16_sum(number);
    return total;
}

static double weights(float *w, const float *x, int32_t n, float largest, float temperature)
{
    v16 most = v16_set1(largest), divisor = v16_set1(temperature);
    double sum = 0;
    for (int32_t at = 0; at < n; at += LX_CPU_BLOCK) {
        int32_t end = n - at < LX_CPU_BLOCK ? n : at + LX_CPU_BLOCK;
        for (int32_t i = at; i < end; i += 16) {
            int k = end - i < 16 ? end - i : 16;
            v16 v = v16_sub(v16_load_n(x + i, k, most), most);
            v16_store_n(w + i, v16_exp(v16_div(v, divisor)), k);
        }
        sum += sum_block(w + at, end - at);
    }
    return sum;
}

#include "kernels/cpu/body_mixture.h"

const lx_cpu_isa BODY_TABLE = {
    .name = BODY_NAME,
    .linear = linear,
    .add_row = add_row,
    .norm = norm,
    .attend = attend,
    .scan = scan,
    .range = range,
    .add = add,
    .weights = weights,
    .sum = sum_block,
    .above = above,
    .mixture = mixture,
};
