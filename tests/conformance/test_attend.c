/*
 * Compares `attend_linear` with the oracle, and checks its laws. Any split of a sequence into steps
 * gives the same bytes. Neighbours do not matter. Other slots, and other layers of the slot, stay
 * unchanged.
 *
 * y is an average of earlier values, so its error is measured by the largest of them. The error of
 * a state element is measured by the sum of the absolute values added to it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance.h"
#include "sequences.h"

#define Y_BOUND 2e-6 /* docs/numerics.md */
#define STATE_BOUND 1e-6

enum { QKV, DECAY }; /* arrays of rows: [heads * (2 * d_key + d_value)], [heads] */

typedef struct attend_case {
    sequences s;
    int32_t heads, d_key, d_value;
    int64_t offset; /* of the layer in the slot */
    lx_feature_map feature_map;
} attend_case;

static int64_t part_of(const attend_case *c)
{
    return (int64_t)c->heads * c->d_key * (c->d_value + 1);
}

/* Factors from 0 to 1, some of them exactly these, where the back end has factors at all. */
static void add_decay(const device *d, rng *r, attend_case *c)
{
    if (d->k->attend_both == NULL)
        return;
    int64_t n = (int64_t)sequence_rows(&c->s) * c->heads;
    c->s.rows[DECAY] = floats(n);
    c->s.width[DECAY] = c->heads;
    c->s.n_arrays = 2;
    for (int64_t i = 0; i < n; i++)
        c->s.rows[DECAY][i] = (float)random_below(r, 9) / 8;
}

static void run(device *d, const sequences *s, lx_array *y, lx_array *const *in, lx_states *states);
static void scales(const sequences *s, double *y, double *state);

/* Keys and queries lie around `centre`: phi of a negative one is tiny. */
static attend_case make_case(rng *r, const int32_t *shape, int32_t n_seqs, const int32_t *length,
                             pattern p)
{
    attend_case c = {.heads = shape[0], .d_key = shape[1], .d_value = shape[2]};
    c.offset = random_below(r, 2) == 0 ? 0 : 5;
    c.s = (sequences){.n_seqs = n_seqs,
                      .n_slots = n_seqs + 3,
                      .n_arrays = 1,
                      .width = {c.heads * (2 * c.d_key + c.d_value)},
                      .length = length,
                      .slot = sequence_slots(n_seqs),
                      .n_y = (int64_t)c.heads * c.d_value,
                      .floats = c.offset + part_of(&c) + 3,
                      .run = run,
                      .scales = scales};
    (void)snprintf(c.s.text, sizeof c.s.text, "%d heads, D %d, M %d", c.heads, c.d_key, c.d_value);
    int64_t keys = 2L * c.heads * c.d_key, width = c.s.width[QKV], rows = sequence_rows(&c.s);
    c.s.rows[QKV] = floats(rows * width);
    for (int64_t row = 0; row < rows; row++) {
        fill(r, c.s.rows[QKV] + row * width, keys, p, 4, 1.3f);
        fill(r, c.s.rows[QKV] + row * width + keys, width - keys, p, 5, 5);
    }
    return c;
}

static void run(device *d, const sequences *s, lx_array *y, lx_array *const *in, lx_states *states)
{
    const attend_case *c = (const attend_case *)s;
    d->k->attend_linear(d->be, &(lx_attend_linear_args){.y = y,
                                                        .qkv = in[QKV],
                                                        .decay = in[DECAY],
                                                        .states = states,
                                                        .offset = c->offset,
                                                        .n_heads = c->heads,
                                                        .d_key = c->d_key,
                                                        .d_value = c->d_value,
                                                        .feature_map = c->feature_map,
                                                        .eps = 1e-6f});
}

/* --- against the oracle --- */

static void y_scales(const attend_case *c, double *scale)
{
    int64_t n_v = c->s.n_y, row = 0;
    for (int32_t i = 0; i < c->s.n_seqs; i++) {
        for (int32_t t = 0; t < c->s.length[i]; t++, row++) {
            const float *v = c->s.rows[QKV] + row * c->s.width[QKV] + 2L * c->heads * c->d_key;
            for (int64_t j = 0; j < n_v; j++)
                scale[row * n_v + j] =
                    fmax(fabs((double)v[j]), t > 0 ? scale[(row - 1) * n_v + j] : 0);
        }
    }
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
        const float *k = c->s.rows[QKV] + row * c->s.width[QKV] + c->heads * dk;
        const float *v = k + c->heads * dk;
        for (int64_t i = 0; i < c->heads * dk; i++) {
            double phi_k = phi(k[i], c->feature_map), *s = scale + i / dk * head + i % dk * dv;
            for (int64_t m = 0; m < dv; m++)
                s[m] += phi_k * fabs((double)v[i / dk * dv + m]);
            scale[i / dk * head + dk * dv + i % dk] += phi_k;
        }
    }
}

static void scales(const sequences *s, double *y, double *state)
{
    const attend_case *c = (const attend_case *)s;
    int64_t row = 0;
    y_scales(c, y);
    for (int32_t i = 0; i < s->n_seqs; row += s->length[i], i++)
        state_scales(c, row, s->length[i], state + s->slot[i] * s->floats + c->offset);
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
    static const struct {
        int32_t n_seqs;
        const int32_t *length;
        bool may_decay;
    } batches[] = {{1, long_one, true}, {3, lengths, false}, {COUNT(lengths), lengths, true}};
    rng r = {7};
    for (size_t i = 0; i < COUNT(shapes) * LX_FEATURE_MAPS; i++) {
        size_t map = i / COUNT(shapes), shape = i % COUNT(shapes);
        pattern p = (pattern)((map + shape) % PATTERNS);
        for (size_t k = 0; k < COUNT(batches); k++) {
            attend_case c = make_case(&r, shapes[shape], batches[k].n_seqs, batches[k].length, p);
            c.feature_map = (lx_feature_map)map;
            if (i % 3 == 1 && batches[k].may_decay)
                add_decay(dut, &r, &c);
            if (!sequences_match(dut, oracle, &c.s, Y_BOUND, STATE_BOUND))
                return false;
        }
    }
    return true;
}

/* --- laws: a shape each, whose feature map is the next one --- */

static bool attend_any_split_is_equal(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t length[] = {61}, longest[] = {1, 7, 31};
    rng r = {8};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        attend_case c = make_case(&r, shapes[i], 1, length, UNIFORM);
        c.feature_map = (lx_feature_map)(i % LX_FEATURE_MAPS);
        if (i % 3 != 2)
            add_decay(dut, &r, &c);
        if (!sequences_split(dut, &c.s, longest, COUNT(longest), &r))
            return false;
    }
    return true;
}

static bool attend_neighbours_do_not_matter(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t whole = INT32_MAX;
    rng r = {9};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        attend_case c = make_case(&r, shapes[i], COUNT(lengths), lengths, UNIFORM);
        c.feature_map = (lx_feature_map)(i % LX_FEATURE_MAPS);
        if (i % 3 != 0)
            add_decay(dut, &r, &c);
        if (!sequences_split(dut, &c.s, &whole, 1, NULL))
            return false;
    }
    return true;
}

/* --- the feature map --- */

/* After one token z is phi(k): it must be right to 2 units in the last place, above where exp ends,
 * too. */
static bool check_phi(device *dut, lx_feature_map map)
{
    enum { D = 20001 };
    static const int32_t one = 1, shape[] = {1, D, 1};
    rng r = {11};
    attend_case c = make_case(&r, shape, 1, &one, UNIFORM);
    c.feature_map = map;
    for (int i = 0; i < D; i++)
        c.s.rows[QKV][D + i] = -90.0f + 102.0f * (float)i / (D - 1);
    float y, *states = floats(c.s.n_slots * c.s.floats), *state = states + c.offset;
    if (!sequences_run(dut, &c.s, &y, states))
        return false;
    for (int i = 0; i < D; i++) {
        double want = phi(c.s.rows[QKV][D + i], map);
        double unit = want > 0 ? fmax(ldexp(1.0, ilogb(want) - 23), 0x1p-149) : 0x1p-149;
        double error = fabs((double)state[D + i] - want) / unit;
        CHECK(error <= 2.0, "map %d: phi(%.9g) is wrong by %.2f units in the last place", (int)map,
              (double)c.s.rows[QKV][D + i], error);
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
    static const int32_t one = 1, shape[] = {HEADS, D, D};
    rng r = {10};
    for (int map = 0; map < LX_FEATURE_MAPS; map++) {
        attend_case c = make_case(&r, shape, 1, &one, UNIFORM);
        c.feature_map = (lx_feature_map)map;
        c.s.rows[QKV][HEADS * D + D + 2] = NAN; /* key 2 of head 1 */
        float *y = floats(c.s.n_y), *state = floats(c.s.n_slots * c.s.floats);
        if (!sequences_run(dut, &c.s, y, state))
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
