/*
 * Decoding by position: does token 65,536 of a stream cost what token 64 costs?
 *
 * A stream moves forward by prompt rows in big steps. At every position of the list its state is
 * kept, and the process's memory noted. Then the positions are measured in turn, round after round,
 * a decode step from a copy of each kept state: what disturbs the machine for a while disturbs all
 * positions alike, and every step measured is at exactly that position.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "server/cli/bench.h"

enum { STREAM, SCRATCH, FIRST_KEPT }; /* slots */

typedef struct stream {
    lx_transformer *t;
    lx_states *states;
    int32_t *ids; /* [LX_BENCH_PREFILL_ROWS, n_inputs] */
    int64_t *times;
} stream;

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t lx_bench_median(int64_t *times, int64_t n)
{
    qsort(times, (size_t)n, sizeof *times, compare_times);
    return times[n / 2];
}

static int64_t resident_bytes(void)
{
    char line[128] = "";
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL)
        return 0;
    const char *second = fgets(line, sizeof line, f) != NULL ? strchr(line, ' ') : NULL;
    (void)fclose(f);
    return second != NULL ? strtoll(second, NULL, 10) * sysconf(_SC_PAGESIZE) : 0;
}

/* n rows of one slot from `position` (0-based) on, with ids that wander through every table. */
static lx_status run_rows(stream *s, int32_t slot, int32_t position, int32_t n, lx_sample *sample,
                          lx_error *err)
{
    const lx_config *c = &lx_transformer_model(s->t)->config;
    const int32_t seq_start[2] = {0, n}, output_row = 0;
    lx_sampling sampling = {
        .seed = 1, .step = (uint32_t)position, .temperature = 0.8f, .top_p = 1.0f, .forced = -1};
    for (int32_t r = 0; r < n; r++)
        for (int32_t j = 0; j < c->n_inputs; j++)
            s->ids[r * c->n_inputs + j] =
                (int32_t)((uint32_t)(position + r) * UINT32_C(2654435761) >> 8) % c->inputs[j].size;
    lx_step step = {.batch = {.n_tokens = n,
                              .n_seqs = 1,
                              .seq_start = seq_start,
                              .slot = &slot,
                              .n_outputs = sample != NULL,
                              .output_row = &output_row,
                              .position = &position},
                    .ids = s->ids,
                    .sampling = &sampling,
                    .samples = sample};
    return lx_transformer_step(s->t, s->states, &step, err);
}

/* A full step runs and every state is written once, so that memory that is reserved but not yet
   touched does not count as growth later. */
static lx_status open_stream(stream *s, int32_t n_kept, int64_t n_times, int32_t most_rows,
                             lx_error *err)
{
    size_t n_inputs = (size_t)lx_transformer_model(s->t)->config.n_inputs;
    s->ids = calloc(LX_BENCH_PREFILL_ROWS * n_inputs, sizeof *s->ids);
    s->times = calloc((size_t)n_times, sizeof *s->times);
    if (s->ids == NULL || s->times == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %lld times", (long long)n_times);
    int32_t rows = most_rows > LX_BENCH_PREFILL_ROWS ? most_rows : LX_BENCH_PREFILL_ROWS;
    lx_status st = lx_transformer_states_new(s->t, FIRST_KEPT + n_kept, rows, &s->states, err);
    if (st == LX_OK)
        st = run_rows(s, SCRATCH, 0, LX_BENCH_PREFILL_ROWS, NULL, err);
    for (int32_t slot = 0; slot < FIRST_KEPT + n_kept && st == LX_OK; slot++)
        st = lx_transformer_state_zero(s->t, s->states, slot, err);
    return st;
}

/* A decode step from a copy of the state kept for position number i. */
static lx_status decode(stream *s, int32_t i, int32_t position, int64_t *ns, lx_error *err)
{
    lx_sample sample;
    lx_status st =
        lx_transformer_state_copy(s->t, s->states, SCRATCH, FIRST_KEPT + i, position - 1, err);
    int64_t start = lx_now_ns();
    if (st == LX_OK)
        st = run_rows(s, SCRATCH, position - 1, 1, &sample, err);
    *ns = lx_now_ns() - start;
    return st;
}

static lx_status advance(stream *s, lx_bench_position *rows, int32_t n, lx_error *err)
{
    lx_status st = LX_OK;
    int32_t at = 0;
    for (int32_t i = 0; i < n && st == LX_OK; i++) {
        while (at < rows[i].position - 1 && st == LX_OK) {
            int32_t left = rows[i].position - 1 - at;
            int32_t count = left < LX_BENCH_PREFILL_ROWS ? left : LX_BENCH_PREFILL_ROWS;
            st = run_rows(s, STREAM, at, count, NULL, err);
            at += count;
        }
        if (st == LX_OK)
            st = lx_transformer_state_copy(s->t, s->states, FIRST_KEPT + i, STREAM, at, err);
        if (st == LX_OK)
            st = decode(s, i, rows[i].position, &rows[i].ns, err);
        rows[i].resident_bytes = resident_bytes();
    }
    return st;
}

lx_status lx_bench_positions(lx_transformer *t, int64_t steps, lx_bench_position *rows, int32_t n,
                             lx_error *err)
{
    int32_t most = 0;
    for (int32_t i = 0; i < n; i++)
        most = rows[i].position > most ? rows[i].position : most;
    stream s = {.t = t};
    lx_status st = open_stream(&s, n, steps * n, most, err);
    if (st == LX_OK)
        st = advance(&s, rows, n, err);
    for (int64_t round = -(steps / 5) - 1; round < steps && st == LX_OK; round++) {
        for (int32_t i = 0; i < n && st == LX_OK; i++) {
            int64_t ns = 0;
            st = decode(&s, i, rows[i].position, &ns, err);
            if (round >= 0)
                s.times[i * steps + round] = ns;
        }
    }
    for (int32_t i = 0; i < n && st == LX_OK; i++)
        rows[i].ns = lx_bench_median(s.times + i * steps, steps);
    lx_transformer_states_free(t, s.states);
    free(s.ids);
    free(s.times);
    return st;
}

/* Rows 0 .. rows - 1 of a slot that has seen nothing. */
static lx_status take_in(stream *s, int32_t slot, int32_t rows, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t at = 0; at < rows && st == LX_OK; at += LX_BENCH_PREFILL_ROWS) {
        int32_t left = rows - at;
        int32_t count = left < LX_BENCH_PREFILL_ROWS ? left : LX_BENCH_PREFILL_ROWS;
        st = run_rows(s, slot, at, count, NULL, err);
    }
    return st;
}

lx_status lx_bench_fill(lx_transformer *t, lx_states *states, int32_t n_slots, int32_t rows,
                        lx_error *err)
{
    const lx_model *model = lx_transformer_model(t);
    size_t n_inputs = (size_t)model->config.n_inputs;
    stream s = {.t = t, .states = states};
    s.ids = calloc(LX_BENCH_PREFILL_ROWS * n_inputs, sizeof *s.ids);
    float *state = calloc((size_t)lx_model_state_floats(model, rows), sizeof *state);
    lx_status st = s.ids != NULL && state != NULL
                       ? take_in(&s, 0, rows, err)
                       : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a state");
    if (st == LX_OK)
        st = lx_transformer_state_save(t, states, 0, rows, state, err);
    for (int32_t slot = 1; slot < n_slots && st == LX_OK; slot++)
        st = lx_transformer_state_load(t, states, slot, rows, state, err);
    free(s.ids);
    free(state);
    return st;
}

/* A whole prompt, chunk by chunk, from an empty state. */
static lx_status prefill(stream *s, int32_t length, int64_t *ns, lx_error *err)
{
    lx_status st = lx_transformer_state_zero(s->t, s->states, STREAM, err);
    int64_t start = lx_now_ns();
    if (st == LX_OK)
        st = take_in(s, STREAM, length, err);
    *ns = lx_now_ns() - start;
    return st;
}

lx_status lx_bench_prefill(lx_transformer *t, int32_t length, int64_t rounds, int64_t *median_ns,
                           lx_error *err)
{
    stream s = {.t = t};
    lx_status st = open_stream(&s, 0, rounds, length, err);
    for (int64_t round = -1; round < rounds && st == LX_OK; round++) {
        int64_t ns = 0;
        st = prefill(&s, length, &ns, err);
        if (round >= 0)
            s.times[round] = ns;
    }
    if (st == LX_OK)
        *median_ns = lx_bench_median(s.times, rounds);
    lx_transformer_states_free(t, s.states);
    free(s.ids);
    free(s.times);
    return st;
}
