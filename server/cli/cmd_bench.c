/*
 * linnet bench: the speed of the bare model, without HTTP, and without engine except for --draft.
 *
 * bench.c measures, for every number of threads, decode steps by batch size. With --positions it
 * measures steps at some tokens of one stream, with --prefill whole prompts, with --draft whole
 * answers with and without guessed tokens. The median step time is ms/token of one stream, and
 * tokens/s of all streams follows from it.
 */
#include <stdlib.h>

#include "common/visible.h"
#include "server/cli/bench.h"
#include "server/cli/cli.h"

enum { MAX_LIST = 32, MAX_BATCH = 65536, MAX_POSITION = 1 << 24 };

typedef struct bench_options {
    lx_cli_model_options local; /* its threads: one number of the list after another */
    const char *threads, *batch, *positions, *prefill, *draft, *prompt;
    int64_t at, steps;
    bool json;
} bench_options;

#define LX_OPTIONS bench_options
static const lx_option options[] = {
    LX_CLI_LOCAL_MODEL_OPTION("couplet"),
    LX_CLI_DEVICE_OPTIONS,
    LX_STRING("threads", threads, "1", "LIST",
              "Each of these numbers of threads is measured, for example 1,2.", .letter = 't'),
    LX_STRING("batch", batch, "1,8,64,256", "LIST",
              "Each of these numbers of streams decodes at once, for example 1,64.", .letter = 'b'),
    LX_INT("at", at, "1", 1, MAX_POSITION, "N",
           "Batches begin at token N of every stream, counted from 1."),
    LX_STRING("positions", positions, NULL, "LIST",
              "In place of batches, one stream is measured at these tokens, for example 1,64,784."),
    LX_STRING("prefill", prefill, NULL, "LIST",
              "In place of batches, prompts of these lengths in tokens are measured, for example "
              "392,10000."),
    LX_STRING("draft", draft, NULL, "LIST",
              "In place of batches, whole answers of these numbers of streams are measured, with "
              "guessed tokens and without in turns, for example 1,64."),
    LX_STRING("prompt", prompt, NULL, "TEXT", "With --draft, a model of text answers this prompt."),
    LX_INT("steps", steps, "50", 1, 100000, "N",
           "Each line of the table is measured over N steps, prompts or answers."),
    LX_CLI_JSON_OPTION,
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

/* Before the first row: the model and the back end, and the head of a table. */
static void print_header(const bench_options *o, const lx_cli_model *m)
{
    char text[160];
    m->be->ops->describe(m->be, text, sizeof text);
    if (o->json) {
        lx_cli_begin_json(m->model->name);
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

static void print_comma(const bench_options *o, bool first)
{
    if (o->json && !first)
        (void)printf(", ");
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
    /* A step brings a stream one token, and the guesses that were right. */
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

/* One row of the table: answers of so many streams, a batch, or prompts of a length. */
static lx_status bench_one(const bench_options *o, lx_transformer *t, int32_t threads, int32_t n,
                           bool first, lx_error *err)
{
    int64_t ns = 0;
    lx_bench_draft draft = {0};
    lx_status st = o->draft != NULL     ? lx_bench_drafts(t, o->prompt, n, o->steps, &draft, err)
                   : o->prefill != NULL ? lx_bench_prefill(t, n, o->steps, &ns, err)
                                        : lx_bench_batch(t, n, (int32_t)o->at, o->steps, &ns, err);
    if (st != LX_OK)
        return st;
    print_comma(o, first);
    if (o->draft != NULL)
        print_draft(o, threads, n, &draft);
    else
        print_tokens(o, threads, n, ns);
    return LX_OK;
}

static lx_status bench_list(const bench_options *o, lx_transformer *t, int32_t threads,
                            const int32_t *list, int32_t n, lx_error *err)
{
    lx_status st = LX_OK;
    for (int32_t i = 0; i < n && st == LX_OK; i++)
        st = bench_one(o, t, threads, list[i], i == 0, err);
    return st;
}

static lx_status bench_positions(const bench_options *o, lx_transformer *t, int32_t threads,
                                 const int32_t *positions, int32_t n, lx_error *err)
{
    lx_bench_position rows[MAX_LIST];
    for (int32_t i = 0; i < n; i++)
        rows[i] = (lx_bench_position){.position = positions[i]};
    lx_status st = lx_bench_positions(t, o->steps, rows, n, err);
    for (int32_t i = 0; i < n && st == LX_OK; i++) {
        print_comma(o, i == 0);
        print_position(o, threads, &rows[i]);
    }
    return st;
}

/* Time is measured there all the same, as weights and state do not know the limit. */
static void note_context(const bench_options *o, const lx_model *m, const int32_t *list, int32_t n)
{
    const char *name = o->positions != NULL ? "positions" : o->prefill != NULL ? "prefill" : "at";
    int64_t farthest = o->at;
    for (int32_t i = 0; i < n && (o->positions != NULL || o->prefill != NULL); i++)
        farthest = list[i] > farthest ? list[i] : farthest;
    if (farthest > m->max_rows)
        lx_visible_line(stderr,
                        "linnet bench: note: --%s %lld is beyond the %d tokens that %s reads", name,
                        (long long)farthest, m->max_rows, m->name);
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
    lx_status st = lx_cli_open(&local, LX_CLI_WRITES, max_rows, &m, err);
    if (st != LX_OK)
        return st;
    if (first) {
        note_context(o, m.model, list, n);
        print_header(o, &m);
    } else {
        print_comma(o, false);
    }
    st = (o->positions != NULL ? bench_positions : bench_list)(o, m.transformer, threads, list, n,
                                                               err);
    lx_cli_close(&m);
    return st;
}

static lx_status parse_positions(const char *text, int32_t *out, int32_t *n, lx_error *err)
{
    lx_status st = parse_list("positions", text, MAX_POSITION, out, n, err);
    for (int32_t i = 1; i < *n && st == LX_OK; i++)
        if (out[i] <= out[i - 1])
            st =
                lx_fail(err, LX_ERR_INVALID, "positions",
                        "--positions: the list must ascend, but %d follows %d", out[i], out[i - 1]);
    return st;
}

static lx_status parse_work(const bench_options *o, int32_t *list, int32_t *n, lx_error *err)
{
    int n_works = (o->positions != NULL) + (o->prefill != NULL) + (o->draft != NULL);
    if (n_works > 1)
        return lx_fail(err, LX_ERR_INVALID, o->draft != NULL ? "draft" : "prefill",
                       "give only one of --positions, --prefill and --draft");
    if (o->at > 1 && n_works > 0)
        return lx_fail(err, LX_ERR_INVALID, "at",
                       "--at is for batches; leave out --positions, --prefill and --draft");
    if (o->prompt != NULL && o->draft == NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "--prompt goes with --draft, which is missing");
    if (o->draft != NULL)
        return parse_list("draft", o->draft, MAX_BATCH, list, n, err);
    if (o->positions != NULL)
        return parse_positions(o->positions, list, n, err);
    if (o->prefill != NULL)
        return parse_list("prefill", o->prefill, MAX_POSITION, list, n, err);
    return parse_list("batch", o->batch, MAX_BATCH, list, n, err);
}

static lx_status run(void *values, const char *const *rest, lx_error *err)
{
    (void)rest;
    const bench_options *o = values;
    int32_t threads[MAX_LIST], list[MAX_LIST], n_threads = 0, n = 0;
    lx_status st = parse_list("threads", o->threads, 256, threads, &n_threads, err);
    if (st == LX_OK)
        st = parse_work(o, list, &n, err);
    for (int32_t i = 0; i < n_threads && st == LX_OK; i++)
        st = bench_threads(o, threads[i], list, n, i == 0, err);
    if (st == LX_OK && o->json)
        (void)printf("]}\n");
    return st;
}

const lx_command lx_bench_command = {
    .name = "bench",
    .brief = "measure speed: milliseconds per token, tokens per second",
    .summary = "Measures decoding: milliseconds per token and tokens per second.",
    LX_COMMAND(run),
    .notes =
        "A row of the table is the median of --steps steps, prompts or answers, after a fifth as\n"
        "many that warm up. Steps of batches are measured in groups of 16. With --positions a row\n"
        "also has the resident memory of the process as the stream came to the position.\n",
};
