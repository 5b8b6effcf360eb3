/*
 * Decoding by batch size: one row for each of `batch` slots, sampled; the sampled token is the next
 * step's token, as in use. So are the steps under way: as many as an engine has on this back end
 * are started before the first of them is read. All streams are at the same position, and what a
 * back end does every few tokens it does for all of them in the same step: so steps are measured in
 * groups.
 */
#include <stdlib.h>

#include "common/clock.h"
#include "server/cli/bench.h"
#include "server/engine/engine.h"

/* A step under way. */
typedef struct frame {
    lx_step step;
    int32_t *ids, *position;
    lx_sampling *sampling;
    lx_sample *samples;
    uint64_t number;
} frame;

/* Decode steps over `batch` slots with ids that stay within every table. */
typedef struct workload {
    int32_t batch, ahead;
    int32_t *seq_start, *slot;
    int64_t *times;
    frame frames[LX_MAX_AHEAD + 1]; /* step i has number i % (ahead + 1) */
} workload;

static void workload_free(workload *w)
{
    free(w->seq_start);
    free(w->slot);
    free(w->times);
    for (int32_t i = 0; i <= LX_MAX_AHEAD; i++) {
        free(w->frames[i].ids);
        free(w->frames[i].position);
        free(w->frames[i].sampling);
        free(w->frames[i].samples);
    }
}

static bool frame_init(frame *f, const workload *w, const lx_config *c)
{
    size_t n = (size_t)w->batch, n_inputs = (size_t)c->n_inputs;
    f->ids = calloc(n * n_inputs, sizeof *f->ids);
    f->position = calloc(n, sizeof *f->position);
    f->sampling = calloc(n, sizeof *f->sampling);
    f->samples = calloc(n, sizeof *f->samples);
    if (f->ids == NULL || f->position == NULL || f->sampling == NULL || f->samples == NULL)
        return false;
    for (int32_t i = 0; i < w->batch; i++) {
        for (size_t j = 0; j < n_inputs; j++)
            f->ids[(size_t)i * n_inputs + j] = (i * 7 + 3) % c->inputs[j].size;
        f->sampling[i] =
            (lx_sampling){.seed = (uint64_t)i, .temperature = 0.8f, .top_p = 1.0f, .forced = -1};
    }
    f->step = (lx_step){
        .batch = {.n_tokens = w->batch,
                  .n_seqs = w->batch,
                  .seq_start = w->seq_start,
                  .slot = w->slot,
                  .n_outputs = w->batch,
                  .output_row = w->slot,
                  .position = f->position},
        .ids = f->ids,
        .sampling = f->sampling,
        .samples = f->samples,
    };
    return true;
}

static lx_status workload_init(workload *w, const lx_config *c, int32_t batch, int32_t ahead,
                               int64_t steps, lx_error *err)
{
    *w = (workload){.batch = batch, .ahead = ahead};
    w->seq_start = calloc((size_t)batch + 1, sizeof *w->seq_start);
    w->slot = calloc((size_t)batch, sizeof *w->slot);
    w->times = calloc((size_t)steps, sizeof *w->times);
    bool made = w->seq_start != NULL && w->slot != NULL && w->times != NULL;
    for (int32_t i = 0; made && i <= LX_MAX_AHEAD; i++)
        made = frame_init(&w->frames[i], w, c);
    if (!made)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a batch of %d", batch);
    for (int32_t i = 0; i < batch; i++) {
        w->seq_start[i + 1] = i + 1;
        w->slot[i] = i;
    }
    return LX_OK;
}

static frame *frame_of(workload *w, int64_t step)
{
    return &w->frames[step % (w->ahead + 1)];
}

/* Starts a step and waits for the one `ahead` before it. */
static lx_status run_step(workload *w, lx_transformer *t, lx_states *states, int64_t step,
                          lx_error *err)
{
    frame *f = frame_of(w, step);
    lx_status st = lx_transformer_start(t, states, &f->step, &f->number, err);
    if (st != LX_OK || step < w->ahead)
        return st;
    return lx_transformer_wait(t, frame_of(w, step - w->ahead)->number, err);
}

/* The inputs of a step: the tokens of the step before, or deferred tokens for them. `before`: rows
   before the first step. */
static void next_inputs(workload *w, const lx_config *c, int32_t before, int64_t step)
{
    frame *f = frame_of(w, step);
    for (int32_t s = 0; s < w->batch; s++) {
        f->position[s] = before + (int32_t)step;
        if (step == 0)
            continue;
        f->ids[s * c->n_inputs] = w->ahead > 0 ? lx_drawn_id((int32_t)(step - 1))
                                               : f->samples[s].token % c->inputs[0].size;
        f->sampling[s].step = (uint32_t)step;
    }
}

lx_status lx_bench_batch(lx_transformer *t, int32_t batch, int32_t position, int64_t steps,
                         int64_t *median_ns, lx_error *err)
{
    const lx_config *c = &lx_transformer_model(t)->config;
    lx_backend *be = lx_transformer_backend(t);
    lx_states *states = NULL;
    workload w;
    lx_status st = workload_init(&w, c, batch, lx_engine_best_ahead(be), steps, err);
    int64_t group = steps < LX_BENCH_GROUP ? steps : LX_BENCH_GROUP, n_groups = steps / group;
    int64_t warm = steps / 5 + 1, all = warm + n_groups * group, n = 0;
    if (st == LX_OK)
        st = lx_transformer_states_new(t, batch, position - 1 + all, &states, err);
    if (st == LX_OK && position > 1)
        st = lx_bench_fill(t, states, batch, position - 1, err);
    for (; n < all && st == LX_OK; n++) {
        int64_t start = lx_now_ns();
        next_inputs(&w, c, position - 1, n);
        st = run_step(&w, t, states, n, err);
        if (n >= warm)
            w.times[(n - warm) / group] += lx_now_ns() - start;
    }
    if (st == LX_OK) /* what it points to is borrowed until then */
        st = lx_transformer_wait(t, frame_of(&w, n - 1)->number, err);
    if (st == LX_OK)
        *median_ns = lx_bench_median(w.times, n_groups) / group;
    lx_transformer_states_free(t, states);
    workload_free(&w);
    return st;
}
