/*
 * The rate at which `attend_rows` reads kept rows on the cpu back end, to compare with `roofline`
 * for equal bytes.
 *
 *   attend_rows THREADS SEQUENCES HEADS KEYS VALUES
 *
 * Prints a line for each position and each number of tokens per sequence, the best of many steps.
 * It has microseconds per step, and gigabytes per second of all rows that the tokens read. More
 * than one token of a sequence may share the reading of a row.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/kernels.h"

#define TRY_NS INT64_C(1000000000) /* a line */

enum { MOST_TOKENS = 64, MOST_PAGES = 4096 / LX_PAGE_TOKENS + 1 };

static const int32_t positions[] = {64, 784, 4096}, tokens[] = {1, MOST_TOKENS};

/* The objects of a run. */
typedef struct setting {
    lx_backend *be;
    lx_array *x, *y;
    lx_states *states;
    int32_t *seq_start, *slot, *position;
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

/* Small numbers: logits stay near 0. */
static float *numbers(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    if (x == NULL)
        exit(1);
    for (int64_t i = 0; i < n; i++)
        x[i] = 0.001f * (float)(i % 97) - 0.05f;
    return x;
}

/* Pages for the largest position, so that they lie in memory as after a long run. */
static void make_states(setting *s)
{
    lx_error err = {.text = "no pages"};
    int64_t floats = (int64_t)LX_PAGE_TOKENS * s->heads * (s->keys + s->values);
    lx_state_layout layout = {
        .page_floats = floats, .n_pages = MOST_PAGES * s->seqs, .slot_pages = MOST_PAGES};
    must(s->be->ops->states_new(s->be, &layout, s->seqs, &s->states, &err), &err);
    float *rows = numbers(MOST_PAGES * floats);
    for (int32_t slot = 0; slot < s->seqs; slot++) {
        for (int32_t i = 0; i < MOST_PAGES; i++) {
            int32_t page = i * s->seqs + slot;
            must(s->be->ops->state_map(s->be, s->states, slot, i, 1, &page), &err);
        }
        must(s->be->ops->state_import(s->be, s->states, slot, rows, MOST_PAGES), &err);
    }
    free(rows);
}

static void make(setting *s, int threads)
{
    lx_backend_options o = {.n_threads = threads, .precision = LX_PRECISION_AUTO};
    lx_error err = {.text = "upload failed"};
    int64_t rows = (int64_t)s->seqs * MOST_TOKENS;
    int64_t n = rows * s->heads * (2 * s->keys + s->values);
    size_t seqs = (size_t)s->seqs;
    s->seq_start = calloc(seqs + 1, sizeof *s->seq_start);
    s->slot = calloc(seqs, sizeof *s->slot);
    s->position = calloc(seqs, sizeof *s->position);
    float *x = numbers(n);
    if (s->seq_start == NULL || s->slot == NULL || s->position == NULL)
        exit(1);
    must(lx_backend_open("cpu", &o, &s->be, &err), &err);
    must(s->be->ops->array_new(s->be, n, &s->x, &err), &err);
    must(s->be->ops->array_new(s->be, rows * s->heads * s->values, &s->y, &err), &err);
    must(s->be->ops->array_upload(s->be, s->x, 0, x, n), &err);
    free(x);
    make_states(s);
}

/* One step that ends with the token at `position` of every sequence. */
static void step(setting *s, int32_t n_tokens, int32_t position)
{
    static const lx_rows_pattern all = {.kind = LX_PATTERN_WINDOW, .dilation = 1};
    lx_error err = {0};
    uint64_t number = 0;
    for (int32_t i = 0; i < s->seqs; i++) {
        s->seq_start[i + 1] = (i + 1) * n_tokens;
        s->slot[i] = i;
        s->position[i] = position - n_tokens + 1;
    }
    lx_batch batch = {.n_tokens = s->seqs * n_tokens,
                      .n_seqs = s->seqs,
                      .seq_start = s->seq_start,
                      .slot = s->slot,
                      .position = s->position};
    lx_attend_rows_args a = {.y = s->y,
                             .qkv = s->x,
                             .states = s->states,
                             .n_heads = s->heads,
                             .d_key = s->keys,
                             .d_value = s->values,
                             .scale = 1 / sqrtf((float)s->keys),
                             .patterns = &all,
                             .n_patterns = 1};
    must(s->be->ops->begin(s->be, &batch, &err), &err);
    s->be->ops->attend_rows(s->be, &a);
    must(s->be->ops->end(s->be, &number, &err), &err);
}

static void measure(setting *s, int32_t n_tokens, int32_t position)
{
    double rows = (double)n_tokens * (position + 1 - 0.5 * (n_tokens - 1));
    double bytes = 4 * rows * s->seqs * s->heads * (s->keys + s->values);
    int64_t best = INT64_MAX, begin = now_ns();
    for (int i = 0; i < 3 || now_ns() - begin < TRY_NS; i++) {
        int64_t from = now_ns();
        step(s, n_tokens, position);
        int64_t took = now_ns() - from;
        best = took < best ? took : best;
    }
    (void)printf("position %5d, %3d tokens %12.2f us  %7.1f GB/s\n", position, n_tokens,
                 (double)best / 1e3, bytes / (double)best);
}

int main(int argc, char **argv)
{
    long n[5];
    for (int i = 0; i < 5 && argc == 6; i++)
        n[i] = strtol(argv[i + 1], NULL, 10);
    if (argc != 6 || n[0] < 1 || n[1] < 1 || n[2] < 1 || n[3] < 1 || n[4] < 1) {
        (void)fprintf(stderr, "usage: attend_rows THREADS SEQUENCES HEADS KEYS VALUES\n");
        return 2;
    }
    static setting s;
    s = (setting){.seqs = (int32_t)n[1],
                  .heads = (int32_t)n[2],
                  .keys = (int32_t)n[3],
                  .values = (int32_t)n[4]};
    make(&s, (int)n[0]);
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
        for (size_t p = 0; p < sizeof positions / sizeof *positions; p++)
            measure(&s, tokens[t], positions[p]);
    }
    return 0;
}
