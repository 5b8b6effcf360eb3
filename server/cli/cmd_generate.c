/*
 * linnet generate: lower lines of a couplet, other text or images on the command line. The server's
 * engine computes them, so that a seed gives the same bytes in both. The model's task decides which
 * options fit; the command refuses an option that does not.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/file.h"
#include "model/formats/png.h"
#include "model/tasks/image.h"
#include "server/cli/generate.h"
#include "server/cli/terminal.h"

enum { MAX_PNG_BYTES = 64 << 20, MAX_SHEET_BYTES = 1 << 30 };

typedef struct generate_options {
    lx_cli_model_options local;
    const char *prompt, *png, *complete, *form, *pattern, *acrostic;
    lx_buffer text; /* the prompt that `prompt` says */
    lx_generate_sampling sampling;
    lx_stops stops;
    int64_t n, class_index, draft;
    bool rules, normalize, rhyme, modern_rhyme, scores, json, interactive;
} generate_options;

#define LX_OPTIONS generate_options
static const lx_option options[] = {
    LX_CLI_MODEL_OPTIONS("couplet"),
    LX_STRING("prompt", prompt, NULL, "TEXT",
              "The model answers this text in place of PROMPT; it may begin with a hyphen."),
    LX_INT("class", class_index, "-1", -1, LX_MAX_CLASSES - 1, "N",
           "The model paints the class with this number; -1 leaves the choice to the model."),
    LX_STRING("png", png, NULL, "FILE",
              "The images of an image model are written to this file; - is standard output.",
              .letter = 'o'),
    LX_STRING("complete", complete, NULL, "FILE",
              "The model completes this PNG: the rows that it lacks, or its transparent pixels."),
    LX_INT("n", n, "1", 1, 1024, "N",
           "The model gives N answers: lines, best first, or images on one contact sheet.",
           .letter = 'n'),
    LX_GENERATE_SAMPLING_OPTIONS("Without it: 0.8 for text, 1 for images."),
    LX_FLAG("rules", rules, "on", "Answers keep the rules of the couplet."),
    LX_FLAG("normalize", normalize, "on",
            "Traditional characters are read as simplified ones, and spaces in a couplet's line "
            "are dropped."),
    LX_STRING("form", form, NULL, "FORM",
              "A poem has this form: 5x4, 5x8, 7x4 or 7x8, which are characters per line x lines, "
              "or a tune (词牌) such as 水调歌头."),
    LX_STRING("pattern", pattern, NULL, "TONE",
              "With --form 5x4 to 7x8, the places of the poem have the tones of regulated verse, "
              "by the tone of its second character: level (平起) or oblique (仄起)."),
    LX_STRING("acrostic", acrostic, NULL, "TEXT",
              "With --form, the lines of the poem begin with these characters."),
    LX_FLAG("rhyme", rhyme, "off", "With --form, the lines that rhyme in that form do so."),
    LX_FLAG("modern-rhyme", modern_rhyme, "off",
            "As --rhyme, but the lines rhyme in modern Mandarin (中华新韵)."),
    LX_FLAG("scores", scores, "off", "Each answer is followed by its mean log-probability."),
    LX_CLI_DRAFT_OPTION,
    LX_CLI_JSON_OPTION,
    LX_FLAG("interactive", interactive, "off",
            "Every line of the input is answered; Ctrl-C ends an answer, Ctrl-D the program.",
            .letter = 'i'),
};

/* --- the options against the model --- */

/* Which options a kind of model needs, and which it refuses. */
static lx_status check_options(const generate_options *o, const lx_model *model, lx_error *err)
{
    bool image = model->task->modality == LX_IMAGE,
         classes = image && lx_image_of(&model->config)->n_classes > 0;
    const char *text_only = lx_generate_text_only(&o->sampling);
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
        {"rules", "--no-rules", o->rules || model->task->has_rules, false},
        {"normalize", "--no-normalize", o->normalize || model->task->normalizes, false},
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

/* The number of the class that the model paints, 0 for none. */
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

/* The values that the PNG file `path` gives (see lx_picture_read_prefix); *values is malloc'ed. */
static lx_status read_given(const char *path, const lx_config *config, uint8_t **values,
                            int32_t *n_values, lx_error *err)
{
    char *data = NULL;
    size_t n = 0;
    lx_error why = {0};
    lx_status st = lx_file_read(path, MAX_PNG_BYTES, &data, &n, err);
    if (st != LX_OK)
        return st;
    st = lx_picture_read_prefix(config, (lx_png_file){data, n}, (lx_png_file){NULL, 0}, values,
                                n_values, &why);
    free(data);
    return st == LX_OK ? st : lx_fail(err, st, "complete", "%s: %s", lx_file_label(path), why.text);
}

static lx_status make_plan(const generate_options *o, const lx_model *model, lx_plan **out,
                           lx_error *err)
{
    lx_image_request image = {.values = NULL};
    lx_task_fields fields = {0};
    fields.at[LX_ASKED_form].text = o->form;
    fields.at[LX_ASKED_pattern].text = o->pattern;
    fields.at[LX_ASKED_acrostic] =
        (lx_task_value){o->acrostic, o->acrostic != NULL ? strlen(o->acrostic) : 0};
    fields.at[LX_ASKED_rhyme].text = o->modern_rhyme ? "modern" : o->rhyme ? "true" : NULL;
    lx_task_request request = {.rules = o->rules, .normalize = o->normalize, .fields = &fields};
    uint8_t *given = NULL;
    lx_status st = LX_OK;
    if (model->task->modality == LX_IMAGE) {
        st = read_class(o, &model->config, &image.class_number, err);
    } else {
        request.text = o->text.data;
        request.text_bytes = o->text.length;
    }
    if (st == LX_OK && o->complete != NULL)
        st = read_given(o->complete, &model->config, &given, &image.n_values, err);
    image.values = given;
    if (model->task->modality == LX_IMAGE) {
        request.own_of = &lx_image_task;
        request.own = &image;
    }
    if (st == LX_OK)
        st = lx_plan_new(model, &request, out, err);
    free(given);
    return st;
}

static lx_status make_job(const generate_options *o, const lx_model *model, sem_t *more,
                          lx_job **out, lx_error *err)
{
    lx_plan *plan = NULL;
    double usual = model->task->modality == LX_IMAGE ? 1.0 : 0.8;
    lx_status st = make_plan(o, model, &plan, err);
    return st == LX_OK ? lx_generate_new_job(&o->sampling, plan, (int32_t)o->n, usual, &o->stops,
                                             more, out, err)
                       : st;
}

/* --- images --- */

typedef struct sheet {
    const lx_job *job;
    uint8_t *values; /* one image */
} sheet;

static const uint8_t *sheet_image(void *context, int32_t i)
{
    sheet *s = context;
    const int32_t *tokens = NULL;
    int32_t n = lx_job_tokens(s->job, i, &tokens, NULL);
    const lx_plan *plan = lx_job_plan(s->job);
    lx_image_values(plan, tokens, 0, lx_image_given(plan) + n, s->values);
    return s->values;
}

static lx_status encode(sheet *s, lx_buffer *png, lx_error *err)
{
    const lx_image_config *c = lx_image_of(&lx_job_plan(s->job)->model->config);
    int32_t n = lx_job_get_params(s->job)->n;
    if (n == 1)
        return lx_png_write(sheet_image(s, 0), c->width, c->height, c->n_channels, png, err);
    return lx_png_write_sheet(n, c->width, c->height, c->n_channels, sheet_image, s, png, err);
}

static lx_status write_png(const lx_job *job, FILE *out, lx_error *err)
{
    size_t size = (size_t)lx_image_size(&lx_job_plan(job)->model->config);
    sheet s = {.job = job, .values = calloc(size, 1)};
    if (s.values == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an image");
    lx_buffer png;
    lx_buffer_init(&png, MAX_SHEET_BYTES);
    lx_status st = encode(&s, &png, err);
    if (st == LX_OK && (fwrite(png.data, 1, png.length, out) != png.length || fflush(out) != 0))
        st = lx_fail(err, LX_ERR_IO, "png", "--png: the file cannot be written completely");
    lx_buffer_fini(&png);
    free(s.values);
    return st;
}

/* --- answers --- */

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
        return write_png(job, png, err);
    return o->json ? lx_generate_print_json(job, err) : lx_generate_print(job, o->scores, err);
}

/* Answers and prints. `more`: see lx_generate_new_job. */
static lx_status answer(const generate_options *o, lx_engine *engine, lx_job *job, sem_t *more,
                        FILE *png, lx_error *err)
{
    lx_status st = lx_generate_run(engine, job, more, o->scores, o->interactive, err);
    if (st == LX_OK && more == NULL)
        st = print_result(o, job, png, err);
    lx_job_detach(job); /* it posts no more */
    return st;
}

/* Answers every line of the input; after an error in a line the next lines are answered. */
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
        lx_job_unref(job);
        (void)fflush(stdout);
        if (answered != LX_OK && answered != LX_ERR_CANCELLED)
            (void)lx_cli_fail(&lx_generate_command, answered, &fault);
    }
    lx_lines_close(lines);
    return st == LX_ERR_CANCELLED ? LX_OK : st;
}

/* The job is made and the file opened before the engine starts, so that an error is reported at
   once. */
static lx_status generate(generate_options *o, const lx_cli_model *local, lx_error *err)
{
    sem_t posted, *more = NULL;
    FILE *png = NULL;
    lx_job *job = NULL;
    lx_engine *engine = NULL;
    if (local->model->task->modality == LX_TEXT && o->n == 1 && !o->json &&
        lx_terminal_is(stdout) && sem_init(&posted, 0, 0) == 0)
        more = &posted;
    lx_status st = check_options(o, local->model, err);
    if (st == LX_OK && !o->interactive)
        st = make_job(o, local->model, more, &job, err);
    if (st == LX_OK)
        st = open_png(o->png, &png, err);
    if (st == LX_OK)
        st = lx_generate_start(local->transformer, (int32_t)o->n, o->draft, false, &engine, err);
    if (st == LX_OK)
        st = o->interactive ? answer_lines(o, local->model, engine, more, err)
                            : answer(o, engine, job, more, png, err);
    lx_job_unref(job);
    lx_engine_stop(engine);
    if (more != NULL)
        (void)sem_destroy(more);
    return close_png(png, st, err);
}

/* The prompt is read before the model, so that an error is reported at once. */
static lx_status read_prompt(generate_options *o, const char *positional, lx_error *err)
{
    if (o->prompt != NULL && positional != NULL)
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "PROMPT is given twice; leave out the argument or --prompt");
    if (o->interactive && (o->prompt != NULL || positional != NULL))
        return lx_fail(err, LX_ERR_INVALID, "prompt",
                       "PROMPT does not fit: --interactive reads prompts from the input");
    bool read = positional != NULL; /* --prompt - is a hyphen */
    if (read)
        o->prompt = positional;
    return o->prompt != NULL ? lx_generate_read_prompt(o->prompt, read, &o->text, err) : LX_OK;
}

static lx_status run(void *values, const char *const *rest, lx_error *err)
{
    generate_options *o = values;
    lx_cli_model local = {0};
    lx_buffer_init(&o->text, LX_GENERATE_PROMPT_BYTES);
    lx_status st = lx_generate_add_stop(&o->sampling, &o->stops, err);
    if (st == LX_OK)
        st = read_prompt(o, rest[0], err);
    if (st == LX_OK)
        st = lx_cli_open(&o->local, LX_CLI_WRITES, LX_GENERATE_ROWS, &local, err);
    if (st == LX_OK)
        st = generate(o, &local, err);
    lx_cli_close(&local);
    lx_buffer_fini(&o->text);
    return st;
}

const lx_command lx_generate_command = {
    .name = "generate",
    .brief = "answer one prompt on the command line",
    .summary = "Answers PROMPT (-: standard input): prints n lower lines for an upper line or n "
               "continuations of a text, or paints n images.",
    .positional = "[PROMPT]",
    .max_positional = 1,
    LX_COMMAND(run),
    .notes =
        "examples: linnet generate 海上明月 -n 3 --seed 1\n"
        "          linnet generate --model FOLDER --max-tokens 200 - <text.txt\n"
        "          linnet generate --model FOLDER --form 5x4 --acrostic 春夏秋冬 --rhyme "
        "唐《四时》\n"
        "          linnet generate --model FOLDER --interactive --stop 。\n"
        "          linnet generate --model weights/mnist -n 16 --png sheet.png\n"
        "          linnet generate --model weights/mnist --complete half.png --png whole.png\n",
};
