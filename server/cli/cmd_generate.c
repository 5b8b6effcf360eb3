/*
 * linnet generate: lower lines of a couplet, other text or images on the command line, through the
 * same engine as the server, so that the same seed gives the same bytes. What the model makes
 * decides which options fit; one that does not is refused, not ignored.
 */
#include <errno.h>
#include <math.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/clock.h"
#include "model/tasks/image.h"
#include "server/cli/cli.h"
#include "server/cli/commands.h"
#include "server/cli/generate_image.h"
#include "server/cli/generate_text.h"
#include "server/engine/engine.h"

enum { STEP_ROWS = 128, MAX_SLOTS = 64 };

typedef struct generate_options {
    lx_cli_model_options local;
    const char *prompt, *png, *complete, *form, *acrostic;
    lx_buffer text; /* the prompt that `prompt` says */
    int64_t n, class_index, seed, top_k, max_tokens, draft;
    double temperature, top_p;
    bool rules, scores, json;
} generate_options;

#define FIELD(member) offsetof(generate_options, member)
static const lx_option options[] = {
    LX_CLI_MODEL_OPTIONS(generate_options, local),
    {.name = "prompt",
     .kind = LX_OPTION_STRING,
     .offset = FIELD(prompt),
     .value = "TEXT",
     .help = "the same as PROMPT, for one that begins with a hyphen"},
    {.name = "class",
     .kind = LX_OPTION_INT,
     .offset = FIELD(class_index),
     .fallback = "-1",
     .min = -1,
     .max = LX_MAX_CLASSES - 1,
     .value = "N",
     .help = "what to paint, by the number of its class, -1: anything"},
    {.name = "png",
     .short_name = 'o',
     .kind = LX_OPTION_STRING,
     .offset = FIELD(png),
     .value = "FILE",
     .help = "where the images of an image model go, -: standard output"},
    {.name = "complete",
     .kind = LX_OPTION_STRING,
     .offset = FIELD(complete),
     .value = "FILE",
     .help = "a PNG to complete: fewer rows, or transparent where to paint"},
    {.name = "n",
     .short_name = 'n',
     .kind = LX_OPTION_INT,
     .offset = FIELD(n),
     .fallback = "1",
     .min = 1,
     .max = 1024,
     .value = "N",
     .help = "answers: lines, best first, or images, as one contact sheet"},
    LX_CLI_SEED_OPTION(generate_options, seed, .fallback = "-1", .min = -1,
                       .help = "of the random numbers, -1: a new one each time"),
    LX_CLI_TEMPERATURE_OPTION(generate_options, temperature,
                              .help = "0: always the likeliest [0.8 for lines, 1 for images]"),
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
    {.name = "form",
     .kind = LX_OPTION_STRING,
     .offset = FIELD(form),
     .value = "FORM",
     .help = "of a poem, characters a line x lines: 5x4, 5x8, 7x4 or 7x8"},
    {.name = "acrostic",
     .kind = LX_OPTION_STRING,
     .offset = FIELD(acrostic),
     .value = "TEXT",
     .help = "with --form, the first characters of the lines"},
    {.name = "scores",
     .kind = LX_OPTION_FLAG,
     .offset = FIELD(scores),
     .fallback = "off",
     .help = "print each answer's mean log-probability"},
    LX_CLI_DRAFT_OPTION(generate_options, draft),
    LX_CLI_JSON_OPTION(generate_options, json),
};

const lx_command lx_generate_command = {
    .name = "generate",
    .brief = "answer one prompt on the command line",
    .summary =
        "Answers PROMPT: prints n lower lines for an upper line, or what follows a text (-: of "
        "standard input), or paints n images.",
    .positional = "[PROMPT]",
    .max_positional = 1,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .notes =
        "examples: linnet generate 海上明月 -n 3 --seed 1\n"
        "          linnet generate --model FOLDER --max-tokens 200 - <text.txt\n"
        "          linnet generate --model FOLDER --form 5x4 --acrostic 春夏秋冬 唐《四时》\n"
        "          linnet generate --model weights/mnist -n 16 --png sheet.png\n"
        "          linnet generate --model weights/mnist --complete half.png --png whole.png\n",
};

/* Which options a kind of model needs, and which it refuses. */
static lx_status check_options(const generate_options *o, const lx_model *model, lx_error *err)
{
    bool image = model->task->modality == LX_IMAGE, classes = model->config.n_classes > 0;
    const char *made = !image    ? "writes text"
                       : classes ? "paints images"
                                 : "paints images that cannot be asked for";
    const struct {
        const char *name, *shown;
        bool fits, required;
    } checks[] = {
        {"prompt", "PROMPT", !image || o->prompt == NULL || classes, !image && o->prompt == NULL},
        {"class", "--class", o->class_index < 0 || classes, false},
        {"png", "--png", image || o->png == NULL, image && o->png == NULL},
        {"complete", "--complete", image || o->complete == NULL, false},
        {"max-tokens", "--max-tokens", !image || o->max_tokens == 0, false},
        {"scores", "--scores", !image || !o->scores, false},
        {"json", "--json", !image || !o->json, false},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        const char *wrong = checks[i].required ? "is missing" : "does not fit";
        if (checks[i].required || !checks[i].fits)
            return lx_fail(err, LX_ERR_INVALID, checks[i].name, "%s %s: %s %s", checks[i].shown,
                           wrong, model->name, made);
    }
    return LX_OK;
}

static int64_t choose_seed(int64_t wanted)
{
    uint64_t seed = 0;
    if (wanted >= 0)
        return wanted;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)lx_now_ns();
    return (int64_t)seed & LX_MAX_SEED;
}

/* What is to be painted. */
static lx_status read_class(const generate_options *o, const lx_config *c, int32_t *number,
                            lx_error *err)
{
    *number = (int32_t)o->class_index + 1;
    if (*number > 0 || o->prompt == NULL)
        return LX_OK;
    *number = lx_image_find_class(c, o->text.data, o->text.length);
    if (*number > 0)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, "prompt",
                   "PROMPT must name one of the model's %d classes, such as \"%.*s\"", c->n_classes,
                   (int)strcspn(c->classes[0], " "), c->classes[0]);
}

static lx_status make_plan(const generate_options *o, const lx_model *model, lx_plan **out,
                           lx_error *err)
{
    lx_task_request request = {.rules = o->rules};
    uint8_t *given = NULL;
    lx_status st = LX_OK;
    if (model->task->modality == LX_IMAGE) {
        st = read_class(o, &model->config, &request.class_number, err);
    } else {
        request.text = o->text.data;
        request.text_bytes = o->text.length;
    }
    request.form = o->form;
    request.acrostic = o->acrostic;
    request.acrostic_bytes = o->acrostic != NULL ? strlen(o->acrostic) : 0;
    if (st == LX_OK && o->complete != NULL)
        st = lx_generate_read_given(o->complete, &model->config, &given, &request.n_values, err);
    request.values = given;
    if (st == LX_OK)
        st = lx_plan_new(model, &request, out, err);
    free(given);
    return st;
}

/* `more` is posted with every token; NULL: the answers are read at the end. */
static lx_status make_job(const generate_options *o, const lx_model *model, sem_t *more,
                          lx_job **out, lx_error *err)
{
    lx_plan *plan = NULL;
    lx_status st = check_options(o, model, err);
    if (st == LX_OK)
        st = make_plan(o, model, &plan, err);
    if (st != LX_OK)
        return st;
    double usual = model->task->modality == LX_IMAGE ? 1.0 : 0.8;
    lx_job_params params = {
        .n = (int32_t)o->n,
        .max_new =
            o->max_tokens > 0 && o->max_tokens < plan->n_new ? (int32_t)o->max_tokens : plan->n_new,
        .sampling = {.has_seed = true,
                     .seed = choose_seed(o->seed),
                     .temperature = isnan(o->temperature) ? usual : o->temperature,
                     .top_p = o->top_p,
                     .top_k = (int32_t)o->top_k},
        .deadline_ns = INT64_MAX,
    };
    /* takes the plan */
    return lx_job_new(plan, &params, more != NULL ? lx_generate_wake : NULL, more, out, err);
}

/* Until the job is finished; a stream is printed meanwhile. */
static lx_status wait_for(const generate_options *o, lx_job *job, sem_t *more, lx_error *err)
{
    if (more != NULL)
        return lx_generate_stream(job, more, o->scores, stdout, err);
    if (lx_job_plan(job)->model->task->modality == LX_IMAGE)
        lx_generate_wait(job);
    else
        lx_job_wait(job);
    return lx_job_status(job, err);
}

static lx_status run_job(const generate_options *o, lx_transformer *t, lx_job *job, sem_t *more,
                         lx_error *err)
{
    static lx_metrics metrics;
    int32_t n = lx_job_get_params(job)->n, slots = n < MAX_SLOTS ? n : MAX_SLOTS;
    lx_backend *be = lx_transformer_backend(t);
    lx_engine_options limits = {.n_slots = slots,
                                .max_queue = 1,
                                .max_tokens = STEP_ROWS,
                                .prompt_chunk = STEP_ROWS - MAX_SLOTS,
                                .prompt_beside = STEP_ROWS,
                                .ahead = lx_engine_best_ahead(be),
                                .draft = lx_engine_draft_of(o->draft, be)};
    lx_engine *engine = NULL;
    lx_status st = lx_engine_start(t, &limits, &metrics, &engine, err);
    if (st != LX_OK)
        return st;
    st = lx_engine_submit(engine, job, err);
    if (st == LX_OK)
        st = wait_for(o, job, more, err);
    lx_engine_stop(engine);
    return st;
}

/* The file is opened before the work, so that one that cannot be is noticed at once. */
static lx_status open_png(const char *path, FILE **out, lx_error *err)
{
    if (path == NULL)
        return LX_OK;
    *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "wb");
    if (*out == NULL)
        return lx_fail(err, LX_ERR_IO, "png", "--png: %s: %s", path, strerror(errno));
    return LX_OK;
}

static lx_status close_png(FILE *png, lx_status st, lx_error *err)
{
    if (png != NULL && png != stdout && fclose(png) != 0 && st == LX_OK)
        st = lx_fail(err, LX_ERR_IO, "png", "--png: %s", strerror(errno));
    return st;
}

static lx_status print_result(const generate_options *o, const lx_job *job, FILE *png,
                              lx_error *err)
{
    if (png != NULL)
        return lx_generate_write_png(job, png, err);
    return o->json ? lx_generate_print_json(job, err) : lx_generate_print(job, o->scores, err);
}

static lx_status generate(const generate_options *o, const lx_cli_model *local, lx_error *err)
{
    FILE *png = NULL;
    lx_job *job = NULL;
    sem_t posted, *more = NULL;
    if (local->model->task->modality == LX_TEXT && o->n == 1 && !o->json &&
        isatty(STDOUT_FILENO) == 1 && sem_init(&posted, 0, 0) == 0)
        more = &posted;
    lx_status st = make_job(o, local->model, more, &job, err);
    if (st == LX_OK)
        st = open_png(o->png, &png, err);
    if (st == LX_OK)
        st = run_job(o, local->transformer, job, more, err);
    if (st == LX_OK && more == NULL)
        st = print_result(o, job, png, err);
    lx_job_unref(job); /* the engine has stopped, which posts */
    if (more != NULL)
        (void)sem_destroy(more);
    return close_png(png, st, err);
}

/* The prompt is read before the model, so that one that cannot be is noticed at once. */
static lx_status read_prompt(generate_options *o, const char *positional, lx_error *err)
{
    if (o->prompt != NULL && positional != NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "PROMPT is there twice, as --prompt too");
    bool read = positional != NULL; /* --prompt - is a hyphen */
    if (read)
        o->prompt = positional;
    return o->prompt != NULL ? lx_generate_read_prompt(o->prompt, read, &o->text, err) : LX_OK;
}

int lx_command_generate(int argc, char **argv)
{
    generate_options o;
    const char *positional = NULL;
    int exit_status = 0;
    if (lx_cli_parse(&lx_generate_command, argc, argv, &o, &positional, NULL, &exit_status) !=
        LX_OK)
        return exit_status;
    lx_error err = {0};
    lx_cli_model local = {0};
    lx_buffer_init(&o.text, 0);
    lx_status st = read_prompt(&o, positional, &err);
    if (st == LX_OK)
        st = lx_cli_open(&o.local, STEP_ROWS, &local, &err);
    if (st == LX_OK)
        st = generate(&o, &local, &err);
    if (st != LX_OK)
        exit_status = lx_cli_fail(&lx_generate_command, st, &err);
    lx_cli_close(&local);
    lx_buffer_fini(&o.text);
    return exit_status;
}
