/*
 * Compares `rotary` with the oracle, and the oracle with angles in double at near and far
 * positions. A row alone gives the same bytes, and columns without rotation stay unchanged.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"
#include "support.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define BOUND 1e-6 /* docs/numerics.md */
#define ROWS (LX_ROTARY_LEVELS * LX_ROTARY_STEPS)

enum { TOKENS = 40 };

typedef struct rotary_case {
    int32_t heads, apart, d, first, behind;
} rotary_case;

static const rotary_case cases[] = {
    {1, 2, 2, 0, 0}, {3, 8, 8, 0, 0}, {2, 40, 34, 3, 5}, {12, 64, 64, 0, 64}, {5, 256, 64, 1, 0}};
/* Of the two sequences of a batch; digits of every level, and the last position that there is. */
static const int32_t places[][2] = {
    {0, 1}, {100, 16370}, {700001, 0}, {LX_ROTARY_POSITIONS - TOKENS, LX_ROTARY_POSITIONS - 7}};

static int32_t width(const rotary_case *c)
{
    return c->first + c->heads * c->apart + c->behind;
}

static double frequency(const rotary_case *c, int32_t i)
{
    return pow(10000, -2.0 * i / c->d);
}

static float *table(const rotary_case *c)
{
    float *turns = floats((int64_t)ROWS * c->d);
    for (int32_t row = 0; row < ROWS; row++) {
        double steps = pow(LX_ROTARY_STEPS, row / LX_ROTARY_STEPS) * (row % LX_ROTARY_STEPS);
        for (int32_t i = 0; i < c->d / 2; i++) {
            turns[row * c->d + i] = (float)cos(steps * frequency(c, i));
            turns[row * c->d + c->d / 2 + i] = (float)sin(steps * frequency(c, i));
        }
    }
    return turns;
}

static bool turn(device *d, const rotary_case *c, int32_t n_seqs, const int32_t *length,
                 const int32_t *position, float *x)
{
    static const int32_t slots[] = {0, 1};
    lx_batch *b = ragged_batch(n_seqs, length, slots);
    lx_rotary_args a = {.x = dev_array(d, x, (int64_t)b->n_tokens * width(c)),
                        .width = width(c),
                        .first = c->first,
                        .apart = c->apart,
                        .n_heads = c->heads,
                        .d = c->d,
                        .turns = dev_array(d, table(c), (int64_t)ROWS * c->d)};
    b->position = position;
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->rotary(d->be, &a);
    return dev_finish(d) && dev_read(d, a.x, x, (int64_t)b->n_tokens * width(c));
}

/* Element `column` of a row that was x, in double. */
static double turned(const rotary_case *c, const float *x, int32_t column, int32_t position)
{
    int32_t at = column - c->first, in_head = at >= 0 ? at % c->apart : c->d, half = c->d / 2;
    if (at < 0 || at >= c->heads * c->apart || in_head >= c->d)
        return (double)x[column];
    double angle = position * frequency(c, in_head % half);
    double other = in_head < half ? -(double)x[column + half] : (double)x[column - half];
    return (double)x[column] * cos(angle) + other * sin(angle);
}

static bool rotary_matches_oracle(device *dut, device *oracle)
{
    static const int32_t length[] = {TOKENS, 7};
    rng r = {61};
    for (size_t i = 0; i < COUNT(cases) * COUNT(places); i++) {
        const rotary_case *c = &cases[i / COUNT(places)];
        const int32_t *place = places[i % COUNT(places)];
        int64_t n = (int64_t)(TOKENS + 7) * width(c);
        float *x = floats(n), *got = floats(n), *want = floats(n);
        fill(&r, x, n, UNIFORM, 2, 2);
        memcpy(got, x, (size_t)n * sizeof *x);
        memcpy(want, x, (size_t)n * sizeof *x);
        if (!turn(dut, c, 2, length, place, got) || !turn(oracle, c, 2, length, place, want))
            return false;
        for (int64_t k = 0; k < n; k++) {
            int32_t row = (int32_t)(k / width(c)), column = (int32_t)(k % width(c));
            int32_t position = row < TOKENS ? place[0] + row : place[1] + row - TOKENS;
            double exact = turned(c, x + (int64_t)row * width(c), column, position);
            CHECK(fabs((double)got[k] - (double)want[k]) <= 8 * BOUND &&
                      fabs((double)want[k] - exact) <= 8 * BOUND,
                  "case %zu: row %d, column %d: %.9g, oracle %.9g, exactly %.9g", i, row, column,
                  (double)got[k], (double)want[k], exact);
        }
        dev_release(dut);
        dev_release(oracle);
        arena_reset();
    }
    return true;
}

static bool rotary_rows_stand_alone(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t length = TOKENS, one = 1, place = 16370;
    rng r = {62};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const rotary_case *c = &cases[i];
        int64_t n = (int64_t)TOKENS * width(c);
        float *x = floats(n), *whole = floats(n);
        fill(&r, x, n, UNIFORM, 2, 2);
        memcpy(whole, x, (size_t)n * sizeof *x);
        if (!turn(dut, c, 1, &length, &place, whole))
            return false;
        for (int32_t row = 0; row < TOKENS; row += 13) {
            int32_t position = place + row;
            if (!turn(dut, c, 1, &one, &position, x + (int64_t)row * width(c)))
                return false;
            CHECK(
                same_bytes(x + (int64_t)row * width(c), whole + (int64_t)row * width(c), width(c)),
                "case %zu: row %d", i, row);
        }
        dev_release(dut);
        arena_reset();
    }
    return true;
}

static bool broken_rotations_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    static const int32_t zero[] = {0, 0}, far[] = {LX_ROTARY_POSITIONS, 0};
    lx_rotary_args good = {.x = dev_array(dut, NULL, 2 * 8),
                           .width = 8,
                           .apart = 4,
                           .n_heads = 2,
                           .d = 4,
                           .turns = dev_array(dut, NULL, (int64_t)ROWS * 4)};
    struct {
        lx_rotary_args args;
        const int32_t *position;
        const char *word;
    } bad[] = {{good, zero, "pairs"}, {good, zero, "outside"},  {good, zero, "pairs"},
               {good, zero, "turns"}, {good, NULL, "position"}, {good, far, "position"}};
    bad[0].args.d = 3;
    bad[1].args.first = 1;
    bad[2].args.d = 6;
    bad[3].args.turns = dev_array(dut, NULL, 8);
    for (size_t i = 0; i < COUNT(bad); i++) {
        lx_batch *b = single_rows(2);
        lx_error err = {0};
        uint64_t number;
        b->position = bad[i].position;
        CHECK_OK(dut->k->begin(dut->be, b, NULL));
        dut->k->rotary(dut->be, &bad[i].args);
        CHECK(dut->k->end(dut->be, &number, &err) == LX_ERR_INVALID, "accepted: %s", bad[i].word);
        CHECK(strstr(err.text, bad[i].word) != NULL, "\"%s\" says no %s", err.text, bad[i].word);
    }
    return true;
}

const test rotary_tests[] = {
    {"rotary_matches_oracle", rotary_matches_oracle},
    {"rotary_rows_stand_alone", rotary_rows_stand_alone},
    {"broken_rotations_are_refused", broken_rotations_are_refused},
    {NULL, NULL},
};
