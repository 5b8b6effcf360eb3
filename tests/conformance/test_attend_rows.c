/*
 * `attend_rows` against the oracle, against the classical formula and against printed sets of
 * visible rows, and its laws. Whatever is not a row that was kept, in pages, rings and between
 * layers, is NaN from the beginning on: nothing of it may be seen.
 *
 * y is an average of the values seen so far; an error of a logit becomes a relative error of its
 * weight. So y's error is measured by the largest value times 1 + the products' absolute sum.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"

#define Y_BOUND 3e-7 /* docs/numerics.md */
#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define WINDOW(w, d, g)                                                                            \
    {                                                                                              \
        .kind = LX_PATTERN_WINDOW, .window = (w), .dilation = (d), .sinks = (g)                    \
    }
#define STRIDED(l, near, far)                                                                      \
    {                                                                                              \
        .kind = LX_PATTERN_STRIDED, .stride = (l), .local = (near), .column = (far)                \
    }
#define FIXED(l, c, n)                                                                             \
    {                                                                                              \
        .kind = LX_PATTERN_FIXED, .stride = (l), .summary = (c), .cell = (n)                       \
    }
#define BLOCK(b, back)                                                                             \
    {                                                                                              \
        .kind = LX_PATTERN_BLOCK, .block = (b), .look_back = (back)                                \
    }
#define SHIFTED(b, t, own)                                                                         \
    {                                                                                              \
        .kind = LX_PATTERN_SHIFTED_BLOCK, .block = (b), .shift = (t), .or_own = (own)              \
    }

static const lx_rows_pattern all_rows[] = {WINDOW(0, 1, 0)};
/* Those that need every row, and those for which a ring is enough. */
static const lx_rows_pattern growing[] = {
    WINDOW(0, 1, 0),         WINDOW(0, 4, 0),        WINDOW(0, 3, 5),  STRIDED(7, false, true),
    STRIDED(33, true, true), STRIDED(1, true, true), FIXED(9, 2, 0),   FIXED(9, 2, 3),
    FIXED(64, 64, 0),        FIXED(128, 32, 1),      WINDOW(300, 1, 0)};
static const lx_rows_pattern bounded[] = {
    WINDOW(1, 1, 0),          WINDOW(5, 1, 0),     WINDOW(50, 1, 0), WINDOW(7, 6, 0),
    STRIDED(31, true, false), BLOCK(16, 0),        BLOCK(24, 1),     SHIFTED(20, 0, false),
    SHIFTED(16, 1, true),     SHIFTED(9, 2, false)};
static const lx_rows_pattern with_sinks[] = {WINDOW(20, 1, 3), WINDOW(4, 5, 17), WINDOW(64, 1, 0)};

/* How rows are kept: `ring` of them, or all in pages of slots of `most` tokens. */
typedef struct rows_case {
    int32_t heads, d_key, d_value, ring, most, n_patterns;
    const lx_rows_pattern *patterns;
    float scale;
} rows_case;

enum { BEFORE = 5, BEHIND = 3 }; /* floats of other layers around this one's */

static int64_t width_of(const rows_case *c)
{
    return (int64_t)c->heads * (2 * c->d_key + c->d_value);
}

static int32_t slot_pages(const rows_case *c)
{
    return c->ring > 0 ? 0 : (c->most + LX_PAGE_TOKENS - 1) / LX_PAGE_TOKENS;
}

/* Of a slot's fixed part, or of a page. */
static int64_t part_floats(const rows_case *c)
{
    int64_t rows = c->ring > 0 ? c->ring : LX_PAGE_TOKENS;
    return BEFORE + rows * c->heads * (c->d_key + c->d_value) + BEHIND;
}

static int64_t state_floats(const rows_case *c)
{
    return part_floats(c) * (c->ring > 0 ? 1 : slot_pages(c));
}

/* All NaN; pages are mapped in a crooked order. */
static lx_states *make_states(device *d, const rows_case *c, int32_t n_slots)
{
    int32_t of_slot = slot_pages(c), n = of_slot > 0 ? n_slots * of_slot + 1 : 0;
    lx_state_layout layout = {.fixed_floats = c->ring > 0 ? part_floats(c) : 0,
                              .page_floats = c->ring > 0 ? 0 : part_floats(c),
                              .n_pages = n,
                              .slot_pages = of_slot};
    lx_states *s = dev_states_of(d, layout, n_slots);
    float *nothing = floats(state_floats(c));
    for (int64_t i = 0; i < state_floats(c); i++)
        nothing[i] = NAN;
    bool ok = true;
    for (int32_t slot = 0; slot < n_slots; slot++) {
        for (int32_t i = 0; i < of_slot; i++) {
            int32_t page = n - 1 - (i * n_slots + slot);
            ok = ok && d->k->state_map(d->be, s, slot, i, 1, &page) == LX_OK;
        }
        ok = ok && d->k->state_import(d->be, s, slot, nothing, of_slot) == LX_OK;
    }
    return ok ? s : NULL;
}

static lx_attend_rows_args args_of(const rows_case *c, lx_array *y, const lx_array *qkv,
                                   lx_states *s)
{
    return (lx_attend_rows_args){.y = y,
                                 .qkv = qkv,
                                 .states = s,
                                 .offset = BEFORE,
                                 .ring = c->ring,
                                 .n_heads = c->heads,
                                 .d_key = c->d_key,
                                 .d_value = c->d_value,
                                 .scale = c->scale,
                                 .patterns = c->patterns,
                                 .n_patterns = c->n_patterns};
}

/* One step of sequences with these lengths and slots, which are at these positions. */
static bool step(device *d, const rows_case *c, lx_states *s, int32_t n_seqs, const int32_t *length,
                 const int32_t *slot, const int32_t *position, const float *qkv, float *y)
{
    lx_batch *b = ragged_batch(n_seqs, length, slot);
    int64_t n_y = (int64_t)b->n_tokens * c->heads * c->d_value;
    lx_array *in = dev_array(d, qkv, b->n_tokens * width_of(c)), *out = dev_array(d, NULL, n_y);
    lx_attend_rows_args args = args_of(c, out, in, s);
    b->position = position;
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->attend_rows(d->be, &args);
    bool ok = dev_finish(d) && dev_read(d, out, y, n_y);
    d->k->array_free(d->be, d->owned[--d->n_owned].object);
    d->k->array_free(d->be, d->owned[--d->n_owned].object);
    return ok;
}

/* Queries and keys of this size, values up to 5. */
static float *make_rows(rng *r, const rows_case *c, int32_t n, pattern p, float size)
{
    int64_t keys = 2L * c->heads * c->d_key, width = width_of(c);
    float *qkv = floats(n * width);
    for (int32_t i = 0; i < n; i++) {
        fill(r, qkv + i * width, keys, p, p == PEAKY ? 4 : size, p == PEAKY ? 1 : size);
        fill(r, qkv + i * width + keys, width - keys, UNIFORM, 5, 5);
    }
    return qkv;
}

/* --- against the oracle --- */

/* Of a sequence's y: see the top. */
static void scales(const rows_case *c, const float *qkv, int32_t n, double *scale)
{
    int64_t dk = c->d_key, dv = c->d_value, width = width_of(c);
    for (int32_t h = 0; h < c->heads; h++) {
        double *k_most = take((size_t)dk * sizeof *k_most), v_most = 0;
        for (int32_t t = 0; t < n; t++) {
            const float *q = qkv + t * width + h * dk, *k = q + c->heads * dk,
                        *v = qkv + t * width + 2 * c->heads * dk + h * dv;
            double sum = 0;
            for (int64_t d = 0; d < dk; d++) {
                k_most[d] = fmax(k_most[d], fabs((double)k[d]));
                sum += fabs((double)q[d]) * k_most[d];
            }
            for (int64_t m = 0; m < dv; m++)
                v_most = fmax(v_most, fabs((double)v[m]));
            for (int64_t m = 0; m < dv; m++)
                scale[(t * c->heads + h) * dv + m] = v_most * (1 + sum * fabs((double)c->scale));
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
    int64_t n_y = (int64_t)rows * c->heads * c->d_value, n_state = state_floats(c);
    float *qkv = make_rows(&r, c, rows, p, size), *got = floats(n_y), *want = floats(n_y);
    double *scale = take((size_t)n_y * sizeof *scale);
    for (int32_t i = 0, row = 0; i < n_seqs; row += length[i++])
        scales(c, qkv + row * width_of(c), length[i], scale + (int64_t)row * c->heads * c->d_value);
    lx_states *mine = make_states(dut, c, n_slots), *theirs = make_states(oracle, c, n_slots);
    CHECK(mine != NULL && theirs != NULL, "mapping or import failed");
    if (!step(dut, c, mine, n_seqs, length, slot, zero, qkv, got) ||
        !step(oracle, c, theirs, n_seqs, length, slot, zero, qkv, want))
        return false;
    double error = worst_error(got, want, scale, n_y);
    CHECK(error <= Y_BOUND, "%d heads, D %d, M %d, ring %d, %d sequences: error %.3g", c->heads,
          c->d_key, c->d_value, c->ring, n_seqs, error);
    float *a = floats(n_state), *b = floats(n_state);
    for (int32_t i = 0; i < n_slots; i++) {
        CHECK_OK(dut->k->state_export(dut->be, mine, i, a, slot_pages(c)));
        CHECK_OK(oracle->k->state_export(oracle->be, theirs, i, b, slot_pages(c)));
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
        rows_case c = {s[0], s[1], s[2], 0, 300, 1, all_rows, 1 / sqrtf((float)s[1])};
        for (size_t k = 0; k < COUNT(sizes); k++) {
            if (!check_case(dut, oracle, &c, COUNT(few), few, UNIFORM, sizes[k]))
                return false;
        }
        if (!check_case(dut, oracle, &c, 1, one, PEAKY, 0))
            return false;
    }
    return true;
}

/* As many heads as patterns, all rows kept, or a ring with some tiles to spare. */
static rows_case case_of(const lx_rows_pattern *patterns, size_t n, bool in_ring, int32_t spare)
{
    rows_case c = {(int32_t)n, 6, 5, 0, 600, (int32_t)n, patterns, 0.4f};
    if (in_ring && lx_rows_ring(patterns, (int32_t)n, &c.ring, NULL) == LX_OK)
        c.ring += spare * LX_ROWS_TILE;
    return c;
}

#define CASE(patterns, in_ring, spare) case_of(patterns, COUNT(patterns), in_ring, spare)
#define CASES                                                                                      \
    {                                                                                              \
        CASE(growing, false, 0), CASE(bounded, false, 0), CASE(bounded, true, 0),                  \
            CASE(bounded, true, 1), CASE(with_sinks, false, 0), CASE(with_sinks, true, 0),         \
            CASE(with_sinks, true, 2)                                                              \
    }

static bool patterns_match_oracle(device *dut, device *oracle)
{
    const rows_case cases[] = CASES;
    static const int32_t length[] = {150, 1, 75};
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (!check_case(dut, oracle, &cases[i], COUNT(length), length, UNIFORM, 3))
            return false;
    }
    return true;
}

static bool rows_give_the_classical_formula(device *dut, device *oracle)
{
    (void)oracle;
    enum { T = 70, D = 5, M = 3 };
    rows_case c = {1, D, M, 0, T, 1, all_rows, 0.5f};
    rng r = {21};
    int32_t n = T, zero = 0;
    float *qkv = make_rows(&r, &c, T, UNIFORM, 2), *y = floats(T * M);
    if (!step(dut, &c, make_states(dut, &c, 1), 1, &n, &zero, &zero, qkv, y))
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

/* --- sets --- */

/* What a token at position i sees, one bit a row. */
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

/* With logits of 0 and one-hot values a token's y says which rows it saw, each how often. */
static bool printed_sets_are_seen(device *dut, device *oracle)
{
    (void)oracle;
    enum { T = 20 };
    int32_t n = T, zero = 0;
    for (size_t s = 0; s < COUNT(sets); s++) {
        rows_case c = {1, 1, T, 0, T, 1, &sets[s].pattern, 1};
        float *qkv = floats(T * (2 + T)), *y = floats(T * T);
        for (int j = 0; j < T; j++) {
            qkv[j * (2 + T) + 1] = (float)j;
            qkv[j * (2 + T) + 2 + j] = 1;
        }
        if (!step(dut, &c, make_states(dut, &c, 1), 1, &n, &zero, &zero, qkv, y))
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

/* --- laws --- */

/* One sequence in pieces of up to `longest`: y and the state of one step. */
static bool check_split(device *d, const rows_case *c, const float *qkv, int32_t n, rng *r,
                        int32_t longest, const float *y, const float *state)
{
    lx_states *s = make_states(d, c, 2);
    int64_t n_y = (int64_t)c->heads * c->d_value;
    float *piece = floats(n * n_y), *end = floats(state_floats(c));
    int32_t one = 1;
    for (int32_t at = 0, some = 0; at < n; at += some) {
        some = 1 + (int32_t)random_below(r, (uint32_t)longest);
        some = some < n - at ? some : n - at;
        if (!step(d, c, s, 1, &some, &one, &at, qkv + at * width_of(c), piece))
            return false;
        CHECK(same_bytes(piece, y + at * n_y, some * n_y), "rows %d to %d differ in pieces of %d",
              at, at + some - 1, longest);
    }
    CHECK_OK(d->k->state_export(d->be, s, 1, end, slot_pages(c)));
    CHECK(same_bytes(end, state, state_floats(c)), "the state differs");
    return true;
}

static bool rows_any_split_is_equal(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t lengths[] = {63, 64, 65, 530}, pieces[] = {1, 90};
    const rows_case cases[] = CASES;
    rng r = {22};
    for (size_t i = 0; i < COUNT(cases) * COUNT(lengths); i++) {
        const rows_case *c = &cases[i / COUNT(lengths)];
        int32_t n = lengths[i % COUNT(lengths)], zero = 0;
        float *qkv = make_rows(&r, c, n, UNIFORM, 3), *state = floats(state_floats(c));
        float *y = floats((int64_t)n * c->heads * c->d_value);
        lx_states *s = make_states(dut, c, 1);
        if (!step(dut, c, s, 1, &n, &zero, &zero, qkv, y))
            return false;
        CHECK_OK(dut->k->state_export(dut->be, s, 0, state, slot_pages(c)));
        for (size_t p = 0; p < COUNT(pieces); p++) {
            if (!check_split(dut, c, qkv, n, &r, pieces[p], y, state))
                return false;
        }
        dev_release(dut);
    }
    return true;
}

/* Sequences of different lengths at different positions, together and each alone elsewhere. */
static bool rows_neighbours_do_not_matter(device *dut, device *oracle)
{
    (void)oracle;
    enum { SEQS = 4 };
    static const int32_t length[SEQS] = {70, 5, 261, 20}, more[SEQS] = {1, 9, 1, 64},
                         slot[SEQS] = {2, 0, 4, 1}, zero[SEQS] = {0}, other = 1;
    const rows_case cases[] = CASES;
    rng r = {23};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const rows_case *c = &cases[i];
        int64_t n_y = (int64_t)c->heads * c->d_value;
        float *first = make_rows(&r, c, 356, UNIFORM, 3), *then = make_rows(&r, c, 75, UNIFORM, 3);
        float *y = floats(75 * n_y), *alone = floats(261 * n_y), *ignored = floats(356 * n_y);
        lx_states *s = make_states(dut, c, 5);
        if (!step(dut, c, s, SEQS, length, slot, zero, first, ignored) ||
            !step(dut, c, s, SEQS, more, slot, length, then, y))
            return false;
        for (int32_t q = 0, a = 0, b = 0; q < SEQS; a += length[q], b += more[q], q++) {
            s = make_states(dut, c, 2);
            if (!step(dut, c, s, 1, &length[q], &other, zero, first + a * width_of(c), alone) ||
                !step(dut, c, s, 1, &more[q], &other, &length[q], then + b * width_of(c), alone))
                return false;
            CHECK(same_bytes(alone, y + b * n_y, more[q] * n_y), "sequence %d differs alone", q);
        }
        dev_release(dut);
    }
    return true;
}

static bool later_tokens_change_nothing_before(device *dut, device *oracle)
{
    (void)oracle;
    enum { T = 90, KEEP = 78 };
    const rows_case cases[] = CASES;
    rng r = {24};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const rows_case *c = &cases[i];
        int64_t n_y = (int64_t)c->heads * c->d_value;
        float *qkv = make_rows(&r, c, T, UNIFORM, 3), *a = floats(T * n_y), *b = floats(T * n_y);
        int32_t n = T, zero = 0;
        if (!step(dut, c, make_states(dut, c, 1), 1, &n, &zero, &zero, qkv, a))
            return false;
        for (int64_t k = KEEP * width_of(c); k < T * width_of(c); k++)
            qkv[k] = NAN;
        if (!step(dut, c, make_states(dut, c, 1), 1, &n, &zero, &zero, qkv, b))
            return false;
        CHECK(same_bytes(a, b, KEEP * n_y), "case %zu: a later token was seen", i);
        dev_release(dut);
    }
    return true;
}

static bool rows_have_equal_bytes_on_every_cpu(device *dut, device *oracle)
{
    static agreement seen;
    (void)oracle;
    const rows_case cases[] = CASES;
    rng r = {25};
    uint64_t hash = NO_BYTES;
    for (size_t i = 0; i < COUNT(cases); i++) {
        rows_case c = cases[i];
        c.d_key = 19;
        c.d_value = 67;
        int32_t n = 270, zero = 0;
        int64_t n_y = (int64_t)n * c.heads * c.d_value;
        float *qkv = make_rows(&r, &c, n, UNIFORM, 3), *y = floats(n_y);
        if (!step(dut, &c, make_states(dut, &c, 1), 1, &n, &zero, &zero, qkv, y))
            return false;
        hash = hash_bytes(hash, y, (size_t)n_y * sizeof *y);
        dev_release(dut);
    }
    return agrees(dut, &seen, hash);
}

/* --- errors --- */

/* A page that another slot had is cleared when its first token comes, where it is the layer's. */
static bool pages_do_not_show_what_was_there(device *dut, device *oracle)
{
    (void)oracle;
    rows_case c = {2, 3, 2, 0, 64, 1, all_rows, 1};
    rng r = {26};
    int32_t n = 3, zero = 0;
    float *qkv = make_rows(&r, &c, n, UNIFORM, 1), *state = floats(state_floats(&c)), y[12];
    lx_states *s = make_states(dut, &c, 1);
    if (!step(dut, &c, s, 1, &n, &zero, &zero, qkv, y))
        return false;
    CHECK_OK(dut->k->state_export(dut->be, s, 0, state, 1));
    int used = 0;
    for (int64_t i = 0; i < state_floats(&c); i++) {
        bool mine = i >= BEFORE && i < state_floats(&c) - BEHIND;
        CHECK(isnan(state[i]) != mine, "float %lld", (long long)i);
        used += mine && state[i] != 0;
    }
    CHECK(used == n * c.heads * (c.d_key + c.d_value), "%d floats are not 0", used);
    return true;
}

static bool refused(device *d, const lx_batch *b, const lx_attend_rows_args *args, const char *word)
{
    lx_error err = {0};
    uint64_t number;
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->attend_rows(d->be, args);
    CHECK(d->k->end(d->be, &number, &err) == LX_ERR_INVALID, "accepted: %s", word);
    CHECK(strstr(err.text, word) != NULL, "\"%s\" does not say %s", err.text, word);
    return true;
}

static bool broken_rows_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    static const struct {
        lx_rows_pattern pattern;
        const char *word;
    } wrong[] = {{WINDOW(-1, 1, 0), "window"},         {WINDOW(1, 0, 0), "dilation"},
                 {WINDOW(1, 1, -1), "sinks"},          {STRIDED(0, true, true), "stride"},
                 {STRIDED(3, false, false), "column"}, {FIXED(0, 1, 0), "stride"},
                 {FIXED(4, 5, 0), "summary"},          {FIXED(4, 2, 2), "cell"},
                 {FIXED(4, 0, 0), "summary"},          {BLOCK(0, 0), "block"},
                 {BLOCK(1, -1), "look_back"},          {SHIFTED(0, 0, false), "block"},
                 {SHIFTED(1, -1, false), "shift"},     {{.kind = (lx_pattern_kind)9}, "pattern"}};
    static const lx_rows_pattern few[] = {WINDOW(33, 1, 0)}, sunk[] = {WINDOW(1, 1, 1)};
    rows_case c = {2, 3, 2, 0, 128, 1, all_rows, 1};
    lx_states *s = make_states(dut, &c, 2), *ring = dev_states(dut, 32 * 2 * 5, 2);
    lx_array *in = dev_array(dut, NULL, 2 * width_of(&c)), *out = dev_array(dut, NULL, 2 * 4);
    lx_batch *b = single_rows(2);
    int32_t position[] = {0, 0}, far[] = {0, 128}, none = -1;
    lx_attend_rows_args good = args_of(&c, out, in, s), a = good;
    bool ok = refused(dut, b, &good, "positions");
    b->position = position;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        a.patterns = &wrong[i].pattern;
        ok = ok && refused(dut, b, &a, wrong[i].word);
    }
    struct {
        lx_attend_rows_args args;
        const char *word;
    } bad[12] = {{good, "heads"}, {good, "sizes"},   {good, "sizes"}, {good, "scale"},
                 {good, "same"},  {good, "pattern"}, {good, "page"},  {good, "page"},
                 {good, "tile"},  {good, "ring"},    {good, "ring"},  {good, "slot"}};
    bad[0].args.n_heads = 0;
    bad[1].args.d_key = 1025;
    bad[2].args.d_value = 0;
    bad[3].args.scale = NAN;
    bad[4].args.qkv = out;
    bad[5].args.n_patterns = 3;
    bad[6].args.offset = BEFORE + BEHIND + 1;
    bad[7].args.offset = -1;
    bad[8].args.ring = 17;
    bad[9].args.ring = 32; /* where 33 rows are needed */
    bad[9].args.patterns = few;
    bad[10].args.ring = 1 << 20; /* where all are */
    bad[11].args.ring = 32;
    bad[11].args.patterns = sunk;
    bad[11].args.states = ring;
    bad[11].args.offset = 1;
    for (size_t i = 0; i < COUNT(bad); i++)
        ok = ok && refused(dut, b, &bad[i].args, bad[i].word);
    b->position = far;
    ok = ok && refused(dut, b, &good, "129 tokens");
    b->position = position;
    return ok && dut->k->state_map(dut->be, s, 0, 0, 1, &none) == LX_OK &&
           refused(dut, b, &good, "mapped");
}

const test rows_tests[] = {
    {"rows_match_oracle", rows_match_oracle},
    {"patterns_match_oracle", patterns_match_oracle},
    {"rows_give_the_classical_formula", rows_give_the_classical_formula},
    {"printed_sets_are_seen", printed_sets_are_seen},
    {"rows_any_split_is_equal", rows_any_split_is_equal},
    {"rows_neighbours_do_not_matter", rows_neighbours_do_not_matter},
    {"later_tokens_change_nothing_before", later_tokens_change_nothing_before},
    {"rows_have_equal_bytes_on_every_cpu", rows_have_equal_bytes_on_every_cpu},
    {"pages_do_not_show_what_was_there", pages_do_not_show_what_was_there},
    {"broken_rows_are_refused", broken_rows_are_refused},
    {NULL, NULL},
};
