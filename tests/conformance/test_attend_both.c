/*
 * Compares `attend_both` with the oracle, and checks its laws. Neighbours and former contents of
 * the slot do not matter. Other slots, and other parts of the slot, stay unchanged. The order of a
 * sequence's tokens does not matter.
 *
 * y is an average of the sequence's values, so its error is measured by the largest of them; that
 * of a sum by the absolute values added to it.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"
#include "kept_results.h"

#define Y_BOUND 2e-6 /* docs/numerics.md */
#define SUM_BOUND 2e-6

typedef struct both_case {
    int32_t heads, d_key, d_value, n_seqs;
    const int32_t *length;
    lx_feature_map feature_map;
    float *qkv;
} both_case;

enum { OFFSET = 5, BEHIND = 3, MOST_SEQS = 12 };

static const int32_t shapes[][3] = {/* heads, D, M */
                                    {4, 32, 32}, {1, 1, 1},   {3, 7, 7},   {2, 33, 33},
                                    {2, 64, 64}, {4, 16, 48}, {3, 31, 17}, {1, 5, 100}};
static const int32_t lengths[MOST_SEQS] = {1, 3, 17, 1, 64, 2, 1, 1, 140, 1, 5, 1};
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static int64_t width_of(const both_case *c)
{
    return (int64_t)c->heads * (2 * c->d_key + c->d_value);
}

static int64_t part_of(const both_case *c)
{
    return (int64_t)c->heads * c->d_key * (c->d_value + 1);
}

static int64_t floats_of(const both_case *c)
{
    return OFFSET + part_of(c) + BEHIND;
}

static int32_t rows_of(const both_case *c)
{
    int32_t rows = 0;
    for (int32_t i = 0; i < c->n_seqs; i++)
        rows += c->length[i];
    return rows;
}

static both_case make_case(rng *r, size_t i, pattern p)
{
    const int32_t *s = shapes[i % COUNT(shapes)];
    both_case c = {s[0], s[1], s[2], MOST_SEQS, lengths, (lx_feature_map)(i / COUNT(shapes)), NULL};
    int64_t keys = 2L * c.heads * c.d_key, width = width_of(&c);
    c.qkv = floats(rows_of(&c) * width);
    for (int64_t row = 0; row < rows_of(&c); row++) {
        fill(r, c.qkv + row * width, keys, p, 4, 1.3f);
        fill(r, c.qkv + row * width + keys, width - keys, p, 5, 5);
    }
    return c;
}

/* A device may lack the operation. */
/* Sequences first .. first + n - 1 of the case in slots 1, 2, ..; every slot holds `before`. */
static bool attend(device *d, const both_case *c, int32_t first, int32_t n, float before, float *y,
                   float *state)
{
    int64_t row = 0, n_v = (int64_t)c->heads * c->d_value, n_floats = floats_of(c);
    int32_t slot[MOST_SEQS] = {0};
    for (int32_t i = 0; i < first; i++)
        row += c->length[i];
    for (int32_t i = 0; i < n; i++)
        slot[i] = 1 + i;
    lx_batch *b = ragged_batch(n, c->length + first, slot);
    lx_states *s = dev_states(d, n_floats, n + 1);
    float *fill_in = floats(n_floats);
    for (int64_t i = 0; i < n_floats; i++)
        fill_in[i] = before;
    for (int32_t i = 0; i <= n; i++)
        CHECK_OK(d->k->state_import(d->be, s, i, fill_in, 0));
    lx_array *x = dev_array(d, c->qkv + row * width_of(c), b->n_tokens * width_of(c));
    lx_array *out = dev_array(d, NULL, b->n_tokens * n_v);
    lx_attend_both_args args = {
        out, x, s, OFFSET, c->heads, c->d_key, c->d_value, c->feature_map, 1e-6f, NULL};
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->attend_both(d->be, &args);
    if (!dev_finish(d) || !dev_read(d, out, y, b->n_tokens * n_v))
        return false;
    for (int32_t i = 0; i <= n; i++)
        CHECK_OK(d->k->state_export(d->be, s, i, state + i * n_floats, 0));
    return true;
}

static double phi(float x, lx_feature_map map)
{
    const double values[LX_FEATURE_MAPS] = {
        [LX_PHI_ELU1] = x > 0 ? (double)x + 1 : exp((double)x),
        [LX_PHI_RELU] = fmax((double)x, 0),
        [LX_PHI_RELU2] = fmax((double)x, 0) * fmax((double)x, 0),
        [LX_PHI_EXP] = exp(fmin((double)x, 8)),
    };
    return values[map];
}

/* Of one sequence: the largest |v| of each column for y, the absolute values in each sum. */
static void scales(const both_case *c, const float *x, int32_t length, double *y, double *sums)
{
    int64_t dk = c->d_key, dv = c->d_value, head = dk * (dv + 1), n_v = c->heads * dv;
    for (int32_t t = 0; t < length; t++) {
        const float *k = x + t * width_of(c) + c->heads * dk, *v = k + c->heads * dk;
        for (int64_t i = 0; i < n_v; i++)
            y[i] = fmax(y[i], fabs((double)v[i]));
        for (int64_t i = 0; i < c->heads * dk; i++) {
            double phi_k = phi(k[i], c->feature_map), *s = sums + i / dk * head + i % dk * dv;
            for (int64_t m = 0; m < dv; m++)
                s[m] += phi_k * fabs((double)v[i / dk * dv + m]);
            sums[i / dk * head + dk * dv + i % dk] += phi_k;
        }
    }
}

static bool check_case(device *dut, device *oracle, const both_case *c)
{
    int64_t n_v = (int64_t)c->heads * c->d_value, row = 0, all = rows_of(c) * n_v;
    int64_t n_state = (c->n_seqs + 1) * floats_of(c);
    float *got = floats(all), *got_sums = floats(n_state);
    const int32_t sizes[] = {c->heads, c->d_key, c->d_value, (int32_t)c->feature_map};
    uint64_t key = hash_bytes(hash_bytes(NO_BYTES, __FILE__, sizeof __FILE__), sizes, sizeof sizes);
    key = hash_floats(key, c->qkv, rows_of(c) * width_of(c));
    results want = results_of(key, all, n_state);
    if (!attend(dut, c, 0, c->n_seqs, 0, got, got_sums) ||
        (!want.known && !attend(oracle, c, 0, c->n_seqs, 0, want.y, want.state)))
        return false;
    for (int32_t i = 0; i < c->n_seqs; row += c->length[i], i++) {
        double *scale = want.y_scale + row * n_v; /* one for all tokens of a sequence */
        double *sums = want.state_scale + (1 + i) * floats_of(c) + OFFSET;
        if (!want.known)
            scales(c, c->qkv + row * width_of(c), c->length[i], scale, sums);
        for (int64_t t = row; t < row + c->length[i]; t++) {
            double error = worst_error(got + t * n_v, want.y + t * n_v, scale, n_v);
            CHECK(error <= Y_BOUND, "D %d, M %d, map %d: y of sequence %d is off by %.3g", c->d_key,
                  c->d_value, (int)c->feature_map, i, error);
        }
        int64_t at = (1 + i) * floats_of(c) + OFFSET;
        double error = worst_error(got_sums + at, want.state + at, sums, part_of(c));
        CHECK(error <= SUM_BOUND, "sums of sequence %d are off by %.3g", i, error);
    }
    if (!want.known)
        keep_results(&want);
    return true;
}

static bool both_match_oracle(device *dut, device *oracle)
{
    rng r = {51};
    for (size_t i = 0; i < COUNT(shapes) * LX_FEATURE_MAPS && !IS_MISSING(dut, attend_both); i++)
        for (int p = 0; p < PATTERNS; p++) {
            both_case c = make_case(&r, i, (pattern)p);
            if (!check_case(dut, oracle, &c))
                return false;
            dev_release(dut);
            dev_release(oracle);
        }
    return true;
}

/* Alone, in another slot and over other remains: the same bytes. The guard floats after the result
 * stay unchanged. */
static bool both_neighbours_do_not_matter(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {52};
    static agreement seen;
    uint64_t hash = NO_BYTES;
    for (size_t i = 0; i < COUNT(shapes) * LX_FEATURE_MAPS && !IS_MISSING(dut, attend_both); i++) {
        both_case c = make_case(&r, i, UNIFORM);
        int64_t n_v = (int64_t)c.heads * c.d_value, row = 0, n = floats_of(&c);
        float *y = floats(rows_of(&c) * n_v), *alone = floats(rows_of(&c) * n_v);
        float *state = floats((c.n_seqs + 1) * n), *own = floats(2 * n);
        if (!attend(dut, &c, 0, c.n_seqs, 7, y, state))
            return false;
        for (int32_t s = 0; s < c.n_seqs; row += c.length[s], s++) {
            const float *sums = state + (1 + s) * n;
            if (!attend(dut, &c, s, 1, NAN, alone, own))
                return false;
            CHECK(same_bytes(alone, y + row * n_v, c.length[s] * n_v), "y of sequence %d", s);
            CHECK(same_bytes(own + n + OFFSET, sums + OFFSET, part_of(&c)), "sums of %d", s);
            for (int64_t k = 0; k < n; k++)
                CHECK(state[k] == 7 && (sums[k] == 7 || (k >= OFFSET && k < n - BEHIND)),
                      "guard float %lld after the sums was written", (long long)k);
        }
        hash = hash_bytes(hash, y, (size_t)(rows_of(&c) * n_v) * sizeof *y);
        dev_release(dut);
    }
    return IS_MISSING(dut, attend_both) || agrees(dut, &seen, hash);
}

/* Small whole numbers add up exactly, so a token's result does not depend on its place. */
static bool both_see_no_order(device *dut, device *oracle)
{
    (void)oracle;
    if (IS_MISSING(dut, attend_both))
        return true;
    enum { T = 40, D = 3, M = 2, WIDTH = 2 * D + M };
    static const int32_t length[] = {T};
    both_case c = {1, D, M, 1, length, LX_PHI_RELU, floats(T * WIDTH)};
    float y[T * M], turned[T * M], state[2 * (OFFSET + D * (M + 1) + BEHIND)];
    rng r = {53};
    for (int i = 0; i < T * WIDTH; i++)
        c.qkv[i] = (float)random_below(&r, 9) - 2;
    if (!attend(dut, &c, 0, 1, 0, y, state))
        return false;
    both_case back = c;
    back.qkv = floats(T * WIDTH);
    for (int t = 0; t < T; t++)
        memcpy(back.qkv + t * WIDTH, c.qkv + (T - 1 - t) * WIDTH, sizeof *c.qkv * WIDTH);
    if (!attend(dut, &back, 0, 1, 0, turned, state))
        return false;
    for (int t = 0; t < T; t++)
        CHECK(same_bytes(turned + t * M, y + (T - 1 - t) * M, M), "token %d", t);
    return true;
}

static bool both_refuse_what_is_wrong(device *dut, device *oracle)
{
    (void)oracle;
    if (IS_MISSING(dut, attend_both))
        return true;
    lx_batch *b = single_rows(1);
    lx_states *s = dev_states(dut, 20, 1);
    lx_array *x = dev_array(dut, floats(8), 8), *y = dev_array(dut, floats(2), 2);
    const lx_attend_both_args good = {y, x, s, 5, 1, 3, 2, LX_PHI_ELU1, 1e-6f, NULL};
    lx_attend_both_args bad[8];
    for (size_t i = 0; i < COUNT(bad); i++)
        bad[i] = good;
    bad[0].n_heads = 0;
    bad[1].d_key = 65537;
    bad[2].d_value = 0;
    bad[3].feature_map = LX_FEATURE_MAPS;
    bad[4].qkv = y;
    bad[5].states = NULL;
    bad[6].offset = 12; /* 9 floats from there on are more than 20 */
    bad[7].y = NULL;
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint64_t step;
        lx_error err = {0};
        CHECK_OK(dut->k->begin(dut->be, b, NULL));
        dut->k->attend_both(dut->be, &bad[i]);
        CHECK(dut->k->end(dut->be, &step, &err) == LX_ERR_INVALID &&
                  strstr(err.text, "attend_both") != NULL,
              "case %zu: %s", i, err.text);
    }
    CHECK_OK(dut->k->begin(dut->be, b, NULL));
    dut->k->attend_both(dut->be, &good);
    return dev_finish(dut);
}

const test both_tests[] = {
    {"both_match_oracle", both_match_oracle},
    {"both_neighbours_do_not_matter", both_neighbours_do_not_matter},
    {"both_see_no_order", both_see_no_order},
    {"both_refuse_what_is_wrong", both_refuse_what_is_wrong},
    {NULL, NULL},
};
