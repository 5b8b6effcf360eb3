/*
 * The rate at which `recurrence` reads and writes states on the cpu back end, to compare with
 * `roofline` for equal bytes.
 *
 *   recurrence THREADS SEQUENCES HEADS KEYS VALUES
 *
 * Prints a line for each kind: microseconds of a step of one token a sequence, the best of many,
 * and gigabytes of state read and written a second.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/kernels.h"

#define TRY_NS INT64_C(1000000000) /* a kind */

static const struct kind {
    const char *name;
    lx_decay decay;
    lx_correction correction;
} kinds[] = {
    {"linear, no decay", LX_DECAY_NONE, LX_CORRECT_NONE},
    {"Mamba-2", LX_DECAY_HEAD, LX_CORRECT_NONE},
    {"GLA", LX_DECAY_CHANNEL, LX_CORRECT_NONE},
    {"DeltaNet", LX_DECAY_NONE, LX_CORRECT_DELTA},
    {"Gated DeltaNet", LX_DECAY_HEAD, LX_CORRECT_DELTA},
    {"KDA", LX_DECAY_CHANNEL, LX_CORRECT_DELTA},
    {"RWKV-7", LX_DECAY_CHANNEL, LX_CORRECT_PAIR},
};

/* The objects of a run. */
typedef struct setting {
    lx_backend *be;
    lx_batch batch;
    lx_array *x, *y; /* [sequences, heads * (5 keys + values)]: all inputs lie in x */
    lx_states *states;
    int32_t seqs, heads, keys, values;
} setting;

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void must(lx_status st, const lx_error *err)
{
    if (st == LX_OK)
        return;
    (void)fprintf(stderr, "%s\n", err->text);
    exit(1);
}

/* Small numbers everywhere: nothing grows, nothing becomes denormal. */
static void fill(setting *s, lx_array *a, int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    if (x == NULL)
        exit(1);
    for (int64_t i = 0; i < n; i++)
        x[i] = 0.05f + 0.001f * (float)(i % 97);
    must(s->be->ops->array_upload(s->be, a, 0, x, n), &(lx_error){.text = "upload failed"});
    free(x);
}

static void make(setting *s, int threads)
{
    lx_backend_options o = {.n_threads = threads, .precision = LX_PRECISION_AUTO};
    lx_error err = {0};
    int64_t row = (int64_t)s->heads * (5 * s->keys + s->values);
    int32_t *numbers = calloc((size_t)(2 * s->seqs + 1), sizeof *numbers);
    if (numbers == NULL)
        exit(1);
    for (int32_t i = 0; i <= s->seqs; i++)
        numbers[i] = i;
    for (int32_t i = 0; i < s->seqs; i++)
        numbers[s->seqs + 1 + i] = i;
    s->batch = (lx_batch){.n_tokens = s->seqs,
                          .n_seqs = s->seqs,
                          .seq_start = numbers,
                          .slot = numbers + s->seqs + 1};
    lx_state_layout layout = {.fixed_floats = (int64_t)s->heads * s->keys * s->values};
    must(lx_backend_open("cpu", &o, &s->be, &err), &err);
    must(s->be->ops->array_new(s->be, s->seqs * row, &s->x, &err), &err);
    must(s->be->ops->array_new(s->be, (int64_t)s->seqs * s->heads * s->values, &s->y, &err), &err);
    must(s->be->ops->states_new(s->be, &layout, s->seqs, &s->states, &err), &err);
    fill(s, s->x, s->seqs * row);
}

/* Input number i of the inputs with a key's length; the values lie after them. */
static lx_head_columns columns(const setting *s, int i)
{
    int32_t width = s->heads * (5 * s->keys + s->values);
    return (lx_head_columns){s->x, width, i * s->heads * s->keys, i < 5 ? s->keys : s->values, 1};
}

static void step(setting *s, const struct kind *k)
{
    lx_error err = {0};
    uint64_t number = 0;
    lx_recurrence_args a = {.y = s->y,
                            .q = columns(s, 0),
                            .k = columns(s, 1),
                            .v = columns(s, 5),
                            .w = columns(s, 2),
                            .a = columns(s, 3),
                            .b = columns(s, 4),
                            .beta = columns(s, 2),
                            .states = s->states,
                            .n_heads = s->heads,
                            .d_key = s->keys,
                            .d_value = s->values,
                            .decay = k->decay,
                            .correction = k->correction,
                            .scale = 1.0f};
    must(s->be->ops->begin(s->be, &s->batch, &err), &err);
    s->be->ops->recurrence(s->be, &a);
    must(s->be->ops->end(s->be, &number, &err), &err);
}

static void measure(setting *s, const struct kind *k)
{
    double bytes = 2.0 * 4 * s->seqs * s->heads * s->keys * s->values;
    int64_t best = INT64_MAX, begin = now_ns();
    for (int32_t i = 0; i < s->seqs; i++)
        must(s->be->ops->state_zero(s->be, s->states, i), &(lx_error){.text = "no slot"});
    for (int i = 0; i < 5 || now_ns() - begin < TRY_NS; i++) {
        int64_t from = now_ns();
        step(s, k);
        int64_t took = now_ns() - from;
        best = took < best ? took : best;
    }
    (void)printf("%-18s %10.2f us  %7.1f GB/s\n", k->name, (double)best / 1e3,
                 bytes / (double)best);
}

int main(int argc, char **argv)
{
    long n[5];
    for (int i = 0; i < 5 && argc == 6; i++)
        n[i] = strtol(argv[i + 1], NULL, 10);
    if (argc != 6 || n[0] < 1 || n[1] < 1 || n[2] < 1 || n[3] < 1 || n[4] < 1) {
        (void)fprintf(stderr, "usage: recurrence THREADS SEQUENCES HEADS KEYS VALUES\n");
        return 2;
    }
    static setting s;
    s = (setting){.seqs = (int32_t)n[1],
                  .heads = (int32_t)n[2],
                  .keys = (int32_t)n[3],
                  .values = (int32_t)n[4]};
    make(&s, (int)n[0]);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        measure(&s, &kinds[i]);
    return 0;
}
