/*
 * Compares `attend_linear` with the oracle, and checks its laws. Any split of a sequence into steps
 * gives the same bytes. Neighbours do not matter. Other slots, and other layers of the slot, stay
 * unchanged.
 *
 * y is an average of earlier values, so its error is measured by the largest of them. The error of
 * a state element is measured by the sum of the absolute values added to it.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"

#define Y_BOUND 2e-6 /* docs/numerics.md */
#define STATE_BOUND 1e-6

/* One or more sequences, their rows concatenated, over `slots` slots. */
typedef struct attend_case {
    int32_t heads, d_key, d_value, n_seqs, n_slots;
    const int32_t *length;
    int32_t *slot;
    float *qkv;
    float *decay;           /* [rows, heads], the factors; NULL for none */
    int64_t offset, floats; /* of the layer in the slot; of the slot */
    lx_feature_map feature_map;
} attend_case;

static int64_t width_of(const attend_case *c)
{
    return (int64_t)c->heads * (2 * c->d_key + c->d_value);
}

static int64_t part_of(const attend_case *c)
{
    return (int64_t)c->heads * c->d_key * (c->d_value + 1);
}

static int32_t total_rows(const attend_case *c)
{
    int32_t rows = 0;
    for (int32_t i = 0; i < c->n_seqs; i++)
        rows += c->length[i];
    return rows;
}

/* Factors from 0 to 1, some of them exactly these, where the back end has factors at all. */
static void add_decay(const device *d, rng *r, attend_case *c)
{
    if (d->k->attend_both == NULL)
        return;
    int64_t n = (int64_t)total_rows(c) * c->heads;
    c->decay = floats(n);
    for (int64_t i = 0; i < n; i++)
        c->decay[i] = (float)random_below(r, 9) / 8;
}

/* Keys and queries lie around `centre`: phi of a negative one is tiny. */
static attend_case make_case(rng *r, int32_t heads, int32_t d_key, int32_t d_value, int32_t n_seqs,
                             const int32_t *length, pattern p)
{
    attend_case c = {.heads = heads,
                     .d_key = d_key,
                     .d_value = d_value,
                     .n_seqs = n_seqs,
                     .n_slots = n_seqs + 3,
                     .length = length};
    c.offset = random_below(r, 2) == 0 ? 0 : 5;
    c.floats = c.offset + part_of(&c) + 3;
    c.slot = take((size_t)n_seqs * sizeof *c.slot);
    for (int32_t i = 0; i < n_seqs; i++)
        c.slot[i] = (i * 5 + 2) % (n_seqs + 1); /* distinct where n_seqs + 1 is no multiple of 5 */
    int64_t keys = 2L * heads * d_key, width = width_of(&c);
    c.qkv = floats(total_rows(&c) * width);
    for (int64_t row = 0; row < total_rows(&c); row++) {
        fill(r, c.qkv + row * width, keys, p, 4, 1.3f);
        fill(r, c.qkv + row * width + keys, width - keys, p, 5, 5);
    }
    return c;
}

static lx_attend_linear_args args_of(const attend_case *c, lx_array *y, const lx_array *qkv,
                                     lx_states *states)
{
    return (lx_attend_linear_args){.y = y,
                                   .qkv = qkv,
                                   .states = states,
                                   .offset = c->offset,
                                   .n_heads = c->heads,
                                   .d_key = c->d_key,
                                   .d_value = c->d_value,
                                   .feature_map = c->feature_map,
                                   .eps = 1e-6f};
}

/* One step on rows `qkv` of sequences with these lengths and slots. */
static bool attend_step(device *d, const attend_case *c, lx_states *states, int32_t n_seqs,
                        const int32_t *length, const int32_t *slot, const float *qkv, float *y)
{
    lx_batch *b = ragged_batch(n_seqs, length, slot);
    int64_t n_y = (int64_t)b->n_tokens * c->heads * c->d_value;
    lx_array *in = dev_array(d, qkv, b->n_tokens * width_of(c)), *out = dev_array(d, NULL, n_y);
    lx_attend_linear_args args = args_of(c, out, in, states);
    if (c->decay != NULL)
        args.decay = dev_array(d, c->decay + (qkv - c->qkv) / width_of(c) * c->heads,
                               (int64_t)b->n_tokens * c->heads);
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->attend_linear(d->be, &args);
    bool ok = dev_finish(d) && dev_read(d, out, y, n_y);
    if (c->decay != NULL)
        d->k->array_free(d->be, d->owned[--d->n_owned].object);
    d->k->array_free(d->be, d->owned[--d->n_owned].object);
    d->k->array_free(d->be, d->owned[--d->n_owned].object);
    return ok;
}

/* Runs all sequences together from zero states; y and all slots' states come back. */
static bool attend_all(device *d, const attend_case *c, float *y, float *state)
{
    lx_states *s = dev_states(d, c->floats, c->n_slots);
    if (!attend_step(d, c, s, c->n_seqs, c->length, c->slot, c->qkv, y))
        return false;
    for (int32_t i = 0; i < c->n_slots; i++)
        CHECK_OK(d->k->state_export(d->be, s, i, state + i * c->floats, 0));
    return true;
}

/* --- against the oracle --- */

static double *y_scales(const attend_case *c)
{
    int64_t dv = c->d_value, row = 0, n_v = c->heads * dv;
    double *scale = take((size_t)(total_rows(c) * n_v) * sizeof *scale);
    for (int32_t i = 0; i < c->n_seqs; i++) {
        for (int32_t t = 0; t < c->length[i]; t++, row++) {
            const float *v = c->qkv + row * width_of(c) + 2L * c->heads * c->d_key;
            for (int64_t j = 0; j < n_v; j++)
                scale[row * n_v + j] =
                    fmax(fabs((double)v[j]), t > 0 ? scale[(row - 1) * n_v + j] : 0);
        }
    }
    return scale;
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

/* Of one head after one sequence: the sum of |phi(k) v| for s, z itself for z. */
static void state_scales(const attend_case *c, int64_t first_row, int32_t length, double *scale)
{
    int64_t dk = c->d_key, dv = c->d_value, head = dk * (dv + 1);
    for (int64_t row = first_row; row < first_row + length; row++) {
        const float *k = c->qkv + row * width_of(c) + c->heads * dk, *v = k + c->heads * dk;
        for (int64_t i = 0; i < c->heads * dk; i++) {
            double phi_k = phi(k[i], c->feature_map), *s = scale + i / dk * head + i % dk * dv;
            for (int64_t m = 0; m < dv; m++)
                s[m] += phi_k * fabs((double)v[i / dk * dv + m]);
            scale[i / dk * head + dk * dv + i % dk] += phi_k;
        }
    }
}

static bool check_states(const attend_case *c, const float *got, const float *want)
{
    int64_t row = 0;
    for (int32_t i = 0; i < c->n_seqs; i++) {
        double *scale = take((size_t)part_of(c) * sizeof *scale);
        int64_t at = c->slot[i] * c->floats + c->offset;
        state_scales(c, row, c->length[i], scale);
        double error = worst_error(got + at, want + at, scale, part_of(c));
        CHECK(error <= STATE_BOUND, "state of sequence %d: error %.3g", i, error);
        row += c->length[i];
    }
    return true;
}

/* Slots of no sequence and floats outside the layer's part must still be 0. */
static bool check_untouched(const attend_case *c, const float *state)
{
    bool used[64] = {false};
    for (int32_t i = 0; i < c->n_seqs; i++)
        used[c->slot[i]] = true;
    for (int64_t i = 0; i < c->n_slots * c->floats; i++) {
        int64_t at = i % c->floats;
        bool inside = used[i / c->floats] && at >= c->offset && at < c->offset + part_of(c);
        CHECK(inside || state[i] == 0, "slot %lld float %lld was written",
              (long long)(i / c->floats), (long long)at);
    }
    return true;
}

static bool check_case(device *dut, device *oracle, const attend_case *c)
{
    int64_t n_y = (int64_t)total_rows(c) * c->heads * c->d_value, n_state = c->n_slots * c->floats;
    float *got = floats(n_y), *want = floats(n_y);
    float *got_state = floats(n_state), *want_state = floats(n_state);
    if (!attend_all(dut, c, got, got_state) || !attend_all(oracle, c, want, want_state))
        return false;
    double error = worst_error(got, want, y_scales(c), n_y);
    CHECK(error <= Y_BOUND, "%d heads, D %d, M %d, %d sequences: error %.3g", c->heads, c->d_key,
          c->d_value, c->n_seqs, error);
    dev_release(dut);
    dev_release(oracle);
    return check_states(c, got_state, want_state) && check_untouched(c, got_state);
}

static const int32_t shapes[][3] = {/* heads, D, M */
                                    {8, 32, 32}, {1, 1, 1},   {3, 7, 7},   {2, 33, 33}, {2, 60, 60},
                                    {2, 64, 64}, {4, 16, 48}, {3, 31, 17}, {1, 5, 100}, {17, 8, 8}};
static const int32_t lengths[] = {1, 3, 17, 1, 64, 2, 1, 1, 40, 1, 5, 1};
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* Every feature map with every shape, and each with every pattern; not every three of them. */
static bool attend_matches_oracle(device *dut, device *oracle)
{
    static const int32_t long_one[] = {257};
    rng r = {7};
    for (size_t i = 0; i < COUNT(shapes) * LX_FEATURE_MAPS; i++) {
        size_t map = i / COUNT(shapes), shape = i % COUNT(shapes);
        const int32_t *s = shapes[shape];
        pattern p = (pattern)((map + shape) % PATTERNS);
        attend_case one = make_case(&r, s[0], s[1], s[2], 1, long_one, p);
        attend_case few = make_case(&r, s[0], s[1], s[2], 3, lengths, p);
        attend_case many = make_case(&r, s[0], s[1], s[2], COUNT(lengths), lengths, p);
        one.feature_map = few.feature_map = many.feature_map = (lx_feature_map)map;
        if (i % 3 == 1) {
            add_decay(dut, &r, &one);
            add_decay(dut, &r, &many);
        }
        if (!check_case(dut, oracle, &one) || !check_case(dut, oracle, &few) ||
            !check_case(dut, oracle, &many))
            return false;
    }
    return true;
}

/* --- laws: a shape each, whose feature map is the next one --- */

/* Runs one sequence in pieces that `next` chooses: y and the state must equal the results of one
 * step. */
static bool check_split(device *d, const attend_case *c, rng *r, int32_t longest, const float *y,
                        const float *state)
{
    lx_states *s = dev_states(d, c->floats, 1);
    int64_t n_y = (int64_t)c->heads * c->d_value;
    float *piece = floats(c->length[0] * n_y), *end = floats(c->floats);
    int32_t zero = 0;
    for (int32_t at = 0, n = 0; at < c->length[0]; at += n) {
        n = 1 + (int32_t)random_below(r, (uint32_t)longest);
        n = n < c->length[0] - at ? n : c->length[0] - at;
        if (!attend_step(d, c, s, 1, &n, &zero, c->qkv + at * width_of(c), piece))
            return false;
        CHECK(same_bytes(piece, y + at * n_y, n * n_y), "rows %d to %d differ", at, at + n - 1);
    }
    CHECK_OK(d->k->state_export(d->be, s, 0, end, 0));
    CHECK(same_bytes(end, state, c->floats), "the state differs");
    return true;
}

static bool attend_any_split_is_equal(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t length[] = {61};
    rng r = {8};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const int32_t *shape = shapes[i];
        attend_case c = make_case(&r, shape[0], shape[1], shape[2], 1, length, UNIFORM);
        c.slot[0] = 0;
        c.feature_map = (lx_feature_map)(i % LX_FEATURE_MAPS);
        if (i % 3 != 2)
            add_decay(dut, &r, &c);
        float *y = floats((int64_t)length[0] * c.heads * c.d_value);
        float *state = floats(c.n_slots * c.floats);
        if (!attend_all(dut, &c, y, state))
            return false;
        for (int32_t longest = 1; longest <= 61; longest = longest * 4 + 3) {
            if (!check_split(dut, &c, &r, longest, y, state))
                return false;
        }
        dev_release(dut);
    }
    return true;
}

static bool attend_neighbours_do_not_matter(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {9};
    int32_t zero = 0;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const int32_t *shape = shapes[i];
        attend_case c =
            make_case(&r, shape[0], shape[1], shape[2], COUNT(lengths), lengths, UNIFORM);
        c.feature_map = (lx_feature_map)(i % LX_FEATURE_MAPS);
        if (i % 3 != 0)
            add_decay(dut, &r, &c);
        int64_t n_y = (int64_t)c.heads * c.d_value, row = 0;
        float *y = floats(total_rows(&c) * n_y), *alone = floats(total_rows(&c) * n_y);
        float *state = floats(c.n_slots * c.floats), *end = floats(c.floats);
        if (!attend_all(dut, &c, y, state))
            return false;
        for (int32_t s = 0; s < c.n_seqs; row += c.length[s], s++) {
            lx_states *own = dev_states(dut, c.floats, 1);
            if (!attend_step(dut, &c, own, 1, &c.length[s], &zero, c.qkv + row * width_of(&c),
                             alone))
                return false;
            CHECK_OK(dut->k->state_export(dut->be, own, 0, end, 0));
            CHECK(same_bytes(alone, y + row * n_y, c.length[s] * n_y), "y of sequence %d", s);
            CHECK(same_bytes(end, state + c.slot[s] * c.floats, c.floats), "state of %d", s);
        }
        dev_release(dut);
    }
    return true;
}

/* --- the feature map --- */

/* After one token z is phi(k): it must be right to 2 units in the last place, above where exp ends,
 * too. */
static bool check_phi(device *dut, lx_feature_map map)
{
    enum { D = 20001 };
    int32_t one = 1, zero = 0;
    attend_case c = {.heads = 1,
                     .d_key = D,
                     .d_value = 1,
                     .n_seqs = 1,
                     .n_slots = 1,
                     .length = &one,
                     .slot = &zero,
                     .floats = 2L * D,
                     .feature_map = map};
    c.qkv = floats(width_of(&c));
    for (int i = 0; i < D; i++)
        c.qkv[D + i] = -90.0f + 102.0f * (float)i / (D - 1);
    float y, *state = floats(c.floats);
    if (!attend_all(dut, &c, &y, state))
        return false;
    for (int i = 0; i < D; i++) {
        double want = phi(c.qkv[D + i], map);
        double unit = want > 0 ? fmax(ldexp(1.0, ilogb(want) - 23), 0x1p-149) : 0x1p-149;
        double error = fabs((double)state[D + i] - want) / unit;
        CHECK(error <= 2.0, "map %d: phi(%.9g) is wrong by %.2f units in the last place", (int)map,
              (double)c.qkv[D + i], error);
    }
    return true;
}

static bool phi_is_accurate(device *dut, device *oracle)
{
    (void)oracle;
    for (int map = 0; map < LX_FEATURE_MAPS; map++) {
        if (!check_phi(dut, (lx_feature_map)map))
            return false;
        dev_release(dut);
    }
    return true;
}

/* For every map, a NaN key makes its head's state NaN and does not reach other heads. */
static bool phi_of_no_number_is_none(device *dut, device *oracle)
{
    (void)oracle;
    enum { D = 5, HEADS = 3 };
    static const int32_t one = 1;
    rng r = {10};
    for (int map = 0; map < LX_FEATURE_MAPS; map++) {
        attend_case c = make_case(&r, HEADS, D, D, 1, &one, UNIFORM);
        c.feature_map = (lx_feature_map)map;
        c.qkv[HEADS * D + D + 2] = NAN; /* key 2 of head 1 */
        float *y = floats((int64_t)HEADS * D), *state = floats(c.n_slots * c.floats);
        if (!attend_all(dut, &c, y, state))
            return false;
        for (int i = 0; i < HEADS * D; i++)
            CHECK((isnan(y[i]) != 0) == (i / D == 1), "map %d: y[%d] is %g", map, i, (double)y[i]);
        dev_release(dut);
    }
    return true;
}

const test attend_tests[] = {
    {"attend_matches_oracle", attend_matches_oracle},
    {"attend_any_split_is_equal", attend_any_split_is_equal},
    {"attend_neighbours_do_not_matter", attend_neighbours_do_not_matter},
    {"phi_is_accurate", phi_is_accurate},
    {"phi_of_no_number_is_none", phi_of_no_number_is_none},
    {NULL, NULL},
};
