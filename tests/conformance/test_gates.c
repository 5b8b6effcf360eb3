/*
 * `gate` and `head_norm` against the oracle: every function and norm, columns of wider rows, y in
 * place of x. A row has nothing to do with others, and every cpu gives the same bytes.
 *
 * The error of a gated element is measured by the sum of its absolute terms, times one more than
 * the argument of exp, which multiplies that argument's relative error. A norm's error is measured
 * by the largest |x| of its head over the length that divides it.
 */
#include <math.h>
#include <string.h>

#include "conformance.h"
#include "support.h"

#define GATE_BOUND 1e-6 /* docs/numerics.md */
#define NORM_BOUND 2e-6
#define ULP_BOUND 4.0
#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double function(lx_function f, double x)
{
    const double of[LX_FUNCTIONS] = {
        [LX_FN_IDENTITY] = x,
        [LX_FN_SIGMOID] = 1 / (1 + exp(-x)),
        [LX_FN_SILU] = x / (1 + exp(-x)),
        [LX_FN_TANH] = tanh(x),
        [LX_FN_SOFTPLUS] = softplus(x),
        [LX_FN_LOG_SIGMOID] = -softplus(-x),
        [LX_FN_RELU2] = x > 0 ? x * x : 0,
        [LX_FN_EXP] = exp(x),
    };
    return of[f];
}

/* --- the functions --- */

static bool check_function(device *d, lx_function f, const float *x, int32_t n)
{
    lx_array *y = dev_array(d, NULL, n);
    lx_gate_args a = {.y = y, .x = {dev_array(d, x, n), n, 0}, .d = n, .f = f};
    float *got = floats(n);
    CHECK_OK(d->k->begin(d->be, single_rows(1), NULL));
    d->k->gate(d->be, &a);
    if (!dev_finish(d) || !dev_read(d, y, got, n))
        return false;
    for (int32_t i = 0; i < n; i++) {
        double want = function(f, (double)x[i]);
        double unit = want == 0 ? 0x1p-149 : fmax(ldexp(1.0, ilogb(want) - 23), 0x1p-149);
        double error = fabs((double)got[i] - want) / unit;
        CHECK(error <= ULP_BOUND, "function %d of %.9g is wrong by %.2f units in the last place", f,
              (double)x[i], error);
    }
    return true;
}

static bool gate_functions_are_accurate(device *dut, device *oracle)
{
    (void)oracle;
    enum { N = 40001 };
    float *x = floats(N);
    for (int i = 0; i < N; i++) /* the middle is the densest */
        x[i] = 80.0f * powf((float)(2 * i - (N - 1)) / (N - 1), 3);
    for (int f = 0; f < LX_FUNCTIONS; f++) {
        if (!check_function(dut, (lx_function)f, x, N))
            return false;
        dev_release(dut);
    }
    return true;
}

static bool gate_of_extremes_is_what_it_tends_to(device *dut, device *oracle)
{
    (void)oracle;
    static const float x[] = {-3e38f, -200.0f, 200.0f, 3e38f, NAN};
    static const struct {
        lx_function f;
        float is[4];
    } of[] = {{LX_FN_SIGMOID, {0, 0, 1, 1}},
              {LX_FN_TANH, {-1, -1, 1, 1}},
              {LX_FN_SOFTPLUS, {0, 0, 200, 3e38f}},
              {LX_FN_LOG_SIGMOID, {-3e38f, -200, 0, 0}},
              {LX_FN_SILU, {0, 0, 200, 3e38f}}};
    for (int i = 0; i < COUNT(of); i++) {
        lx_array *y = dev_array(dut, NULL, 5);
        lx_gate_args a = {.y = y, .x = {dev_array(dut, x, 5), 5, 0}, .d = 5, .f = of[i].f};
        float got[5];
        CHECK_OK(dut->k->begin(dut->be, single_rows(1), NULL));
        dut->k->gate(dut->be, &a);
        if (!dev_finish(dut) || !dev_read(dut, y, got, 5))
            return false;
        for (int k = 0; k < 4; k++)
            CHECK(fabsf(got[k] - of[i].is[k]) <= 1e-36f, "function %d of %g is %g", of[i].f,
                  (double)x[k], (double)got[k]);
        CHECK(isnan(got[4]), "function %d of NaN is %g", of[i].f, (double)got[4]);
        dev_release(dut);
    }
    return true;
}

/* --- gate --- */

#define UNTOUCHED 1234.5f

typedef struct gate_case {
    lx_gate_args a; /* without arrays */
    int32_t rows;
    bool in_place;
    float *in[3], *parameter[3]; /* x, z, other; bias, factor, offset, or NULL */
} gate_case;

static gate_case make_gate(rng *r, int32_t rows, int32_t d, int i)
{
    gate_case c = {.rows = rows, .in_place = i % 5 == 4};
    lx_columns *const of[] = {&c.a.x, &c.a.z, &c.a.other};
    c.a.d = d;
    if (!c.in_place && random_below(r, 2) == 0) {
        c.a.y_first = (int32_t)random_below(r, 7);
        c.a.y_width = c.a.y_first + d + (int32_t)random_below(r, 7);
    }
    c.a.f = (lx_function)(i % LX_FUNCTIONS);
    c.a.exponent = random_below(r, 2) == 0;
    c.a.weighing = (lx_weighing)random_below(r, 4);
    c.a.rows = random_below(r, 2) == 0 ? LX_ROWS_TOKENS : LX_ROWS_OUTPUTS;
    for (int k = 0; k < 3; k++) {
        bool narrow = k == 0 && c.in_place;
        of[k]->first = narrow ? 0 : (int32_t)random_below(r, 7);
        of[k]->width = of[k]->first + d + (narrow ? 0 : (int32_t)random_below(r, 7));
        c.in[k] = floats((int64_t)rows * of[k]->width);
        for (int64_t e = 0; e < (int64_t)rows * of[k]->width; e++)
            c.in[k][e] = random_between(r, -6.0f, 4.0f);
        c.parameter[k] = random_below(r, 3) == 0 ? NULL : random_floats(r, d, UNIFORM, 0, 0);
    }
    return c;
}

/* y [rows, d]. Columns next to the written ones must stay unchanged. */
static bool run_gate(device *d, const gate_case *c, float *y)
{
    lx_gate_args a = c->a;
    lx_batch *b = step_of(a.rows, c->rows);
    int64_t n = c->rows;
    const lx_columns out = lx_gate_output(&a);
    float *all = floats(n * out.width);
    for (int64_t i = 0; i < n * out.width; i++)
        all[i] = UNTOUCHED;
    a.x.array = dev_array(d, c->in[0], n * a.x.width);
    a.z.array = dev_array(d, c->in[1], n * a.z.width);
    a.other.array = dev_array(d, c->in[2], n * a.other.width);
    a.y = c->in_place ? (lx_array *)a.x.array : dev_array(d, all, n * out.width);
    const lx_array **const of[] = {&a.bias, &a.factor, &a.offset};
    for (int k = 0; k < 3; k++)
        *of[k] = c->parameter[k] != NULL ? dev_array(d, c->parameter[k], a.d) : NULL;
    CHECK_OK(d->k->begin(d->be, b, NULL));
    d->k->gate(d->be, &a);
    if (!dev_finish(d) || !dev_read(d, a.y, all, n * out.width))
        return false;
    for (int64_t i = 0; i < n * out.width; i++) {
        int64_t column = i % out.width - out.first;
        if (column >= 0 && column < a.d)
            y[i / out.width * a.d + column] = all[i];
        else
            CHECK(all[i] == UNTOUCHED, "column %d of y has become %g", (int)(i % out.width),
                  (double)all[i]);
    }
    return true;
}

static double parameter(const gate_case *c, int k, int32_t i, double missing)
{
    return c->parameter[k] != NULL ? (double)c->parameter[k][i] : missing;
}

static double gate_scale(const gate_case *c, int64_t row, int32_t i)
{
    const lx_gate_args *a = &c->a;
    double x = (double)c->in[0][row * a->x.width + a->x.first + i] + parameter(c, 0, i, 0);
    double z = (double)c->in[1][row * a->z.width + a->z.first + i];
    double other = (double)c->in[2][row * a->other.width + a->other.first + i];
    double f = parameter(c, 1, i, 1) * function(a->f, x), offset = parameter(c, 2, i, 0);
    double scale = fabs(f) * (1 + fabs(x)) + fabs(offset);
    if (a->exponent)
        scale = exp(fmin(offset + f, 80)) * (1 + scale) + 0x1p-126; /* or digits are lost */
    if (a->weighing == LX_WEIGH_TIMES)
        return scale * fabs(z);
    if (a->weighing == LX_WEIGH_PLUS)
        return fabs(z) + scale * fabs(other);
    return a->weighing == LX_WEIGH_TOWARDS ? fabs(z) + scale * (fabs(z) + fabs(other)) : scale;
}

static const int32_t gate_shapes[][2] = {{1, 1}, {3, 7}, {5, 64}, {2, 100}, {40, 33}, {1, 768}};

static bool gate_matches_oracle(device *dut, device *oracle)
{
    static agreement exact;
    device as_exact = {.is_cpu = dut->is_cpu, .label = dut->label};
    uint64_t hash = NO_BYTES;
    rng r = {301};
    for (int i = 0; i < 8 * LX_FUNCTIONS * COUNT(gate_shapes); i++) {
        const int32_t *s = gate_shapes[i / LX_FUNCTIONS % COUNT(gate_shapes)];
        gate_case c = make_gate(&r, s[0], s[1], i);
        int64_t n = (int64_t)s[0] * s[1];
        float *got = floats(n), *want = floats(n);
        double *scale = take((size_t)n * sizeof *scale);
        if (!run_gate(dut, &c, got) || !run_gate(oracle, &c, want))
            return false;
        for (int64_t k = 0; k < n; k++)
            scale[k] = gate_scale(&c, k / s[1], (int32_t)(k % s[1]));
        double error = worst_error(got, want, scale, n);
        CHECK(error <= GATE_BOUND, "function %d, %d rows of %d: error %.3g", c.a.f, s[0], s[1],
              error);
        hash = hash_bytes(hash, got, (size_t)n * sizeof *got);
        dev_release(dut);
        dev_release(oracle);
        arena_reset();
    }
    return agrees(&as_exact, &exact, hash);
}

/* --- norms --- */

typedef struct norm_case {
    lx_head_norm_args a; /* without arrays */
    int32_t rows;
    bool in_place, has_gate, has_gamma, has_beta;
    float *x, *gate, *gamma, *beta;
} norm_case;

static norm_case make_norm(rng *r, int32_t rows, int32_t heads, int32_t d, int i)
{
    norm_case c = {.rows = rows, .in_place = i % 3 == 2};
    c.a = (lx_head_norm_args){.n_heads = heads,
                              .d = d,
                              .kind = (lx_norm_kind)(i % 4),
                              .f = random_below(r, 2) == 0 ? LX_FN_SILU : LX_FN_SIGMOID,
                              .gate_first = random_below(r, 2) == 0,
                              .eps = i % 4 == LX_NORM_LENGTH ? 1e-12f : 1e-5f,
                              .rows = i % 5 < 2 ? LX_ROWS_OUTPUTS : LX_ROWS_TOKENS};
    int64_t n = (int64_t)heads * d;
    c.has_gate = random_below(r, 2) == 0;
    c.has_gamma = random_below(r, 2) == 0;
    c.has_beta = random_below(r, 2) == 0;
    c.a.x.first = (int32_t)random_below(r, 5);
    c.a.x.width = c.a.x.first + (int32_t)n + (int32_t)random_below(r, 5);
    c.a.gate.first = (int32_t)random_below(r, 5);
    c.a.gate.width = c.a.gate.first + (int32_t)n + (int32_t)random_below(r, 5);
    c.x = random_floats(r, rows * (int64_t)c.a.x.width, (pattern)(i / 4 % 2), 3, 4);
    c.gate = random_floats(r, rows * (int64_t)c.a.gate.width, UNIFORM, 0, 0);
    c.gamma = random_floats(r, n, UNIFORM, 0, 0);
    c.beta = random_floats(r, n, UNIFORM, 0, 0);
    return c;
}

/* y: the rows of the array that is written, all their columns. */
static int32_t norm_width(const norm_case *c)
{
    return c->in_place ? c->a.x.width : c->a.n_heads * c->a.d;
}

static bool run_norm(device *d, const norm_case *c, float *y)
{
    lx_head_norm_args a = c->a;
    int64_t rows = c->rows, n = (int64_t)a.n_heads * a.d;
    a.x.array = dev_array(d, c->x, rows * a.x.width);
    a.y = c->in_place ? (lx_array *)a.x.array : dev_array(d, NULL, rows * n);
    a.gate.array = c->has_gate ? dev_array(d, c->gate, rows * a.gate.width) : NULL;
    a.gamma = c->has_gamma ? dev_array(d, c->gamma, n) : NULL;
    a.beta = c->has_beta ? dev_array(d, c->beta, n) : NULL;
    CHECK_OK(d->k->begin(d->be, step_of(a.rows, c->rows), NULL));
    d->k->head_norm(d->be, &a);
    return dev_finish(d) && dev_read(d, a.y, y, rows * norm_width(c));
}

/* Of the elements of a head, 0 elsewhere: there nothing may change. */
static void norm_scales(const norm_case *c, int64_t row, int32_t head, double *scale)
{
    const lx_head_norm_args *a = &c->a;
    int64_t at = (int64_t)head * a->d, first = c->in_place ? a->x.first : 0;
    const float *x = c->x + row * a->x.width + a->x.first + at;
    const float *gate = c->gate + row * a->gate.width + a->gate.first + at;
    double sum = 0, squares = 0, largest = 0;
    for (int32_t i = 0; i < a->d; i++) {
        double f = c->has_gate && a->gate_first ? function(a->f, (double)gate[i]) : 1;
        double u = (double)x[i] * f;
        sum += u;
        squares += u * u;
        largest = fmax(largest, fabs(u));
    }
    if (a->kind == LX_NORM_GROUP)
        squares = fmax(squares - sum * sum / a->d, 0);
    if (a->kind == LX_NORM_RMS || a->kind == LX_NORM_GROUP)
        squares /= a->d;
    double length = sqrt(squares + (a->kind == LX_NORM_LENGTH ? 0 : (double)a->eps));
    for (int32_t i = 0; i < a->d; i++) {
        double after = c->has_gate && !a->gate_first ? fabs(function(a->f, (double)gate[i])) : 1;
        double gamma = c->has_gamma ? fabs((double)c->gamma[at + i]) : 1;
        double beta = c->has_beta ? fabs((double)c->beta[at + i]) : 0;
        scale[row * norm_width(c) + first + at + i] = (largest / length * gamma + beta) * after;
    }
}

static const int32_t norm_shapes[][3] = {/* rows, heads, d */
                                         {1, 1, 2},   {3, 4, 16}, {5, 3, 7},
                                         {2, 12, 64}, {9, 2, 33}, {1, 1, 768}};

static bool head_norm_matches_oracle(device *dut, device *oracle)
{
    static agreement exact;
    device as_exact = {.is_cpu = dut->is_cpu, .label = dut->label};
    uint64_t hash = NO_BYTES;
    rng r = {302};
    for (int i = 0; i < 48 * COUNT(norm_shapes); i++) {
        const int32_t *s = norm_shapes[i / 48];
        norm_case c = make_norm(&r, s[0], s[1], s[2], i);
        int64_t n = (int64_t)s[0] * norm_width(&c);
        float *got = floats(n), *want = floats(n);
        double *scale = take((size_t)n * sizeof *scale);
        if (!run_norm(dut, &c, got) || !run_norm(oracle, &c, want))
            return false;
        for (int64_t k = 0; k < (int64_t)s[0] * s[1]; k++)
            norm_scales(&c, k / s[1], (int32_t)(k % s[1]), scale);
        double error = worst_error(got, want, scale, n);
        CHECK(error <= NORM_BOUND, "norm %d, %d heads of %d: error %.3g", c.a.kind, s[1], s[2],
              error);
        for (int64_t k = 0; k < n && c.in_place; k++)
            CHECK(scale[k] > 0 || got[k] == c.x[k], "column %lld was written",
                  (long long)(k % norm_width(&c)));
        hash = hash_bytes(hash, got, (size_t)n * sizeof *got);
        dev_release(dut);
        dev_release(oracle);
        arena_reset();
    }
    return agrees(&as_exact, &exact, hash);
}

/* A norm whose gate lies where the next product writes: threads must keep the order. */
static bool norm_is_done_before_its_gate_is_overwritten(device *dut, device *oracle)
{
    enum { D = 512 };
    device *both[] = {dut, oracle};
    rng r = {303};
    float *x = random_floats(&r, D, UNIFORM, 0, 0), *gate = random_floats(&r, D, UNIFORM, 0, 0);
    float *w = random_floats(&r, (int64_t)D * D, UNIFORM, 0, 0), got[2][D];
    double scale[D];
    lx_host_tensor t = tensor_of(w, D, D, LX_F32);
    for (int i = 0; i < 2; i++) {
        device *d = both[i];
        lx_array *z = dev_array(d, gate, D), *y = dev_array(d, NULL, D);
        lx_head_norm_args norm = {.y = y,
                                  .x = {dev_array(d, x, D), D, 0},
                                  .gate = {z, D, 0},
                                  .n_heads = 1,
                                  .d = D,
                                  .f = LX_FN_SILU,
                                  .eps = 1e-5f};
        lx_linear_args product = {.y = z, .x = y, .w = dev_matrix(d, &t, NULL)};
        CHECK_OK(d->k->begin(d->be, single_rows(1), NULL));
        d->k->head_norm(d->be, &norm);
        d->k->linear(d->be, &product);
        if (!dev_finish(d) || !dev_read(d, z, got[i], D))
            return false;
    }
    for (int i = 0; i < D; i++)
        scale[i] = D;
    double error = worst_error(got[0], got[1], scale, D);
    CHECK(error <= (dut->int8 ? 1e-2 : 1e-4), "error %.3g", error);
    return true;
}

/* --- arguments --- */

static bool gates_refuse_bad_arguments(device *dut, device *oracle)
{
    (void)oracle;
    for (int which = 0; which < 6; which++) {
        lx_array *x = dev_array(dut, NULL, 24), *y = dev_array(dut, NULL, 16);
        lx_gate_args gate = {.y = y, .x = {x, 12, 4}, .d = 8};
        lx_head_norm_args norm = {.y = y, .x = {x, 12, 4}, .n_heads = 2, .d = 4};
        lx_error err = {0};
        uint64_t step = 0;
        CHECK_OK(dut->k->begin(dut->be, single_rows(2), NULL));
        if (which == 0)
            gate.x.first = 5;
        else if (which == 1)
            gate.y = x;
        else if (which == 2)
            gate.weighing = LX_WEIGH_TIMES;
        else if (which == 3)
            gate.y_first = 1;
        else if (which == 4)
            norm.d = 5;
        else
            norm.gate = (lx_columns){y, 8, 0};
        if (which < 4)
            dut->k->gate(dut->be, &gate);
        else
            dut->k->head_norm(dut->be, &norm);
        CHECK(dut->k->end(dut->be, &step, &err) == LX_ERR_INVALID, "mistake %d was taken", which);
        CHECK(strncmp(err.text, which < 4 ? "gate: " : "head_norm: ", 6) == 0, "mistake %d: %s",
              which, err.text);
        dev_release(dut);
    }
    return true;
}

const test gate_tests[] = {
    {"gate_functions_are_accurate", gate_functions_are_accurate},
    {"gate_of_extremes_is_what_it_tends_to", gate_of_extremes_is_what_it_tends_to},
    {"gate_matches_oracle", gate_matches_oracle},
    {"head_norm_matches_oracle", head_norm_matches_oracle},
    {"norm_is_done_before_its_gate_is_overwritten", norm_is_done_before_its_gate_is_overwritten},
    {"gates_refuse_bad_arguments", gates_refuse_bad_arguments},
    {NULL, NULL},
};
