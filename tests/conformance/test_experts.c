/*
 * Checks `route` against the oracle, and `experts` against `linear`: each choice has the bytes of a
 * product with that expert's own matrix, whatever rows share the step. So an error of `experts` is
 * one of `linear`, which test_linear measures. All cpu back ends give equal bytes.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"
#include "support.h"

#define BOUND 2e-6 /* of a weight of `route`: docs/numerics.md */
#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

/* --- route --- */

static lx_route_args route_args(device *d, const float *x, const float *bias, int32_t rows,
                                lx_route_args shape)
{
    shape.x = dev_array(d, x, (int64_t)rows * shape.n_experts);
    shape.bias = bias != NULL ? dev_array(d, bias, shape.n_experts) : NULL;
    shape.y = dev_array(d, NULL, 2 * (int64_t)rows * shape.n_active);
    return shape;
}

static bool route_rows(device *d, const float *x, const float *bias, int32_t rows,
                       lx_route_args shape, float *y)
{
    lx_route_args args = route_args(d, x, bias, rows, shape);
    CHECK_OK(d->k->begin(d->be, step_of(shape.rows, rows), NULL));
    d->k->route(d->be, &args);
    return dev_finish(d) && dev_read(d, args.y, y, 2 * (int64_t)rows * shape.n_active);
}

static bool same_choice(const float *got, const float *want, int32_t rows, int32_t active)
{
    for (int32_t i = 0; i < 2 * rows * active; i++) {
        bool number = i / active % 2 == 0;
        double off = fabs((double)got[i] - (double)want[i]);
        CHECK(number ? off == 0 : off <= BOUND * fabs((double)want[i]),
              "row %d, place %d: %g, not %g", i / (2 * active), i % (2 * active), (double)got[i],
              (double)want[i]);
    }
    return true;
}

/* Numbers that lie apart, so that rounding changes no choice. */
static void fill_apart(rng *r, float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        x[i] = 6.0f * (float)i / (float)n - 3.0f + random_between(r, 0, 1.0f / (float)n);
    for (int32_t i = n - 1; i > 0; i--) {
        int32_t j = (int32_t)random_below(r, (uint32_t)i + 1);
        float other = x[j];
        x[j] = x[i];
        x[i] = other;
    }
}

static bool routes_match_oracle(device *dut, device *oracle)
{
    enum { ROWS = 9, MOST = 130 };
    static const lx_route_args shapes[] = {
        {.n_experts = 8, .n_active = 2, .scale = 1},
        {.n_experts = 1, .n_active = 1, .scale = 1},
        {.n_experts = 16, .n_active = 16, .normalise = true, .scale = 2.5f},
        {.n_experts = MOST, .n_active = 8, .sigmoid = true, .normalise = true, .scale = 1},
        {.n_experts = 37, .n_active = 5, .sigmoid = true, .scale = 0.5f},
        {.n_experts = 24,
         .n_active = 3,
         .n_groups = 4,
         .active_groups = 2,
         .sigmoid = true,
         .normalise = true,
         .scale = 1,
         .eps = 0.25f},
        {.n_experts = 12, .n_active = 6, .n_groups = 6, .active_groups = 3, .scale = 1}};
    rng r = {81};
    static agreement seen;
    uint64_t hash = NO_BYTES;
    for (int i = 0; i < 2 * COUNT(shapes) && !IS_MISSING(dut, route); i++) {
        lx_route_args shape = shapes[i / 2];
        float x[ROWS * MOST], bias[MOST], got[2 * ROWS * MOST], alone[2 * MOST],
            want[2 * ROWS * MOST];
        int32_t n = shape.n_experts, width = 2 * shape.n_active;
        for (int32_t row = 0; row < ROWS; row++)
            fill_apart(&r, x + row * n, n);
        for (int32_t e = 0; e < n; e++)
            bias[e] = e % 3 == 0 ? 2.0f * (float)(e % 2) - 1.0f : 0;
        const float *added = i % 2 == 1 ? bias : NULL;
        if (!route_rows(dut, x, added, ROWS, shape, got) ||
            !route_rows(oracle, x, added, ROWS, shape, want) ||
            !same_choice(got, want, ROWS, shape.n_active))
            return false;
        for (int32_t row = 0; row < ROWS; row++) {
            shape.rows = row % 2 == 0 ? LX_ROWS_OUTPUTS : LX_ROWS_TOKENS;
            if (!route_rows(dut, x + row * n, added, 1, shape, alone))
                return false;
            CHECK(memcmp(alone, got + row * width, (size_t)width * sizeof *got) == 0,
                  "%d experts: row %d differs alone", n, row);
        }
        hash = hash_bytes(hash, got, (size_t)(ROWS * width) * sizeof *got);
        dev_release(dut);
        dev_release(oracle);
    }
    return IS_MISSING(dut, route) || agrees(dut, &seen, hash);
}

/* Equal numbers choose the first experts, and numbers that are no numbers choose some expert. */
static bool equal_routes_choose_the_first(device *dut, device *oracle)
{
    (void)oracle;
    if (IS_MISSING(dut, route))
        return true;
    const lx_route_args shape = {.n_experts = 20, .n_active = 3, .scale = 1};
    float x[40], y[12];
    for (int i = 0; i < 40; i++)
        x[i] = i < 20 ? 1.0f : NAN;
    if (!route_rows(dut, x, NULL, 2, shape, y))
        return false;
    for (int i = 0; i < 3; i++) {
        CHECK(y[i] == (float)i && y[3 + i] == 0.05f, "choice %d: %g of weight %g", i, (double)y[i],
              (double)y[3 + i]);
        CHECK(y[6 + i] >= 0 && y[6 + i] < 20 && isnan(y[9 + i]), "choice %d: %g of weight %g", i,
              (double)y[6 + i], (double)y[9 + i]);
    }
    return true;
}

/* --- experts --- */

typedef struct expert_case {
    int32_t n_experts, n_active, n, cols, rows;
} expert_case;

static const expert_case cases[] = {
    {4, 2, 24, 16, 7}, {8, 3, 70, 33, 1},   {3, 1, 32, 300, 150},
    {5, 5, 1, 1, 4},   {2, 2, 130, 64, 90},
};

typedef struct expert_data {
    float *w, *x, *choice, *residual; /* w [n_experts, n, cols], x for each choice */
} expert_data;

static expert_data make_data(rng *r, const expert_case *c)
{
    int64_t n_w = (int64_t)c->n_experts * c->n * c->cols, choices = c->rows * c->n_active;
    expert_data d = {floats(n_w), floats(choices * c->cols), floats(2 * choices),
                     floats((int64_t)c->rows * c->n)};
    fill(r, d.w, n_w, UNIFORM, 0, 0);
    fill(r, d.x, choices * c->cols, UNIFORM, 0, 0);
    fill(r, d.residual, (int64_t)c->rows * c->n, UNIFORM, 0, 0);
    for (int32_t row = 0; row < c->rows; row++) {
        float *to = d.choice + 2 * row * c->n_active;
        int32_t first = (int32_t)random_below(r, (uint32_t)c->n_experts);
        for (int32_t j = 0; j < c->n_active; j++) {
            to[j] = (float)((first + c->n_experts - j) % c->n_experts);
            to[c->n_active + j] = random_between(r, 0, 1);
        }
    }
    return d;
}

static lx_matrix *all_experts(device *d, const expert_case *c, const float *w)
{
    int64_t rows = lx_expert_rows(c->n), n = (int64_t)c->n * c->cols;
    float *padded = floats(c->n_experts * rows * c->cols);
    for (int64_t e = 0; e < c->n_experts; e++)
        memcpy(padded + e * rows * c->cols, w + e * n, (size_t)n * sizeof *w);
    return dev_matrix(d, &(lx_host_tensor){LX_F32, c->n_experts * rows, c->cols, padded}, NULL);
}

/* The step's y, from rows row .. of the data. */
static bool run_experts(device *d, const expert_case *c, const expert_data *data, bool sums,
                        lx_rows which, int32_t row, int32_t rows, float *y)
{
    int64_t width = sums ? c->n : (int64_t)c->n_active * c->n;
    int64_t x_width = (int64_t)c->cols * (sums ? c->n_active : 1);
    lx_array *out = sums ? dev_array(d, data->residual + row * width, rows * width)
                         : dev_array(d, NULL, rows * width);
    const lx_experts_args args = {.y = out,
                                  .x = dev_array(d, data->x + row * x_width, rows * x_width),
                                  .choice =
                                      dev_array(d, data->choice + 2 * (int64_t)row * c->n_active,
                                                2 * (int64_t)rows * c->n_active),
                                  .w = all_experts(d, c, data->w),
                                  .residual = sums ? out : NULL,
                                  .n_experts = c->n_experts,
                                  .n_active = c->n_active,
                                  .n = c->n,
                                  .sums = sums,
                                  .rows = which};
    CHECK_OK(d->k->begin(d->be, step_of(which, rows), NULL));
    d->k->experts(d->be, &args);
    return dev_finish(d) && dev_read(d, out, y, rows * width);
}

/* y of every row with every expert: of x [rows, cols], y [n_experts, rows, n]. */
static bool run_products(device *d, const expert_case *c, const float *w, const float *x,
                         int32_t rows, float *y)
{
    int64_t n_y = (int64_t)rows * c->n;
    for (int64_t e = 0; e < c->n_experts; e++) {
        const lx_host_tensor t = {LX_F32, c->n, c->cols, w + e * c->n * c->cols};
        lx_array *out = dev_array(d, NULL, n_y);
        const lx_linear_args args = {.y = out,
                                     .x = dev_array(d, x, (int64_t)rows * c->cols),
                                     .w = dev_matrix(d, &t, NULL),
                                     .rows = LX_ROWS_TOKENS};
        CHECK_OK(d->k->begin(d->be, single_rows(rows), NULL));
        d->k->linear(d->be, &args);
        if (!dev_finish(d) || !dev_read(d, out, y + e * n_y, n_y))
            return false;
    }
    return true;
}

static bool are_products(const expert_case *c, const expert_data *data, const float *got,
                         const float *products)
{
    for (int64_t i = 0; i < (int64_t)c->rows * c->n_active; i++) {
        int64_t row = i / c->n_active, j = i % c->n_active;
        int64_t e = (int64_t)data->choice[2 * row * c->n_active + j];
        CHECK(memcmp(got + i * c->n, products + (e * c->rows + row) * c->n,
                     (size_t)c->n * sizeof *got) == 0,
              "row %d, choice %d: not the product with expert %d", (int)row, (int)j, (int)e);
    }
    return true;
}

/* products [n_experts, rows n_active, n] */
static bool are_sums(const expert_case *c, const expert_data *data, const float *got,
                     const float *products)
{
    int64_t choices = (int64_t)c->rows * c->n_active;
    for (int64_t i = 0; i < (int64_t)c->rows * c->n; i++) {
        int64_t row = i / c->n;
        const float *choice = data->choice + 2 * row * c->n_active;
        float want = data->residual[i];
        for (int64_t e = 0; e < c->n_experts; e++) {
            for (int64_t j = 0; j < c->n_active; j++) {
                int64_t at = (e * choices + row * c->n_active + j) * c->n + i % c->n;
                if (choice[j] == (float)e)
                    want = fmaf(choice[c->n_active + j], products[at], want);
            }
        }
        CHECK(got[i] == want, "row %d, output %d: %g, not %g", (int)row, (int)(i % c->n),
              (double)got[i], (double)want);
    }
    return true;
}

static bool check_alone(device *dut, const expert_case *c, const expert_data *data, bool sums,
                        const float *got)
{
    int64_t width = sums ? c->n : (int64_t)c->n_active * c->n;
    float *alone = floats(width);
    for (int32_t row = 0; row < c->rows && row < 8; row++) {
        lx_rows which = row % 2 == 0 ? LX_ROWS_OUTPUTS : LX_ROWS_TOKENS;
        if (!run_experts(dut, c, data, sums, which, row, 1, alone))
            return false;
        CHECK(memcmp(alone, got + row * width, (size_t)width * sizeof *got) == 0,
              "row %d differs alone", row);
    }
    return true;
}

static bool experts_are_products(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {82};
    static agreement seen;
    uint64_t hash = NO_BYTES;
    for (int i = 0; i < 2 * COUNT(cases) && !IS_MISSING(dut, experts); i++) {
        const expert_case *c = &cases[i / 2];
        bool sums = i % 2 == 1;
        expert_data data = make_data(&r, c);
        int32_t choices = c->rows * c->n_active, rows = sums ? choices : c->rows;
        int64_t n_y = (int64_t)(sums ? c->rows : choices) * c->n;
        float *got = floats(n_y), *products = floats((int64_t)c->n_experts * rows * c->n);
        lx_rows which = i % 4 < 2 ? LX_ROWS_TOKENS : LX_ROWS_OUTPUTS;
        if (!run_experts(dut, c, &data, sums, which, 0, c->rows, got) ||
            !run_products(dut, c, data.w, data.x, rows, products))
            return false;
        bool in_double = sums && !dut->is_cpu; /* see oracle_adds_products */
        CHECK(in_double || (sums ? are_sums : are_products)(c, &data, got, products), "case %d", i);
        CHECK(check_alone(dut, c, &data, sums, got), "case %d", i);
        hash = hash_bytes(hash, got, (size_t)n_y * sizeof *got);
        dev_release(dut);
    }
    return IS_MISSING(dut, experts) || agrees(dut, &seen, hash);
}

/* The oracle's own text of the equation, next to its products. */
static bool oracle_adds_products(device *dut, device *oracle)
{
    (void)dut;
    rng r = {83};
    for (int i = 0; i < COUNT(cases); i++) {
        const expert_case *c = &cases[i];
        expert_data data = make_data(&r, c);
        int32_t choices = c->rows * c->n_active;
        float *got = floats((int64_t)c->rows * c->n);
        float *products = floats((int64_t)c->n_experts * choices * c->n);
        if (!run_experts(oracle, c, &data, true, LX_ROWS_TOKENS, 0, c->rows, got) ||
            !run_products(oracle, c, data.w, data.x, choices, products))
            return false;
        for (int64_t k = 0; k < (int64_t)c->rows * c->n; k++) {
            const float *choice = data.choice + 2 * (k / c->n) * c->n_active;
            double want = (double)data.residual[k], size = fabs(want);
            for (int64_t j = 0; j < c->n_active; j++) {
                int64_t at = (int64_t)choice[j] * choices + k / c->n * c->n_active + j;
                double part =
                    (double)choice[c->n_active + j] * (double)products[at * c->n + k % c->n];
                want += part;
                size += fabs(part);
            }
            CHECK(fabs((double)got[k] - want) <= 1e-6 * size, "case %d: %g, not %g", i,
                  (double)got[k], want);
        }
        dev_release(oracle);
    }
    return true;
}

/* --- wrong arguments --- */

static bool is_refused(device *d, void (*queue)(lx_backend *, const lx_experts_args *),
                       const lx_experts_args *args, const char *word)
{
    lx_error err = {0};
    uint64_t step = 0;
    CHECK_OK(d->k->begin(d->be, single_rows(2), NULL));
    queue(d->be, args);
    lx_status st = d->k->end(d->be, &step, &err);
    CHECK(st == LX_ERR_INVALID && strstr(err.text, word) != NULL, "%s is not in \"%s\"", word,
          err.text);
    return true;
}

static bool broken_experts_are_refused(device *dut, device *oracle)
{
    (void)oracle;
    if (IS_MISSING(dut, experts))
        return true;
    const expert_case c = {4, 2, 24, 16, 2};
    rng r = {84};
    expert_data data = make_data(&r, &c);
    const lx_experts_args good = {.y = dev_array(dut, NULL, 96),
                                  .x = dev_array(dut, data.x, 64),
                                  .choice = dev_array(dut, data.choice, 8),
                                  .w = all_experts(dut, &c, data.w),
                                  .n_experts = 4,
                                  .n_active = 2,
                                  .n = 24};
    struct {
        lx_experts_args args;
        const char *word;
    } bad[] = {{good, "4096"},   {good, "active"}, {good, "rows"},  {good, "inputs"},
               {good, "inputs"}, {good, "sums"},   {good, "choice"}};
    bad[0].args.n_experts = 0;
    bad[1].args.n_active = 5;
    bad[2].args.n = 33;
    bad[3].args.x = good.y;
    bad[4].args.choice = good.y;
    bad[5].args.residual = good.y;
    bad[6].args.choice = NULL;
    for (int i = 0; i < COUNT(bad); i++) {
        if (!is_refused(dut, dut->k->experts, &bad[i].args, bad[i].word))
            return false;
    }
    return true;
}

const test experts_tests[] = {
    {"routes_match_oracle", routes_match_oracle},
    {"equal_routes_choose_the_first", equal_routes_choose_the_first},
    {"experts_are_products", experts_are_products},
    {"oracle_adds_products", oracle_adds_products},
    {"broken_experts_are_refused", broken_experts_are_refused},
    {NULL, NULL},
};
