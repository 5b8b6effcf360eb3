/*
 * `attend_rows` against the oracle, against the classical formula and against printed sets of
 * visible rows.
 *
 * y is an average of the values seen so far; an error of a logit becomes a relative error of its
 * weight. So y's error is measured by the largest value times 1 + the products' absolute sum; the
 * error of squares by the largest sum that they could have.
 */
#include <math.h>
#include <string.h>

#include "kept_rows.h"

#define Y_BOUND 3e-7 /* docs/numerics.md */

/* --- against the oracle --- */

/* Of a sequence's y: see the top. */
static void scales(const rows_case *c, const float *qkv, int32_t n, double *scale)
{
    int64_t dk = c->d_key, dv = c->d_value, width = kept_width(c);
    for (int32_t h = 0; h < c->heads; h++) {
        double *k_most = take((size_t)dk * sizeof *k_most), v_most = 0;
        for (int32_t t = 0; t < n; t++) {
            const float *q = qkv + t * width + h * dk, *k = q + c->heads * dk,
                        *v = qkv + t * width + 2 * c->heads * dk + h * dv;
            double sum = 0;
            for (int64_t d = 0; d < dk; d++) {
                k_most[d] = fmax(k_most[d], fabs((double)k[d]));
                sum += fabs((double)q[d]) * (k_most[d] + (c->n_distances > 0 ? 1 : 0));
            }
            for (int64_t m = 0; m < dv; m++)
                v_most = fmax(v_most, fabs((double)v[m]));
            sum *= fabs((double)c->scale);
            double squares = sum * sum * (c->by_count ? 1 : t + 1) / (double)c->divisor;
            for (int64_t m = 0; m < dv; m++)
                scale[(t * c->heads + h) * dv + m] =
                    v_most * (c->weighting == LX_WEIGHT_RELU2 ? squares : 1 + sum);
        }
    }
}

/* Sequences of these lengths from their first token on; y, and all slots. */
static bool check_case(device *dut, device *oracle, const rows_case *c, int32_t n_seqs,
                       const int32_t *length, pattern p, float size)
{
    rng r = {(uint64_t)(c->heads * 1000 + c->d_key)};
    int32_t rows = 0, zero[8] = {0}, slot[8], n_slots = n_seqs + 2;
    for (int32_t i = 0; i < n_seqs; i++) {
        rows += length[i];
        slot[i] = n_seqs - i;
    }
    int64_t n_y = (int64_t)rows * c->heads * c->d_value, n_state = kept_floats(c);
    float *qkv = kept_inputs(&r, c, rows, p, size), *got = floats(n_y), *want = floats(n_y);
    double *scale = take((size_t)n_y * sizeof *scale);
    for (int32_t i = 0, row = 0; i < n_seqs; row += length[i++])
        scales(c, qkv + row * kept_width(c), length[i],
               scale + (int64_t)row * c->heads * c->d_value);
    lx_states *mine = kept_states(dut, c, n_slots), *theirs = kept_states(oracle, c, n_slots);
    CHECK(mine != NULL && theirs != NULL, "mapping or import failed");
    if (!kept_step(dut, c, mine, n_seqs, length, slot, zero, qkv, got) ||
        !kept_step(oracle, c, theirs, n_seqs, length, slot, zero, qkv, want))
        return false;
    double error = worst_error(got, want, scale, n_y);
    CHECK(error <= Y_BOUND, "%d heads, D %d, M %d, ring %d, %d sequences: error %.3g", c->heads,
          c->d_key, c->d_value, c->ring, n_seqs, error);
    float *a = floats(n_state), *b = floats(n_state);
    for (int32_t i = 0; i < n_slots; i++) {
        CHECK_OK(dut->k->state_export(dut->be, mine, i, a, kept_pages(c)));
        CHECK_OK(oracle->k->state_export(oracle->be, theirs, i, b, kept_pages(c)));
        CHECK(same_bytes(a, b, n_state), "slot %d keeps other rows", i);
    }
    dev_release(dut);
    dev_release(oracle);
    return true;
}

static bool rows_match_oracle(device *dut, device *oracle)
{
    static const int32_t shapes[][3] = {/* heads, D, M */
                                        {1, 1, 1},   {2, 32, 32}, {3, 7, 5},
                                        {2, 33, 31}, {1, 64, 80}, {5, 16, 49}};
    static const int32_t few[] = {1, 66, 2, 17, 64}, one[] = {280};
    static const float sizes[] = {1, 9}; /* the latter: logits to 80 and more */
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const int32_t *s = shapes[i];
        rows_case c = {s[0], s[1], s[2], 0, 300, 1, kept_all, 1 / sqrtf((float)s[1]), SOFTMAX};
        for (size_t k = 0; k < COUNT(sizes); k++) {
            if (!check_case(dut, oracle, &c, COUNT(few), few, UNIFORM, sizes[k]))
                return false;
        }
        if (!check_case(dut, oracle, &c, 1, one, PEAKY, 0))
            return false;
    }
    return true;
}

static bool patterns_match_oracle(device *dut, device *oracle)
{
    rows_case cases[KEPT_CASES];
    kept_cases(cases);
    static const int32_t length[] = {150, 1, 75};
    for (size_t i = 0; i < (size_t)KEPT_CASES; i++) {
        if (!check_case(dut, oracle, &cases[i], COUNT(length), length, UNIFORM, 3))
            return false;
    }
    return true;
}

/* Enough rows that warps take several turns: all but one are kept in a step that reads few. */
static bool thousands_of_rows_match_oracle(device *dut, device *oracle)
{
    enum { ROWS = 2500 };
    static const lx_rows_pattern own[1] = {WINDOW(1, 1, 0)};
    const rows_case keep = {1, 4, 3, 0, ROWS + 1, 1, own, 0.5f, SOFTMAX},
                    see = {1, 4, 3, 0, ROWS + 1, 1, kept_all, 0.5f, SOFTMAX};
    rng r = {61};
    const int32_t length[] = {ROWS, 1}, position[] = {0, ROWS}, slot = 1;
    float *before = kept_inputs(&r, &keep, ROWS, UNIFORM, 3),
          *qkv = kept_inputs(&r, &see, 1, UNIFORM, 3);
    float *ignored = floats((int64_t)ROWS * 3), got[3], want[3];
    device *const both[] = {dut, oracle};
    for (int i = 0; i < 2; i++) {
        lx_states *s = kept_states(both[i], &keep, 2);
        CHECK(s != NULL, "mapping or import failed");
        if (!kept_step(both[i], &keep, s, 1, &length[0], &slot, &position[0], before, ignored) ||
            !kept_step(both[i], &see, s, 1, &length[1], &slot, &position[1], qkv,
                       i == 0 ? got : want))
            return false;
        dev_release(both[i]);
    }
    for (int m = 0; m < 3; m++)
        CHECK(fabsf(got[m] - want[m]) <= 5 * Y_BOUND, "value %d of %d rows: %g, not %g", m,
              ROWS + 1, (double)got[m], (double)want[m]);
    return true;
}

enum { SHARED_H = 6, SHARED_G = 2, SHARED_T = 150 };

static int64_t shared_width(const rows_case *c, int64_t common)
{
    return SHARED_H * (int64_t)c->d_key + SHARED_G * (c->d_key - common + c->d_value) + common;
}

/* The same inputs for heads that share keys and values, whose last `common` columns of keys are the
   same for all heads, and for heads that each have their own. */
static void share_inputs(const rows_case *c, int64_t common, float *all, float *few)
{
    int64_t d = c->d_key, m = c->d_value, shared = SHARED_H / SHARED_G;
    int64_t width = shared_width(c, common), own = d - common;
    for (int64_t t = 0; t < SHARED_T; t++) {
        float *row = all + t * kept_width(c), *of = few + t * width;
        float *k = row + SHARED_H * d, *v = k + SHARED_H * d;
        memcpy(of, row, (size_t)(SHARED_H * d) * sizeof *of);
        memcpy(of + width - common, k + own, (size_t)common * sizeof *of);
        for (int64_t h = 0; h < SHARED_H; h++) {
            int64_t g = h / shared;
            memmove(k + h * d, k + g * shared * d, (size_t)d * sizeof *row);
            memmove(v + h * m, v + g * shared * m, (size_t)m * sizeof *row);
            memmove(k + h * d + own, k + own, (size_t)common * sizeof *row);
            memcpy(of + SHARED_H * d + g * own, k + h * d, (size_t)own * sizeof *of);
            memcpy(of + SHARED_H * d + SHARED_G * own + g * m, v + h * m, (size_t)m * sizeof *of);
        }
    }
}

/* Tokens in steps of this size; the rows lie in a state with as many heads as there are heads of
   keys. */
static bool shared_steps(device *dut, const rows_case *c, int32_t common, int32_t step,
                         const float *few, float *got)
{
    int64_t width = shared_width(c, common);
    int64_t y_width = (int64_t)SHARED_H * c->d_value;
    rows_case kept = *c;
    kept.heads = SHARED_G;
    lx_states *states = kept_states(dut, &kept, 1);
    lx_array *y = dev_array(dut, NULL, step * y_width);
    lx_array *qkv = dev_array(dut, few, step * width);
    for (int32_t at = 0, zero = 0; at < SHARED_T; at += step) {
        int32_t n = step;
        lx_batch *b = ragged_batch(1, &n, &zero);
        lx_attend_rows_args args = kept_args(c, y, qkv, states);
        args.key_heads = SHARED_G;
        args.common_key = common;
        b->position = &at;
        CHECK_OK(dut->k->array_upload(dut->be, qkv, 0, few + at * width, n * width));
        CHECK_OK(dut->k->begin(dut->be, b, NULL));
        dut->k->attend_rows(dut->be, &args);
        if (!dev_finish(dut) || !dev_read(dut, y, got + at * y_width, n * y_width))
            return false;
    }
    return true;
}

/* Heads of queries that share keys and values, or columns of keys: as if each had its own, all
   alike. */
static bool shared_rows_are_repeated_ones(device *dut, device *oracle)
{
    (void)oracle;
    static const lx_rows_pattern near[] = {
        {.kind = LX_PATTERN_WINDOW, .window = 33, .dilation = 1}};
    static const rows_case cases[] = {
        {SHARED_H, 16, 32, 0, SHARED_T, 1, kept_all, 0.25f, SOFTMAX},
        {SHARED_H, 16, 32, 48, SHARED_T, 1, near, 0.25f, SOFTMAX}, /* no row to spare */
        {SHARED_H, 7, 19, 96, SHARED_T, 1, near, 0.25f, SOFTMAX}};
    static const int32_t steps[] = {SHARED_T, 1, 6};        /* which divide it */
    static const int32_t commons[COUNT(cases)] = {9, 5, 7}; /* the last: all columns */
    rng r = {22};
    for (size_t j = 0; j < 2 * COUNT(cases); j++) {
        size_t i = j / 2;
        const rows_case *c = &cases[i];
        int32_t n = SHARED_T, zero = 0, common = j % 2 == 0 ? 0 : commons[i];
        int64_t width = shared_width(c, common);
        int64_t n_y = (int64_t)SHARED_T * SHARED_H * c->d_value;
        float *all = kept_inputs(&r, c, SHARED_T, UNIFORM, 3), *few = floats(SHARED_T * width);
        float *want = floats(n_y), *got = floats(n_y);
        share_inputs(c, common, all, few);
        if (!kept_step(dut, c, kept_states(dut, c, 1), 1, &n, &zero, &zero, all, want))
            return false;
        for (size_t k = 0; k < COUNT(steps); k++) {
            if (!shared_steps(dut, c, common, steps[k], few, got))
                return false;
            CHECK(same_bytes(got, want, n_y), "case %zu, %d common, in steps of %d: something else",
                  i, common, steps[k]);
        }
        dev_release(dut);
    }
    return true;
}

static bool rows_give_the_classical_formula(device *dut, device *oracle)
{
    (void)oracle;
    enum { T = 70, D = 5, M = 3 };
    rows_case c = {1, D, M, 0, T, 1, kept_all, 0.5f, SOFTMAX};
    rng r = {21};
    int32_t n = T, zero = 0;
    float *qkv = kept_inputs(&r, &c, T, UNIFORM, 2), *y = floats(T * M);
    if (!kept_step(dut, &c, kept_states(dut, &c, 1), 1, &n, &zero, &zero, qkv, y))
        return false;
    for (int i = 0; i < T; i++) {
        double sum = 0, o[M] = {0};
        for (int j = 0; j <= i; j++) {
            double x = 0;
            for (int d = 0; d < D; d++)
                x += (double)qkv[i * (2 * D + M) + d] * (double)qkv[j * (2 * D + M) + D + d];
            sum += exp(x / 2);
            for (int m = 0; m < M; m++)
                o[m] += exp(x / 2) * (double)qkv[j * (2 * D + M) + 2 * D + m];
        }
        for (int m = 0; m < M; m++)
            CHECK(fabs((double)y[i * M + m] - o[m] / sum) < 2e-5, "row %d: %g, not %g", i,
                  (double)y[i * M + m], o[m] / sum);
    }
    return true;
}

/* One head, logits of 4, values 1, 2, 3: the sum of squares by three published divisions. */
static bool squares_are_divided_as_published(device *dut, device *oracle)
{
    (void)oracle;
    static const float qkv[] = {2, 2, 1, 2, 2, 2, 2, 2, 3};
    static const struct {
        float scale, divisor;
        bool by_count;
        float y[3];
    } forms[] = {{1, 4, true, {4, 6, 8}}, {0.25f, 1, false, {1, 3, 6}}, {1, 8, false, {2, 6, 12}}};
    int32_t n = 3, zero = 0;
    for (size_t i = 0; i < COUNT(forms); i++) {
        rows_case c = {1,
                       1,
                       1,
                       0,
                       3,
                       1,
                       kept_all,
                       forms[i].scale,
                       LX_WEIGHT_RELU2,
                       forms[i].divisor,
                       forms[i].by_count,
                       0,
                       false};
        float y[3];
        if (!kept_step(dut, &c, kept_states(dut, &c, 1), 1, &n, &zero, &zero, qkv, y))
            return false;
        CHECK(same_bytes(y, forms[i].y, 3), "form %zu: %g, %g, %g", i, (double)y[0], (double)y[1],
              (double)y[2]);
    }
    return true;
}

/* Two results in one array: the first tokens are computed, the others keep the former values. */
static bool unseeing_tokens_leave_what_is_there(device *dut, device *oracle)
{
    (void)oracle;
    enum { T = 70, FEW = 21, H = 2, D = 3, M = 20 };
    static const lx_rows_pattern few[] = {PREFIX(FEW)};
    const rows_case all = {H, D, M, 0, T, 1, kept_all, 1, SOFTMAX},
                    first = {H, D, M, 48, T, 1, few, 1, SOFTMAX};
    rng r = {31};
    int32_t n = T, zero = 0;
    float *qkv = kept_inputs(&r, &all, T, UNIFORM, 2), *got = floats(T * H * M);
    float *seen = floats(T * H * M), *own = floats(T * H * M);
    lx_states *a = kept_states(dut, &all, 1), *b = kept_states(dut, &first, 1);
    if (!kept_step(dut, &all, a, 1, &n, &zero, &zero, qkv, seen) ||
        !kept_step(dut, &first, b, 1, &n, &zero, &zero, qkv, own))
        return false;
    lx_array *in = dev_array(dut, qkv, T * kept_width(&all)), *y = dev_array(dut, NULL, T * H * M);
    lx_attend_rows_args every = kept_args(&all, y, in, a), over = kept_args(&first, y, in, b);
    lx_batch *batch = ragged_batch(1, &n, &zero);
    batch->position = &zero;
    over.leave_unseeing = true;
    CHECK_OK(dut->k->begin(dut->be, batch, NULL));
    dut->k->attend_rows(dut->be, &every);
    dut->k->attend_rows(dut->be, &over);
    if (!dev_finish(dut) || !dev_read(dut, y, got, T * H * M))
        return false;
    CHECK(same_bytes(got, own, FEW * H * M), "the first tokens have other results");
    CHECK(same_bytes(got + FEW * H * M, seen + FEW * H * M, (T - FEW) * H * M),
          "the others' results have changed");
    for (int i = FEW * H * M; i < T * H * M; i++)
        CHECK(own[i] == 0, "element %d is %g, of a token that sees nothing", i, (double)own[i]);
    return true;
}

/* --- sets --- */

/* The rows that a token at position i reads, one bit per row. */
typedef struct printed {
    lx_rows_pattern pattern;
    int32_t i;
    uint32_t rows;
} printed;

static const printed sets[] = {
    {WINDOW(3, 1, 0), 1, 0x3},
    {WINDOW(3, 1, 0), 5, 0x38},
    {WINDOW(3, 2, 0), 1, 0x2},
    {WINDOW(3, 2, 0), 5, 0x2a},
    {WINDOW(3, 2, 0), 6, 0x54},
    {WINDOW(2, 1, 1), 5, 0x31},
    {WINDOW(2, 1, 1), 1, 0x3},
    {WINDOW(2, 1, 3), 1, 0x3},
    {WINDOW(2, 1, 3), 3, 0xf},
    {WINDOW(2, 3, 2), 6, 0x4b},
    {WINDOW(0, 3, 0), 18, 0x49249},
    {PREFIX(3), 0, 0x1},
    {PREFIX(3), 2, 0x7},
    {PREFIX(3), 3, 0},
    {PREFIX(16), 15, 0xffff},
    {SPAN(3), 0, 0},
    {SPAN(3), 2, 0x3},
    {SPAN(3), 5, 0x1c},
    {STRIDED(3, true, false), 7, 0xe0},
    {STRIDED(3, false, true), 7, 0x92},
    {STRIDED(3, true, true), 7, 0xf2},
    {STRIDED(3, true, true), 1, 0x3},
    {FIXED(4, 1, 0), 2, 0x7},
    {FIXED(4, 1, 0), 6, 0x78},
    {FIXED(4, 1, 0), 7, 0xf8},
    {FIXED(4, 1, 0), 8, 0x188},
    {FIXED(4, 1, 0), 9, 0x388},
    {FIXED(4, 1, 3), 9, 0x311},
    {FIXED(4, 2, 1), 9, 0x333},
    {BLOCK(4, 0), 3, 0xf},
    {BLOCK(4, 0), 4, 0x10},
    {BLOCK(4, 0), 6, 0x70},
    {BLOCK(4, 1), 2, 0x7},
    {BLOCK(4, 1), 9, 0x3f0},
    {SHIFTED(4, 1, true), 6, 0xf},
    {SHIFTED(4, 1, true), 2, 0x7},
    {SHIFTED(4, 1, false), 2, 0},
    {SHIFTED(4, 1, false), 4, 0xf},
    {SHIFTED(4, 1, false), 8, 0xf0},
    {SHIFTED(4, 0, false), 6, 0x70},
    {SHIFTED(4, 2, true), 7, 0xf0},
    {SHIFTED(4, 2, false), 11, 0xf},
};

/* With logits of 0 and one-hot values, a token's y shows which rows it read, and how often each. */
static bool printed_sets_are_seen(device *dut, device *oracle)
{
    (void)oracle;
    enum { T = 20 };
    int32_t n = T, zero = 0;
    for (size_t s = 0; s < COUNT(sets); s++) {
        rows_case c = {1, 1, T, 0, T, 1, &sets[s].pattern, 1, SOFTMAX};
        float *qkv = floats(T * (2 + T)), *y = floats(T * T);
        for (int j = 0; j < T; j++) {
            qkv[j * (2 + T) + 1] = (float)j;
            qkv[j * (2 + T) + 2 + j] = 1;
        }
        if (!kept_step(dut, &c, kept_states(dut, &c, 1), 1, &n, &zero, &zero, qkv, y))
            return false;
        int seen = 0;
        for (int j = 0; j < T; j++)
            seen += (int)(sets[s].rows >> j & 1);
        for (int j = 0; j < T; j++) {
            float want = (sets[s].rows >> j & 1) != 0 ? 1.0f / (float)seen : 0.0f;
            CHECK(y[sets[s].i * T + j] == want, "set %zu, token %d: row %d has weight %g, not %g",
                  s, sets[s].i, j, (double)y[sets[s].i * T + j], (double)want);
        }
        dev_release(dut);
    }
    return true;
}

const test rows_tests[] = {
    {"rows_match_oracle", rows_match_oracle},
    {"patterns_match_oracle", patterns_match_oracle},
    {"thousands_of_rows_match_oracle", thousands_of_rows_match_oracle},
    {"shared_rows_are_repeated_ones", shared_rows_are_repeated_ones},
    {"rows_give_the_classical_formula", rows_give_the_classical_formula},
    {"squares_are_divided_as_published", squares_are_divided_as_published},
    {"unseeing_tokens_leave_what_is_there", unseeing_tokens_leave_what_is_there},
    {"printed_sets_are_seen", printed_sets_are_seen},
    {NULL, NULL},
};
