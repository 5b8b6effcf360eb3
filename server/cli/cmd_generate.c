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
#include <unistd.h>

#include "model/tasks/image.h"
#include "model/tasks/poem.h"
#include "server/cli/cli.h"
#include "server/cli/commands.h"
#include "server/cli/generate_image.h"
#include "server/cli/generate_text.h"
#include "server/cli/local_engine.h"
#include "server/cli/sampling_options.h"
#include "server/cli/terminal.h"

typedef struct generate_options {
    lx_cli_model_options local;
    const char *prompt, *png, *complete, *form, *acrostic;
    lx_buffer text; /* the prompt that `prompt` says */
    lx_cli_sampling sampling;
    lx_stops stops;
    int64_t n, class_index, draft;
    bool rules, normalize, rhyme, scores, json, interactive;
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
    LX_CLI_SAMPLING_OPTIONS(generate_options, sampling,
                            "0: always the likeliest [0.8 for lines, 1 for images]"),
    {.name = "rules",
     .kind = LX_OPTION_FLAG,
     .offset = FIELD(rules),
     .fallback = "on",
     .help = "enforce the rules of the couplet"},
    {.name = "normalize",
     .kind = LX_OPTION_FLAG,
     .offset = FIELD(normalize),
     .fallback = "on",
     .help = "read traditional characters as simplified ones, drop spaces in a couplet's line"},
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
    {.name = "rhyme",
     .kind = LX_OPTION_FLAG,
     .offset = FIELD(rhyme),
     .fallback = "off",
     .help = "with --form, even lines rhyme"},
    {.name = "scores",
     .kind = LX_OPTION_FLAG,
     .offset = FIELD(scores),
     .fallback = "off",
     .help = "print each answer's mean log-probability"},
    LX_CLI_DRAFT_OPTION(generate_options, draft),
    LX_CLI_JSON_OPTION(generate_options, json),
    {.name = "interactive",
     .short_name = 'i',
     .kind = LX_OPTION_FLAG,
     .offset = FIELD(interactive),
     .fallback = "off",
     .help = "answer every line of the input; Ctrl-C ends an answer, Ctrl-D the program"},
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
        "          linnet generate --model FOLDER --form 5x4 --acrostic 春夏秋冬 --rhyme "
        "唐《四时》\n"
        "          linnet generate --model FOLDER --interactive --stop 。\n"
        "          linnet generate --model weights/mnist -n 16 --png sheet.png\n"
        "          linnet generate --model weights/mnist --complete half.png --png whole.png\n",
};

/* Which options a kind of model needs, and which it refuses. */
static lx_status check_options(const generate_options *o, const lx_model *model, lx_error *err)
{
    bool image = model->task->modality == LX_IMAGE,
         classes = image && lx_image_of(&model->config)->n_classes > 0;
    const char *text_only = lx_cli_text_only(&o->sampling);
    bool asked = o->prompt != NULL || o->interactive;
    const char *made = !image    ? "writes text"
                       : classes ? "paints images"
                                 : "paints images that cannot be asked for";
    const struct {
        const char *name, *shown;
        bool fits, required;
    } checks[] = {
        {"prompt", "PROMPT", !image || o->prompt == NULL || classes, !image && !asked},
        {"class", "--class", o->class_index < 0 || classes, false},
        {"png", "--png", image || o->png == NULL, image && o->png == NULL},
        {"complete", "--complete", image || o->complete == NULL, false},
        {text_only, text_only, !image || text_only == NULL, false},
        {"interactive", "--interactive", !image || !o->interactive, false},
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

/* What is to be painted. */
static lx_status read_class(const generate_options *o, const lx_config *c, int32_t *number,
                            lx_error *err)
{
    const lx_image_config *own = lx_image_of(c);
    *number = (int32_t)o->class_index + 1;
    if (*number > 0 || o->prompt == NULL)
        return LX_OK;
    *number = lx_image_find_class(c, o->text.data, o->text.length);
    if (*number > 0)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, "prompt",
                   "PROMPT must name one of the model's %d classes, such as \"%.*s\"",
                   own->n_classes, (int)strcspn(own->classes[0], " "), own->classes[0]);
}

static lx_status make_plan(const generate_options *o, const lx_model *model, lx_plan **out,
                           lx_error *err)
{
    lx_image_request image = {.values = NULL};
    const lx_poem_request poem = {.form = o->form,
                                  .acrostic = o->acrostic,
                                  .acrostic_bytes = o->acrostic != NULL ? strlen(o->acrostic) : 0,
                                  .rhyme = o->rhyme};
    lx_task_request request = {
        .rules = o->rules, .normalize = o->normalize, .own_of = &lx_poem_task, .own = &poem};
    uint8_t *given = NULL;
    lx_status st = LX_OK;
    if (model->task->modality == LX_IMAGE) {
        st = read_class(o, &model->config, &image.class_number, err);
    } else {
        request.text = o->text.data;
        request.text_bytes = o->text.length;
    }
    if (st == LX_OK && o->complete != NULL)
        st = lx_generate_read_given(o->complete, &model->config, &given, &image.n_values, err);
    image.values = given;
    if (model->task->modality == LX_IMAGE && lx_poem_task.own_field(&poem) == NULL) {
        request.own_of = &lx_image_task;
        request.own = &image;
    }
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
    lx_status st = make_plan(o, model, &plan, err);
    if (st != LX_OK)
        return st;
    double usual = model->task->modality == LX_IMAGE ? 1.0 : 0.8;
    int64_t most = o->sampling.max_tokens;
    lx_job_params params = {
        .n = (int32_t)o->n,
        .max_new = most > 0 && most < plan->n_new ? (int32_t)most : plan->n_new,
        .sampling = lx_cli_sampling_params(&o->sampling, usual),
        .stops = o->stops.n > 0 ? &o->stops : NULL,
        .deadline_ns = INT64_MAX,
    };
    /* takes the plan */
    return lx_job_new(plan, &params, more != NULL ? lx_generate_wake : NULL, more, out, err);
}

/* Until the job is finished; a stream is printed meanwhile. */
static lx_status wait_for(const generate_options *o, lx_job *job, sem_t *more, lx_error *err)
{
    if (more != NULL)
        return lx_generate_stream(job, more, o->scores, o->interactive, err);
    if (lx_job_plan(job)->model->task->modality == LX_IMAGE)
        lx_generate_wait(job);
    else
        lx_job_wait(job);
    return lx_job_status(job, err);
}

static lx_status run_job(const generate_options *o, lx_engine *engine, lx_job *job, sem_t *more,
                         lx_error *err)
{
    lx_status st = lx_engine_submit(engine, job, err);
    return st == LX_OK ? wait_for(o, job, more, err) : st;
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

/* Answers and prints; takes the job. `more`: see make_job. */
static lx_status answer(const generate_options *o, lx_engine *engine, lx_job *job, sem_t *more,
                        FILE *png, lx_error *err)
{
    lx_status st = run_job(o, engine, job, more, err);
    if (st == LX_OK && more == NULL)
        st = print_result(o, job, png, err);
    lx_job_detach(job); /* it posts no more */
    lx_job_unref(job);
    return st;
}

/* Every line of the input; what is wrong with one does not end the others. */
static lx_status answer_lines(generate_options *o, const lx_model *model, lx_engine *engine,
                              sem_t *more, lx_error *err)
{
    lx_lines *lines = NULL;
    lx_status st = lx_lines_open("> ", &lines, err);
    while (st == LX_OK) {
        lx_error fault = {0};
        lx_job *job = NULL;
        o->text.length = 0;
        st = lx_lines_read(lines, &o->text, err);
        if (st != LX_OK || o->text.length == 0)
            continue;
        lx_status answered = make_job(o, model, more, &job, &fault);
        if (answered == LX_OK)
            answered = answer(o, engine, job, more, NULL, &fault);
        (void)fflush(stdout);
        if (answered != LX_OK && answered != LX_ERR_CANCELLED)
            (void)lx_cli_fail(&lx_generate_command, answered, &fault);
    }
    lx_lines_close(lines);
    return st == LX_ERR_CANCELLED ? LX_OK : st;
}

static lx_status interact(generate_options *o, const lx_cli_model *local, sem_t *more,
                          lx_error *err)
{
    lx_engine *engine = NULL;
    lx_local_options limits = {.n = (int32_t)o->n, .draft = o->draft};
    lx_status st = lx_local_engine_start(local->transformer, &limits, &engine, err);
    if (st == LX_OK)
        st = answer_lines(o, local->model, engine, more, err);
    lx_engine_stop(engine);
    return st;
}

static lx_status generate_once(const generate_options *o, const lx_cli_model *local, sem_t *more,
                               lx_error *err)
{
    FILE *png = NULL;
    lx_job *job = NULL;
    lx_engine *engine = NULL;
    lx_local_options limits = {.n = (int32_t)o->n, .draft = o->draft};
    lx_status st = make_job(o, local->model, more, &job, err);
    if (st != LX_OK)
        return st;
    st = open_png(o->png, &png, err);
    if (st == LX_OK)
        st = lx_local_engine_start(local->transformer, &limits, &engine, err);
    if (st == LX_OK)
        st = answer(o, engine, job, more, png, err);
    else
        lx_job_unref(job);
    lx_engine_stop(engine);
    return close_png(png, st, err);
}

static lx_status generate(generate_options *o, const lx_cli_model *local, lx_error *err)
{
    sem_t posted, *more = NULL;
    if (local->model->task->modality == LX_TEXT && o->n == 1 && !o->json &&
        lx_terminal_is(stdout) && sem_init(&posted, 0, 0) == 0)
        more = &posted;
    lx_status st = check_options(o, local->model, err);
    if (st == LX_OK)
        st = o->interactive ? interact(o, local, more, err) : generate_once(o, local, more, err);
    if (more != NULL)
        (void)sem_destroy(more);
    return st;
}

/* The prompt is read before the model, so that one that cannot be is noticed at once. */
static lx_status read_prompt(generate_options *o, const char *positional, lx_error *err)
{
    if (o->prompt != NULL && positional != NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt", "PROMPT is there twice, as --prompt too");
    if (o->interactive && (o->prompt != NULL || positional != NULL))
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "PROMPT does not fit: --interactive reads prompts from the input");
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
    lx_buffer_init(&o.text, LX_GENERATE_PROMPT_BYTES);
    o.stops.n = 0;
    lx_status st = lx_cli_add_stop(&o.sampling, &o.stops, &err);
    if (st == LX_OK)
        st = read_prompt(&o, positional, &err);
    if (st == LX_OK)
        st = lx_cli_open(&o.local, LX_LOCAL_ROWS, &local, &err);
    if (st == LX_OK)
        st = generate(&o, &local, &err);
    if (st != LX_OK)
        exit_status = lx_cli_fail(&lx_generate_command, st, &err);
    lx_cli_close(&local);
    lx_buffer_fini(&o.text);
    return exit_status;
}
