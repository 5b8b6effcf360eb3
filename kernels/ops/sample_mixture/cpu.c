/*
 * Samples one output row of a mixture head as op.h says. One row is one thread's work, so nothing
 * here depends on batch or threads.
 *
 * Steps over all components run on lanes (cpu.h, and the weights of `sample`): the draw of a
 * component and the log-probability. Steps on the drawn component use double and the C library, a
 * handful of calls per row. So the level is the oracle's whenever the component is.
 */
#include <float.h>
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/philox.h"

/* The first k whose cumulative weight exceeds u of the whole. */
static int32_t draw_component(const float *weights, int32_t n, double wanted)
{
    double sum = 0;
    int32_t last = 0;
    for (int32_t k = 0; k < n; k++) {
        sum += (double)weights[k];
        if (sum > wanted)
            return k;
        last = weights[k] > 0 ? k : last;
    }
    return last;
}

static int32_t first_equal(const float *x, float value)
{
    int32_t k = 0;
    while (x[k] != value)
        k++;
    return k;
}

static int32_t to_level(double x, int32_t levels)
{
    x += 0.5;
    if (!(x >= 1))
        return 0;
    return x >= levels ? levels - 1 : (int32_t)x;
}

/* The logistic's quantile: log(u) - log(1 - u) scales away from the mean, in levels. */
static double distance(float log_scale, float temperature, int32_t levels, float u)
{
    u = u > 0 ? u : 0x1p-24f; /* it is a multiple of 2^-24 below 1 */
    double s = fmax((double)log_scale, (double)LX_MIXTURE_MIN_LOG_SCALE);
    double r = fmax(2.0 / (levels - 1) * exp(-s), DBL_MIN); /* never 0 / 0 when u = 1/2 */
    return (double)temperature * log((double)u / (1 - (double)u)) / r;
}

static int32_t choose(const lx_cpu_isa *isa, const lx_sampling *s, const lx_cpu_sample_mixture *x,
                      float *scratch)
{
    if (s->forced >= 0)
        return s->forced;
    int32_t k = 0;
    double away = 0;
    if (s->temperature == 0) {
        k = first_equal(x->logits, x->largest);
    } else {
        double total = isa->sample->weights(scratch, x->logits, x->n, x->largest, s->temperature);
        float u = lx_uniform(s->seed, s->sample, s->step, 0);
        k = draw_component(scratch, x->n, (double)u * total);
        away = distance(x->log_scales[k], s->temperature, x->levels,
                        lx_uniform(s->seed, s->sample, s->step, 1));
    }
    return to_level(((double)x->means[k] + 1) * (x->levels - 1) / 2 + away, x->levels);
}

static lx_sample sample_row(const lx_cpu_isa *isa, const lx_sampling *s, const float *parameters,
                            int32_t n, int32_t levels, float *scratch)
{
    float greatest;
    lx_cpu_sample_mixture x = {.logits = parameters,
                               .means = parameters + n,
                               .log_scales = parameters + 2 * (int64_t)n,
                               .n = n,
                               .levels = levels};
    if (!isa->sample->scan(x.logits, n, &x.largest) ||
        !isa->sample->scan(x.means, 2 * n, &greatest))
        return (lx_sample){-1, NAN};
    int32_t v = choose(isa, s, &x, scratch);
    return (lx_sample){v, (float)fmax(isa->sample_mixture(&x, v), -(double)FLT_MAX)};
}

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_sample_mixture_args *a = args;
    lx_cpu_range rows = lx_cpu_shared_rows(part, LX_ROWS_OUTPUTS);
    int64_t width = 3 * (int64_t)a->n_components;
    for (int64_t i = rows.from; i < rows.to; i++)
        a->out[i] = sample_row(c->isa, &a->rows[i], a->parameters->data + i * width,
                               a->n_components, a->n_levels, scratch);
}

static int64_t scratch_floats(const void *args)
{
    (void)args;
    return LX_CPU_MIXTURE;
}

static int64_t pieces(const lx_cpu *c, const void *args)
{
    (void)args;
    return c->batch->n_outputs;
}

LX_DEFINE_CPU(sample_mixture, .scratch = scratch_floats, .pieces = pieces, .run = run);
