/*
 * The time of each kernel of the cuda back end, and its part of the roofline, for tests/gpu.sh.
 *
 *   gpu_kernels ROWS GB_PER_S [own]        own: with products of our own, not the library's
 *
 * ROWS sequences take one token each, in a model of width 256 with 8 heads of 32. Prints a line per
 * kernel: microseconds, the least bytes (inputs, results, weights and states, each once), these
 * bytes per second, and their part of GB_PER_S, which gpu_copy measures. The time is (time of a
 * step with the operation 8 times - time with it twice) / 6. So it includes the device's time after
 * a launch, but neither copies nor waits; the best of many steps. Where everything fits into the
 * device's cache the part may be above 1.
 *
 * Exit status 1 when a result is not finite or stays as it was: then it did not measure the kernel.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/kernels.h"

enum {
    WIDTH = 256,
    HEADS = 8,
    SIZE = 32, /* of a head */
    WIDE = 6 * WIDTH,
    IDS = 256,
    COMPONENTS = 10,
    RING = 64,
    TAPS = 4,
    KEYS = 16,     /* numbers of state of a channel of selective_scan */
    ATTEND_AT = 0, /* where the operations' parts of a state begin, in floats */
    RECUR_AT = ATTEND_AT + HEADS * SIZE * (SIZE + 1),
    SHIFT_AT = RECUR_AT + HEADS * SIZE * SIZE,
    CONV_AT = SHIFT_AT + WIDTH,
    CHUNKS_AT = CONV_AT + (TAPS - 1) * WIDTH,
    RING_AT = CHUNKS_AT + 2 * SIZE * WIDTH,
    SCAN_AT = RING_AT + 2 * RING * WIDTH,
    STATE = SCAN_AT + KEYS * WIDTH,
    FEW = 2, /* times an operation is in a step; a step samples at most 8 times */
    MANY = 8
};
#define LEAST_TRIES 3
#define TRY_NS INT64_C(200000000) /* an operation, at least */
#define UNTOUCHED (-77.0f)

typedef struct bench {
    lx_backend *be;
    const lx_kernels *k;
    lx_batch batch;
    lx_array *x, *y, *parameters; /* [rows, WIDE] both; [WIDE * 32] */
    lx_array *rates;              /* [KEYS * WIDTH], below 0 */
    lx_matrix *in, *up, *down, *exact;
    const lx_table *table;
    lx_states *states;
    int32_t *ids;
    lx_sampling *how;
    lx_sample *out;
} bench;

typedef struct kernel {
    const char *name;
    void (*queue)(bench *b);
    double row, fixed; /* floats it has to move: for every row, and once */
    bool samples;      /* the results are b->out */
} kernel;

static void must(lx_status st, const lx_error *err)
{
    if (st == LX_OK)
        return;
    (void)fprintf(stderr, "gpu_kernels: %s\n", err->text[0] != '\0' ? err->text : "failed");
    exit(1);
}

static void *take(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL)
        exit(1);
    return p;
}

/* --- the operations --- */

/* n columns of x from that one on. */
static lx_columns columns(const bench *b, int32_t first)
{
    return (lx_columns){b->x, WIDE, first * WIDTH};
}

static lx_head_columns heads(const bench *b, int32_t first, int32_t apart)
{
    return (lx_head_columns){b->x, WIDE, first * WIDTH, apart, 1};
}

static void embed(bench *b)
{
    lx_embed_args a = {b->y, 1, &b->table, b->ids, NULL};
    b->k->embed(b->be, &a);
}

static void norm(bench *b)
{
    lx_norm_args a = {b->y, b->x, b->parameters, b->parameters, WIDTH, 1e-5f, LX_ROWS_TOKENS};
    b->k->norm(b->be, &a);
}

static void linear(bench *b, const lx_matrix *w, lx_activation activation)
{
    lx_linear_args a = {b->y, b->x, w, activation, NULL, LX_ROWS_TOKENS};
    b->k->linear(b->be, &a);
}

static void linear_in(bench *b)
{
    linear(b, b->in, LX_ACT_NONE);
}

static void linear_gelu(bench *b)
{
    linear(b, b->up, LX_ACT_GELU);
}

static void linear_residual(bench *b)
{
    lx_linear_args a = {b->y, b->x, b->down, LX_ACT_NONE, b->y, LX_ROWS_TOKENS};
    b->k->linear(b->be, &a);
}

static void linear_exact(bench *b)
{
    linear(b, b->exact, LX_ACT_NONE);
}

static void attend_linear(bench *b)
{
    lx_attend_linear_args a = {b->y, b->x, b->states,   ATTEND_AT, HEADS,
                               SIZE, SIZE, LX_PHI_ELU1, 1e-6f,     NULL};
    b->k->attend_linear(b->be, &a);
}

static void attend_rows(bench *b)
{
    static const lx_rows_pattern window = {
        .kind = LX_PATTERN_WINDOW, .window = RING, .dilation = 1};
    lx_attend_rows_args a = {.y = b->y,
                             .qkv = b->x,
                             .states = b->states,
                             .offset = RING_AT,
                             .ring = RING,
                             .n_heads = HEADS,
                             .d_key = SIZE,
                             .d_value = SIZE,
                             .scale = 1,
                             .patterns = &window,
                             .n_patterns = 1,
                             .weighting = LX_WEIGHT_SOFTMAX};
    b->k->attend_rows(b->be, &a);
}

static void recur(bench *b, lx_decay decay, lx_correction correction)
{
    lx_recurrence_args a = {.y = b->y,
                            .q = heads(b, 0, SIZE),
                            .k = heads(b, 1, SIZE),
                            .v = heads(b, 2, SIZE),
                            .w = heads(b, 3, decay == LX_DECAY_HEAD ? 1 : SIZE),
                            .a = heads(b, 4, SIZE),
                            .b = heads(b, 5, SIZE),
                            .states = b->states,
                            .offset = RECUR_AT,
                            .n_heads = HEADS,
                            .d_key = SIZE,
                            .d_value = SIZE,
                            .decay = decay,
                            .correction = correction,
                            .scale = 1};
    b->k->recurrence(b->be, &a);
}

static void recur_head(bench *b)
{
    recur(b, LX_DECAY_HEAD, LX_CORRECT_NONE);
}

static void recur_delta(bench *b)
{
    recur(b, LX_DECAY_CHANNEL, LX_CORRECT_DELTA);
}

static void recur_pair(bench *b)
{
    recur(b, LX_DECAY_CHANNEL, LX_CORRECT_PAIR);
}

static void chunk_sums(bench *b)
{
    lx_chunk_sums_args a = {
        b->y, columns(b, 0), columns(b, 1), columns(b, 2), b->states, CHUNKS_AT, SIZE, WIDTH, 64,
        1};
    b->k->chunk_sums(b->be, &a);
}

static void bonus(bench *b)
{
    lx_bonus_args a = {b->y,          columns(b, 0), columns(b, 1), columns(b, 2), columns(b, 3),
                       columns(b, 4), b->parameters, HEADS,         SIZE,          SIZE};
    b->k->bonus(b->be, &a);
}

static void head_norm(bench *b)
{
    lx_head_norm_args a = {.y = b->y,
                           .x = columns(b, 0),
                           .gate = columns(b, 1),
                           .gamma = b->parameters,
                           .n_heads = HEADS,
                           .d = SIZE,
                           .kind = LX_NORM_RMS,
                           .f = LX_FN_SILU,
                           .eps = 1e-5f,
                           .rows = LX_ROWS_TOKENS};
    b->k->head_norm(b->be, &a);
}

static void gate(bench *b)
{
    lx_gate_args a = {.y = b->y,
                      .x = columns(b, 0),
                      .z = columns(b, 1),
                      .d = WIDTH,
                      .f = LX_FN_SILU,
                      .weighing = LX_WEIGH_TIMES,
                      .rows = LX_ROWS_TOKENS};
    b->k->gate(b->be, &a);
}

static void token_shift(bench *b)
{
    lx_token_shift_args a = {{b->y}, b->x, b->parameters, b->states, SHIFT_AT, 1, WIDTH};
    b->k->token_shift(b->be, &a);
}

static void short_conv(bench *b)
{
    lx_short_conv_args a = {b->y,    columns(b, 0), b->parameters, NULL,      b->states,
                            CONV_AT, WIDTH,         TAPS,          LX_FN_SILU};
    b->k->short_conv(b->be, &a);
}

static void selective_scan(bench *b)
{
    lx_selective_scan_args a = {.y = b->y,
                                .x = columns(b, 0),
                                .t = columns(b, 1),
                                .b = columns(b, 2),
                                .c = columns(b, 3),
                                .a = b->rates,
                                .skip = b->parameters,
                                .states = b->states,
                                .offset = SCAN_AT,
                                .d = WIDTH,
                                .d_key = KEYS};
    b->k->selective_scan(b->be, &a);
}

static void rotary(bench *b)
{
    lx_rotary_args a = {b->y, WIDTH, 0, SIZE, HEADS, SIZE, b->parameters};
    b->k->rotary(b->be, &a);
}

static void gather(bench *b)
{
    lx_gather_args a = {b->y, b->x, WIDTH, WIDTH, 0};
    b->k->gather(b->be, &a);
}

static void sample(bench *b)
{
    lx_sample_args a = {b->x, IDS, b->how, b->out, NULL};
    b->k->sample(b->be, &a);
}

static void mixture(bench *b)
{
    lx_sample_mixture_args a = {b->x, COMPONENTS, 256, b->how, b->out, NULL};
    b->k->sample_mixture(b->be, &a);
}

#define STATES (2.0 * HEADS * SIZE * SIZE) /* read and written */
static const kernel kernels[] = {
    {"embed", embed, 2 * WIDTH, 0, false},
    {"norm", norm, 2 * WIDTH, 2 * WIDTH, false},
    {"linear 256 to 768", linear_in, 4 * WIDTH, 0.5 * 3 * WIDTH *WIDTH, false},
    {"linear 256 to 1024, GELU", linear_gelu, 5 * WIDTH, 0.5 * 4 * WIDTH *WIDTH, false},
    {"linear 1024 to 256, added", linear_residual, 6 * WIDTH, 0.5 * 4 * WIDTH *WIDTH, false},
    {"linear 256 to 256, f32", linear_exact, 2 * WIDTH, WIDTH *WIDTH, false},
    {"attend_linear", attend_linear, STATES + 2 * HEADS *SIZE + 4 * WIDTH, 0, false},
    {"attend_rows, window 64", attend_rows, 2 * RING *WIDTH + 6 * WIDTH, 0, false},
    {"recurrence, Mamba-2", recur_head, STATES + 4 * WIDTH + HEADS, 0, false},
    {"recurrence, KDA", recur_delta, STATES + 5 * WIDTH, 0, false},
    {"recurrence, RWKV-7", recur_pair, STATES + 7 * WIDTH, 0, false},
    {"chunk_sums", chunk_sums, 3 * SIZE *WIDTH + 3 * WIDTH + 2 * SIZE, 0, false},
    {"bonus", bonus, 6 * WIDTH, WIDTH, false},
    {"head_norm", head_norm, 3 * WIDTH, WIDTH, false},
    {"gate", gate, 3 * WIDTH, 0, false},
    {"token_shift", token_shift, 4 * WIDTH, WIDTH, false},
    {"short_conv", short_conv, (2 + 2 * (TAPS - 1)) * WIDTH, TAPS *WIDTH, false},
    {"selective_scan", selective_scan, (3 + 2 * KEYS) * WIDTH + 2 * KEYS, (KEYS + 1) * WIDTH,
     false},
    {"rotary", rotary, 2 * WIDTH, 0, false},
    {"gather", gather, 2 * WIDTH, 0, false},
    {"sample", sample, IDS + 2, 0, true},
    {"sample_mixture", mixture, 3 * COMPONENTS + 2, 0, true},
};

/* --- a setting --- */

static void fill(bench *b, lx_array *a, int64_t n, float scale)
{
    float *x = take((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = scale * (0.05f + 0.001f * (float)(i % 97));
    must(b->k->array_upload(b->be, a, 0, x, n), &(lx_error){.text = "an upload failed"});
    free(x);
}

/* Zeros would leave chunk_sums nothing to add. */
static void fill_states(bench *b, int32_t rows)
{
    float *state = take(STATE, sizeof *state);
    for (int32_t i = 0; i < STATE; i++)
        state[i] = 0.01f;
    for (int32_t i = 0; i < rows; i++)
        must(b->k->state_import(b->be, b->states, i, state, 0), &(lx_error){.text = "no state"});
    free(state);
}

static lx_matrix *matrix(bench *b, int64_t rows, int64_t cols, lx_dtype dtype)
{
    lx_error err = {0};
    lx_matrix *w = NULL;
    uint16_t *values = take((size_t)(rows * cols), sizeof(float));
    for (int64_t i = 0; i < rows * cols; i++)
        values[dtype == LX_BF16 ? i : 2 * i + 1] = 0x3a80; /* 2^-10, or the upper half of it */
    const lx_host_tensor t = {dtype, rows, cols, values};
    must(b->k->matrix_new(b->be, &t, NULL, NULL, &w, &err), &err);
    free(values);
    return w;
}

static void make_batch(bench *b, int32_t rows)
{
    int32_t *order = take((size_t)rows + 1, sizeof *order);
    int32_t *position = take((size_t)rows, sizeof *position);
    b->ids = take((size_t)rows, sizeof *b->ids);
    b->how = take((size_t)rows, sizeof *b->how);
    b->out = take((size_t)rows, sizeof *b->out);
    for (int32_t i = 0; i < rows; i++) {
        order[i] = i;
        position[i] = 1000; /* so rings are full */
        b->ids[i] = i % IDS;
        b->how[i] = (lx_sampling){.seed = (uint64_t)i, .temperature = 1, .top_p = 1, .forced = -1};
    }
    order[rows] = rows;
    b->batch = (lx_batch){.n_tokens = rows,
                          .n_seqs = rows,
                          .seq_start = order,
                          .slot = order,
                          .n_outputs = rows,
                          .output_row = order,
                          .position = position};
}

static void make_objects(bench *b, int32_t rows)
{
    enum { PARAMETERS = LX_ROTARY_LEVELS * LX_ROTARY_STEPS * SIZE };
    lx_error err = {0};
    lx_table *table = NULL;
    float *values = take((size_t)IDS * WIDTH, sizeof *values);
    for (int32_t i = 0; i < IDS * WIDTH; i++)
        values[i] = 0.5f;
    const lx_host_tensor t = {LX_F32, IDS, WIDTH, values};
    const lx_state_layout layout = {.fixed_floats = STATE};
    must(b->k->rows_new(b->be, rows, WIDE, &b->x, &err), &err);
    must(b->k->rows_new(b->be, rows, WIDE, &b->y, &err), &err);
    must(b->k->array_new(b->be, PARAMETERS, &b->parameters, &err), &err);
    must(b->k->array_new(b->be, KEYS * WIDTH, &b->rates, &err), &err);
    must(b->k->table_new(b->be, &t, NULL, &table, &err), &err);
    must(b->k->states_new(b->be, &layout, rows, &b->states, &err), &err);
    free(values);
    b->table = table;
    b->in = matrix(b, 3 * WIDTH, WIDTH, LX_BF16);
    b->up = matrix(b, 4 * WIDTH, WIDTH, LX_BF16);
    b->down = matrix(b, WIDTH, 4 * WIDTH, LX_BF16);
    b->exact = matrix(b, WIDTH, WIDTH, LX_F32);
    fill_states(b, rows);
    fill(b, b->x, (int64_t)rows * WIDE, 1);
    fill(b, b->parameters, PARAMETERS, 1);
    fill(b, b->rates, KEYS * WIDTH, -1);
}

static void close_all(bench *b)
{
    lx_array *const arrays[] = {b->x, b->y, b->parameters, b->rates};
    lx_matrix *const matrices[] = {b->in, b->up, b->down, b->exact};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        b->k->array_free(b->be, arrays[i]);
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        b->k->matrix_free(b->be, matrices[i]);
    b->k->table_free(b->be, (lx_table *)b->table);
    b->k->states_free(b->be, b->states);
    b->k->close(b->be);
    free((int32_t *)b->batch.seq_start);
    free((int32_t *)b->batch.position);
    free(b->ids);
    free(b->how);
    free(b->out);
}

/* --- measuring --- */

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Nanoseconds of a step with so many of them. */
static int64_t step(bench *b, const kernel *k, int times)
{
    lx_error err = {0};
    uint64_t number = 0;
    int64_t from = now_ns();
    must(b->k->begin(b->be, &b->batch, &err), &err);
    for (int i = 0; i < times; i++)
        k->queue(b);
    must(b->k->end(b->be, &number, &err), &err);
    must(b->k->sync(b->be, number, &err), &err);
    return now_ns() - from;
}

/* Whether every row's first results are numbers that were not there before. */
static bool has_results(bench *b, const kernel *k)
{
    int64_t rows = b->batch.n_tokens, n = rows * WIDTH;
    float *y = take((size_t)n, sizeof *y);
    for (int64_t i = 0; i < n; i++)
        y[i] = UNTOUCHED;
    for (int64_t i = 0; i < rows; i++)
        b->out[i] = (lx_sample){-1, NAN};
    must(b->k->array_upload(b->be, b->y, 0, y, n), &(lx_error){.text = "an upload failed"});
    (void)step(b, k, 1);
    must(b->k->array_download(b->be, b->y, 0, y, n), &(lx_error){.text = "a download failed"});
    bool good = true;
    for (int64_t i = 0; i < rows; i++)
        good = good && (k->samples ? b->out[i].token >= 0 && isfinite(b->out[i].logprob)
                                   : isfinite(y[i]) && y[i] != UNTOUCHED);
    free(y);
    return good;
}

static bool measure(bench *b, const kernel *k, double gb_per_s)
{
    int64_t few = INT64_MAX, many = INT64_MAX, begin = now_ns();
    bool good = has_results(b, k);
    for (int i = 0; i < LEAST_TRIES || now_ns() - begin < TRY_NS; i++) {
        int64_t short_one = step(b, k, FEW), long_one = step(b, k, MANY);
        few = short_one < few ? short_one : few;
        many = long_one < many ? long_one : many;
    }
    double us = (double)(many - few) / 1e3 / (MANY - FEW);
    double bytes = 4 * (k->row * b->batch.n_tokens + k->fixed);
    double rate = us > 0 ? bytes / us / 1e3 : 0;
    (void)printf("%-26s %9.2f us %13.0f bytes %8.1f GB/s %6.2f of the roofline%s\n", k->name, us,
                 bytes, rate, rate / gb_per_s, good ? "" : "  WRONG RESULTS");
    return good;
}

int main(int argc, char **argv)
{
    static bench b;
    lx_backend_options o = {.n_threads = 1, .precision = LX_PRECISION_AUTO};
    lx_error err = {0};
    bool own = argc == 4 && strcmp(argv[3], "own") == 0, usable = argc == 3 || own;
    long rows = usable ? strtol(argv[1], NULL, 10) : 0;
    double gb_per_s = usable ? strtod(argv[2], NULL) : 0;
    char about[128];
    int failed = 0;
    if (rows < 1 || rows > 100000 || !(gb_per_s > 0)) {
        (void)fprintf(stderr, "usage: gpu_kernels ROWS GB_PER_S [own]\n");
        return 2;
    }
    o.cuda_products = own ? LX_CUDA_PRODUCTS_OWN : LX_CUDA_PRODUCTS_CUBLAS;
    must(lx_backend_open("cuda", &o, &b.be, &err), &err);
    b.k = b.be->ops;
    b.k->describe(b.be, about, sizeof about);
    (void)printf("%s, %ld rows, %.0f GB/s\n", about, rows, gb_per_s);
    make_batch(&b, (int32_t)rows);
    make_objects(&b, (int32_t)rows);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        failed += !measure(&b, &kernels[i], gb_per_s);
    close_all(&b);
    return failed == 0 ? 0 : 1;
}
