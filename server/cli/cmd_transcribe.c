/*
 * linnet transcribe: what sound files say, one line each, printed as soon as it is known.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "model/ctc.h"
#include "model/formats/file.h"
#include "model/transcribe.h"
#include "server/cli/cli.h"
#include "server/cli/commands.h"

enum { MAX_FILES = 4096, CHUNK = 1 << 16 };

typedef struct transcribe_options {
    lx_cli_model_options local;
    int64_t beam;
    bool json;
} transcribe_options;

#define FIELD(member) offsetof(transcribe_options, member)
static const lx_option options[] = {
    LX_CLI_MODEL_OPTIONS(transcribe_options, local),
    LX_CLI_BEAM_OPTION(transcribe_options, beam),
    {.name = "json",
     .kind = LX_OPTION_FLAG,
     .offset = FIELD(json),
     .fallback = "off",
     .help = "print one JSON object for each file, with times"},
};

const lx_command lx_transcribe_command = {
    .name = "transcribe",
    .brief = "print what sound files say",
    .summary = "Prints what each sound FILE says (-: standard input), by a model of speech.",
    .positional = "FILE...",
    .min_positional = 1,
    .max_positional = MAX_FILES,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .notes =
        "A FILE is WAV, FLAC or Ogg (Vorbis, Opus), mono or stereo, as long as the model hears:\n"
        "linnet inspect says that. One file is one line of text; of several each line is the\n"
        "file's name, a TAB and the text. With --json a line is an object with \"file\", "
        "\"text\",\n"
        "\"duration\" in seconds, \"log_p\" in nats (of the text, with --beam 0 of its likeliest\n"
        "path) and \"tokens\", of which each has \"text\", \"start\" and \"end\". The first file\n"
        "that cannot be heard ends the command.\n",
};

/* --- one file --- */

static lx_status read_input(char **data, size_t *bytes, lx_error *err)
{
    char chunk[CHUNK];
    lx_buffer all;
    size_t n;
    lx_buffer_init(&all, LX_CLI_MAX_SOUND);
    while (all.status == LX_OK && (n = fread(chunk, 1, sizeof chunk, stdin)) > 0)
        lx_buffer_append(&all, chunk, n);
    lx_status st = all.status;
    if (st != LX_OK)
        st = lx_fail(err, st, NULL, "a sound file has at most %d bytes", LX_CLI_MAX_SOUND);
    else if (ferror(stdin) != 0)
        st = lx_fail(err, LX_ERR_IO, NULL, "%s", strerror(errno));
    else if (all.length == 0)
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

int lx_command_transcribe(int argc, char **argv)
{
    static const char *files[MAX_FILES];
    transcribe_options o;
    int exit_status = 0, n = 0;
    if (lx_cli_parse(&lx_transcribe_command, argc, argv, &o, files, &n, &exit_status) != LX_OK)
        return exit_status;
    lx_error err = {0};
    lx_cli_model m = {0};
    lx_status st = lx_cli_open_listener(&o.local, &m, &err);
    for (int i = 0; i < n && st == LX_OK; i++)
        st = transcribe(&o, &m, files[i], n > 1, &err);
    lx_cli_close(&m);
    return st == LX_OK ? exit_status : lx_cli_fail(&lx_transcribe_command, st, &err);
}
