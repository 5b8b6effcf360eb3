/*
 * linnet generate: answers one prompt on the command line, through the same engine as the server,
 * so that the same seed gives the same text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "server/cli.h"
#include "server/commands.h"
#include "server/engine.h"

typedef struct generate_options {
    lx_cli_model_options local;
    const char *prompt;
    int64_t n, seed, top_k, max_tokens;
    double temperature, top_p;
    bool rules, scores;
} generate_options;

#define FIELD(member) offsetof(generate_options, member)
static const lx_option options[] = {
    LX_CLI_MODEL_OPTIONS(generate_options, local),
    {.name = "prompt",
     .short_name = 'p',
     .kind = LX_OPTION_STRING,
     .offset = FIELD(prompt),
     .value = "TEXT",
     .help = "what to answer: the upper line of a couplet"},
    {.name = "n",
     .short_name = 'n',
     .kind = LX_OPTION_INT,
     .offset = FIELD(n),
     .fallback = "1",
     .min = 1,
     .max = 1024,
     .value = "N",
     .help = "answers, printed best first"},
    LX_CLI_SEED_OPTION(generate_options, seed, .fallback = "-1", .min = -1,
                       .help = "of the random numbers, -1: a new one each time"),
    LX_CLI_TEMPERATURE_OPTION(generate_options, temperature, .fallback = "0.8",
                              .help = "0: always the likeliest"),
    {.name = "top-k",
     .kind = LX_OPTION_INT,
     .offset = FIELD(top_k),
     .fallback = "0",
     .min = 0,
     .max = 1000000,
     .value = "K",
     .help = "sample among the K likeliest, 0: all"},
    {.name = "top-p",
     .kind = LX_OPTION_REAL,
     .offset = FIELD(top_p),
     .fallback = "1",
     .min = 1e-6,
     .max = 1,
     .value = "P",
     .help = "sample within this much probability"},
    {.name = "max-tokens",
     .kind = LX_OPTION_INT,
     .offset = FIELD(max_tokens),
     .fallback = "0",
     .min = 0,
     .max = 1000000,
     .value = "N",
     .help = "stop after so many tokens, 0: whole answer"},
    {.name = "rules",
     .kind = LX_OPTION_FLAG,
     .offset = FIELD(rules),
     .fallback = "on",
     .help = "enforce the rules of the couplet"},
    {.name = "scores",
     .kind = LX_OPTION_FLAG,
     .offset = FIELD(scores),
     .fallback = "off",
     .help = "print each answer's mean log-probability"},
};

static const lx_command command = {
    .name = "generate",
    .summary = "Answers a prompt: prints n lower lines for an upper line, best first.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .notes = "example: linnet generate --prompt 海上明月 -n 3 --seed 1\n",
};

static lx_status make_job(const generate_options *o, const lx_model *model, lx_job **out,
                          lx_error *err)
{
    if (o->prompt == NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "--prompt TEXT is missing");
    lx_task_request request = {
        .text = o->prompt, .text_bytes = strlen(o->prompt), .rules = o->rules};
    lx_plan *plan = NULL;
    lx_status st = lx_plan_new(model, &request, &plan, err);
    if (st != LX_OK)
        return st;
    uint64_t seed = (uint64_t)o->seed;
    if (o->seed < 0) {
        if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
            seed = (uint64_t)lx_now_ns();
        seed &= (UINT64_C(1) << 53) - 1;
    }
    lx_job_params params = {
        .n = (int32_t)o->n,
        .max_new =
            o->max_tokens > 0 && o->max_tokens < plan->n_new ? (int32_t)o->max_tokens : plan->n_new,
        .seed = seed,
        .temperature = (float)o->temperature,
        .top_p = (float)o->top_p,
        .top_k = (int32_t)o->top_k,
        .deadline_ns = INT64_MAX,
    };
    return lx_job_new(plan, &params, NULL, NULL, out, err); /* takes the plan */
}

static lx_status print_answers(const lx_job *job, bool scores, lx_error *err)
{
    int32_t n = lx_job_get_params(job)->n;
    int32_t *order = calloc((size_t)n, sizeof *order);
    if (order == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d answers", n);
    lx_job_rank(job, order);
    lx_buffer line;
    lx_buffer_init(&line, 1 << 20);
    for (int32_t i = 0; i < n; i++) {
        const int32_t *tokens = NULL;
        int32_t count = lx_job_tokens(job, order[i], &tokens, NULL);
        lx_plan_text(lx_job_plan(job), tokens, count, &line);
        if (scores)
            lx_buffer_printf(&line, "\t%.3f", (double)lx_job_mean_logprob(job, order[i]));
        lx_buffer_puts(&line, "\n");
    }
    lx_status st = line.status;
    if (st == LX_OK)
        (void)fputs(line.data, stdout);
    lx_buffer_fini(&line);
    free(order);
    return st;
}

static lx_status run_job(lx_transformer *t, lx_job *job, lx_error *err)
{
    static lx_metrics metrics;
    int32_t n = lx_job_get_params(job)->n, slots = n < 64 ? n : 64;
    lx_engine_options limits = {
        .n_slots = slots, .max_queue = 1, .max_tokens = 128, .prompt_chunk = 64};
    lx_engine *engine = NULL;
    lx_status st = lx_engine_start(t, &limits, &metrics, &engine, err);
    if (st != LX_OK)
        return st;
    st = lx_engine_submit(engine, job, err);
    if (st == LX_OK) {
        lx_job_wait(job);
        st = lx_job_status(job, err);
    }
    lx_engine_stop(engine);
    return st;
}

int lx_command_generate(int argc, char **argv)
{
    generate_options o;
    int exit_status = 0;
    if (lx_cli_parse(&command, argc, argv, &o, NULL, NULL, &exit_status) != LX_OK)
        return exit_status;
    lx_error err = {0};
    lx_cli_model local;
    lx_job *job = NULL;
    lx_status st = lx_cli_open(&o.local, 128, &local, &err);
    if (st == LX_OK)
        st = make_job(&o, local.model, &job, &err);
    if (st == LX_OK)
        st = run_job(local.transformer, job, &err);
    if (st == LX_OK)
        st = print_answers(job, o.scores, &err);
    if (st != LX_OK)
        exit_status = lx_cli_fail(&command, st, &err);
    lx_job_unref(job);
    lx_cli_close(&local);
    return exit_status;
}
