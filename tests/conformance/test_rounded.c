/*
 * Values between operations. A back end may keep one that products alone read as they read it,
 * rounded: in arrays of rows_new, which hold nothing when the step is over. For any reader, and any
 * writes before and after, results equal those of arrays that keep all values.
 */
#include <stddef.h>

#include "conformance.h"

enum { MOST_ROWS = 9, RESULTS = 3, RING = 16 };

typedef struct rig {
    device *d;
    int32_t heads, dim, width; /* width = heads x dim */
    lx_array *in, *row;        /* [rows, 3 width], [rows, width] */
    lx_array *gamma;           /* [4 width], of any parameter */
    lx_array *mid, *hidden;    /* results that are compared: [rows, width], [rows, 2 width] */
    lx_array *out[RESULTS];    /* [rows, width] */
    lx_matrix *square, *other, *up, *down;
    lx_states *states;
} rig;

static void product(const rig *r, const lx_array *x, int which)
{
    const lx_linear_args a = {
        .y = r->out[which], .x = x, .w = which == 0 ? r->square : r->other, .rows = LX_ROWS_TOKENS};
    r->d->k->linear(r->d->be, &a);
}

static void norm_to(const rig *r, lx_array *y, const lx_array *x, lx_rows rows)
{
    const lx_norm_args a = {y, x, r->gamma, r->gamma, r->width, 1e-5f, rows};
    r->d->k->norm(r->d->be, &a);
}

static lx_columns columns(const rig *r, int32_t third)
{
    return (lx_columns){r->in, 3 * r->width, third * r->width};
}

/* mid = sigmoid of a third of the inputs, all columns or the first half of them */
static void gate_to_mid(const rig *r, bool half)
{
    const lx_gate_args a = {.y = r->mid,
                            .y_width = r->width,
                            .x = columns(r, 2),
                            .d = half ? r->width / 2 : r->width,
                            .f = LX_FN_SIGMOID,
                            .rows = LX_ROWS_TOKENS};
    r->d->k->gate(r->d->be, &a);
}

/* --- writers --- */

static void norms(const rig *r)
{
    norm_to(r, r->mid, r->row, LX_ROWS_TOKENS);
}

static void attends(const rig *r)
{
    const lx_attend_linear_args a = {.y = r->mid,
                                     .qkv = r->in,
                                     .states = r->states,
                                     .n_heads = r->heads,
                                     .d_key = r->dim,
                                     .d_value = r->dim,
                                     .feature_map = LX_PHI_ELU1,
                                     .eps = 1e-6f};
    r->d->k->attend_linear(r->d->be, &a);
}

static void attends_to_rows(const rig *r)
{
    static const lx_rows_pattern near = {.kind = LX_PATTERN_WINDOW, .window = 4, .dilation = 1};
    const lx_attend_rows_args a = {.y = r->mid,
                                   .qkv = r->in,
                                   .states = r->states,
                                   .ring = RING,
                                   .n_heads = r->heads,
                                   .d_key = r->dim,
                                   .d_value = r->dim,
                                   .scale = 0.25f,
                                   .patterns = &near,
                                   .n_patterns = 1};
    r->d->k->attend_rows(r->d->be, &a);
}

static lx_head_columns heads_of(const rig *r, int32_t third)
{
    return (lx_head_columns){r->in, 3 * r->width, third * r->width, r->dim, 1};
}

static void recurs(const rig *r)
{
    const lx_recurrence_args a = {.y = r->mid,
                                  .q = heads_of(r, 0),
                                  .k = heads_of(r, 1),
                                  .v = heads_of(r, 2),
                                  .states = r->states,
                                  .n_heads = r->heads,
                                  .d_key = r->dim,
                                  .d_value = r->dim,
                                  .scale = 0.25f};
    r->d->k->recurrence(r->d->be, &a);
}

static void norms_heads(const rig *r)
{
    const lx_head_norm_args a = {.y = r->mid,
                                 .x = columns(r, 1),
                                 .n_heads = r->heads,
                                 .d = r->dim,
                                 .kind = LX_NORM_GROUP,
                                 .eps = 1e-5f,
                                 .rows = LX_ROWS_TOKENS};
    r->d->k->head_norm(r->d->be, &a);
}

static void gates(const rig *r)
{
    gate_to_mid(r, false);
}

static void adds_bonus(const rig *r)
{
    const lx_bonus_args a = {.y = r->mid,
                             .x = columns(r, 0),
                             .q = columns(r, 1),
                             .k = columns(r, 2),
                             .v = columns(r, 1),
                             .u = r->gamma,
                             .n_heads = r->heads,
                             .d_key = r->dim,
                             .d_value = r->dim};
    r->d->k->bonus(r->d->be, &a);
}

static void convolves(const rig *r)
{
    const lx_short_conv_args a = {.y = r->mid,
                                  .x = columns(r, 2),
                                  .weights = r->gamma,
                                  .states = r->states,
                                  .d = r->width,
                                  .taps = 4,
                                  .f = LX_FN_SILU};
    r->d->k->short_conv(r->d->be, &a);
}

static void scans(const rig *r)
{
    const lx_selective_scan_args a = {.y = r->mid,
                                      .x = columns(r, 0),
                                      .t = columns(r, 1),
                                      .b = columns(r, 2),
                                      .c = columns(r, 1),
                                      .a = r->gamma,
                                      .skip = r->gamma,
                                      .states = r->states,
                                      .d = r->width,
                                      .d_key = 4};
    r->d->k->selective_scan(r->d->be, &a);
}

/* The residual is not where a product writes rounded values. */
static void activates(const rig *r)
{
    const lx_linear_args up = {r->hidden, r->row, r->up, LX_ACT_GELU, NULL, LX_ROWS_TOKENS};
    const lx_linear_args down = {r->mid, r->hidden, r->down, LX_ACT_RELU, r->row, LX_ROWS_TOKENS};
    r->d->k->linear(r->d->be, &up);
    r->d->k->linear(r->d->be, &down);
}

static void (*const writers[])(const rig *r) = {norms, attends,     attends_to_rows, recurs,
                                                gates, norms_heads, adds_bonus,      convolves,
                                                scans, activates};

/* --- readers, and further writers --- */

static void one(const rig *r)
{
    product(r, r->mid, 0);
}

static void two(const rig *r)
{
    product(r, r->mid, 0);
    product(r, r->mid, 1);
}

/* Something that does not round. */
static void another_after(const rig *r)
{
    product(r, r->mid, 0);
    norm_to(r, r->out[2], r->mid, LX_ROWS_TOKENS);
}

static void another_between(const rig *r)
{
    norm_to(r, r->out[2], r->mid, LX_ROWS_TOKENS);
    product(r, r->mid, 0);
}

static void residual(const rig *r)
{
    const lx_linear_args a = {r->out[0], r->row, r->square, LX_ACT_NONE, r->mid, LX_ROWS_TOKENS};
    product(r, r->mid, 1);
    r->d->k->linear(r->d->be, &a);
}

static void residual_and_input(const rig *r)
{
    const lx_linear_args a = {r->out[0], r->mid, r->square, LX_ACT_RELU, r->mid, LX_ROWS_TOKENS};
    r->d->k->linear(r->d->be, &a);
}

/* The next value. */
static void rewritten(const rig *r)
{
    product(r, r->mid, 0);
    norm_to(r, r->mid, r->row, LX_ROWS_TOKENS);
    product(r, r->mid, 1);
    norm_to(r, r->out[2], r->mid, LX_ROWS_TOKENS);
}

/* The other half is still that of before. */
static void rewritten_in_part(const rig *r)
{
    product(r, r->mid, 0);
    gate_to_mid(r, true);
    product(r, r->mid, 1);
    norm_to(r, r->out[2], r->mid, LX_ROWS_TOKENS);
}

/* So are the rows that are no outputs. */
static void rewritten_rows(const rig *r)
{
    product(r, r->mid, 0);
    norm_to(r, r->mid, r->row, LX_ROWS_OUTPUTS);
    product(r, r->mid, 1);
    norm_to(r, r->out[2], r->mid, LX_ROWS_TOKENS);
}

static void in_place(const rig *r)
{
    product(r, r->mid, 0);
    norm_to(r, r->mid, r->mid, LX_ROWS_TOKENS);
    product(r, r->mid, 1);
}

static void (*const readers[])(const rig *r) = {one,
                                                two,
                                                another_after,
                                                another_between,
                                                residual,
                                                residual_and_input,
                                                rewritten,
                                                rewritten_in_part,
                                                rewritten_rows,
                                                in_place};

/* --- both --- */

static lx_array *values(device *d, rng *r, int64_t n)
{
    return dev_array(d, random_floats(r, n, UNIFORM, 1, 1), n);
}

static lx_matrix *matrix(device *d, rng *r, int64_t rows, int64_t cols)
{
    lx_host_tensor t = tensor_of(random_floats(r, rows * cols, UNIFORM, 1, 1), rows, cols, LX_BF16);
    return dev_matrix(d, &t, random_floats(r, rows, UNIFORM, 1, 1));
}

/* `kept`: the values between are in arrays that keep them. */
static rig make_rig(device *d, int32_t heads, int32_t dim, int32_t rows, bool kept)
{
    rng r = {71};
    rig g = {.d = d, .heads = heads, .dim = dim, .width = heads * dim};
    int64_t w = g.width, n_state = 2 * RING * w + (int64_t)heads * dim * (dim + 1);
    g.in = values(d, &r, rows * 3 * w);
    g.row = values(d, &r, rows * w);
    g.gamma = values(d, &r, 4 * w);
    g.mid = kept ? dev_array(d, NULL, rows * w) : dev_rows(d, rows, w);
    g.hidden = kept ? dev_array(d, NULL, rows * 2 * w) : dev_rows(d, rows, 2 * w);
    for (int i = 0; i < RESULTS; i++)
        g.out[i] = dev_array(d, floats(rows * w), rows * w);
    g.square = matrix(d, &r, w, w);
    g.other = matrix(d, &r, w, w);
    g.up = matrix(d, &r, 2 * w, w);
    g.down = matrix(d, &r, w, 2 * w);
    g.states = dev_states(d, n_state, MOST_ROWS);
    return g;
}

/* Two steps, so that the second meets the remains of the first. */
static bool run(const rig *g, const lx_batch *b, void (*write)(const rig *r),
                void (*read)(const rig *r), float *results)
{
    int64_t n = (int64_t)b->n_tokens * g->width;
    for (int step = 0; step < 2; step++) {
        CHECK_OK(g->d->k->begin(g->d->be, b, NULL));
        write(g);
        read(g);
        if (!dev_finish(g->d))
            return false;
    }
    for (int i = 0; i < RESULTS; i++) {
        if (!dev_read(g->d, g->out[i], results + i * n, n))
            return false;
    }
    return true;
}

static bool check_pair(device *dut, size_t writer, size_t reader, int32_t heads, int32_t dim,
                       bool single)
{
    static const int32_t lengths[] = {3, 1, 5}, positions[MOST_ROWS] = {0};
    lx_batch *b = single ? single_rows(5) : ragged_batch(3, lengths, NULL);
    b->position = positions;
    if (!single) {
        static const int32_t last[] = {2, 3, 8};
        b->n_outputs = 3;
        b->output_row = last;
    }
    int64_t n = (int64_t)RESULTS * b->n_tokens * heads * dim;
    float *want = floats(n), *got = floats(n);
    for (int kept = 0; kept < 2; kept++) {
        rig g = make_rig(dut, heads, dim, b->n_tokens, kept == 1);
        if (!run(&g, b, writers[writer], readers[reader], kept ? want : got))
            return false;
        dev_release(dut);
    }
    CHECK(same_bytes(got, want, n), "writer %zu, reader %zu, %d heads of %d: other bytes", writer,
          reader, heads, dim);
    return true;
}

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* Of every reader with some writers: heads that the small kernels have, others, and a width that no
   product takes rounded; single rows, and several of a sequence. */
static bool values_of_a_step_may_be_rounded(device *dut, device *oracle)
{
    static const int32_t sizes[][2] = {{2, 16}, {5, 8}, {3, 12}};
    (void)oracle;
    for (size_t i = 0; i < COUNT(writers) * COUNT(readers); i++) {
        const int32_t *size = sizes[i % COUNT(sizes)];
        if (!check_pair(dut, i / COUNT(readers), i % COUNT(readers), size[0], size[1],
                        i / COUNT(readers) % 2 == 0))
            return false;
    }
    return true;
}

const test rounded_tests[] = {
    {"values_of_a_step_may_be_rounded", values_of_a_step_may_be_rounded},
    {NULL, NULL},
};
