/*
 * `recurrence` compared with the reference functions of flash-linear-attention;
 * tests/golden/operators has their inputs and outputs (operators.py there makes them).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance.h"

enum { MOST_TOKENS = 64, MOST = 16 };
#define BOUND 1e-5

typedef struct fla_operator {
    const char *name;
    lx_decay decay;
    lx_correction correction;
    lx_read read;
} fla_operator;

static const fla_operator operators[] = {
    {.name = "simple_gla", .decay = LX_DECAY_HEAD},
    {.name = "gla", .decay = LX_DECAY_CHANNEL},
    {.name = "delta_rule", .correction = LX_CORRECT_DELTA},
    {.name = "gated_delta_rule", .decay = LX_DECAY_HEAD, .correction = LX_CORRECT_DELTA},
    {.name = "kda", .decay = LX_DECAY_CHANNEL, .correction = LX_CORRECT_DELTA},
    {.name = "dplr", .decay = LX_DECAY_CHANNEL, .correction = LX_CORRECT_PAIR},
    {.name = "rwkv6", .decay = LX_DECAY_CHANNEL, .read = LX_READ_BEFORE},
};

/* An array of a file: `width` numbers per row; 0 where the kind has no such array. */
typedef struct array {
    float values[MOST_TOKENS * MOST];
    int width;
} array;

typedef struct golden {
    int tokens, d_key, d_value;
    array q, k, v, w, a, b, beta, u, y;
} golden;

static bool read_rows(FILE *f, int rows, int width, array *out)
{
    out->width = width;
    for (int i = 0; i < rows * width; i++) {
        if (fscanf(f, "%f", &out->values[i]) != 1)
            return false;
    }
    return rows * width == 0 || fgetc(f) == '\n';
}

/* One that may be missing: an empty line. */
static bool read_optional(FILE *f, bool is_there, int rows, int width, array *out)
{
    return is_there ? read_rows(f, rows, width, out) : fgetc(f) == '\n';
}

static bool read_golden(FILE *f, const fla_operator *o, golden *g)
{
    if (fscanf(f, "%d %d %d", &g->tokens, &g->d_key, &g->d_value) != 3 || fgetc(f) != '\n' ||
        g->tokens < 1 || g->tokens > MOST_TOKENS || g->d_key < 1 || g->d_key > MOST ||
        g->d_value < 1 || g->d_value > MOST)
        return false;
    bool decays = o->decay != LX_DECAY_NONE, pair = o->correction == LX_CORRECT_PAIR;
    int t = g->tokens, n = g->d_key;
    return read_rows(f, t, n, &g->q) && read_rows(f, t, n, &g->k) &&
           read_rows(f, t, g->d_value, &g->v) &&
           read_optional(f, decays, t, o->decay == LX_DECAY_HEAD ? 1 : n, &g->w) &&
           read_optional(f, pair, t, n, &g->a) && read_optional(f, pair, t, n, &g->b) &&
           read_optional(f, o->correction == LX_CORRECT_DELTA, t, 1, &g->beta) &&
           read_optional(f, o->read == LX_READ_BEFORE, 1, n, &g->u) &&
           read_rows(f, t, g->d_value, &g->y);
}

static lx_head_columns columns(device *d, const golden *g, const array *x)
{
    if (x->width == 0)
        return (lx_head_columns){0};
    return (lx_head_columns){dev_array(d, x->values, (int64_t)g->tokens * x->width), x->width, 0,
                             x->width, 1};
}

static bool run(device *d, const fla_operator *o, const golden *g, float *y)
{
    int32_t length = g->tokens;
    lx_array *out = dev_array(d, NULL, (int64_t)g->tokens * g->d_value);
    lx_recurrence_args a = {.y = out,
                            .q = columns(d, g, &g->q),
                            .k = columns(d, g, &g->k),
                            .v = columns(d, g, &g->v),
                            .w = columns(d, g, &g->w),
                            .a = columns(d, g, &g->a),
                            .b = columns(d, g, &g->b),
                            .beta = columns(d, g, &g->beta),
                            .states = dev_states(d, (int64_t)g->d_key * g->d_value, 1),
                            .n_heads = 1,
                            .d_key = g->d_key,
                            .d_value = g->d_value,
                            .decay = o->decay,
                            .correction = o->correction,
                            .read = o->read,
                            .scale = (float)(1 / sqrt(g->d_key))};
    if (g->u.width > 0)
        a.bonus = dev_array(d, g->u.values, g->d_key);
    CHECK_OK(d->k->begin(d->be, ragged_batch(1, &length, NULL), NULL));
    d->k->recurrence(d->be, &a);
    return dev_finish(d) && dev_read(d, out, y, (int64_t)g->tokens * g->d_value);
}

static bool check_operator(device *d, const fla_operator *o)
{
    char path[4096];
    golden *g = take(sizeof *g);
    float *y = floats((int64_t)MOST_TOKENS * MOST);
    (void)snprintf(path, sizeof path, OPERATORS "/%s.txt", o->name);
    FILE *f = fopen(path, "r");
    CHECK(f != NULL, "%s is missing", path);
    bool whole = read_golden(f, o, g) && fgetc(f) == EOF;
    (void)fclose(f);
    CHECK(whole, "%s is not what operators.py writes", path);
    if (!run(d, o, g, y))
        return false;
    for (int i = 0; i < g->tokens * g->d_value; i++) {
        double want = (double)g->y.values[i], is = (double)y[i];
        CHECK(fabs(is - want) <= BOUND * (1 + fabs(want)), "%s: token %d: %.9g, not %.9g", o->name,
              i / g->d_value, is, want);
    }
    return true;
}

static bool operators_equal_those_of_fla(device *dut, device *oracle)
{
    (void)oracle;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!check_operator(dut, &operators[i]))
            return false;
        dev_release(dut);
    }
    return true;
}

const test operator_tests[] = {
    {"operators_equal_those_of_fla", operators_equal_those_of_fla},
    {NULL, NULL},
};
