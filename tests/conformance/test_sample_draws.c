/* `sample`: draws whose frequencies are the probabilities (chi-square). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "sampling.h"

static const lx_sampling plain = {.seed = 1, .temperature = 1, .top_p = 1, .forced = -1};

enum { IDS = 50, ROWS = 500 };

static int by_weight(const void *pa, const void *pb)
{
    const double *a = pa, *b = pb;
    return (a[0] < b[0]) - (a[0] > b[0]);
}

/* The probabilities the request asks for, worked out here in yet another way. */
static void probabilities(const float *logits, const lx_sampling *s, double *p)
{
    double sorted[IDS][2], total = 0, sum = 0, kept = 0;
    for (int i = 0; i < IDS; i++) {
        sorted[i][0] = exp((double)logits[i] / (double)s->temperature);
        sorted[i][1] = i;
        p[i] = 0;
    }
    qsort(sorted, IDS, sizeof sorted[0], by_weight);
    int n = s->top_k > 0 && s->top_k < IDS ? s->top_k : IDS;
    for (int i = 0; i < n; i++)
        total += sorted[i][0];
    for (int i = 0; i < n && (i == 0 || sum < (double)s->top_p * total); i++) {
        sum += sorted[i][0];
        p[(int)sorted[i][1]] = sorted[i][0];
        kept += sorted[i][0];
    }
    for (int i = 0; i < IDS; i++)
        p[i] /= kept;
}

/* Counts of `steps` x ROWS draws of one request, a row being sample number `row`. */
static bool count_draws(device *d, const float *logits, lx_sampling s, uint32_t steps, int *count)
{
    static float all[ROWS * IDS];
    static lx_sampling how[ROWS];
    static lx_sample out[ROWS];
    memset(count, 0, IDS * sizeof *count);
    for (int i = 0; i < ROWS; i++)
        memcpy(all + i * IDS, logits, IDS * sizeof *logits);
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < ROWS; i++) {
            how[i] = s;
            how[i].sample = i;
            how[i].step = step;
        }
        if (!sample_logits(d, all, ROWS, IDS, how, out))
            return false;
        for (int i = 0; i < ROWS; i++)
            count[out[i].token]++;
    }
    return true;
}

static bool check_frequencies(device *d, const float *logits, lx_sampling s)
{
    bool cuda = strncmp(d->label, "cuda", 4) == 0; /* perhaps on the CPU, by fibers */
    uint32_t steps = cuda ? 10 : 100;
    double p[IDS], chi2 = 0, n = (double)steps * ROWS, freedom = -1;
    int count[IDS];
    probabilities(logits, &s, p);
    if (!count_draws(d, logits, s, steps, count))
        return false;
    for (int i = 0; i < IDS; i++) {
        CHECK(p[i] > 0 || count[i] == 0, "id %d was drawn, its probability is 0", i);
        if (p[i] > 0) {
            chi2 += (count[i] - n * p[i]) * (count[i] - n * p[i]) / (n * p[i]);
            freedom++;
        }
    }
    CHECK(chi2 < freedom + 5 * sqrt(2 * freedom + 2),
          "chi-square %.1f with %.0f degrees of freedom (top_k %d, top_p %g, temperature %g)", chi2,
          freedom, s.top_k, (double)s.top_p, (double)s.temperature);
    return true;
}

static bool frequencies_are_probabilities(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {14};
    float *logits = random_floats(&r, IDS, UNIFORM, 0, 0);
    lx_sampling any = plain, k = plain, p = plain, both = plain;
    any.temperature = 0.7f;
    k.top_k = 10;
    p.top_p = 0.6f;
    both.top_k = 20;
    both.top_p = 0.8f;
    both.temperature = 1.6f;
    return check_frequencies(dut, logits, any) && check_frequencies(dut, logits, k) &&
           check_frequencies(dut, logits, p) && check_frequencies(dut, logits, both);
}

const test sample_draw_tests[] = {
    {"frequencies_are_probabilities", frequencies_are_probabilities},
    {NULL, NULL},
};
