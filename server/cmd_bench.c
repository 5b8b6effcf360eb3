/*
 * linnet bench: the speed of the bare model, without engine or HTTP.
 *
 * For every number of threads and every batch size: decode steps (one row for each of `batch`
 * slots, sampled at temperature 0.8) after a warm-up, the median step time, and from it ms/token of
 * one stream (= the step) and tokens/s of all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "server/cli.h"
#include "server/commands.h"

enum { MAX_LIST = 32, MAX_BATCH = 65536 };

typedef struct bench_options {
    lx_cli_model_options local; /* its threads: one number of the list after another */
    const char *threads, *batch;
    int64_t steps;
    bool json;
} bench_options;

#define FIELD(member) offsetof(bench_options, member)
static const lx_option options[] = {
    LX_CLI_LOCAL_MODEL_OPTION(bench_options, local),
    LX_CLI_DEVICE_OPTIONS(bench_options, local),
    {.name = "threads",
     .short_name = 't',
     .kind = LX_OPTION_STRING,
     .offset = FIELD(threads),
     .fallback = "1",
     .value = "LIST",
     .help = "numbers of threads, for example 1,2"},
    {.name = "batch",
     .short_name = 'b',
     .kind = LX_OPTION_STRING,
     .offset = FIELD(batch),
     .fallback = "1,8,64,256",
     .value = "LIST",
     .help = "batch sizes, for example 1,64"},
    {.name = "steps",
     .kind = LX_OPTION_INT,
     .offset = FIELD(steps),
     .fallback = "50",
     .min = 1,
     .max = 100000,
     .value = "N",
     .help = "steps measured for each line of the table"},
    LX_CLI_JSON_OPTION(bench_options, json),
};

static const lx_command command = {
    .name = "bench",
    .summary = "Measures decoding: milliseconds a token and tokens a second.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .notes = "A row is the median of --steps steps after a fifth as many for warming up.\n",
};

static lx_status parse_list(const char *name, const char *text, int32_t max, int32_t *out,
                            int32_t *n, lx_error *err)
{
    *n = 0;
    for (const char *p = text; *n < MAX_LIST; p++) {
        char *end = NULL;
        long value = strtol(p, &end, 10);
        if (end == p || (*end != ',' && *end != '\0') || value < 1 || value > max)
            break;
        out[(*n)++] = (int32_t)value;
        p = end;
        if (*p == '\0')
            return LX_OK;
    }
    return lx_fail(err, LX_ERR_INVALID, name,
                   "--%s: \"%s\" is not a list of at most %d whole numbers from 1 to %d", name,
                   text, MAX_LIST, max);
}

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

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* *median_ns: the median step. The sampled token is the next step's token, as in use. */
static lx_status measure(lx_transformer *t, int32_t batch, int64_t steps, int64_t *median_ns,
                         lx_error *err)
{
    const lx_config *c = &lx_transformer_model(t)->config;
    lx_backend *be = lx_transformer_backend(t);
    lx_states *states = NULL;
    workload w;
    lx_status st = workload_init(&w, c, batch, steps, err);
    if (st == LX_OK)
        st = lx_transformer_states_new(t, batch, &states, err);
    for (int64_t i = -(steps / 5) - 1; i < steps && st == LX_OK; i++) {
        int64_t start = lx_now_ns();
        st = lx_transformer_step(t, states, &w.step, err);
        if (i >= 0)
            w.times[i] = lx_now_ns() - start;
        for (int32_t s = 0; s < batch && st == LX_OK; s++) {
            w.ids[s * c->n_inputs] = w.samples[s].token % c->inputs[0].size;
            w.sampling[s].step++;
        }
    }
    if (st == LX_OK) {
        qsort(w.times, (size_t)steps, sizeof *w.times, compare_times);
        *median_ns = w.times[steps / 2];
    }
    be->ops->states_free(be, states);
    workload_free(&w);
    return st;
}

static void print_row(const bench_options *o, int32_t threads, int32_t batch, int64_t ns,
                      bool first)
{
    double ms = (double)ns / 1e6, rate = (double)batch * 1e9 / (double)ns;
    if (o->json)
        (void)printf("%s{\"threads\": %d, \"batch\": %d, \"ms_per_step\": %.4f, "
                     "\"ms_per_token\": %.5f, \"tokens_per_second\": %.1f}",
                     first ? "" : ", ", threads, batch, ms, ms / batch, rate);
    else
        (void)printf("%8d %8d %12.3f %14.4f %14.0f\n", threads, batch, ms, ms / batch, rate);
    (void)fflush(stdout);
}

static lx_status bench_threads(const bench_options *o, int32_t threads, const int32_t *batches,
                               int32_t n_batches, bool first, lx_error *err)
{
    int32_t max_batch = 1;
    for (int32_t i = 0; i < n_batches; i++)
        if (batches[i] > max_batch)
            max_batch = batches[i];
    lx_cli_model_options local = o->local;
    local.threads = threads;
    lx_cli_model m;
    lx_status st = lx_cli_open(&local, max_batch, &m, err);
    if (st != LX_OK)
        return st;
    if (first) {
        char text[160];
        m.be->ops->describe(m.be, text, sizeof text);
        if (o->json) {
            (void)printf("{\"model\": ");
            lx_cli_print_json_string(m.model->name);
            (void)printf(", \"parameters\": %lld, \"backend\": ", (long long)m.model->n_parameters);
            lx_cli_print_json_string(text);
            (void)printf(", \"rows\": [");
        } else {
            (void)printf("%s, %lld parameters, %s\n\n%8s %8s %12s %14s %14s\n", m.model->name,
                         (long long)m.model->n_parameters, text, "threads", "batch", "ms/step",
                         "ms/token", "tokens/s");
        }
    }
    for (int32_t i = 0; i < n_batches && st == LX_OK; i++) {
        int64_t ns = 0;
        st = measure(m.transformer, batches[i], o->steps, &ns, err);
        if (st == LX_OK)
            print_row(o, threads, batches[i], ns, first && i == 0);
    }
    lx_cli_close(&m);
    return st;
}

int lx_command_bench(int argc, char **argv)
{
    bench_options o;
    int exit_status = 0;
    if (lx_cli_parse(&command, argc, argv, &o, NULL, NULL, &exit_status) != LX_OK)
        return exit_status;
    lx_error err = {0};
    int32_t threads[MAX_LIST], batches[MAX_LIST], n_threads = 0, n_batches = 0;
    lx_status st = parse_list("threads", o.threads, 256, threads, &n_threads, &err);
    if (st == LX_OK)
        st = parse_list("batch", o.batch, MAX_BATCH, batches, &n_batches, &err);
    for (int32_t i = 0; i < n_threads && st == LX_OK; i++)
        st = bench_threads(&o, threads[i], batches, n_batches, i == 0, &err);
    if (st != LX_OK)
        return lx_cli_fail(&command, st, &err);
    if (o.json)
        (void)printf("]}\n");
    return exit_status;
}
