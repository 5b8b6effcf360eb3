/*
 * Decoding by batch size: one row for each of `batch` slots, sampled; the sampled token is the next
 * step's token, as in use. All streams are at the same position, and what a back end does every few
 * tokens it does for all of them in the same step: so steps are measured in groups.
 */
#include <stdlib.h>

#include "common/clock.h"
#include "server/bench.h"

/* A decode step over `batch` slots with ids that stay within every table. */
typedef struct workload {
    lx_step step;
    int32_t *seq_start, *slot, *ids;
    lx_sampling *sampling;
    lx_sample *samples;
    int64_t *times;
} workload;

static void workload_free(workload *w)
{
    free(w->seq_start);
    free(w->slot);
    free(w->ids);
    free(w->sampling);
    free(w->samples);
    free(w->times);
}

static lx_status workload_init(workload *w, const lx_config *c, int32_t batch, int64_t steps,
                               lx_error *err)
{
    size_t n = (size_t)batch, n_inputs = (size_t)c->n_inputs;
    *w = (workload){0};
    w->seq_start = calloc(n + 1, sizeof *w->seq_start);
    w->slot = calloc(n, sizeof *w->slot);
    w->ids = calloc(n * n_inputs, sizeof *w->ids);
    w->sampling = calloc(n, sizeof *w->sampling);
    w->samples = calloc(n, sizeof *w->samples);
    w->times = calloc((size_t)steps, sizeof *w->times);
    if (w->seq_start == NULL || w->slot == NULL || w->ids == NULL || w->sampling == NULL ||
        w->samples == NULL || w->times == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a batch of %d", batch);
    for (int32_t i = 0; i < batch; i++) {
        w->seq_start[i + 1] = i + 1;
        w->slot[i] = i;
        for (size_t j = 0; j < n_inputs; j++)
            w->ids[(size_t)i * n_inputs + j] = (i * 7 + 3) % c->inputs[j].size;
        w->sampling[i] =
            (lx_sampling){.seed = (uint64_t)i, .temperature = 0.8f, .top_p = 1.0f, .forced = -1};
    }
    w->step = (lx_step){
        .batch = {.n_tokens = batch,
                  .n_seqs = batch,
                  .seq_start = w->seq_start,
                  .slot = w->slot,
                  .n_outputs = batch,
                  .output_row = w->slot},
        .ids = w->ids,
        .sampling = w->sampling,
        .samples = w->samples,
    };
    return LX_OK;
}

lx_status lx_bench_batch(lx_transformer *t, int32_t batch, int64_t steps, int64_t *median_ns,
                         lx_error *err)
{
    const lx_config *c = &lx_transformer_model(t)->config;
    lx_backend *be = lx_transformer_backend(t);
    lx_states *states = NULL;
    workload w;
    lx_status st = workload_init(&w, c, batch, steps, err);
    if (st == LX_OK)
        st = lx_transformer_states_new(t, batch, &states, err);
    int64_t group = steps < LX_BENCH_GROUP ? steps : LX_BENCH_GROUP, n_groups = steps / group;
    for (int64_t i = -(steps / 5) - 1; i < n_groups * group && st == LX_OK; i++) {
        int64_t start = lx_now_ns();
        st = lx_transformer_step(t, states, &w.step, err);
        if (i >= 0)
            w.times[i / group] += lx_now_ns() - start;
        for (int32_t s = 0; s < batch && st == LX_OK; s++) {
            w.ids[s * c->n_inputs] = w.samples[s].token % c->inputs[0].size;
            w.sampling[s].step++;
        }
    }
    if (st == LX_OK)
        *median_ns = lx_bench_median(w.times, n_groups) / group;
    be->ops->states_free(be, states);
    workload_free(&w);
    return st;
}
