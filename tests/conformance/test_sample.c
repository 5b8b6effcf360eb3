/*
 * `sample`: the same ids as the oracle for the same random numbers, log-probabilities within a
 * bound, and edge cases. Many draws: test_sample_draws.c.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance.h"
#include "kernels/philox.h"
#include "sampling.h"

#define LOGPROB_BOUND 1e-6 /* of 1 + |logprob|; docs/numerics.md */

static const lx_sampling plain = {.seed = 1, .temperature = 1, .top_p = 1, .forced = -1};

bool sample_logits(device *d, const float *logits, int32_t rows, int32_t n_ids,
                   const lx_sampling *how, lx_sample *out)
{
    lx_array *in = dev_array(d, logits, (int64_t)rows * n_ids);
    lx_sample_args args = {.logits = in, .n_ids = n_ids, .rows = how, .out = out};
    for (int32_t i = 0; i < rows; i++)
        out[i] = (lx_sample){-2, 0};
    CHECK_OK(d->k->begin(d->be, single_rows(rows), NULL));
    d->k->sample(d->be, &args);
    bool ok = dev_finish(d);
    d->k->array_free(d->be, d->owned[--d->n_owned].object);
    return ok;
}

static bool sample_one(device *d, const float *logits, int32_t n_ids, lx_sampling how,
                       lx_sample *out)
{
    return sample_logits(d, logits, 1, n_ids, &how, out);
}

/* --- against the oracle --- */

typedef struct sample_case {
    int32_t n_ids, rows;
    float *logits;
    uint8_t *banned;   /* [n_ids] of the mask */
    uint32_t *allowed; /* [rows, (n_ids + 31) / 32] */
    lx_sampling *how;
} sample_case;

/* Half of the rows have some, of which a few are large enough to decide. */
static void add_biases(rng *r, int32_t n_ids, lx_sampling *s)
{
    int32_t most = random_below(r, 2) == 0 ? 0 : 40, id = -1;
    lx_bias *biases = take((size_t)(most + 1) * sizeof *biases);
    while (s->n_biases < most) {
        id += 1 + (int32_t)random_below(r, (uint32_t)n_ids / 8 + 1);
        if (id >= n_ids)
            break;
        float add = random_between(r, -2, 2);
        float divisor = random_below(r, 2) == 0 ? 0 : random_between(r, 0.3f, 2);
        biases[s->n_biases++] = (lx_bias){id, random_below(r, 8) == 0 ? 50 * add : add, divisor};
    }
    s->biases = biases;
}

static lx_sampling random_sampling(rng *r, int32_t n_ids, uint32_t step)
{
    /* no top_p is a share that a few equals reach exactly: rounding would decide */
    static const float temperatures[] = {0, 0.3f, 1, 1, 2.5f},
                       top_ps[] = {1, 1, 0.9f, 0.46f, 0.01f}, min_ps[] = {0, 0, 0.02f, 0.3f, 1},
                       typical_ps[] = {0, 0, 1, 0.83f, 0.27f};
    lx_sampling s = {.seed = 42 + random_below(r, 3),
                     .sample = random_below(r, 5),
                     .step = step,
                     .temperature = temperatures[random_below(r, 5)],
                     .top_p = top_ps[random_below(r, 5)],
                     .min_p = min_ps[random_below(r, 5)],
                     .typical_p = typical_ps[random_below(r, 5)],
                     .top_k = random_below(r, 2) == 0 ? 0 : 1 + (int32_t)random_below(r, 60),
                     .forced =
                         random_below(r, 20) == 0 ? (int32_t)random_below(r, (uint32_t)n_ids) : -1};
    s.n_banned = (int32_t)random_below(r, 40);
    int32_t *banned = take((size_t)(s.n_banned + 1) * sizeof *banned);
    for (int32_t i = 0; i < s.n_banned; i++)
        banned[i] = (int32_t)random_below(r, (uint32_t)n_ids);
    s.banned = banned;
    add_biases(r, n_ids, &s);
    s.n_top = (int32_t)random_below(r, 1 + (uint32_t)(n_ids < LX_MAX_TOP ? n_ids : LX_MAX_TOP));
    s.top = take(LX_MAX_TOP * sizeof *s.top);
    return s;
}

/* Bits of ids that a grammar allows: few, most, all but none, in whole words and in single bits. */
static uint32_t *random_allowed(rng *r, int32_t n_ids)
{
    int32_t n = (n_ids + 31) / 32;
    uint32_t *allowed = take((size_t)n * sizeof *allowed), kind = random_below(r, 3);
    for (int32_t i = 0; i < n; i++) {
        uint32_t bits = random_below(r, UINT32_MAX), more = random_below(r, UINT32_MAX);
        allowed[i] = kind == 0 ? bits & more : kind == 1 ? bits | more : 0U - (bits & 1);
    }
    return allowed;
}

static sample_case make_case(rng *r, int32_t n_ids, int32_t rows, float spread)
{
    sample_case c = {.n_ids = n_ids, .rows = rows};
    c.logits = random_floats(r, (int64_t)rows * n_ids, UNIFORM, 0, 0);
    for (int64_t i = 0; i < (int64_t)rows * n_ids; i++)
        c.logits[i] *= spread;
    for (int32_t i = 0; i < rows / 2 * n_ids; i++) /* half of the rows have many equals */
        c.logits[i] = roundf(c.logits[i] / spread * 64) * spread / 64;
    c.banned = take((size_t)n_ids);
    for (int32_t i = 0; i < n_ids; i++)
        c.banned[i] = random_below(r, 4) == 0;
    size_t words = ((size_t)n_ids + 31) / 32;
    c.allowed = take((size_t)rows * words * sizeof *c.allowed);
    for (int32_t i = 0; i < rows; i++)
        memcpy(c.allowed + (size_t)i * words, random_allowed(r, n_ids), words * sizeof *c.allowed);
    c.how = take((size_t)rows * sizeof *c.how);
    for (int32_t i = 0; i < rows; i++)
        c.how[i] = random_sampling(r, n_ids, (uint32_t)i);
    return c;
}

/* Every third row goes without the mask, and every second one has bits of allowed ids. */
static bool run_case(device *d, const sample_case *c, lx_sample *out, lx_sample *top)
{
    const lx_mask *mask = dev_mask(d, c->banned, c->n_ids);
    lx_sampling *how = take((size_t)c->rows * sizeof *how);
    for (int32_t i = 0; i < c->rows; i++) {
        how[i] = c->how[i];
        how[i].mask = i % 3 == 0 ? NULL : mask;
        how[i].allowed =
            i % 2 == 0 ? NULL : c->allowed + (size_t)i * ((size_t)(c->n_ids + 31) / 32);
        how[i].top = top + (size_t)i * LX_MAX_TOP;
    }
    return sample_logits(d, c->logits, c->rows, c->n_ids, how, out);
}

static bool same_sample(lx_sample got, lx_sample want)
{
    if (got.token != want.token || got.token < 0)
        return got.token == want.token && isnan(got.logprob) && isnan(want.logprob);
    double lp = (double)want.logprob;
    return fabs((double)got.logprob - lp) <= LOGPROB_BOUND * (1 + fabs(lp));
}

static bool check_case(device *dut, device *oracle, const sample_case *c)
{
    lx_sample *got = take((size_t)c->rows * sizeof *got);
    lx_sample *want = take((size_t)c->rows * sizeof *want);
    size_t n_top = (size_t)c->rows * LX_MAX_TOP;
    lx_sample *got_top = take(n_top * sizeof *got_top), *want_top = take(n_top * sizeof *want_top);
    if (!run_case(dut, c, got, got_top))
        return false;
    if (dut->only_runs) {
        dev_release(dut);
        return true;
    }
    if (!run_case(oracle, c, want, want_top))
        return false;
    for (int32_t i = 0; i < c->rows; i++) {
        const lx_sampling *s = &c->how[i];
        CHECK(got[i].token == want[i].token,
              "%d ids, row %d: id %d, not %d (temperature %g, top_k %d, top_p %g, min_p %g, "
              "typical_p %g)",
              c->n_ids, i, got[i].token, want[i].token, (double)s->temperature, s->top_k,
              (double)s->top_p, (double)s->min_p, (double)s->typical_p);
        CHECK(same_sample(got[i], want[i]), "row %d: logprob %.9g, not %.9g", i,
              (double)got[i].logprob, (double)want[i].logprob);
        for (int32_t k = 0; k < s->n_top; k++) {
            lx_sample a = got_top[i * LX_MAX_TOP + k], b = want_top[i * LX_MAX_TOP + k];
            CHECK(same_sample(a, b), "row %d, place %d: id %d (%.9g), not %d (%.9g)", i, k, a.token,
                  (double)a.logprob, b.token, (double)b.logprob);
        }
    }
    dev_release(dut);
    dev_release(oracle);
    return true;
}

static bool sample_matches_oracle(device *dut, device *oracle)
{
    static const int32_t sizes[] = {1, 2, 5, 16, 31, 257, 300, 1000, 5237};
    static const float spreads[] = {0.01f, 1, 8, 300};
    rng r = {12};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t j = 0; j < 4; j++) {
            sample_case c = make_case(&r, sizes[i], sizes[i] > 500 ? 40 : 257, spreads[j]);
            if (!check_case(dut, oracle, &c))
                return false;
        }
    }
    return true;
}

/* A row alone gives the bytes that it gives among others. */
static bool sample_rows_are_independent(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {13};
    sample_case c = make_case(&r, 777, 60, 4);
    lx_sample together[60], alone;
    if (!sample_logits(dut, c.logits, c.rows, c.n_ids, c.how, together))
        return false;
    for (int32_t i = 0; i < c.rows; i++) {
        lx_sampling how = c.how[i];
        lx_sample top[LX_MAX_TOP];
        how.top = top;
        if (!sample_one(dut, c.logits + (int64_t)i * c.n_ids, c.n_ids, how, &alone))
            return false;
        CHECK(memcmp(&alone, &together[i], sizeof alone) == 0, "row %d differs", i);
        CHECK(memcmp(top, c.how[i].top, (size_t)how.n_top * sizeof *top) == 0,
              "row %d: the top ids differ", i);
    }
    return true;
}

/* --- biases and the top ids --- */

/* A bias changes the sampled token only: a ban beats it, and log-probabilities leave it out. */
static bool biases_decide(device *dut, device *oracle)
{
    (void)oracle;
    float logits[300] = {0};
    const lx_bias biases[] = {{3, -100, 0}, {7, 4, 0}, {290, 4.5f, 0}, {299, 100, 0}};
    const int32_t banned[] = {299};
    uint8_t masked[300] = {0};
    lx_sample top[2], out;
    lx_sampling s = plain;
    s.temperature = 0;
    s.biases = biases;
    s.n_biases = 4;
    s.top = top;
    s.n_top = 2;
    CHECK(sample_one(dut, logits, 300, s, &out) && out.token == 299, "id %d, not 299", out.token);
    CHECK(fabs((double)out.logprob + log(300)) < 1e-5, "logprob %g", (double)out.logprob);
    CHECK(top[0].token == 0 && top[1].token == 1, "top %d, %d", top[0].token, top[1].token);
    CHECK(top[1].logprob == out.logprob, "top's logprob %g", (double)top[1].logprob);
    s.banned = banned;
    s.n_banned = 1;
    CHECK(sample_one(dut, logits, 300, s, &out) && out.token == 290, "id %d, not 290", out.token);
    masked[290] = 1;
    s.mask = dev_mask(dut, masked, 300);
    CHECK(sample_one(dut, logits, 300, s, &out) && out.token == 7, "id %d, not 7", out.token);
    s.forced = 3;
    CHECK(sample_one(dut, logits, 300, s, &out) && out.token == 3, "id %d, not 3", out.token);
    return true;
}

/* Equals come by id, zeros of both signs are equals; as many as there are ids can be asked for. */
static bool top_is_in_order(device *dut, device *oracle)
{
    (void)oracle;
    float logits[600];
    lx_sample top[LX_MAX_TOP], out;
    static const int32_t want[] = {500, 17, 300, 0, 1, 2, 3};
    lx_sampling s = plain;
    for (int i = 0; i < 600; i++)
        logits[i] = i == 500 ? 2 : i == 17 || i == 300 ? 1 : i % 2 == 0 ? -0.0f : 0.0f;
    s.top = top;
    s.n_top = 7;
    if (!sample_one(dut, logits, 600, s, &out))
        return false;
    for (int i = 0; i < 7; i++)
        CHECK(top[i].token == want[i], "place %d: id %d, not %d", i, top[i].token, want[i]);
    s.n_top = 3;
    if (!sample_one(dut, logits, 3, s, &out))
        return false;
    for (int i = 0; i < 3; i++)
        CHECK(top[i].token == i, "of 3 ids, place %d: id %d", i, top[i].token);
    logits[1] = NAN;
    if (!sample_one(dut, logits, 3, s, &out))
        return false;
    for (int i = 0; i < 3; i++)
        CHECK(top[i].token == -1 && isnan(top[i].logprob), "a top id of a broken row");
    return true;
}

/* --- edge cases --- */

static bool greedy_takes_lowest_of_equals(device *dut, device *oracle)
{
    (void)oracle;
    float logits[40];
    int32_t banned[] = {3, 3, 17};
    lx_sampling s = plain;
    lx_sample out;
    for (int i = 0; i < 40; i++)
        logits[i] = i == 3 || i == 17 || i == 18 || i == 39 ? 2.5f : -1.0f;
    s.temperature = 0;
    s.top_k = 2; /* says nothing here */
    if (!sample_one(dut, logits, 40, s, &out))
        return false;
    CHECK(out.token == 3, "id %d, not 3", out.token);
    s.banned = banned;
    s.n_banned = 3;
    if (!sample_one(dut, logits, 40, s, &out))
        return false;
    CHECK(out.token == 18, "id %d, not 18", out.token);
    return true;
}

/* top_k = 1, or a tiny top_p, keeps one id: the first of equals. */
static bool cuts_keep_the_first_of_equals(device *dut, device *oracle)
{
    (void)oracle;
    float logits[300];
    for (int i = 0; i < 300; i++)
        logits[i] = i % 100 == 7 ? 1.0f : 0.5f;
    for (uint32_t step = 0; step < 200; step++) {
        lx_sampling k = plain, p = plain, two = plain;
        lx_sample out;
        k.step = p.step = two.step = step;
        k.top_k = 1;
        p.top_p = 1e-6f;
        two.top_k = 2;
        if (!sample_one(dut, logits, 300, k, &out))
            return false;
        CHECK(out.token == 7, "top_k = 1: id %d", out.token);
        if (!sample_one(dut, logits, 300, p, &out))
            return false;
        CHECK(out.token == 7, "top_p = 1e-6: id %d", out.token);
        if (!sample_one(dut, logits, 300, two, &out))
            return false;
        CHECK(out.token == 7 || out.token == 107, "top_k = 2: id %d", out.token);
    }
    return true;
}

/* forced wins over bans, mask and cuts; its log-probability is the plain softmax's. */
static bool forced_wins(device *dut, device *oracle)
{
    (void)oracle;
    float logits[20];
    int32_t banned[] = {4};
    lx_sampling s = plain;
    lx_sample out;
    for (int i = 0; i < 20; i++)
        logits[i] = i == 4 ? 1.0f : 0.0f;
    s.forced = 4;
    s.banned = banned;
    s.n_banned = 1;
    s.top_k = 1;
    s.temperature = 0;
    if (!sample_one(dut, logits, 20, s, &out))
        return false;
    double want = 1 - log(19 + exp(1.0));
    CHECK(out.token == 4, "id %d", out.token);
    CHECK(fabs((double)out.logprob - want) < 1e-6, "logprob %.9g, not %.9g", (double)out.logprob,
          want);
    return true;
}

static bool is_nothing(lx_sample s)
{
    return s.token == -1 && isnan(s.logprob);
}

static bool nothing_allowed_gives_no_token(device *dut, device *oracle)
{
    (void)oracle;
    uint8_t all[33];
    float logits[3 * 33] = {0};
    int32_t banned[33];
    lx_sample out[3];
    memset(all, 1, sizeof all);
    for (int32_t i = 0; i < 33; i++)
        banned[i] = i;
    for (int temperature = 0; temperature < 2; temperature++) {
        for (int32_t top_k = 0; top_k < 2; top_k++) {
            lx_sampling s = plain, m = plain;
            s.temperature = m.temperature = (float)temperature;
            s.top_k = m.top_k = top_k;
            s.banned = banned;
            s.n_banned = 33;
            m.mask = dev_mask(dut, all, 33);
            const lx_sampling how[] = {s, s, m};
            if (!sample_logits(dut, logits, 3, 33, how, out))
                return false;
            for (int i = 0; i < 3; i++)
                CHECK(is_nothing(out[i]), "row %d, all banned: id %d, logprob %g", i, out[i].token,
                      (double)out[i].logprob);
            dev_release(dut);
        }
    }
    return true;
}

/* A NaN or infinite logit anywhere, for every way to sample; other rows are not harmed. */
static bool broken_logits_give_no_token(device *dut, device *oracle)
{
    (void)oracle;
    static const float broken[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 300; i++) {
        float logits[2 * 100] = {0};
        lx_sampling s[2] = {plain, plain};
        lx_sample out[2];
        logits[i / 3] = broken[i % 3];
        s[0].temperature = i % 2 == 0 ? 1.0f : 0.0f;
        s[0].forced = i % 5 == 0 ? 50 : -1;
        s[0].top_k = i % 7 == 0 ? 3 : 0;
        if (!sample_logits(dut, logits, 2, 100, s, out))
            return false;
        CHECK(is_nothing(out[0]), "logit %d = %g: id %d", i / 3, (double)broken[i % 3],
              out[0].token);
        CHECK(out[1].token >= 0, "the sound row gave no id");
    }
    return true;
}

/* Logits at the ends of f32, and temperatures that drive all weight to one id or to all alike. */
static bool extreme_values_are_sampled(device *dut, device *oracle)
{
    (void)oracle;
    static const float temperatures[] = {1e-30f, 1e-3f, 1, 1e30f};
    float logits[50];
    for (int i = 0; i < 50; i++)
        logits[i] = i == 20 ? 3.4e38f : -3.4e38f;
    for (int i = 0; i < 16; i++) {
        lx_sampling s = plain;
        lx_sample out;
        s.temperature = temperatures[i % 4];
        s.step = (uint32_t)i;
        s.top_k = i / 4 % 2 == 0 ? 0 : 49;
        s.top_p = i / 8 == 0 ? 1 : 0.9f;
        if (!sample_one(dut, logits, 50, s, &out))
            return false;
        CHECK(out.token == 20, "temperature %g: id %d", (double)s.temperature, out.token);
        CHECK(fabsf(out.logprob) < 1e-6f, "logprob %g", (double)out.logprob);
    }
    return true;
}

/* +0 and -0 are equals, wherever a cut falls among them; one_in = 0: all are -0. */
static bool check_zeros(device *d, int one_in)
{
    float logits[100];
    bool drawn[100] = {false};
    int n_drawn = 0;
    for (int i = 0; i < 100; i++)
        logits[i] = one_in > 0 && i % one_in == 0 ? 0.0f : -0.0f;
    for (int32_t i = 0; i < 200; i++) {
        lx_sampling s = plain;
        lx_sample out;
        int32_t kept = 1 + i % 60;
        s.step = (uint32_t)i;
        s.top_k = i % 2 == 0 ? kept : 0;
        s.top_p = i % 2 == 0 ? 1 : ((float)kept - 0.5f) / 100;
        if (!sample_one(d, logits, 100, s, &out))
            return false;
        CHECK(out.token >= 0 && out.token < kept, "id %d with %d kept", out.token, kept);
        n_drawn += !drawn[out.token];
        drawn[out.token] = true;
    }
    CHECK(n_drawn > 30, "only %d different ids of 60 drawn", n_drawn);
    return true;
}

static bool zeros_of_both_signs_are_equals(device *dut, device *oracle)
{
    (void)oracle;
    return check_zeros(dut, 0) && check_zeros(dut, 1) && check_zeros(dut, 3);
}

/*
 * Sums that meet a limit exactly: the id at which the sum equals top_p is kept, and a draw takes
 * the id at which the sum becomes greater than u.
 */
static bool exact_limits_are_kept(device *dut, device *oracle)
{
    (void)oracle;
    const uint32_t step_half = 2313274, step_zero = 32245323; /* for seed 7: u = 0.5, u = 0 */
    float equal[4] = {1, 1, 1, 1}, rising[2] = {-10000, 0};
    CHECK(lx_uniform(7, 0, step_half, 0) == 0.5f && lx_uniform(7, 0, step_zero, 0) == 0,
          "other random numbers");
    for (uint32_t i = 0; i < 100; i++) {
        lx_sampling p = plain, half = plain, zero = plain;
        lx_sample out;
        half.seed = zero.seed = 7;
        p.step = i;
        p.top_p = 0.5f;
        half.step = step_half;
        half.top_k = i % 2 == 0 ? 0 : 4;
        half.top_p = i / 2 % 2 == 0 ? 1 : 0.9f;
        zero.step = step_zero;
        zero.top_k = i % 2 == 0 ? 0 : 2;
        if (!sample_one(dut, equal, 4, p, &out))
            return false;
        CHECK(out.token < 2, "top_p 0.5 of 4 equals: id %d", out.token);
        if (!sample_one(dut, equal, 4, half, &out))
            return false;
        CHECK(out.token == 2, "u = 0.5 of 4 equals: id %d", out.token);
        if (!sample_one(dut, rising, 2, zero, &out))
            return false;
        CHECK(out.token == 1, "u = 0: id %d, whose weight is 0", out.token);
    }
    return true;
}

const test sample_tests[] = {
    {"sample_matches_oracle", sample_matches_oracle},
    {"sample_rows_are_independent", sample_rows_are_independent},
    {"biases_decide", biases_decide},
    {"top_is_in_order", top_is_in_order},
    {"greedy_takes_lowest_of_equals", greedy_takes_lowest_of_equals},
    {"cuts_keep_the_first_of_equals", cuts_keep_the_first_of_equals},
    {"forced_wins", forced_wins},
    {"nothing_allowed_gives_no_token", nothing_allowed_gives_no_token},
    {"broken_logits_give_no_token", broken_logits_give_no_token},
    {"extreme_values_are_sampled", extreme_values_are_sampled},
    {"zeros_of_both_signs_are_equals", zeros_of_both_signs_are_equals},
    {"exact_limits_are_kept", exact_limits_are_kept},
    {NULL, NULL},
};
