/*
 * linnet bench: the speed of the bare model, without HTTP, and but for --draft without engine.
 *
 * By batch size (bench_batch.c) or along one stream (bench_positions.c): with --positions steps at
 * some tokens, with --prefill whole prompts, with --draft whole answers with guessed tokens and
 * without (bench_draft.c); for every number of threads. From the median step time
 * come ms/token of one stream (= the step) and tokens/s of all.
 */
#include <stdio.h>
#include <stdlib.h>

#include "server/cli/bench.h"
#include "server/cli/cli.h"
#include "server/cli/commands.h"

enum { MAX_LIST = 32, MAX_BATCH = 65536, MAX_POSITION = 1 << 24 };

typedef struct bench_options {
    lx_cli_model_options local; /* its threads: one number of the list after another */
    const char *threads, *batch, *positions, *prefill, *draft, *prompt;
    int64_t at, steps;
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
    {.name = "at",
     .kind = LX_OPTION_INT,
     .offset = FIELD(at),
     .fallback = "1",
     .min = 1,
     .max = MAX_POSITION,
     .value = "N",
     .help = "batches begin at this token of every stream"},
    {.name = "positions",
     .kind = LX_OPTION_STRING,
     .offset = FIELD(positions),
     .value = "LIST",
     .help = "instead of batches: one stream at these tokens, for example 1,64,784"},
    {.name = "prefill",
     .kind = LX_OPTION_STRING,
     .offset = FIELD(prefill),
     .value = "LIST",
     .help = "instead of batches: prompts of so many tokens, for example 392,10000"},
    {.name = "draft",
     .kind = LX_OPTION_STRING,
     .offset = FIELD(draft),
     .value = "LIST",
     .help =
         "instead of batches: whole answers of so many streams at once, with guessed tokens and "
         "without in turns, for example 1,64"},
    {.name = "prompt",
     .kind = LX_OPTION_STRING,
     .offset = FIELD(prompt),
     .value = "TEXT",
     .help = "with --draft: what a model of texts answers"},
    {.name = "steps",
     .kind = LX_OPTION_INT,
     .offset = FIELD(steps),
     .fallback = "50",
     .min = 1,
     .max = 100000,
     .value = "N",
     .help = "steps, prompts or answers measured for each line of the table"},
    LX_CLI_JSON_OPTION(bench_options, json),
};

const lx_command lx_bench_command = {
    .name = "bench",
    .brief = "measure speed: milliseconds a token, tokens a second",
    .summary = "Measures decoding: milliseconds per token and tokens per second.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .notes =
        "A row is the median of --steps steps (of batches, of groups of 16 of them) after a\n"
        "fifth as many for warming up, or of --steps prompts or answers. With --positions the\n"
        "resident memory of the process is that when the stream came there.\n",
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

/* --- printing --- */

/* Before the first row: what was measured, and of a table its head. */
static void print_header(const bench_options *o, const lx_cli_model *m)
{
    char text[160];
    m->be->ops->describe(m->be, text, sizeof text);
    if (o->json) {
        (void)printf("{\"model\": ");
        lx_cli_print_json_string(m->model->name);
        (void)printf(", \"parameters\": %lld, \"state_bytes\": %lld, \"backend\": ",
                     (long long)m->model->n_parameters,
                     (long long)(lx_model_state_floats(m->model, m->model->max_rows) * 4));
        lx_cli_print_json_string(text);
        (void)printf(", \"rows\": [");
        return;
    }
    (void)printf("%s, %lld parameters, %s\n\n", m->model->name, (long long)m->model->n_parameters,
                 text);
    if (o->draft != NULL)
        (void)printf("%8s %8s %12s %12s %8s %12s %10s\n", "threads", "streams", "ms without",
                     "ms with", "ratio", "tokens/step", "accepted");
    else if (o->positions != NULL)
        (void)printf("%8s %10s %12s %12s %14s\n", "threads", "position", "ms/token", "tokens/s",
                     "resident MiB");
    else
        (void)printf("%8s %8s %12s %14s %14s\n", "threads", o->prefill != NULL ? "prompt" : "batch",
                     o->prefill != NULL ? "ms/prompt" : "ms/step", "ms/token", "tokens/s");
}

/* `n` tokens took so long: one of each stream, or those of a prompt. */
static void print_tokens(const bench_options *o, int32_t threads, int32_t n, int64_t ns)
{
    double ms = (double)ns / 1e6, rate = (double)n * 1e9 / (double)ns;
    bool prompt = o->prefill != NULL;
    if (o->json)
        (void)printf("{\"threads\": %d, \"%s\": %d, \"%s\": %.4f, "
                     "\"ms_per_token\": %.5f, \"tokens_per_second\": %.1f}",
                     threads, prompt ? "prompt" : "batch", n,
                     prompt ? "ms_per_prompt" : "ms_per_step", ms, ms / n, rate);
    else
        (void)printf("%8d %8d %12.3f %14.4f %14.0f\n", threads, n, ms, ms / n, rate);
    (void)fflush(stdout);
}

static void print_position(const bench_options *o, int32_t threads, const lx_bench_position *row)
{
    double ms = (double)row->ns / 1e6, rate = 1e9 / (double)row->ns;
    if (o->json)
        (void)printf("{\"threads\": %d, \"position\": %d, \"ms_per_token\": %.5f, "
                     "\"tokens_per_second\": %.1f, \"resident_bytes\": %lld}",
                     threads, row->position, ms, rate, (long long)row->resident_bytes);
    else
        (void)printf("%8d %10d %12.4f %12.0f %14.1f\n", threads, row->position, ms, rate,
                     (double)row->resident_bytes / 1048576);
}

static void print_draft(const bench_options *o, int32_t threads, int32_t streams,
                        const lx_bench_draft *d)
{
    double off = (double)d->off_ns / 1e6, on = (double)d->on_ns / 1e6;
    /* A step brings a stream one token, and those guesses that were right. */
    double step = (double)d->tokens / (double)(d->tokens - d->accepted);
    double accepted = d->drafted > 0 ? (double)d->accepted / (double)d->drafted : 0;
    if (o->json)
        (void)printf("{\"threads\": %d, \"streams\": %d, \"ms_without\": %.4f, \"ms_with\": %.4f, "
                     "\"ratio\": %.4f, \"tokens\": %lld, \"drafted\": %lld, \"accepted\": %lld}",
                     threads, streams, off, on, off / on, (long long)d->tokens,
                     (long long)d->drafted, (long long)d->accepted);
    else
        (void)printf("%8d %8d %12.2f %12.2f %8.2f %12.2f %9.0f%%\n", threads, streams, off, on,
                     off / on, step, 100 * accepted);
    (void)fflush(stdout);
}

/* --- measuring --- */

static lx_status bench_drafts(const bench_options *o, const lx_cli_model *m, int32_t threads,
                              const int32_t *streams, int32_t n, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; i < n && st == LX_OK; i++) {
        lx_bench_draft row = {0};
        st = lx_bench_drafts(m->transformer, o->prompt, streams[i], o->steps, &row, err);
        if (st != LX_OK)
            break;
        if (o->json && i > 0)
            (void)printf(", ");
        print_draft(o, threads, streams[i], &row);
    }
    return st;
}

/* Batches, or prompts. */
static lx_status bench_list(const bench_options *o, const lx_cli_model *m, int32_t threads,
                            const int32_t *list, int32_t n, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; i < n && st == LX_OK; i++) {
        int64_t ns = 0;
        st = o->prefill != NULL
                 ? lx_bench_prefill(m->transformer, list[i], o->steps, &ns, err)
                 : lx_bench_batch(m->transformer, list[i], (int32_t)o->at, o->steps, &ns, err);
        if (st != LX_OK)
            break;
        if (o->json && i > 0)
            (void)printf(", ");
        print_tokens(o, threads, list[i], ns);
    }
    return st;
}

static lx_status bench_positions(const bench_options *o, const lx_cli_model *m, int32_t threads,
                                 const int32_t *positions, int32_t n, lx_error *err)
{
    lx_bench_position rows[MAX_LIST];
    for (int32_t i = 0; i < n; i++)
        rows[i] = (lx_bench_position){.position = positions[i]};
    lx_status st = lx_bench_positions(m->transformer, o->steps, rows, n, err);
    for (int32_t i = 0; i < n && st == LX_OK; i++) {
        if (o->json && i > 0)
            (void)printf(", ");
        print_position(o, threads, &rows[i]);
    }
    return st;
}

/* `list` is of batch sizes, of positions or of prompts' lengths. */
static lx_status bench_threads(const bench_options *o, int32_t threads, const int32_t *list,
                               int32_t n, bool first, lx_error *err)
{
    bool stream = o->positions != NULL || o->prefill != NULL;
    int32_t max_rows = stream || o->at > 1 ? LX_BENCH_PREFILL_ROWS : 1;
    for (int32_t i = 0; i < n && !stream; i++)
        if (list[i] > max_rows)
            max_rows = list[i];
    max_rows += o->draft != NULL ? LX_BENCH_DRAFT_ROWS : 0;
    lx_cli_model_options local = o->local;
    local.threads = threads;
    lx_cli_model m;
    lx_status st = lx_cli_open(&local, max_rows, &m, err);
    if (st != LX_OK)
        return st;
    if (first)
        print_header(o, &m);
    else if (o->json)
        (void)printf(", ");
    st = (o->draft != NULL       ? bench_drafts
          : o->positions != NULL ? bench_positions
                                 : bench_list)(o, &m, threads, list, n, err);
    lx_cli_close(&m);
    return st;
}

static lx_status parse_positions(const char *text, int32_t *out, int32_t *n, lx_error *err)
{
    lx_status st = parse_list("positions", text, MAX_POSITION, out, n, err);
    for (int32_t i = 1; i < *n && st == LX_OK; i++)
        if (out[i] <= out[i - 1])
            st = lx_fail(err, LX_ERR_INVALID, "positions",
                         "--positions: a stream moves forward, %d cannot follow %d", out[i],
                         out[i - 1]);
    return st;
}

static lx_status parse_work(const bench_options *o, int32_t *list, int32_t *n, lx_error *err)
{
    int n_works = (o->positions != NULL) + (o->prefill != NULL) + (o->draft != NULL);
    if (n_works > 1)
        return lx_fail(err, LX_ERR_INVALID, o->draft != NULL ? "draft" : "prefill",
                       "one of --positions, --prefill and --draft");
    if (o->at > 1 && n_works > 0)
        return lx_fail(err, LX_ERR_INVALID, "at", "--at is for batches");
    if (o->prompt != NULL && o->draft == NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "--prompt goes with --draft");
    if (o->draft != NULL)
        return parse_list("draft", o->draft, MAX_BATCH, list, n, err);
    if (o->positions != NULL)
        return parse_positions(o->positions, list, n, err);
    if (o->prefill != NULL)
        return parse_list("prefill", o->prefill, MAX_POSITION, list, n, err);
    return parse_list("batch", o->batch, MAX_BATCH, list, n, err);
}

int lx_command_bench(int argc, char **argv)
{
    bench_options o;
    int exit_status = 0;
    if (lx_cli_parse(&lx_bench_command, argc, argv, &o, NULL, NULL, &exit_status) != LX_OK)
        return exit_status;
    lx_error err = {0};
    int32_t threads[MAX_LIST], list[MAX_LIST], n_threads = 0, n = 0;
    lx_status st = parse_list("threads", o.threads, 256, threads, &n_threads, &err);
    if (st == LX_OK)
        st = parse_work(&o, list, &n, &err);
    for (int32_t i = 0; i < n_threads && st == LX_OK; i++)
        st = bench_threads(&o, threads[i], list, n, i == 0, &err);
    if (st != LX_OK)
        return lx_cli_fail(&lx_bench_command, st, &err);
    if (o.json)
        (void)printf("]}\n");
    return exit_status;
}
