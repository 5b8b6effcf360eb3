/*
 * Compares `recurrence`, as the kinds of the literature use it, with each kind's own equation as
 * its authors print it. That is a sum over all earlier tokens where the paper has one, else
 * matrices written out with [V, K] states. Nothing here is shared with the operation or its oracle.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"

enum { T = 37, H = 4, D = 16, M = 24 };
#define BOUND 2e-6 /* of the largest |y| of the sequence */

/* A kind's inputs for all tokens and heads. Keys of delta kinds have length 1. */
typedef struct numbers {
    float q[T][H][D], k[T][H][D], v[T][H][M];
    float w[T][H][D], w_head[T][H]; /* factors */
    float a[T][H][D], b[T][H][D], beta[T][H], u[H][D], skip[H], fixed[H];
} numbers;

typedef struct kind {
    const char *name;
    /* y of head h; q, k of head h / shared are its own */
    void (*equation)(const numbers *x, int h, double y[T][M]);
    lx_decay decay;
    lx_correction correction;
    lx_read read;
    int shared;
    bool has_beta, has_bonus, has_skip, scales;
} kind;

static const double root = 0.25; /* D^-1/2 */

static double dot(const float *x, const float *y)
{
    double sum = 0;
    for (int d = 0; d < D; d++)
        sum += (double)x[d] * (double)y[d];
    return sum;
}

static void add(double *y, double factor, const float *v)
{
    for (int m = 0; m < M; m++)
        y[m] += factor * (double)v[m];
}

/* --- kinds with a sum over earlier tokens --- */

/* RetNet (Sun et al. 2023): Retention(X) = (Q K^T . D) V, D[n][m] = gamma^(n - m) for n >= m */
static void retnet(const numbers *x, int h, double y[T][M])
{
    for (int n = 0; n < T; n++) {
        for (int m = 0; m <= n; m++)
            add(y[n], root * pow((double)x->fixed[h], n - m) * dot(x->q[n][h], x->k[m][h]),
                x->v[m][h]);
    }
}

/* q^T diag(product of w[from .. to]) k */
static double decayed_dot(const numbers *x, int h, const float *q, const float *k, int from, int to)
{
    double sum = 0;
    for (int d = 0; d < D; d++) {
        double b = 1;
        for (int j = from; j <= to; j++)
            b *= (double)x->w[j][h][d];
        sum += (double)q[d] * b * (double)k[d];
    }
    return sum;
}

/* GLA (Yang et al. 2024): O = ((Q . B) (K / B)^T . mask) V, B the products of alpha so far */
static void gla(const numbers *x, int h, double y[T][M])
{
    for (int n = 0; n < T; n++) {
        for (int m = 0; m <= n; m++)
            add(y[n], root * decayed_dot(x, h, x->q[n][h], x->k[m][h], m + 1, n), x->v[m][h]);
    }
}

/* RWKV-6 (Peng et al. 2024): wkv_t = diag(u) k_t v_t + sum_{i<t} diag(prod_{i<j<t} w_j) k_i v_i */
static void rwkv6(const numbers *x, int h, double y[T][M])
{
    for (int n = 0; n < T; n++) {
        double now = 0;
        for (int d = 0; d < D; d++)
            now += (double)x->q[n][h][d] * (double)x->u[h][d] * (double)x->k[n][h][d];
        add(y[n], now, x->v[n][h]);
        for (int m = 0; m < n; m++)
            add(y[n], decayed_dot(x, h, x->q[n][h], x->k[m][h], m + 1, n - 1), x->v[m][h]);
    }
}

/* Mamba-2 (Dao and Gu 2024): y_n = sum_m C_n^T B_m exp(sum_{m<j<=n} A dt_j) dt_m x_m + D x_n, with
   two heads per group; w_head is exp(A dt) */
static void mamba2(const numbers *x, int h, double y[T][M])
{
    for (int n = 0; n < T; n++) {
        for (int m = 0; m <= n; m++) {
            double logs = 0;
            for (int j = m + 1; j <= n; j++)
                logs += log((double)x->w_head[j][h]);
            double mixed = dot(x->q[n][h / 2], x->k[m][h / 2]) * exp(logs);
            add(y[n], mixed * (double)x->beta[m][h], x->v[m][h]);
        }
        add(y[n], (double)x->skip[h], x->v[n][h]);
    }
}

/* --- kinds with a transition matrix: S is [M, D], S_t = S_(t-1) G_t + value key^T --- */

typedef double transition[D][D];

static void step(double s[M][D], transition g, const float *v, const float *k, double factor)
{
    double next[M][D];
    for (int m = 0; m < M; m++) {
        for (int d = 0; d < D; d++) {
            next[m][d] = factor * (double)v[m] * (double)k[d];
            for (int e = 0; e < D; e++)
                next[m][d] += s[m][e] * g[e][d];
        }
    }
    memcpy(s, next, sizeof next);
}

static void read_out(double s[M][D], const float *q, double scale, double *y)
{
    for (int m = 0; m < M; m++) {
        y[m] = 0;
        for (int d = 0; d < D; d++)
            y[m] += scale * s[m][d] * (double)q[d];
    }
}

/* alpha (I - beta k k^T) */
static void householder(transition g, const float *k, double alpha, double beta)
{
    for (int e = 0; e < D; e++) {
        for (int d = 0; d < D; d++)
            g[e][d] = alpha * ((e == d ? 1 : 0) - beta * (double)k[e] * (double)k[d]);
    }
}

/* DeltaNet (Yang et al. 2024): S_t = S_(t-1) (I - beta k k^T) + beta v k^T */
static void deltanet(const numbers *x, int h, double y[T][M])
{
    double s[M][D] = {{0}};
    for (int t = 0; t < T; t++) {
        double beta = (double)x->beta[t][h];
        transition g;
        householder(g, x->k[t][h], 1, beta);
        step(s, g, x->v[t][h], x->k[t][h], beta);
        read_out(s, x->q[t][h], root, y[t]);
    }
}

/* Gated DeltaNet (Yang et al. 2025): S_t = S_(t-1) alpha (I - beta k k^T) + beta v k^T; here with
   two value heads to a key head */
static void gated_deltanet(const numbers *x, int h, double y[T][M])
{
    double s[M][D] = {{0}};
    for (int t = 0; t < T; t++) {
        double beta = (double)x->beta[t][h];
        transition g;
        householder(g, x->k[t][h / 2], (double)x->w_head[t][h], beta);
        step(s, g, x->v[t][h], x->k[t][h / 2], beta);
        read_out(s, x->q[t][h / 2], root, y[t]);
    }
}

/* KDA (Kimi Linear 2025), transposed: S_t = S_(t-1) diag(alpha) (I - beta k k^T) + beta v k^T */
static void kda(const numbers *x, int h, double y[T][M])
{
    double s[M][D] = {{0}};
    for (int t = 0; t < T; t++) {
        double beta = (double)x->beta[t][h];
        transition g;
        householder(g, x->k[t][h], 1, beta);
        for (int e = 0; e < D; e++) {
            for (int d = 0; d < D; d++)
                g[e][d] *= (double)x->w[t][h][e];
        }
        step(s, g, x->v[t][h], x->k[t][h], beta);
        read_out(s, x->q[t][h], root, y[t]);
    }
}

/* RWKV-7 (Peng et al. 2025): S_t = S_(t-1) (diag(w) + z b^T) + v k^T with z = -kappa, b = kappa a
 */
static void rwkv7(const numbers *x, int h, double y[T][M])
{
    double s[M][D] = {{0}};
    for (int t = 0; t < T; t++) {
        transition g;
        for (int e = 0; e < D; e++) {
            for (int d = 0; d < D; d++)
                g[e][d] = (e == d ? (double)x->w[t][h][d] : 0) +
                          (double)x->a[t][h][e] * (double)x->b[t][h][d];
        }
        step(s, g, x->v[t][h], x->k[t][h], 1);
        read_out(s, x->q[t][h], 1, y[t]);
    }
}

static const kind kinds[] = {
    {"retnet", retnet, .decay = LX_DECAY_FIXED, .shared = 1, .scales = true},
    {"gla", gla, .decay = LX_DECAY_CHANNEL, .shared = 1, .scales = true},
    {"rwkv6", rwkv6, .decay = LX_DECAY_CHANNEL, .read = LX_READ_BEFORE, .shared = 1,
     .has_bonus = true},
    {"mamba2", mamba2, .decay = LX_DECAY_HEAD, .shared = 2, .has_beta = true, .has_skip = true},
    {"deltanet", deltanet, .correction = LX_CORRECT_DELTA, .shared = 1, .has_beta = true,
     .scales = true},
    {"gated_deltanet", gated_deltanet, .decay = LX_DECAY_HEAD, .correction = LX_CORRECT_DELTA,
     .shared = 2, .has_beta = true, .scales = true},
    {"kda", kda, .decay = LX_DECAY_CHANNEL, .correction = LX_CORRECT_DELTA, .shared = 1,
     .has_beta = true, .scales = true},
    {"rwkv7", rwkv7, .decay = LX_DECAY_CHANNEL, .correction = LX_CORRECT_PAIR, .shared = 1},
};

/* --- these kinds by the operation --- */

static void to_length_one(float *x)
{
    double size = sqrt(dot(x, x));
    for (int d = 0; d < D; d++)
        x[d] = (float)((double)x[d] / size);
}

static void fill_token(rng *r, numbers *x, int t, int h, bool corrects)
{
    fill(r, x->q[t][h], D, UNIFORM, 0, 0);
    fill(r, x->k[t][h], D, UNIFORM, 0, 0);
    fill(r, x->v[t][h], M, UNIFORM, 0, 0);
    fill(r, x->a[t][h], D, UNIFORM, 0, 0);
    to_length_one(x->a[t][h]);
    if (corrects)
        to_length_one(x->k[t][h]);
    for (int d = 0; d < D; d++) {
        x->w[t][h][d] = random_between(r, 0.5f, 1.0f);
        x->b[t][h][d] = -x->a[t][h][d] * random_between(r, 0.0f, 1.0f);
    }
    x->w_head[t][h] = random_between(r, 0.5f, 1.0f);
    x->beta[t][h] = random_between(r, 0.0f, 2.0f);
}

static numbers *make_numbers(rng *r, const kind *k)
{
    numbers *x = take(sizeof *x);
    for (int t = 0; t < T; t++) {
        for (int h = 0; h < H; h++)
            fill_token(r, x, t, h, k->correction == LX_CORRECT_DELTA);
    }
    for (int h = 0; h < H; h++) {
        fill(r, x->u[h], D, UNIFORM, 0, 0);
        x->skip[h] = random_between(r, -1.0f, 1.0f);
        x->fixed[h] = 1.0f - ldexpf(1.0f, -5 - h);
    }
    return x;
}

/* An array of [T, H * each], the heads in order. */
static lx_head_columns plain(device *d, const void *values, int each, int shared)
{
    return (lx_head_columns){dev_array(d, values, (int64_t)T * H * each), H * each, 0, each,
                             shared};
}

static bool run_kind(device *d, const kind *k, const numbers *x, float *y)
{
    int32_t length = T;
    lx_array *out = dev_array(d, NULL, (int64_t)T * H * M);
    lx_recurrence_args a = {.y = out,
                            .q = plain(d, x->q, D, k->shared),
                            .k = plain(d, x->k, D, k->shared),
                            .v = plain(d, x->v, M, 1),
                            .states = dev_states(d, (int64_t)H * D * M, 1),
                            .n_heads = H,
                            .d_key = D,
                            .d_value = M,
                            .decay = k->decay,
                            .correction = k->correction,
                            .read = k->read,
                            .scale = k->scales ? (float)root : 1.0f};
    if (k->decay == LX_DECAY_FIXED)
        a.w = (lx_head_columns){dev_array(d, x->fixed, H), H, 0, 1, 1};
    else if (k->decay != LX_DECAY_NONE)
        a.w = k->decay == LX_DECAY_HEAD ? plain(d, x->w_head, 1, 1) : plain(d, x->w, D, 1);
    if (k->correction == LX_CORRECT_PAIR) {
        a.a = plain(d, x->a, D, 1);
        a.b = plain(d, x->b, D, 1);
    }
    if (k->has_beta)
        a.beta = plain(d, x->beta, 1, 1);
    if (k->has_bonus)
        a.bonus = dev_array(d, x->u[0], (int64_t)H * D);
    if (k->has_skip)
        a.skip = dev_array(d, x->skip, H);
    CHECK_OK(d->k->begin(d->be, ragged_batch(1, &length, NULL), NULL));
    d->k->recurrence(d->be, &a);
    return dev_finish(d) && dev_read(d, out, y, (int64_t)T * H * M);
}

static bool check_kind(device *d, const kind *k, const numbers *x)
{
    float *y = floats((int64_t)T * H * M);
    if (!run_kind(d, k, x, y))
        return false;
    for (int h = 0; h < H; h++) {
        double want[T][M] = {{0}}, largest = 0, error = 0;
        k->equation(x, h, want);
        for (int i = 0; i < T * M; i++) {
            double is = (double)y[(i / M * H + h) * M + i % M];
            largest = fmax(largest, fabs(want[i / M][i % M]));
            error = isfinite(is) ? fmax(error, fabs(is - want[i / M][i % M])) : INFINITY;
        }
        CHECK(error <= BOUND * largest, "%s, head %d: error %.3g of %.3g", k->name, h, error,
              largest);
    }
    return true;
}

static bool kinds_equal_their_equations(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {77};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!check_kind(dut, &kinds[i], make_numbers(&r, &kinds[i])))
            return false;
        dev_release(dut);
    }
    return true;
}

const test kind_tests[] = {
    {"kinds_equal_their_equations", kinds_equal_their_equations},
    {NULL, NULL},
};
