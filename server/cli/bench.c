/*
 * The measurements of linnet bench (see bench.h).
 *
 * Along one stream: does token 65,536 of a stream cost as much as token 64? A stream moves forward
 * by prompt rows in big steps. At every position of the list its state is kept, and the process's
 * memory noted. Then the positions are measured in turn, round after round, each by a decode step
 * from a copy of the state kept there. So a disturbance of the machine meets all positions alike,
 * and every measured step is at exactly its position.
 *
 * By batch size: one sampled row for each of `batch` slots; the sampled token is the next step's
 * token, as in use. As many steps are started before the results of the first are read as an engine
 * has under way on this back end. All streams are at one position, so a back end does the work of
 * every few tokens for all streams in one step. Therefore steps are measured in groups.
 *
 * Drafts: whole answers with guessed tokens and without, in pairs, through the engine. As the
 * guesser learns from sampled tokens, the first answers only warm it up. Both must be the same
 * tokens.
 */
#include "server/cli/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "server/engine/engine.h"

enum { STREAM, SCRATCH, FIRST_KEPT }; /* slots */

/* --- one stream --- */

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

static int64_t median(int64_t *times, int64_t n)
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

/* Runs n rows of one slot from `position` (0-based) on, with ids from all over every table. */
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

static void close_stream(stream *s)
{
    lx_transformer_states_free(s->t, s->states);
    free(s->ids);
    free(s->times);
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

/* Rows from .. to - 1 of a slot that has seen those before. */
static lx_status take_in(stream *s, int32_t slot, int32_t from, int32_t to, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t at = from; at < to && st == LX_OK; at += LX_BENCH_PREFILL_ROWS) {
        int32_t left = to - at;
        int32_t count = left < LX_BENCH_PREFILL_ROWS ? left : LX_BENCH_PREFILL_ROWS;
        st = run_rows(s, slot, at, count, NULL, err);
    }
    return st;
}

static lx_status advance(stream *s, lx_bench_position *rows, int32_t n, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0, at = 0; i < n && st == LX_OK; i++) {
        int32_t before = rows[i].position - 1;
        st = take_in(s, STREAM, at, before, err);
        at = before;
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
        rows[i].ns = median(s.times + i * steps, steps);
    close_stream(&s);
    return st;
}

/* Every slot but the first becomes a copy of a stream of `rows` rows that the first one takes in, a
   copy in memory of its own. */
static lx_status fill(lx_transformer *t, lx_states *states, int32_t n_slots, int32_t rows,
                      lx_error *err)
{
    const lx_model *model = lx_transformer_model(t);
    size_t n_inputs = (size_t)model->config.n_inputs;
    stream s = {.t = t, .states = states};
    s.ids = calloc(LX_BENCH_PREFILL_ROWS * n_inputs, sizeof *s.ids);
    float *state = calloc((size_t)lx_model_state_floats(model, rows), sizeof *state);
    lx_status st = s.ids != NULL && state != NULL
                       ? take_in(&s, 0, 0, rows, err)
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
        st = take_in(s, STREAM, 0, length, err);
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
        *median_ns = median(s.times, rounds);
    close_stream(&s);
    return st;
}

/* --- batches --- */

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
        st = fill(t, states, batch, position - 1, err);
    for (; n < all && st == LX_OK; n++) {
        int64_t start = lx_now_ns();
        next_inputs(&w, c, position - 1, n);
        st = run_step(&w, t, states, n, err);
        if (n >= warm)
            w.times[(n - warm) / group] += lx_now_ns() - start;
    }
    if (st == LX_OK) /* the step's arrays are in use until then */
        st = lx_transformer_wait(t, frame_of(&w, n - 1)->number, err);
    if (st == LX_OK)
        *median_ns = median(w.times, n_groups) / group;
    lx_transformer_states_free(t, states);
    workload_free(&w);
    return st;
}

/* --- drafts --- */

/* A job of one answer per stream. */
static lx_status new_job(const lx_transformer *t, const char *prompt, int32_t streams, int64_t seed,
                         bool no_draft, lx_job **out, lx_error *err)
{
    lx_task_request request = {
        .text = prompt, .text_bytes = prompt != NULL ? strlen(prompt) : 0, .rules = true};
    lx_plan *plan = NULL;
    lx_status st = lx_plan_new(lx_transformer_model(t), &request, &plan, err);
    if (st != LX_OK)
        return st;
    lx_job_params p = {.n = streams,
                       .max_new = plan->n_new,
                       .sampling = {.has_seed = true,
                                    .seed = seed,
                                    .temperature = 1,
                                    .top_p = 1,
                                    .no_draft = no_draft},
                       .deadline_ns = INT64_MAX};
    return lx_job_new(plan, &p, NULL, NULL, out, err);
}

static lx_status run(lx_engine *e, lx_job *job, lx_error *err)
{
    lx_status st = lx_engine_submit(e, job, err);
    if (st != LX_OK)
        return st;
    lx_job_wait(job);
    return lx_job_status(job, err);
}

static int64_t duration(const lx_job *job)
{
    lx_job_times t = lx_job_get_times(job);
    return t.finished - t.submitted;
}

static bool same_tokens(const lx_job *a, const lx_job *b)
{
    for (int32_t i = 0; i < lx_job_get_params(a)->n; i++) {
        const int32_t *p, *q;
        int32_t n = lx_job_tokens(a, i, &p, NULL);
        if (lx_job_tokens(b, i, &q, NULL) != n || memcmp(p, q, (size_t)n * sizeof *p) != 0)
            return false;
    }
    return true;
}

static void count(const lx_job *job, lx_bench_draft *out)
{
    int64_t drafted = 0, accepted = 0;
    lx_job_drafted(job, &drafted, &accepted);
    out->drafted += drafted;
    out->accepted += accepted;
    for (int32_t i = 0; i < lx_job_get_params(job)->n; i++)
        out->tokens += lx_job_tokens(job, i, NULL, NULL);
}

/* One answer with guesses, then the same answer without, so that the guesser has not seen the
   tokens that it guesses; *off and *on: how long they took. */
static lx_status run_pair(lx_engine *e, const lx_transformer *t, const char *prompt,
                          int32_t streams, int64_t seed, int64_t *off, int64_t *on,
                          lx_bench_draft *out, lx_error *err)
{
    lx_job *jobs[2] = {NULL, NULL}; /* without, with */
    lx_status st = LX_OK;
    for (int i = 0; i < 2 && st == LX_OK; i++)
        st = new_job(t, prompt, streams, seed, i == 0, &jobs[i], err);
    for (int i = 1; i >= 0 && st == LX_OK; i--)
        st = run(e, jobs[i], err);
    if (st == LX_OK && !same_tokens(jobs[0], jobs[1]))
        st = lx_fail(
            err, LX_ERR_INTERNAL, NULL,
            "seed %lld: the answers with guesses and without differ: this is a bug in linnet",
            (long long)seed);
    if (st == LX_OK) {
        *off = duration(jobs[0]);
        *on = duration(jobs[1]);
        count(jobs[1], out);
    }
    lx_job_unref(jobs[0]);
    lx_job_unref(jobs[1]);
    return st;
}

static lx_status run_rounds(lx_engine *e, const lx_transformer *t, const char *prompt,
                            int32_t streams, int64_t rounds, lx_bench_draft *out, lx_error *err)
{
    int64_t *off = calloc((size_t)rounds, sizeof *off), *on = calloc((size_t)rounds, sizeof *on);
    int64_t warm = rounds / 5 + 1;
    lx_status st =
        off != NULL && on != NULL ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory");
    for (int64_t i = -warm; i < rounds && st == LX_OK; i++) {
        if (i == 0)
            *out = (lx_bench_draft){0};
        st = run_pair(e, t, prompt, streams, i + warm, &off[i < 0 ? 0 : i], &on[i < 0 ? 0 : i], out,
                      err);
    }
    if (st == LX_OK) {
        out->off_ns = median(off, rounds);
        out->on_ns = median(on, rounds);
    }
    free(off);
    free(on);
    return st;
}

lx_status lx_bench_drafts(lx_transformer *t, const char *prompt, int32_t streams, int64_t rounds,
                          lx_bench_draft *out, lx_error *err)
{
    static lx_metrics metrics;
    lx_engine_options options = {.n_slots = streams,
                                 .max_queue = 1,
                                 .max_tokens = streams + LX_BENCH_DRAFT_ROWS,
                                 .prompt_chunk = LX_BENCH_DRAFT_ROWS,
                                 .prompt_beside = LX_BENCH_DRAFT_ROWS,
                                 .ahead = 0,
                                 .draft = LX_MAX_DRAFT / 2};
    lx_engine *e = NULL;
    lx_status st = lx_engine_start(t, &options, &metrics, &e, err);
    if (st != LX_OK)
        return st;
    st = run_rounds(e, t, prompt, streams, rounds, out, err);
    lx_engine_stop(e);
    return st;
}
