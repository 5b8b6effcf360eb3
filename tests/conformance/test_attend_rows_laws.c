/*
 * The laws of `attend_rows`. Any split of a sequence into steps gives the same bytes. Neighbours
 * and later tokens do not matter. A page shows nothing of its former owners. Wrong arguments give
 * an error that names them.
 */
#include <math.h>
#include <string.h>

#include "kept_rows.h"

/* The number of rows of a step that begins at `at`, of n, up to `longest`. With longest 1, steps
   near the borders of pages have one row, and one step takes all rows between them. */
static int32_t piece_rows(int32_t at, int32_t n, int32_t longest, rng *r)
{
    int32_t in_page = at % LX_PAGE_TOKENS, near = 2, some = 1;
    if (longest > 1)
        some += (int32_t)random_below(r, (uint32_t)longest);
    else if (in_page >= near && in_page < LX_PAGE_TOKENS - near)
        some = LX_PAGE_TOKENS - near - in_page;
    return some < n - at ? some : n - at;
}

/* One sequence in pieces: y and the state of one step. */
static bool check_split(device *d, const rows_case *c, const float *qkv, int32_t n, rng *r,
                        int32_t longest, const float *y, const float *state)
{
    lx_states *s = kept_states(d, c, 2);
    int64_t n_y = (int64_t)c->heads * c->d_value;
    float *piece = floats(n * n_y), *end = floats(kept_floats(c));
    int32_t one = 1;
    for (int32_t at = 0, some = 0; at < n; at += some) {
        some = piece_rows(at, n, longest, r);
        if (!kept_step(d, c, s, 1, &some, &one, &at, qkv + at * kept_width(c), piece))
            return false;
        CHECK(same_bytes(piece, y + at * n_y, some * n_y), "rows %d to %d differ in pieces of %d",
              at, at + some - 1, longest);
    }
    CHECK_OK(d->k->state_export(d->be, s, 1, end, kept_pages(c)));
    CHECK(same_bytes(end, state, kept_floats(c)), "the state differs");
    return true;
}

static bool rows_any_split_is_equal(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t lengths[] = {64, 270}, pieces[] = {1, 90};
    rows_case cases[KEPT_CASES];
    kept_cases(cases);
    rng r = {22};
    for (size_t i = 0; i < (size_t)KEPT_CASES * COUNT(lengths); i++) {
        const rows_case *c = &cases[i / COUNT(lengths)];
        int32_t n = lengths[i % COUNT(lengths)], zero = 0;
        float *qkv = kept_inputs(&r, c, n, UNIFORM, 3), *state = floats(kept_floats(c));
        float *y = floats((int64_t)n * c->heads * c->d_value);
        lx_states *s = kept_states(dut, c, 1);
        if (!kept_step(dut, c, s, 1, &n, &zero, &zero, qkv, y))
            return false;
        CHECK_OK(dut->k->state_export(dut->be, s, 0, state, kept_pages(c)));
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
    rows_case cases[KEPT_CASES];
    kept_cases(cases);
    rng r = {23};
    for (size_t i = 0; i < (size_t)KEPT_CASES; i++) {
        const rows_case *c = &cases[i];
        int64_t n_y = (int64_t)c->heads * c->d_value;
        float *first = kept_inputs(&r, c, 356, UNIFORM, 3),
              *then = kept_inputs(&r, c, 75, UNIFORM, 3);
        float *y = floats(75 * n_y), *alone = floats(261 * n_y), *ignored = floats(356 * n_y);
        lx_states *s = kept_states(dut, c, 5);
        if (!kept_step(dut, c, s, SEQS, length, slot, zero, first, ignored) ||
            !kept_step(dut, c, s, SEQS, more, slot, length, then, y))
            return false;
        for (int32_t q = 0, a = 0, b = 0; q < SEQS; a += length[q], b += more[q], q++) {
            s = kept_states(dut, c, 2);
            if (!kept_step(dut, c, s, 1, &length[q], &other, zero, first + a * kept_width(c),
                           alone) ||
                !kept_step(dut, c, s, 1, &more[q], &other, &length[q], then + b * kept_width(c),
                           alone))
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
    rows_case cases[KEPT_CASES];
    kept_cases(cases);
    rng r = {24};
    for (size_t i = 0; i < (size_t)KEPT_CASES; i++) {
        const rows_case *c = &cases[i];
        int64_t n_y = (int64_t)c->heads * c->d_value;
        float *qkv = kept_inputs(&r, c, T, UNIFORM, 3), *a = floats(T * n_y), *b = floats(T * n_y);
        int32_t n = T, zero = 0;
        if (!kept_step(dut, c, kept_states(dut, c, 1), 1, &n, &zero, &zero, qkv, a))
            return false;
        for (int64_t k = KEEP * kept_width(c); k < T * kept_width(c); k++)
            qkv[k] = NAN;
        if (!kept_step(dut, c, kept_states(dut, c, 1), 1, &n, &zero, &zero, qkv, b))
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
    rows_case cases[KEPT_CASES];
    kept_cases(cases);
    rng r = {25};
    uint64_t hash = NO_BYTES;
    for (size_t i = 0; i < (size_t)KEPT_CASES; i++) {
        rows_case c = cases[i];
        c.d_key = 19;
        c.d_value = 67;
        int32_t n = 270, zero = 0;
        int64_t n_y = (int64_t)n * c.heads * c.d_value;
        float *qkv = kept_inputs(&r, &c, n, UNIFORM, 3), *y = floats(n_y);
        if (!kept_step(dut, &c, kept_states(dut, &c, 1), 1, &n, &zero, &zero, qkv, y))
            return false;
        hash = hash_bytes(hash, y, (size_t)n_y * sizeof *y);
        dev_release(dut);
    }
    return agrees(dut, &seen, hash);
}

/* A sequence of one head of keys, whose queries several threads share. */
static bool a_long_head_has_equal_bytes_on_all_threads(device *dut, device *oracle)
{
    static agreement seen;
    (void)oracle;
    static const lx_rows_pattern sinks[] = {WINDOW(300, 1, 20)}, strided[] = {STRIDED(48, 1, 1)};
    const rows_case cases[] = {{1, 32, 48, 0, 700, 1, kept_all, 0.2f, SOFTMAX},
                               {1, 19, 35, 0, 700, 1, sinks, 0.2f, SOFTMAX},
                               {2, 16, 16, 0, 700, 1, strided, 0.2f, SOFTMAX}};
    rng r = {28};
    uint64_t hash = NO_BYTES;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const rows_case *c = &cases[i];
        int32_t n = 700, zero = 0;
        int64_t n_y = (int64_t)n * c->heads * c->d_value;
        float *qkv = kept_inputs(&r, c, n, UNIFORM, 3), *state = floats(kept_floats(c));
        float *y = floats(n_y);
        lx_states *s = kept_states(dut, c, 1);
        if (!kept_step(dut, c, s, 1, &n, &zero, &zero, qkv, y))
            return false;
        CHECK_OK(dut->k->state_export(dut->be, s, 0, state, kept_pages(c)));
        if (!check_split(dut, c, qkv, n, &r, 200, y, state))
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
    rows_case c = {2, 3, 2, 0, 64, 1, kept_all, 1, SOFTMAX};
    rng r = {26};
    int32_t n = 3, zero = 0;
    float *qkv = kept_inputs(&r, &c, n, UNIFORM, 1), *state = floats(kept_floats(&c)), y[12];
    lx_states *s = kept_states(dut, &c, 1);
    if (!kept_step(dut, &c, s, 1, &n, &zero, &zero, qkv, y))
        return false;
    CHECK_OK(dut->k->state_export(dut->be, s, 0, state, 1));
    int used = 0;
    for (int64_t i = 0; i < kept_floats(&c); i++) {
        bool mine = i >= KEPT_BEFORE && i < kept_floats(&c) - KEPT_BEHIND;
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

/* A batch of two tokens, their first, and arguments for it, of which all is right. */
typedef struct good {
    lx_batch *batch;
    lx_attend_rows_args args;
} good;

static good make_good(device *d)
{
    static const int32_t position[] = {0, 0};
    const rows_case c = {2, 3, 2, 0, 128, 1, kept_all, 1, SOFTMAX};
    lx_array *in = dev_array(d, NULL, 2 * kept_width(&c)), *out = dev_array(d, NULL, 2 * 4);
    good g = {single_rows(2), kept_args(&c, out, in, kept_states(d, &c, 2))};
    g.batch->position = position;
    return g;
}

/* The rows of a sequence that branches go into the pages of the branch's slot. Nothing is read from
   those of its own slot, and nothing is written there. A ring cannot branch. */
static bool branches_keep_rows_in_their_pages(device *dut, device *oracle)
{
    (void)oracle;
    enum { BEFORE = 70, ROWS = 70, SLOTS = 3 };
    static const int32_t slots[] = {0, 1}, lengths[] = {ROWS, 3}, at[] = {BEFORE, 0},
                         other[] = {2, 1}, branch[] = {0, -1}, own[] = {9, 0};
    const rows_case c = {2, 20, 9, 0, BEFORE + ROWS, 1, kept_all, 0.5f, SOFTMAX};
    rng r = {31};
    lx_error err = {0};
    uint64_t step = 0;
    int64_t n = (ROWS + 3) * 2 * 9, n_state = kept_floats(&c);
    float *first = kept_inputs(&r, &c, BEFORE, UNIFORM, 3), *y = floats(n), *want = floats(n);
    float *qkv = kept_inputs(&r, &c, ROWS + 3, UNIFORM, 3);
    float *state = floats(n_state), *want_state = floats(n_state);
    const int32_t before = BEFORE, zero = 0;
    for (int branches = 0; branches < 2; branches++) {
        lx_states *s = kept_states(dut, &c, SLOTS);
        lx_batch *b = ragged_batch(2, lengths, branches ? other : slots);
        b->branch = branches ? branch : NULL;
        b->branch_row = branches ? own : NULL;
        if (!kept_step(dut, &c, s, 1, &before, &zero, &zero, first, floats(BEFORE * 2 * 9)) ||
            !kept_batch(dut, &c, s, b, at, qkv, branches ? y : want))
            return false;
        CHECK_OK(
            dut->k->state_export(dut->be, s, 0, branches ? state : want_state, kept_pages(&c)));
        float *unused = floats(n_state);
        CHECK_OK(dut->k->state_export(dut->be, s, 2, unused, kept_pages(&c)));
        for (int64_t i = 0; i < n_state; i++)
            CHECK(isnan(unused[i]), "float %lld of the own slot's pages", (long long)i);
    }
    CHECK(same_bytes(y, want, n), "outputs");
    CHECK(same_bytes(state, want_state, n_state), "pages");
    static const lx_rows_pattern near[] = {WINDOW(5, 1, 0)};
    const rows_case ring = {2, 3, 2, 32, 128, 1, near, 1, SOFTMAX};
    lx_array *x = dev_array(dut, NULL, ROWS * kept_width(&ring));
    const lx_attend_rows_args args =
        kept_args(&ring, dev_array(dut, NULL, ROWS * 4), x, kept_states(dut, &ring, SLOTS));
    lx_batch *b = ragged_batch(1, lengths, other);
    b->position = at;
    b->branch = branch;
    b->branch_row = own;
    CHECK_OK(dut->k->begin(dut->be, b, NULL));
    dut->k->attend_rows(dut->be, &args);
    CHECK(dut->k->end(dut->be, &step, &err) == LX_ERR_UNSUPPORTED, "a ring has a branch");
    return true;
}

static bool broken_patterns_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    static const struct {
        lx_rows_pattern pattern;
        const char *word;
    } wrong[] = {{WINDOW(-1, 1, 0), "window"},
                 {WINDOW(1, 0, 0), "dilation"},
                 {WINDOW(1, 1, -1), "sinks"},
                 {STRIDED(0, true, true), "stride"},
                 {STRIDED(3, false, false), "column"},
                 {FIXED(0, 1, 0), "stride"},
                 {PREFIX(0), "sinks"},
                 {FIXED(4, 5, 0), "summary"},
                 {FIXED(4, 2, 2), "cell"},
                 {FIXED(4, 0, 0), "summary"},
                 {BLOCK(0, 0), "block"},
                 {BLOCK(1, -1), "look_back"},
                 {SHIFTED(0, 0, false), "block"},
                 {SHIFTED(1, -1, false), "shift"},
                 {{.kind = (lx_pattern_kind)9}, "pattern"}};
    good g = make_good(dut);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        g.args.patterns = &wrong[i].pattern;
        if (!refused(dut, g.batch, &g.args, wrong[i].word))
            return false;
    }
    return true;
}

static bool broken_rows_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    static const lx_rows_pattern few[] = {WINDOW(33, 1, 0)}, sunk[] = {WINDOW(1, 1, 1)};
    good g = make_good(dut);
    struct {
        lx_attend_rows_args args;
        const char *word;
    } bad[] = {
        {g.args, "heads"},   {g.args, "sizes"},     {g.args, "sizes"},     {g.args, "scale"},
        {g.args, "pattern"}, {g.args, "page"},      {g.args, "page"},      {g.args, "tile"},
        {g.args, "ring"},    {g.args, "ring"},      {g.args, "slot"},      {g.args, "same"},
        {g.args, "divisor"}, {g.args, "weighting"}, {g.args, "key heads"}, {g.args, "in common"}};
    bad[0].args.n_heads = 0;
    bad[1].args.d_key = 1025;
    bad[2].args.d_value = 0;
    bad[3].args.scale = NAN;
    bad[4].args.n_patterns = 3;
    bad[5].args.offset = KEPT_BEFORE + KEPT_BEHIND + 1;
    bad[6].args.offset = -1;
    bad[7].args.ring = 17;
    bad[8].args.ring = 32; /* where 33 rows are needed */
    bad[8].args.patterns = few;
    bad[9].args.ring = 1 << 20; /* where all are */
    bad[10].args.ring = 32;
    bad[10].args.patterns = sunk;
    bad[10].args.states = dev_states(dut, 32 * 2 * 5, 2);
    bad[10].args.offset = 1;
    bad[11].args.qkv = g.args.y;
    bad[12].args.weighting = LX_WEIGHT_RELU2;
    bad[12].args.divisor = 0;
    bad[13].args.weighting = (lx_rows_weighting)2;
    bad[14].args.key_heads = 3 * g.args.n_heads;
    bad[15].args.common_key = g.args.d_key + 1;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (!refused(dut, g.batch, &bad[i].args, bad[i].word))
            return false;
    }
    return true;
}

static bool tokens_without_a_place_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t far[] = {0, 128}, none = -1;
    good g = make_good(dut), later = make_good(dut), nowhere = make_good(dut);
    later.batch->position = far;
    nowhere.batch->position = NULL;
    if (!refused(dut, later.batch, &later.args, "129 tokens") ||
        !refused(dut, nowhere.batch, &nowhere.args, "positions"))
        return false;
    CHECK_OK(dut->k->state_map(dut->be, g.args.states, 0, 0, 1, &none));
    return refused(dut, g.batch, &g.args, "mapped");
}

const test rows_law_tests[] = {
    {"rows_any_split_is_equal", rows_any_split_is_equal},
    {"rows_neighbours_do_not_matter", rows_neighbours_do_not_matter},
    {"later_tokens_change_nothing_before", later_tokens_change_nothing_before},
    {"rows_have_equal_bytes_on_every_cpu", rows_have_equal_bytes_on_every_cpu},
    {"a_long_head_has_equal_bytes_on_all_threads", a_long_head_has_equal_bytes_on_all_threads},
    {"pages_do_not_show_what_was_there", pages_do_not_show_what_was_there},
    {"branches_keep_rows_in_their_pages", branches_keep_rows_in_their_pages},
    {"broken_patterns_are_refused", broken_patterns_are_refused},
    {"broken_rows_are_refused", broken_rows_are_refused},
    {"tokens_without_a_place_are_refused", tokens_without_a_place_are_refused},
    {NULL, NULL},
};
