/* Mixtures for the tests of `sample_mixture`: random ones, steps with them, and the text (see
 * sampling.h). */
#include <math.h>
#include <string.h>

#include "sampling.h"

float any_of(rng *r, const float *values, uint32_t n)
{
    return values[random_below(r, n)];
}

static void fill_component(rng *r, shape s, float *logit, float *mean, float *log_scale)
{
    static const float logits[] = {-1e30f, -1e4f, 0, 0, 3, 1e4f, 1e30f};
    static const float means[] = {-1e30f, -1e5f, -3, -1, -0.3f, 0, 1e-30f, 0.7f, 1, 1.01f, 1e30f};
    static const float scales[] = {-3e38f, -1e4f, -8, -7, 0, 20, 70, 100, 800, 1e5f, 3e38f};
    float spread = s == FLAT ? 1 : 6;
    *logit = random_between(r, -spread, spread);
    *mean = s == OUTSIDE ? random_between(r, -9, 9) : random_between(r, -1.1f, 1.1f);
    *log_scale = s == FLAT     ? random_between(r, -2, 3)
                 : s == NARROW ? random_between(r, -40, -4)
                               : random_between(r, -8, 2);
    if (s == EXTREME) {
        *logit = any_of(r, logits, sizeof logits / sizeof logits[0]);
        *mean = any_of(r, means, sizeof means / sizeof means[0]);
        *log_scale = any_of(r, scales, sizeof scales / sizeof scales[0]);
    }
}

mixture random_mixture(rng *r, int32_t k, int32_t levels, shape s)
{
    mixture x = {k, levels, floats(3 * (int64_t)k)};
    for (int32_t i = 0; i < k; i++)
        fill_component(r, s, &x.p[i], &x.p[k + i], &x.p[2 * k + i]);
    return x;
}

/* --- running --- */

static const lx_sample poison = {-77, 4321.5f};

static bool is_poison(lx_sample s)
{
    return s.token == poison.token && s.logprob == poison.logprob;
}

bool run_mixtures(device *d, const lx_array *in, int32_t k, int32_t levels, lx_batch *batch,
                  const lx_sampling *how, lx_sample *out)
{
    int32_t n = batch->n_outputs;
    lx_sample_mixture_args args = {in, k, levels, how, out + 1, NULL};
    for (int32_t i = 0; i < n + 2; i++)
        out[i] = poison;
    CHECK_OK(d->k->begin(d->be, batch, NULL));
    d->k->sample_mixture(d->be, &args);
    if (!dev_finish(d))
        return false;
    CHECK(is_poison(out[0]) && is_poison(out[n + 1]), "more than %d samples were written", n);
    for (int32_t i = 1; i <= n; i++)
        CHECK(out[i].token >= -1 && out[i].token < levels, "sample %d of %d: %d", i, n,
              out[i].token);
    return true;
}

lx_batch *one_sequence(int32_t n)
{
    lx_batch *b = ragged_batch(1, &n, NULL);
    all_outputs(b);
    return b;
}

bool sample_mixtures(device *d, const float *p, int32_t k, int32_t levels, lx_batch *batch,
                     const lx_sampling *how, lx_sample *out)
{
    int32_t rows = batch->n_outputs;
    int64_t n = (int64_t)rows * 3 * k;
    lx_sample *guarded = take(((size_t)rows + 2) * sizeof *guarded);
    float *after = floats(n);
    const lx_array *in = dev_array(d, p, n);
    bool ok = run_mixtures(d, in, k, levels, batch, how, guarded) && dev_read(d, in, after, n);
    d->k->array_free(d->be, d->owned[--d->n_owned].object);
    CHECK(ok && same_bytes(after, p, n), "a step that failed, or wrote its parameters");
    memcpy(out, guarded + 1, (size_t)rows * sizeof *out);
    return true;
}

bool sample_one_mixture(device *d, const mixture *x, lx_sampling how, lx_sample *out)
{
    return sample_mixtures(d, x->p, x->k, x->levels, one_sequence(1), &how, out);
}

float *repeat_mixture(const mixture *x, int32_t rows)
{
    float *all = floats((int64_t)rows * 3 * x->k);
    for (int32_t i = 0; i < rows; i++)
        memcpy(all + (int64_t)i * 3 * x->k, x->p, 3 * (size_t)x->k * sizeof *all);
    return all;
}

/* --- the text --- */

static long double sigmoid(long double x)
{
    return 1 / (1 + expl(-x));
}

/* The share of component k below the upper edge of level v, its scale times `temperature`. */
static long double below(const mixture *x, int32_t k, int32_t v, long double temperature)
{
    long double step = 2.0L / (x->levels - 1), mean = (long double)x->p[x->k + k];
    long double log_scale = fmaxl((long double)x->p[2 * x->k + k], -7);
    if (v < 0 || v >= x->levels - 1)
        return v < 0 ? 0 : 1;
    return sigmoid((-1 + (v + 0.5L) * step - mean) / (expl(log_scale) * temperature));
}

/* p [levels]: probabilities at this temperature; log-probabilities are those at temperature 1. */
void text_probabilities(const mixture *x, float temperature, double *p)
{
    long double t = (long double)temperature, total = 0, weight[64];
    for (int32_t k = 0; k < x->k; k++)
        total += weight[k] = expl((long double)x->p[k] / t);
    for (int32_t v = 0; v < x->levels; v++) {
        long double sum = 0;
        for (int32_t k = 0; k < x->k; k++)
            sum += weight[k] / total * (below(x, k, v, t) - below(x, k, v - 1, t));
        p[v] = (double)sum;
    }
}
