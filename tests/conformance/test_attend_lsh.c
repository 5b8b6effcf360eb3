/*
 * `attend_lsh` against the oracle, against buckets and sums that are written down, and by its laws:
 * any split of a sequence gives the same bytes, neighbours do not matter, and what is wrong is
 * refused by its name. Pages are NaN at first: nothing of them may be seen.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define Y_BOUND 3e-7 /* docs/numerics.md */

enum { MOST = 256, PAGES = MOST / LX_PAGE_TOKENS };

typedef struct lsh_case {
    int32_t heads, d_key, d_value, rounds, buckets, cap;
    float scale;
} lsh_case;

static const lsh_case cases[] = {{1, 1, 1, 1, 2, 1, 1},
                                 {2, 32, 32, 4, 16, 5, 0.2f},
                                 {3, 7, 19, 2, 34, 40, 1},
                                 {1, 64, 80, 1, 64, 64, 0.125f},
                                 {2, 5, 3, 16, 4, 17, 0.4f}};

static int64_t width(const lsh_case *c)
{
    return (int64_t)c->heads * (c->d_key + c->d_value);
}

static lx_attend_lsh_args args_of(const lsh_case *c)
{
    return (lx_attend_lsh_args){.n_heads = c->heads,
                                .d_key = c->d_key,
                                .d_value = c->d_value,
                                .rounds = c->rounds,
                                .n_buckets = c->buckets,
                                .cap = c->cap,
                                .scale = c->scale,
                                .offset = 3,
                                .page_offset = 5};
}

static lx_state_layout layout_of(const lsh_case *c, int32_t n_slots)
{
    lx_attend_lsh_args a = args_of(c);
    return (lx_state_layout){.fixed_floats = 3 + (int64_t)c->heads * c->rounds * c->buckets,
                             .page_floats = 5 + c->heads * LX_PAGE_TOKENS * lx_lsh_row(&a),
                             .n_pages = n_slots * PAGES,
                             .slot_pages = PAGES};
}

static int64_t state_floats(const lsh_case *c)
{
    lx_state_layout l = layout_of(c, 1);
    return l.fixed_floats + PAGES * l.page_floats;
}

static lx_states *states_of(device *d, const lsh_case *c, int32_t n_slots)
{
    lx_states *s = dev_states_of(d, layout_of(c, n_slots), n_slots);
    float *nothing = floats(state_floats(c));
    bool ok = true;
    for (int64_t i = 0; i < state_floats(c); i++)
        nothing[i] = NAN;
    for (int32_t slot = 0; slot < n_slots; slot++) {
        for (int32_t i = 0; i < PAGES; i++) {
            int32_t page = i * n_slots + slot;
            ok = ok && d->k->state_map(d->be, s, slot, i, 1, &page) == LX_OK;
        }
        ok = ok && d->k->state_import(d->be, s, slot, nothing, PAGES) == LX_OK &&
             d->k->state_zero(d->be, s, slot) == LX_OK;
    }
    return ok ? s : NULL;
}

static float *hashes_of(const lsh_case *c)
{
    rng r = {9};
    int64_t n = (int64_t)c->rounds * c->d_key * (c->buckets / 2);
    float *h = floats(n);
    fill(&r, h, n, UNIFORM, 1, 1);
    return h;
}

static bool step(device *d, const lsh_case *c, const float *hashes, lx_states *s, int32_t n_seqs,
                 const int32_t *length, const int32_t *slot, const int32_t *position,
                 const float *qkv, float *y)
{
    lx_batch *b = ragged_batch(n_seqs, length, slot);
    int64_t n_y = (int64_t)b->n_tokens * c->heads * c->d_value;
    lx_attend_lsh_args a = args_of(c);
    a.qkv = dev_array(d, qkv, b->n_tokens * width(c));
    a.y = dev_array(d, NULL, n_y);
    a.hashes = dev_array(d, hashes, (int64_t)c->rounds * c->d_key * (c->buckets / 2));
    a.states = s;
    b->position = position;
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->attend_lsh(d->be, &a);
    return dev_finish(d) && dev_read(d, a.y, y, n_y);
}

/* A device may lack the operation. */
static bool is_missing(const device *d)
{
    if (d->k->attend_lsh == NULL)
        (void)printf("%s has no attend_lsh\n", d->label);
    return d->k->attend_lsh == NULL;
}

static bool buckets_match_oracle(device *dut, device *oracle)
{
    static const int32_t length[] = {200, 1, 70}, slot[] = {2, 0, 1}, zero[] = {0, 0, 0};
    rng r = {41};
    for (size_t i = 0; i < COUNT(cases) && !is_missing(dut); i++) {
        const lsh_case *c = &cases[i];
        int64_t n = 271, n_y = n * c->heads * c->d_value;
        float *qkv = floats(n * width(c)), *h = hashes_of(c);
        float *got = floats(n_y), *want = floats(n_y);
        double *scale = take((size_t)n_y * sizeof *scale);
        fill(&r, qkv, n * width(c), UNIFORM, 2, 2);
        for (int64_t k = 0; k < n_y; k++) /* of a value, and of a logit's error */
            scale[k] = 2 * (1 + 2 * sqrt(c->d_key) * (double)c->scale);
        lx_states *a = states_of(dut, c, 3), *b = states_of(oracle, c, 3);
        CHECK(a != NULL && b != NULL, "mapping or import failed");
        if (!step(dut, c, h, a, 3, length, slot, zero, qkv, got) ||
            !step(oracle, c, h, b, 3, length, slot, zero, qkv, want))
            return false;
        double error = worst_error(got, want, scale, n_y);
        CHECK(error <= Y_BOUND, "case %zu: error %.3g", i, error);
        dev_release(dut);
        dev_release(oracle);
    }
    return true;
}

static bool buckets_any_split_is_equal(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {42};
    for (size_t i = 0; i < COUNT(cases) && !is_missing(dut); i++) {
        const lsh_case *c = &cases[i];
        int32_t n = MOST, zero = 0, ones[2] = {1, 3}, slots[2] = {1, 0}, at[2] = {0, 0};
        int64_t n_y = (int64_t)c->heads * c->d_value;
        float *qkv = floats((n + 3) * width(c)), *h = hashes_of(c), *y = floats(n * n_y);
        float *piece = floats((n + 3) * n_y);
        float *one = floats(state_floats(c)), *two = floats(state_floats(c));
        fill(&r, qkv, (n + 3) * width(c), UNIFORM, 2, 2);
        lx_states *s = states_of(dut, c, 2);
        if (!step(dut, c, h, s, 1, &n, &zero, &zero, qkv, y))
            return false;
        CHECK_OK(dut->k->state_export(dut->be, s, 0, one, PAGES));
        CHECK_OK(dut->k->state_zero(dut->be, s, 0));
        for (at[0] = 0; at[0] < n; at[0] += ones[0]) { /* beside others in slot 0 */
            ones[0] = at[0] == 0 ? 1 : 1 + (int32_t)random_below(&r, 70);
            ones[0] = ones[0] < n - at[0] ? ones[0] : n - at[0];
            if (!step(dut, c, h, s, 2, ones, slots, at, qkv + at[0] * width(c), piece))
                return false;
            CHECK(same_bytes(piece, y + at[0] * n_y, ones[0] * n_y), "case %zu: row %d", i, at[0]);
        }
        CHECK_OK(dut->k->state_export(dut->be, s, 1, two, PAGES));
        int64_t fixed = layout_of(c, 1).fixed_floats, page = layout_of(c, 1).page_floats;
        CHECK(same_bytes(one + 3, two + 3, fixed - 3), "case %zu: other buckets", i);
        for (int32_t p = 0; p < PAGES; p++)
            CHECK(same_bytes(one + fixed + p * page + 5, two + fixed + p * page + 5, page - 5),
                  "case %zu: page %d differs", i, p);
        dev_release(dut);
    }
    return true;
}

/* Four buckets of the plane: (1, .2) -> 0, (.2, 1) -> 1, (-1, .1) -> 2, (.1, -1) -> 3. */
static bool written_buckets_are_seen(device *dut, device *oracle)
{
    (void)oracle;
    if (is_missing(dut))
        return true;
    static const lsh_case c = {1, 2, 4, 1, 4, 2, 1};
    static const float points[][2] = {{1, 0.2f},  {0.2f, 1},  {3, 4}, {1, 0.1f},
                                      {-1, 0.1f}, {0.1f, -1}, {2, 0}, {1, -0.5f}};
    static const int32_t sees[][2] = {{-1, -1}, {-1, -1}, {1, -1}, {0, -1},
                                      {-1, -1}, {-1, -1}, {3, 0},  {6, 3}};
    static const float hashes[] = {1, 0, 0, 1};
    enum { T = COUNT(points) };
    float qkv[T * 6], y[T * 4];
    int32_t n = T, zero = 0;
    for (int i = 0; i < T; i++) {
        memcpy(qkv + i * 6, points[i], sizeof points[i]);
        for (int m = 0; m < 4; m++)
            qkv[i * 6 + 2 + m] = (float)(i * i + m * 7 % 5);
    }
    if (!step(dut, &c, hashes, states_of(dut, &c, 1), 1, &n, &zero, &zero, qkv, y))
        return false;
    for (int i = 0; i < T; i++) {
        double sum = 0, o[4] = {0};
        for (int k = 0; k < 2; k++) {
            int j = sees[i][k] >= 0 || k > 0 ? sees[i][k] : i;
            if (j < 0)
                continue;
            double a = (double)points[j][0], b = (double)points[j][1];
            double w = exp((a * (double)points[i][0] + b * (double)points[i][1]) / hypot(a, b));
            sum += w;
            for (int m = 0; m < 4; m++)
                o[m] += w * (double)qkv[j * 6 + 2 + m];
        }
        for (int m = 0; m < 4; m++)
            CHECK(fabs((double)y[i * 4 + m] - o[m] / sum) < 2e-5, "token %d: %g, not %g", i,
                  (double)y[i * 4 + m], o[m] / sum);
    }
    return true;
}

static bool broken_buckets_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t position[] = {0, 0};
    static const lsh_case c = {2, 3, 2, 2, 4, 5, 1};
    if (is_missing(dut))
        return true;
    lx_attend_lsh_args good = args_of(&c);
    good.qkv = dev_array(dut, NULL, 2 * width(&c));
    good.y = dev_array(dut, NULL, 2 * 4);
    good.hashes = dev_array(dut, NULL, 12);
    good.states = states_of(dut, &c, 2);
    struct {
        lx_attend_lsh_args args;
        const char *word;
    } bad[] = {{good, "heads"}, {good, "rounds"}, {good, "buckets"}, {good, "scale"},
               {good, "same"},  {good, "slot"},   {good, "page"},    {good, "hashes"}};
    bad[0].args.d_value = 1025;
    bad[1].args.cap = 2049;
    bad[2].args.n_buckets = 3;
    bad[3].args.scale = NAN;
    bad[4].args.qkv = good.y;
    bad[5].args.offset = 4;
    bad[6].args.page_offset = 6;
    bad[7].args.hashes = NULL;
    for (size_t i = 0; i < COUNT(bad); i++) {
        lx_batch *b = single_rows(2);
        lx_error err = {0};
        uint64_t number;
        b->position = position;
        CHECK_OK(dut->k->begin(dut->be, b, NULL));
        dut->k->attend_lsh(dut->be, &bad[i].args);
        CHECK(dut->k->end(dut->be, &number, &err) == LX_ERR_INVALID, "accepted: %s", bad[i].word);
        CHECK(strstr(err.text, bad[i].word) != NULL, "\"%s\" says no %s", err.text, bad[i].word);
    }
    return true;
}

const test lsh_tests[] = {
    {"buckets_match_oracle", buckets_match_oracle},
    {"buckets_any_split_is_equal", buckets_any_split_is_equal},
    {"written_buckets_are_seen", written_buckets_are_seen},
    {"broken_buckets_are_refused", broken_buckets_are_refused},
    {NULL, NULL},
};
