/*
 * Steps of different sizes: memory that a step leaves alone when a larger one ran before it, and
 * its results when a larger step starts before they are fetched. And rows that steps cut in
 * different ways.
 */
#include <string.h>

#include "conformance.h"
#include "kept_rows.h"

/* --- a size that is not full --- */

enum { FULL = 6, FEW = 5, AGAIN = 9 /* more than any back end has places for steps */ };

/* The first n of six sequences of a row each. */
static lx_batch *rows_of(int32_t n)
{
    static const int32_t slots[FULL] = {3, 0, 5, 1, 4, 2}, ones[FULL] = {1, 1, 1, 1, 1, 1};
    static const int32_t positions[FULL] = {0, 0, 0, 0, 0, 0};
    lx_batch *b = ragged_batch(n, ones, slots);
    all_outputs(b);
    b->position = positions;
    return b;
}

/* After steps of all six, steps of five leave the slot and the result of the sixth as they were.
   The sixth sequence would have another result by then, because reading the kept rows once more
   gives the same result. */
static bool leaves_the_sixth(device *d, void (*run)(device *d, const void *args), const void *args,
                             lx_states *states, int64_t n_state, int32_t n_pages, lx_array *y,
                             int64_t width)
{
    float *before = floats(n_state), *after = floats(n_state);
    float *y_before = floats(FULL * width), *y_after = floats(FULL * width);
    for (int32_t i = 0; i < 2 * AGAIN; i++) {
        if (i == AGAIN) {
            CHECK_OK(d->k->state_export(d->be, states, 2, before, n_pages));
            CHECK_OK(d->k->array_upload(d->be, y, 0, y_before, FULL * width));
        }
        CHECK_OK(d->k->begin(d->be, rows_of(i < AGAIN ? FULL : FEW), NULL));
        run(d, args);
        if (!dev_finish(d))
            return false;
    }
    CHECK_OK(d->k->state_export(d->be, states, 2, after, n_pages));
    CHECK_OK(d->k->array_download(d->be, y, 0, y_after, FULL * width));
    CHECK(same_bytes(before, after, n_state), "the state of a sequence that is not there");
    CHECK(same_bytes(y_before + FEW * width, y_after + FEW * width, width), "its result");
    return true;
}

static void run_linear(device *d, const void *args)
{
    d->k->attend_linear(d->be, args);
}

static void run_rows(device *d, const void *args)
{
    d->k->attend_rows(d->be, args);
}

static bool rows_to_spare_change_no_sum(device *dut, device *oracle)
{
    static const int32_t shapes[][3] = {/* heads, D, M */ {2, 32, 32}, {3, 7, 5}, {1, 80, 96}};
    (void)oracle;
    rng r = {51};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        int32_t heads = shapes[i][0], dk = shapes[i][1], dv = shapes[i][2];
        int64_t width = heads * (2L * dk + dv), n_state = (int64_t)heads * dk * (dv + 1);
        float *qkv = random_floats(&r, FULL * width, UNIFORM, 1, 1);
        lx_states *states = dev_states(dut, n_state, FULL);
        lx_array *y = dev_array(dut, NULL, (int64_t)FULL * heads * dv);
        lx_attend_linear_args args = {.y = y,
                                      .qkv = dev_array(dut, qkv, FULL * width),
                                      .states = states,
                                      .n_heads = heads,
                                      .d_key = dk,
                                      .d_value = dv,
                                      .feature_map = LX_PHI_ELU1,
                                      .eps = 1e-6f};
        if (!leaves_the_sixth(dut, run_linear, &args, states, n_state, 0, y, (int64_t)heads * dv))
            return false;
        dev_release(dut);
    }
    return true;
}

static bool rows_to_spare_keep_no_row(device *dut, device *oracle)
{
    static const lx_rows_pattern near[] = {WINDOW(20, 1, 0)};
    static const rows_case cases[] = {{2, 16, 16, 0, 40, 1, kept_all, 0.25f, SOFTMAX},
                                      {3, 7, 5, 32, 40, 1, near, 0.25f, SOFTMAX}};
    (void)oracle;
    rng r = {52};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const rows_case *c = &cases[i];
        lx_states *states = kept_states(dut, c, FULL);
        CHECK(states != NULL, "mapping or import failed");
        lx_array *y = dev_array(dut, NULL, (int64_t)FULL * c->heads * c->d_value);
        float *qkv = kept_inputs(&r, c, FULL, UNIFORM, 1);
        lx_attend_rows_args args =
            kept_args(c, y, dev_array(dut, qkv, FULL * kept_width(c)), states);
        if (!leaves_the_sixth(dut, run_rows, &args, states, kept_floats(c), kept_pages(c), y,
                              (int64_t)c->heads * c->d_value))
            return false;
        dev_release(dut);
    }
    return true;
}

/* --- a larger step after one whose results were not fetched --- */

enum { MANY = 420, IDS = 1300, LAST = IDS - 1 };

typedef struct drawing {
    lx_sampling how[MANY];
    lx_sample out[MANY], top[MANY][LX_MAX_TOP];
    int32_t banned; /* by every row */
} drawing;

/* Rows without a choice, so that only the kept values of them cost anything. */
static drawing *make_drawing(int32_t token)
{
    drawing *w = take(sizeof *w);
    w->banned = 0;
    for (int32_t i = 0; i < MANY; i++) {
        w->out[i].token = -2;
        w->how[i] = (lx_sampling){.top_p = 1,
                                  .forced = token,
                                  .banned = &w->banned,
                                  .n_banned = 1,
                                  .n_top = i == 0 ? 2 : LX_MAX_TOP,
                                  .top = w->top[i]};
    }
    w->how[0].forced = -1; /* greedy among the allowed ids */
    return w;
}

static bool start(device *d, drawing *w, int32_t n, const lx_array *logits, uint64_t *number)
{
    lx_sample_args args = {.logits = logits, .n_ids = IDS, .rows = w->how, .out = w->out};
    CHECK_OK(d->k->begin(d->be, single_rows(n), NULL));
    d->k->sample(d->be, &args);
    CHECK_OK(d->k->end(d->be, number, NULL));
    return true;
}

/* Inputs, results and scratch of the second are larger than of any before. */
static bool results_outlast_a_larger_step(device *dut, device *oracle)
{
    (void)oracle;
    float *values = floats((int64_t)MANY * IDS);
    for (int64_t i = 0; i < (int64_t)MANY * IDS; i++)
        values[i] = (float)(i % IDS % 7); /* the first greatest id is 6; then 13 .. */
    lx_array *logits = dev_array(dut, values, (int64_t)MANY * IDS);
    drawing *small = make_drawing(5), *large = make_drawing(LAST);
    uint64_t first = 0, second = 0;
    small->banned = 6;
    if (!start(dut, small, 2, logits, &first) || !start(dut, large, MANY, logits, &second))
        return false;
    CHECK_OK(dut->k->sync(dut->be, first, NULL));
    CHECK(small->out[0].token == 13 && small->out[1].token == 5, "the first step drew %d and %d",
          small->out[0].token, small->out[1].token);
    CHECK(small->top[0][0].token == 6 && small->top[0][1].token == 13, "its likeliest are others");
    CHECK_OK(dut->k->sync(dut->be, second, NULL));
    CHECK(large->out[0].token == 6, "the second step drew %d", large->out[0].token);
    for (int32_t i = 1; i < MANY; i++)
        CHECK(large->out[i].token == LAST &&
                  large->top[i][LX_MAX_TOP - 1].token == 6 + 7 * (LX_MAX_TOP - 1),
              "row %d of the second", i);
    return true;
}

/* --- rows of a prompt and of streams --- */

enum { WIDTH = 70, LONG = 301, OPERATIONS = 5 };

typedef struct chain {
    lx_array *x, *y, *z; /* [LONG, WIDTH] */
    lx_array *gamma, *beta;
    lx_matrix *first, *second;
} chain;

static chain make_chain(device *d, const float *x, const float *parameters, float *w)
{
    lx_host_tensor t = tensor_of(w, WIDTH, WIDTH, LX_F32);
    return (chain){.x = dev_array(d, x, LONG * WIDTH),
                   .y = dev_array(d, NULL, LONG * WIDTH),
                   .z = dev_array(d, NULL, LONG * WIDTH),
                   .gamma = dev_array(d, parameters, WIDTH),
                   .beta = dev_array(d, parameters + WIDTH, WIDTH),
                   .first = dev_matrix(d, &t, NULL),
                   .second = dev_matrix(d, &t, parameters)};
}

static void queue_norm(device *d, const chain *c)
{
    d->k->norm(d->be, &(lx_norm_args){.y = c->y,
                                      .x = c->x,
                                      .gamma = c->gamma,
                                      .beta = c->beta,
                                      .d = WIDTH,
                                      .eps = 1e-5f,
                                      .rows = LX_ROWS_TOKENS});
}

/* A layer that has no state. Each operation reads what those before it write. */
static bool run_chain(device *d, const chain *c, const lx_batch *batch)
{
    const lx_linear_args products[] = {
        {.y = c->z, .x = c->y, .w = c->first, .rows = LX_ROWS_TOKENS},
        {.y = c->x, .x = c->z, .w = c->second, .residual = c->x, .rows = LX_ROWS_TOKENS}};
    CHECK_OK(d->k->begin(d->be, batch, NULL));
    for (int32_t i = 0; i < OPERATIONS; i++) {
        if (i == 0 || i == OPERATIONS - 1)
            queue_norm(d, c);
        else if (i == 2)
            d->k->gate(d->be, &(lx_gate_args){.y = c->z,
                                              .x = {c->z, WIDTH, 0},
                                              .z = {c->y, WIDTH, 0},
                                              .d = WIDTH,
                                              .f = LX_FN_SILU,
                                              .weighing = LX_WEIGH_TIMES,
                                              .rows = LX_ROWS_TOKENS});
        else
            d->k->linear(d->be, &products[i / 2]);
    }
    return dev_finish(d);
}

/* Rows of one long sequence, and of as many sequences, are cut into pieces in different ways. */
static bool rows_of_a_prompt_are_those_of_streams(device *dut, device *oracle)
{
    (void)oracle;
    rng r = {53};
    float *x = random_floats(&r, LONG * WIDTH, UNIFORM, -1, 1),
          *w = random_floats(&r, WIDTH * WIDTH, UNIFORM, -1, 1);
    float *parameters = random_floats(&r, 2 * WIDTH, UNIFORM, -1, 1);
    float *got = floats(LONG * WIDTH), *want = floats(LONG * WIDTH);
    static const int32_t lengths[] = {LONG - 11, 3, 8};
    chain prompt = make_chain(dut, x, parameters, w), streams = make_chain(dut, x, parameters, w);
    if (!run_chain(dut, &prompt, ragged_batch(3, lengths, NULL)) ||
        !run_chain(dut, &streams, single_rows(LONG)))
        return false;
    lx_array *const pairs[][2] = {
        {prompt.x, streams.x}, {prompt.y, streams.y}, {prompt.z, streams.z}};
    for (size_t i = 0; i < COUNT(pairs); i++) {
        if (!dev_read(dut, pairs[i][0], got, LONG * WIDTH) ||
            !dev_read(dut, pairs[i][1], want, LONG * WIDTH))
            return false;
        CHECK(same_bytes(got, want, LONG * WIDTH), "array %zu differs", i);
    }
    return true;
}

const test step_tests[] = {
    {"rows_to_spare_change_no_sum", rows_to_spare_change_no_sum},
    {"rows_to_spare_keep_no_row", rows_to_spare_keep_no_row},
    {"results_outlast_a_larger_step", results_outlast_a_larger_step},
    {"rows_of_a_prompt_are_those_of_streams", rows_of_a_prompt_are_those_of_streams},
    {NULL, NULL},
};
