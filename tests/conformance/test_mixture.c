/*
 * Compares `sample_mixture` with the text, written out here as differences of logistic functions,
 * and with the oracle. The probabilities of levels sum to 1, frequencies of a million draws pass a
 * chi-square test, and a row's bits do not depend on its neighbours.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance.h"
#include "kernels/philox.h"
#include "sampling.h"

#define LOGPROB_BOUND 1e-6 /* of 1 + |logprob|; docs/numerics.md */
#define SUM_BOUND 1e-6     /* of the levels' probabilities, which sum to 1 */

static const lx_sampling plain = {.seed = 1, .temperature = 1, .top_p = 1, .forced = -1};

static const char *const shape_names[] = {"flat", "narrow", "outside", "extreme"};

/* The samples of every level, forced. */
static bool score_levels(device *d, const mixture *x, lx_sample *out)
{
    lx_sampling *how = take((size_t)x->levels * sizeof *how);
    for (int32_t v = 0; v < x->levels; v++) {
        how[v] = plain;
        how[v].forced = v;
    }
    return sample_mixtures(d, repeat_mixture(x, x->levels), x->k, x->levels,
                           one_sequence(x->levels), how, out);
}

static bool probabilities_are_the_text(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t ks[] = {1, 10, 17, 64}, levels[] = {2, 3, 256};
    rng r = {31};
    for (int i = 0; i < 36; i++) {
        mixture x = random_mixture(&r, ks[i % 4], levels[i / 4 % 3], (shape)(i / 12));
        lx_sample out[256];
        double p[256];
        text_probabilities(&x, 1, p);
        if (!score_levels(dut, &x, out))
            return false;
        for (int32_t v = 0; v < x.levels; v++) {
            double got = exp((double)out[v].logprob);
            CHECK(out[v].token == v, "level %d, not %d", out[v].token, v);
            CHECK(fabs(got - p[v]) <= 1e-5 * p[v] + 1e-15,
                  "%s, K %d, level %d of %d: %.9g, not %.9g", shape_names[i / 12], x.k, v, x.levels,
                  got, p[v]);
        }
    }
    return true;
}

/* --- levels --- */

/* Their sum, and each against the oracle. */
static bool check_levels(device *dut, device *oracle, const mixture *x, const char *what)
{
    lx_sample *got = take((size_t)x->levels * sizeof *got);
    lx_sample *want = take((size_t)x->levels * sizeof *want);
    double sum = 0;
    if (!score_levels(dut, x, got) || !score_levels(oracle, x, want))
        return false;
    for (int32_t v = 0; v < x->levels; v++) {
        double lp = (double)want[v].logprob, error = fabs((double)got[v].logprob - lp);
        CHECK(error <= LOGPROB_BOUND * (1 + fabs(lp)), "%s, K %d, level %d of %d: %.9g, not %.9g",
              what, x->k, v, x->levels, (double)got[v].logprob, lp);
        sum += exp((double)got[v].logprob);
    }
    CHECK(fabs(sum - 1) <= SUM_BOUND, "%s, K %d, %d levels: the sum is 1 %+.3g", what, x->k,
          x->levels, sum - 1);
    return true;
}

static bool levels_sum_to_one(device *dut, device *oracle)
{
    static const int32_t ks[] = {1, 10, 17, 64}, levels[] = {2, 256};
    rng r = {32};
    for (int i = 0; i < 64; i++) {
        shape s = (shape)(i % SHAPES);
        mixture x = random_mixture(&r, ks[i / 4 % 4], levels[i / 16 % 2], s);
        if (!check_levels(dut, oracle, &x, shape_names[s]))
            return false;
    }
    mixture many = random_mixture(&r, 3, LX_MIXTURE_MAX_LEVELS, OUTSIDE);
    return check_levels(dut, oracle, &many, "many levels");
}

/* --- random rows --- */

enum { ROWS = 400 };

typedef struct rows_case {
    int32_t k, levels;
    float *p; /* [ROWS, 3 k] */
    lx_sampling *how;
} rows_case;

static rows_case make_rows(rng *r, int32_t k, int32_t levels)
{
    static const float temperatures[] = {0, 1e-30f, 0.3f, 0.9f, 1, 1, 2.5f, 1e30f};
    rows_case c = {k, levels, floats((int64_t)ROWS * 3 * k), take(ROWS * sizeof *c.how)};
    for (uint32_t i = 0; i < ROWS; i++) {
        mixture x = random_mixture(r, k, levels, (shape)random_below(r, SHAPES));
        memcpy(c.p + (int64_t)i * 3 * k, x.p, 3 * (size_t)k * sizeof *x.p);
        bool forced = random_below(r, 4) == 0;
        c.how[i] = (lx_sampling){
            .seed = 42 + random_below(r, 3),
            .sample = random_below(r, 5),
            .step = i,
            .temperature = any_of(r, temperatures, 8),
            .top_p = 1,
            .forced = forced ? (int32_t)random_below(r, (uint32_t)levels) : -1,
        };
    }
    return c;
}

static bool run_rows(device *d, const rows_case *c, lx_sample *out)
{
    return sample_mixtures(d, c->p, c->k, c->levels, one_sequence(ROWS), c->how, out);
}

static bool mixture_matches_oracle(device *dut, device *oracle)
{
    static const int32_t ks[] = {1, 2, 10, 15, 16, 17, 33, 64}, levels[] = {2, 256, 1000, 65536};
    rng r = {33};
    for (int i = 0; i < 32; i++) {
        rows_case c = make_rows(&r, ks[i % 8], levels[i / 8]);
        lx_sample got[ROWS], want[ROWS];
        if (!run_rows(dut, &c, got) || !run_rows(oracle, &c, want))
            return false;
        for (int j = 0; j < ROWS; j++) {
            double lp = (double)want[j].logprob, error = fabs((double)got[j].logprob - lp);
            CHECK(got[j].token == want[j].token, "K %d, row %d: level %d, not %d (temperature %g)",
                  c.k, j, got[j].token, want[j].token, (double)c.how[j].temperature);
            CHECK(error <= LOGPROB_BOUND * (1 + fabs(lp)), "K %d, row %d: logprob %.9g, not %.9g",
                  c.k, j, (double)got[j].logprob, lp);
        }
    }
    return true;
}

/* A row gives equal bytes alone, among others, and among rows of other sequences. */
static bool mixture_rows_are_independent(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {34};
    rows_case c = make_rows(&r, 10, 256);
    lx_sample together[ROWS], apart[ROWS], alone;
    if (!run_rows(dut, &c, together) ||
        !sample_mixtures(dut, c.p, c.k, c.levels, single_rows(ROWS), c.how, apart))
        return false;
    CHECK(memcmp(apart, together, sizeof apart) == 0, "many sequences differ from one");
    for (int i = 0; i < ROWS; i += 5) {
        mixture x = {c.k, c.levels, c.p + (int64_t)i * 3 * c.k};
        if (!sample_one_mixture(dut, &x, c.how[i], &alone))
            return false;
        CHECK(memcmp(&alone, &together[i], sizeof alone) == 0, "row %d differs", i);
    }
    return true;
}

/* Sample i belongs to output row i, however many token rows there are. */
static bool only_output_rows_are_sampled(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t length[] = {5, 1, 6}, outputs[] = {4, 5, 8, 11};
    rng r = {35};
    rows_case c = make_rows(&r, 10, 256);
    lx_sample all[ROWS], some[4];
    lx_batch *b = ragged_batch(3, length, NULL);
    b->n_outputs = 4;
    b->output_row = outputs;
    if (!run_rows(dut, &c, all) || !sample_mixtures(dut, c.p, c.k, c.levels, b, c.how, some))
        return false;
    CHECK(memcmp(some, all, sizeof some) == 0, "other samples");
    b->n_outputs = 0;
    return sample_mixtures(dut, c.p, c.k, c.levels, b, c.how, some);
}

static bool mixture_has_equal_bytes_on_every_cpu(device *dut, device *oracle)
{
    (void)oracle;
    static agreement seen;
    rng r = {36};
    uint64_t hash = NO_BYTES;
    device exact = {.is_cpu = dut->is_cpu, .label = dut->label}; /* no product here is rounded */
    for (int32_t k = 1; k <= 64; k += 7) {
        rows_case c = make_rows(&r, k, 256);
        lx_sample out[ROWS];
        if (!run_rows(dut, &c, out))
            return false;
        hash = hash_bytes(hash, out, sizeof out);
    }
    return agrees(&exact, &seen, hash);
}

/* Cuts, mask and bans belong to `sample`: their values change nothing here. */
static bool cuts_and_bans_are_not_looked_at(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {40};
    rows_case c = make_rows(&r, 10, 256);
    uint8_t all[7] = {1, 1, 1, 1, 1, 1, 1};
    const lx_mask *mask = dev_mask(dut, all, 7);
    int32_t banned[] = {-5, 1 << 20};
    lx_sample want[ROWS], got[ROWS];
    if (!run_rows(dut, &c, want))
        return false;
    for (int i = 0; i < ROWS; i++) {
        c.how[i].top_p = i % 2 == 0 ? NAN : 0;
        c.how[i].top_k = i % 3 == 0 ? -7 : 1;
        c.how[i].mask = mask;
        c.how[i].banned = banned;
        c.how[i].n_banned = 2;
    }
    if (!run_rows(dut, &c, got))
        return false;
    CHECK(memcmp(want, got, sizeof want) == 0, "other samples");
    return true;
}

/* --- edge cases --- */

/* The mean of the likeliest component, halves upwards; levels of 257 make halves exact. */
static bool greedy_rounds_the_likeliest_mean(device *dut, device *oracle)
{
    (void)oracle;
    float p[9] = {2, 3, 3, -0.9f, 0, 0.9f, -2, -2, -2};
    mixture x = {3, 257, p};
    lx_sampling s = plain;
    lx_sample out;
    s.temperature = 0;
    for (int32_t v = -3; v < 260; v++) {
        int32_t want = v < -1 ? 0 : v >= 256 ? 256 : v + 1;
        p[4] = ((float)v + 0.5f) / 128 - 1;
        if (!sample_one_mixture(dut, &x, s, &out))
            return false;
        CHECK(out.token == want, "mean at %d.5: level %d", v, out.token);
    }
    return true;
}

/* A temperature near 0 draws the level of temperature 0; a huge one draws only the ends. */
static bool extreme_temperatures(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {37};
    for (uint32_t i = 0; i < 50; i++) {
        mixture x = random_mixture(&r, 10, 256, (shape)(i % 3));
        lx_sampling zero = plain, cold = plain, hot = plain;
        lx_sample taken, out;
        zero.temperature = 0;
        cold.temperature = 1e-40f;
        hot.temperature = 1e38f;
        cold.step = hot.step = i;
        if (!sample_one_mixture(dut, &x, zero, &taken) || !sample_one_mixture(dut, &x, cold, &out))
            return false;
        CHECK(out.token == taken.token, "cold: level %d, not %d", out.token, taken.token);
        if (!sample_one_mixture(dut, &x, hot, &out))
            return false;
        CHECK(out.token == 0 || out.token == 255, "hot: level %d", out.token);
    }
    return true;
}

/* A forced level has the log-probability of a sampled one, at any temperature. */
static bool forced_level_wins(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {38};
    for (uint32_t i = 0; i < 60; i++) {
        mixture x = random_mixture(&r, 10, 256, (shape)(i % SHAPES));
        lx_sampling s = plain;
        lx_sample drawn, forced;
        s.step = i;
        if (!sample_one_mixture(dut, &x, s, &drawn))
            return false;
        s.forced = drawn.token;
        s.temperature = (float)(i % 3);
        s.step = i + 1;
        if (!sample_one_mixture(dut, &x, s, &forced))
            return false;
        CHECK(memcmp(&drawn, &forced, sizeof drawn) == 0, "level %d: %.9g drawn, %.9g forced",
              drawn.token, (double)drawn.logprob, (double)forced.logprob);
    }
    return true;
}

/* The ends of the uniform numbers: 0 counts as 2^-24, and 1/2 gives the mean for every scale. */
static bool uniform_limits_are_kept(device *dut, device *oracle)
{
    (void)oracle;
    const uint32_t zero = 13061623, half = 8785339, top = 25266344; /* of seed 7, lane 1 */
    float narrow[3] = {0, 0, -3}, wide[3] = {0, 0.25f, 3e38f};
    mixture n = {1, 256, narrow}, w = {1, 256, wide};
    lx_sampling s = plain;
    lx_sample low, high, middle;
    CHECK(lx_uniform(7, 0, zero, 1) == 0 && lx_uniform(7, 0, half, 1) == 0.5f &&
              lx_uniform(7, 0, top, 1) == 1 - 0x1p-24f,
          "other random numbers");
    s.seed = 7;
    s.step = zero;
    if (!sample_one_mixture(dut, &n, s, &low))
        return false;
    s.step = top;
    if (!sample_one_mixture(dut, &n, s, &high))
        return false;
    s.step = half;
    if (!sample_one_mixture(dut, &w, s, &middle))
        return false;
    double away = 127.5 * exp(-3) * (24 * log(2) + log1p(-0x1p-24));
    CHECK(low.token == (int32_t)floor(127.5 - away + 0.5), "u = 0: level %d", low.token);
    CHECK(high.token == (int32_t)floor(127.5 + away + 0.5), "u = 1 - 2^-24: level %d", high.token);
    CHECK(middle.token == (int32_t)floor(1.25 * 127.5 + 0.5), "u = 1/2: level %d", middle.token);
    return true;
}

/* A component is taken when the sum exceeds u: not at u itself, and never one without weight. */
static bool component_limits_are_kept(device *dut, device *oracle)
{
    (void)oracle;
    const uint32_t half = 2313274, zero = 32245323; /* of seed 7, lane 0 */
    float equal[6] = {1, 1, -1, 1, -20, -20}, rising[6] = {-10000, 0, -1, 1, -20, -20};
    mixture e = {2, 256, equal}, r = {2, 256, rising};
    lx_sampling s = plain;
    lx_sample out;
    CHECK(lx_uniform(7, 0, half, 0) == 0.5f && lx_uniform(7, 0, zero, 0) == 0,
          "other random numbers");
    s.seed = 7;
    s.temperature = 0.01f; /* no level but that of the mean */
    s.step = half;
    if (!sample_one_mixture(dut, &e, s, &out))
        return false;
    CHECK(out.token == 255, "u = 1/2 of two equals: level %d", out.token);
    s.step = zero;
    if (!sample_one_mixture(dut, &r, s, &out))
        return false;
    CHECK(out.token == 255, "u = 0: level %d of the component without weight", out.token);
    return true;
}

/* A parameter that is not finite, for every way to sample; other rows are not harmed. */
static bool broken_parameters_give_no_level(device *dut, device *oracle)
{
    (void)oracle;
    static const float broken[] = {NAN, INFINITY, -INFINITY};
    enum { K = 17, N = 3 * K };
    float p[3 * N];
    lx_sampling s[3] = {plain, plain, plain};
    lx_sample out[3];
    for (int i = 0; i < 3 * N; i++) {
        memset(p, 0, sizeof p);
        p[N + i / 3] = broken[i % 3];
        s[1].temperature = i % 2 == 0 ? 1.0f : 0.0f;
        s[1].forced = i % 5 == 0 ? 50 : -1;
        if (!sample_mixtures(dut, p, K, 256, one_sequence(3), s, out))
            return false;
        CHECK(out[1].token == -1 && isnan(out[1].logprob), "parameter %d = %g: level %d", i / 3,
              (double)broken[i % 3], out[1].token);
        CHECK(out[0].token >= 0 && out[2].token >= 0 && isfinite(out[0].logprob) &&
                  isfinite(out[2].logprob),
              "the sound rows gave no level");
    }
    return true;
}

/* Where no f32 is small enough, the least finite one is given. */
static bool log_probabilities_are_finite(device *dut, device *oracle)
{
    (void)oracle;
    float p[6] = {3e38f, -3e38f, 3e38f, -1, -7, 0};
    mixture x = {2, 256, p};
    lx_sampling s = plain;
    lx_sample out;
    for (s.forced = 0; s.forced < 255; s.forced += 127) {
        if (!sample_one_mixture(dut, &x, s, &out))
            return false;
        CHECK(out.logprob == -FLT_MAX, "level %d: %g", s.forced, (double)out.logprob);
    }
    return true;
}

/* --- frequencies --- */

enum { DRAW_ROWS = 10000, DRAW_LEVELS = 256 };

/* Counts the levels of steps x DRAW_ROWS draws of one request, a row being sample number `row`. */
static bool count_draws(device *d, const mixture *x, float temperature, uint32_t steps, int *count)
{
    lx_sampling *how = take(DRAW_ROWS * sizeof *how);
    lx_sample *out = take((DRAW_ROWS + 2) * sizeof *out);
    lx_batch *batch = one_sequence(DRAW_ROWS);
    const lx_array *in = dev_array(d, repeat_mixture(x, DRAW_ROWS), (int64_t)DRAW_ROWS * 3 * x->k);
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < DRAW_ROWS; i++) {
            how[i] = plain;
            how[i].temperature = temperature;
            how[i].sample = i;
            how[i].step = step;
        }
        if (!run_mixtures(d, in, x->k, x->levels, batch, how, out))
            return false;
        for (uint32_t i = 1; i <= DRAW_ROWS; i++)
            count[out[i].token]++;
    }
    return true;
}

/* Levels expected less than five times are counted as one. */
static bool check_frequencies(device *d, const mixture *x, float temperature, uint32_t steps,
                              const char *what)
{
    double p[DRAW_LEVELS], chi2 = 0, freedom = -1, n = (double)steps * DRAW_ROWS;
    double rare = 0, rare_count = 0;
    int count[DRAW_LEVELS] = {0};
    text_probabilities(x, temperature, p);
    if (!count_draws(d, x, temperature, steps, count))
        return false;
    for (int v = 0; v < x->levels; v++) {
        if (n * p[v] < 5) {
            rare += n * p[v];
            rare_count += count[v];
            continue;
        }
        chi2 += (count[v] - n * p[v]) * (count[v] - n * p[v]) / (n * p[v]);
        freedom++;
    }
    chi2 += rare > 0 ? (rare_count - rare) * (rare_count - rare) / fmax(rare, 1) : 0;
    freedom += rare > 0;
    CHECK(rare > 0 || rare_count == 0, "%s: a level without probability was drawn", what);
    CHECK(chi2 < freedom + 5 * sqrt(2 * freedom + 2),
          "%s, temperature %g: chi-square %.1f with %.0f degrees of freedom", what,
          (double)temperature, chi2, freedom);
    return true;
}

static bool level_frequencies_are_probabilities(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {39};
    mixture flat = random_mixture(&r, 10, DRAW_LEVELS, FLAT);
    mixture narrow = random_mixture(&r, 17, DRAW_LEVELS, NARROW);
    mixture outside = random_mixture(&r, 10, DRAW_LEVELS, OUTSIDE);
    mixture two = random_mixture(&r, 1, 2, FLAT);
    /* All cpu back ends give equal bits, so the slow ones need not draw a million. */
    bool cuda = strncmp(dut->label, "cuda", 4) == 0; /* perhaps on the CPU, by fibers */
    bool slow = dut->threads > 1 || strstr(dut->label, "plain") != NULL || cuda;
    uint32_t few = (cuda ? 10000u : 20000u) / DRAW_ROWS;
    uint32_t many = slow ? few : 1000000u / DRAW_ROWS;
    return check_frequencies(dut, &flat, 1, many, "flat") &&
           check_frequencies(dut, &narrow, 0.7f, many, "narrow") &&
           check_frequencies(dut, &flat, 0.4f, few, "flat") &&
           check_frequencies(dut, &narrow, 2.5f, few, "narrow") &&
           check_frequencies(dut, &outside, 0.8f, few, "outside") &&
           check_frequencies(dut, &two, 1.3f, few, "two levels");
}

const test mixture_tests[] = {
    {"probabilities_are_the_text", probabilities_are_the_text},
    {"levels_sum_to_one", levels_sum_to_one},
    {"mixture_matches_oracle", mixture_matches_oracle},
    {"mixture_rows_are_independent", mixture_rows_are_independent},
    {"only_output_rows_are_sampled", only_output_rows_are_sampled},
    {"mixture_has_equal_bytes_on_every_cpu", mixture_has_equal_bytes_on_every_cpu},
    {"cuts_and_bans_are_not_looked_at", cuts_and_bans_are_not_looked_at},
    {"greedy_rounds_the_likeliest_mean", greedy_rounds_the_likeliest_mean},
    {"extreme_temperatures", extreme_temperatures},
    {"forced_level_wins", forced_level_wins},
    {"uniform_limits_are_kept", uniform_limits_are_kept},
    {"component_limits_are_kept", component_limits_are_kept},
    {"broken_parameters_give_no_level", broken_parameters_give_no_level},
    {"log_probabilities_are_finite", log_probabilities_are_finite},
    {"level_frequencies_are_probabilities", level_frequencies_are_probabilities},
    {NULL, NULL},
};
