/* linnet transcribe: the texts of sound files, one line each, printed as soon as it is complete. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "model/ctc.h"
#include "model/formats/file.h"
#include "model/transcribe.h"
#include "server/cli/cli.h"

enum { MAX_FILES = 4096 };

typedef struct transcribe_options {
    lx_cli_model_options local;
    int64_t beam;
    bool json;
} transcribe_options;

#define LX_OPTIONS transcribe_options
static const lx_option options[] = {
    LX_CLI_MODEL_OPTIONS("digits-spoken"),
    LX_CLI_BEAM_OPTION,
    LX_FLAG("json", json, "off", "The command prints one JSON object for each file, with times."),
};

/* --- one file --- */

static lx_status read_input(char **data, size_t *bytes, lx_error *err)
{
    lx_buffer all;
    lx_buffer_init(&all, LX_CLI_MAX_SOUND);
    lx_status st = lx_cli_read_input(&all, err);
    if (st == LX_OK && all.status != LX_OK)
        st = lx_fail(err, all.status, NULL, "a sound file has at most %d bytes", LX_CLI_MAX_SOUND);
    else if (st == LX_OK && all.length == 0)
        st = lx_fail(err, LX_ERR_INVALID, NULL, "it is empty");
    if (st == LX_OK)
        *data = lx_buffer_take(&all, bytes);
    lx_buffer_fini(&all);
    return st;
}

static void print_json(const char *file, const lx_transcription *t)
{
    (void)printf("{\"file\": ");
    lx_cli_print_json_string(file);
    (void)printf(", \"text\": ");
    lx_cli_print_json_string(t->text);
    (void)printf(", \"duration\": %.3f, \"log_p\": %.6f, \"tokens\": [", t->duration, t->log_p);
    for (int32_t i = 0; i < t->n; i++) {
        (void)printf("%s{\"text\": ", i > 0 ? ", " : "");
        lx_cli_print_json_string(t->tokens[i].text);
        (void)printf(", \"start\": %.3f, \"end\": %.3f}", t->tokens[i].start, t->tokens[i].end);
    }
    (void)printf("]}\n");
}

static lx_status transcribe(const transcribe_options *o, const lx_cli_model *m, const char *file,
                            bool several, lx_error *err)
{
    lx_transcription t = {0};
    char *data = NULL;
    size_t bytes = 0;
    bool is_input = strcmp(file, "-") == 0;
    lx_error why = {0};
    lx_status st = is_input ? read_input(&data, &bytes, &why)
                            : lx_file_read(file, LX_CLI_MAX_SOUND, &data, &bytes, &why);
    if (st == LX_OK)
        st =
            lx_transcribe(m->listener, m->encoder, data, bytes, "file", (int32_t)o->beam, &t, &why);
    free(data);
    if (st != LX_OK)
        return lx_fail(err, st, why.param, "%s: %s",
                       is_input ? "standard input" : lx_file_label(file), why.text);
    if (o->json)
        print_json(file, &t);
    else
        (void)printf("%s%s%s\n", several ? file : "", several ? "\t" : "", t.text);
    lx_transcription_fini(&t);
    return fflush(stdout) == 0
               ? LX_OK
               : lx_fail(err, LX_ERR_IO, NULL, "standard output: %s", strerror(errno));
}

/* --- the command --- */

static lx_status run(void *values, const char *const *files, lx_error *err)
{
    const transcribe_options *o = values;
    lx_cli_model m = {0};
    lx_status st = lx_cli_open(&o->local, LX_CLI_HEARS, 0, &m, err);
    for (int i = 0; files[i] != NULL && st == LX_OK; i++)
        st = transcribe(o, &m, files[i], files[1] != NULL, err);
    lx_cli_close(&m);
    return st;
}

const lx_command lx_transcribe_command = {
    .name = "transcribe",
    .brief = "transcribe sound files",
    .summary = "Prints the text of each sound FILE (-: standard input), by a model of speech.",
    .positional = "FILE...",
    .min_positional = 1,
    .max_positional = MAX_FILES,
    LX_COMMAND(run),
    .notes =
        "A FILE is WAV, FLAC or Ogg (Vorbis, Opus), mono or stereo, of at most the length that\n"
        "linnet inspect prints for the model. One file gives one line of text; of several files\n"
        "each line is the file's name, a TAB and the text. With --json a line is an object with\n"
        "\"file\", \"text\", \"duration\" in seconds, \"log_p\" in nats (of the text, with\n"
        "--beam 0 of its likeliest path) and \"tokens\", each with \"text\", \"start\" and\n"
        "\"end\". The command ends at the first file that it cannot transcribe.\n",
};
