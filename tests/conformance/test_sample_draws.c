/* `sample`: draws whose frequencies are the probabilities (chi-square). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "kernels/philox.h"
#include "sampling.h"

static const lx_sampling plain = {.seed = 1, .temperature = 1, .top_p = 1, .forced = -1};

enum { IDS = 50, ROWS = 500 };

static int by_weight(const void *pa, const void *pb)
{
    const double *a = pa, *b = pb;
    return (a[0] < b[0]) - (a[0] > b[0]);
}

static double share(const double (*list)[2], int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += list[i][0];
    return sum;
}

/* Keeps the n first of a list of (weight, id), in that order, whose share reaches `wanted`. */
static int shortest(const double (*list)[2], int n, double wanted)
{
    double all = share(list, n), sum = 0;
    int k = 0;
    while (k < n && (k == 0 || sum < wanted * all))
        sum += list[k++][0];
    return k;
}

/* By |log p + H|, as the papers on it say; the list is sorted by weight before and after. */
static int typical(double (*list)[2], int n, double wanted)
{
    double all = share((const double(*)[2])list, n), entropy = 0, near[IDS][2];
    for (int i = 0; i < n; i++)
        entropy -= list[i][0] / all * log(list[i][0] / all);
    for (int i = 0; i < n; i++) {
        near[i][0] = -fabs(log(list[i][0] / all) + entropy);
        near[i][1] = i;
    }
    qsort(near, (size_t)n, sizeof near[0], by_weight);
    double again[IDS][2];
    for (int i = 0; i < n; i++)
        memcpy(again[i], list[(int)near[i][1]], sizeof again[i]);
    n = shortest((const double(*)[2])again, n, wanted);
    qsort(again, (size_t)n, sizeof again[0], by_weight);
    memcpy(list, again, (size_t)n * sizeof again[0]);
    return n;
}

/* The probabilities the request asks for, worked out here in yet another way. */
static void probabilities(const float *logits, const lx_sampling *s, double *p)
{
    double sorted[IDS][2];
    for (int i = 0; i < IDS; i++) {
        sorted[i][0] = exp((double)logits[i] / (double)s->temperature);
        sorted[i][1] = i;
        p[i] = 0;
    }
    qsort(sorted, IDS, sizeof sorted[0], by_weight);
    int n = s->top_k > 0 && s->top_k < IDS ? s->top_k : IDS;
    if (s->typical_p > 0)
        n = typical(sorted, n, (double)s->typical_p);
    n = shortest((const double(*)[2])sorted, n, (double)s->top_p);
    while (sorted[n - 1][0] < (double)s->min_p * sorted[0][0])
        n--;
    double kept = share((const double(*)[2])sorted, n);
    for (int i = 0; i < n; i++)
        p[(int)sorted[i][1]] = sorted[i][0] / kept;
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
    bool cuda = strncmp(d->label, "cuda", 4) == 0;      /* perhaps on the CPU, by fibers */
    uint32_t steps = cuda || d->threads > 1 ? 10 : 100; /* the ids are those of one thread */
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
    CHECK(
        chi2 < freedom + 5 * sqrt(2 * freedom + 2),
        "chi-square %.1f with %.0f degrees of freedom (top_k %d, top_p %g, min_p %g, typical_p %g, "
        "temperature %g)",
        chi2, freedom, s.top_k, (double)s.top_p, (double)s.min_p, (double)s.typical_p,
        (double)s.temperature);
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

static bool typical_and_min_p_are_probabilities(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {15};
    float *logits = random_floats(&r, IDS, UNIFORM, 0, 0);
    lx_sampling few = plain, typical_ones = plain, peaked = plain, all = plain;
    few.min_p = 0.4f;
    typical_ones.typical_p = 0.5f;
    peaked.typical_p = 0.3f;
    peaked.temperature = 0.2f;
    all.top_k = 30;
    all.typical_p = 0.85f;
    all.top_p = 0.93f;
    all.min_p = 0.2f;
    all.temperature = 1.3f;
    return check_frequencies(dut, logits, few) && check_frequencies(dut, logits, typical_ones) &&
           check_frequencies(dut, logits, peaked) && check_frequencies(dut, logits, all);
}

/* One id has 20 shares of 69: it is less typical than the many others, and the first to go. */
static bool the_likeliest_may_be_untypical(device *dut, device *oracle)
{
    (void)oracle;
    float logits[IDS] = {0};
    lx_sampling s = plain;
    int count[IDS];
    logits[20] = logf(20);
    s.typical_p = 0.65f;
    if (!count_draws(dut, logits, s, 1, count))
        return false;
    CHECK(count[20] == 0, "id 20 was drawn %d times", count[20]);
    s.typical_p = 0.75f;
    if (!count_draws(dut, logits, s, 1, count))
        return false;
    CHECK(count[20] > ROWS / 10, "id 20 was drawn %d times", count[20]);
    return true;
}

/* Sums that equal the drawn number, with equal weights: that id is not taken.
 */
static bool edges_belong_to_the_next_id(device *dut, device *oracle)
{
    (void)oracle;
    enum { MOST = 2048, EDGES = 4 };
    static const int32_t sizes[] = {16, 256, 1024, MOST};
    static const float logits[EDGES * MOST];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int32_t n = sizes[i], at = 0;
        lx_sampling how[EDGES];
        lx_sample out[EDGES];
        for (uint64_t seed = 1; at < EDGES; seed++) {
            float drawn = lx_uniform(seed, 0, 0, 0) * (float)n;
            how[at] = plain;
            how[at].seed = seed;
            at += drawn > 0 && drawn == floorf(drawn);
        }
        if (!sample_logits(dut, logits, EDGES, n, how, out))
            return false;
        for (int k = 0; k < EDGES; k++) {
            int32_t want = (int32_t)(lx_uniform(how[k].seed, 0, 0, 0) * (float)n);
            CHECK(out[k].token == want, "%d of %d equal ids is drawn, not %d", out[k].token, n,
                  want);
        }
    }
    return true;
}

/* A row that asks for a token only gives the bytes that it gives with a list of top ids, for which
   a back end may use another algorithm. */
static bool a_list_changes_no_draw(device *dut, device *oracle)
{
    enum { MOST = 513, DRAWN = 24 };
    static const int32_t sizes[] = {1, 2, 31, 32, 33, 255, 256, 257, 300, 512, MOST};
    static const float temperatures[] = {0, 0.5f, 1, 1.7f};
    (void)oracle;
    rng r = {23};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        lx_sampling how[DRAWN];
        lx_sample bare[DRAWN], listed[DRAWN], top[DRAWN];
        float *logits = random_floats(&r, DRAWN * sizes[i], UNIFORM, i % 2 == 0 ? 3.0f : 60.0f, 0);
        for (int32_t k = 0; k < DRAWN; k++) {
            how[k] = plain;
            how[k].seed = (uint64_t)k + 1;
            how[k].temperature = temperatures[k % 4];
            how[k].forced = k % 7 == 6 ? sizes[i] - 1 : -1;
        }
        if (sizes[i] > 2)
            logits[sizes[i] + 2] = NAN;
        if (!sample_logits(dut, logits, DRAWN, sizes[i], how, bare))
            return false;
        for (int32_t k = 0; k < DRAWN; k++) {
            how[k].n_top = 1;
            how[k].top = &top[k];
        }
        if (!sample_logits(dut, logits, DRAWN, sizes[i], how, listed))
            return false;
        for (int32_t k = 0; k < DRAWN; k++)
            CHECK(bare[k].token == listed[k].token &&
                      memcmp(&bare[k].logprob, &listed[k].logprob, sizeof(float)) == 0,
                  "row %d of %d ids: %d (%g), with a list %d (%g)", k, sizes[i], bare[k].token,
                  (double)bare[k].logprob, listed[k].token, (double)listed[k].logprob);
        dev_release(dut);
    }
    return true;
}

const test sample_draw_tests[] = {
    {"edges_belong_to_the_next_id", edges_belong_to_the_next_id},
    {"a_list_changes_no_draw", a_list_changes_no_draw},
    {"frequencies_are_probabilities", frequencies_are_probabilities},
    {"typical_and_min_p_are_probabilities", typical_and_min_p_are_probabilities},
    {"the_likeliest_may_be_untypical", the_likeliest_may_be_untypical},
    {NULL, NULL},
};
