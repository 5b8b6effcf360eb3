/*
 * linnet eval: how good a model is on a file, or on sequences that the command makes itself. The
 * model's task decides on the measurement (eval_tasks.c, eval_speech.c).
 */
#include "model/ctc.h"
#include "model/tasks/copy.h"
#include "model/tasks/couplet.h"
#include "model/tasks/image.h"
#include "model/tasks/poem.h"
#include "model/tasks/speech.h"
#include "server/cli/eval.h"

#define LX_OPTIONS lx_eval_options
static const lx_option options[] = {
    LX_CLI_MODEL_OPTIONS("couplet"),
    LX_INT(
        "limit", limit, "0", 0, 1e9, "N",
        "Only the first N pairs, poems, images or sounds are measured; 0 measures all, and 1,000 "
        "sequences of a model that copies."),
    LX_INT("length", length, "0", 0, 65536, "N",
           "Copies: a sequence has N symbols; 0 takes the most that the model reads."),
    LX_FLAG("answers", answers, "on",
            "Couplets: the model also writes lower lines, and the rules that they keep are "
            "counted."),
    LX_REAL("temperature", temperature, "0.8", 0, 10, "T",
            "Couplets: the model writes its lines with this temperature of sampling."),
    LX_INT("seed", seed, "1", 0, LX_MAX_SEED, "N",
           "The random numbers of written lines and of sequences to copy have this seed.",
           .letter = 's'),
    LX_CLI_BEAM_OPTION,
    LX_CLI_JSON_OPTION,
};

static lx_status eval(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                      lx_error *err)
{
    bool copies = local->model->task == &lx_copy_task;
    if (copies != (path == NULL))
        return lx_fail(err, LX_ERR_INVALID, NULL,
                       copies ? "%s: a model that copies is measured without a FILE; leave it out"
                              : "%s: FILE is missing; see linnet eval --help",
                       o->local.model);
    static const struct {
        const lx_task_ops *task;
        lx_eval_measure *measure;
    } measures[] = {
        {&lx_copy_task, lx_eval_copies},  {&lx_couplet_task, lx_eval_couplets},
        {&lx_poem_task, lx_eval_poems},   {&lx_speech_task, lx_eval_sounds},
        {&lx_image_task, lx_eval_images},
    };
    for (size_t i = 0; i < sizeof measures / sizeof *measures; i++)
        if (measures[i].task == local->model->task)
            return measures[i].measure(o, path, local, err);
    return lx_fail(err, LX_ERR_UNSUPPORTED, NULL, "%s: linnet eval cannot measure the task %s",
                   o->local.model, local->model->task->name);
}

static lx_status run(void *values, const char *const *rest, lx_error *err)
{
    const lx_eval_options *o = values;
    lx_cli_model local;
    lx_status st = lx_cli_open(&o->local, LX_CLI_ANY, LX_EVAL_ROWS, &local, err);
    if (st == LX_OK)
        st = eval(o, rest[0], &local, err);
    lx_cli_close(&local);
    return st;
}

const lx_command lx_eval_command = {
    .name = "eval",
    .brief = "measure a model on a file: nats per character, perplexity, rules",
    .summary =
        "Measures a model on FILE: couplets (one pair per line: upper TAB lower), poems (one per\n"
        "line: kind TAB author TAB title TAB text), images (idx) or sounds (one per line: sound\n"
        "file TAB text). A model that copies is measured without a FILE, on sequences drawn by "
        "--seed.",
    .positional = "FILE",
    .min_positional = 0,
    .max_positional = 1,
    LX_COMMAND(run),
    .notes =
        "Couplets: nats per character of the lower line given the upper one, without rules; then\n"
        "the rules that the model's own lines keep. Poems: nats per character of the text given\n"
        "kind and title, without a form. Images: bits per dimension, the mean surprise of a pixel\n"
        "in bits; FILE has the format of MNIST's images, plain or .gz. Copies: shares of right\n"
        "symbols and of right sequences, where the model always writes the likeliest symbol, and\n"
        "nats per symbol. Speech: share of wrong tokens (the least number to change, add and "
        "leave\n"
        "out) and nats per token; names of sound files are relative to the folder of the list.\n",
};
