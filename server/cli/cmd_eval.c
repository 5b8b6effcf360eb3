/*
 * linnet eval: how good a model is on a file, or on sequences that it makes itself; what is
 * measured is the task's (eval_couplet.c, eval_image.c, eval_poem.c, eval_speech.c, eval_copy.c).
 */
#include "model/ctc.h"
#include "model/tasks/copy.h"
#include "model/tasks/couplet.h"
#include "model/tasks/image.h"
#include "model/tasks/poem.h"
#include "model/tasks/speech.h"
#include "server/cli/commands.h"
#include "server/cli/eval.h"

#define FIELD(member) offsetof(lx_eval_options, member)
static const lx_option options[] = {
    LX_CLI_MODEL_OPTIONS(lx_eval_options, local),
    {.name = "limit",
     .kind = LX_OPTION_INT,
     .offset = FIELD(limit),
     .fallback = "0",
     .min = 0,
     .max = 1e9,
     .value = "N",
     .help = "only the first N pairs, poems, images or sounds, 0: all; sequences to copy, 0: "
             "1,000"},
    {.name = "length",
     .kind = LX_OPTION_INT,
     .offset = FIELD(length),
     .fallback = "0",
     .min = 0,
     .max = 65536,
     .value = "N",
     .help = "copy: symbols of a sequence, 0: as many as the model reads"},
    {.name = "answers",
     .kind = LX_OPTION_FLAG,
     .offset = FIELD(answers),
     .fallback = "on",
     .help = "couplets: also write lower lines and count the rules they keep"},
    LX_CLI_TEMPERATURE_OPTION(lx_eval_options, temperature, .fallback = "0.8",
                              .help = "of the lines written"),
    LX_CLI_SEED_OPTION(lx_eval_options, seed, .fallback = "1",
                       .help = "of the lines written; of the sequences to copy"),
    LX_CLI_BEAM_OPTION(lx_eval_options, beam),
    LX_CLI_JSON_OPTION(lx_eval_options, json),
};

const lx_command lx_eval_command = {
    .name = "eval",
    .brief = "measure a model on a file: nats per character, perplexity, rules",
    .summary =
        "Measures a model on FILE: couplets (one pair per line: upper TAB lower), poems (one per\n"
        "line: kind TAB author TAB title TAB text), images (idx) or sounds (one per line: sound\n"
        "file TAB what it says); one that copies without a file, on sequences drawn by --seed.",
    .positional = "FILE",
    .min_positional = 0,
    .max_positional = 1,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .notes =
        "Couplets: nats per character of the lower line given the upper one, rules off; then\n"
        "the model's own lines. Poems: nats per character of the text given kind and title, no\n"
        "form. Images: bits per dimension (a pixel's mean surprise in bits); FILE is in the\n"
        "format of MNIST's images, plain or .gz. Copies: symbols right and whole sequences\n"
        "right, always the likeliest symbol taken, and nats per symbol. Speech: tokens that are\n"
        "wrong, of all: the least number to change, add and leave out; and nats per token. Names\n"
        "of sound files are from the list's folder on.\n",
};

static lx_status eval(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                      lx_error *err)
{
    bool copies = local->model->task == &lx_copy_task;
    if (copies != (path == NULL))
        return lx_fail(err, LX_ERR_INVALID, NULL,
                       copies ? "%s: a model that copies is measured without a FILE"
                              : "%s: FILE is missing",
                       o->local.model);
    if (copies)
        return lx_eval_copies(o, local, err);
    if (local->model->task == &lx_couplet_task)
        return lx_eval_couplets(o, path, local, err);
    if (local->model->task == &lx_poem_task)
        return lx_eval_poems(o, path, local, err);
    if (local->model->task == &lx_speech_task)
        return lx_eval_sounds(o, path, local, err);
    if (local->model->task == &lx_image_task)
        return lx_eval_images(o, path, local, err);
    return lx_fail(err, LX_ERR_UNSUPPORTED, NULL, "%s: eval does not know the task %s",
                   o->local.model, local->model->task->name);
}

int lx_command_eval(int argc, char **argv)
{
    lx_eval_options o;
    const char *path = NULL;
    int exit_status = 0;
    if (lx_cli_parse(&lx_eval_command, argc, argv, &o, &path, NULL, &exit_status) != LX_OK)
        return exit_status;
    lx_error err = {0};
    lx_cli_model local;
    lx_status st = lx_cli_open_any(&o.local, LX_EVAL_ROWS, &local, &err);
    if (st == LX_OK)
        st = eval(&o, path, &local, &err);
    if (st != LX_OK)
        exit_status = lx_cli_fail(&lx_eval_command, st, &err);
    lx_cli_close(&local);
    return exit_status;
}
