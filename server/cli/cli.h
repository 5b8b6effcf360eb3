/*
 * The commands of the program, and the code that they share: rows of options, opening a model for
 * local use, standard input and output.
 */
#ifndef LINNET_SERVER_CLI_CLI_H
#define LINNET_SERVER_CLI_CLI_H

#include "common/buffer.h"
#include "model/transcribe.h"
#include "model/transformer.h"
#include "server/cli/options.h"

extern const lx_command lx_serve_command, lx_generate_command, lx_chat_command, lx_eval_command,
    lx_bench_command, lx_inspect_command, lx_tokenize_command, lx_transcribe_command,
    lx_health_command, lx_states_command, lx_convert_command;

/* Parses the arguments, runs the command and prints its error; returns the exit status: 0, 2 for
   LX_ERR_INVALID, otherwise 1. argv[0] is the first argument after the command's name. */
int lx_cli_run(const lx_command *c, int argc, char **argv);

/* Prints "linnet COMMAND: text" and returns the exit status. */
int lx_cli_fail(const lx_command *c, lx_status status, const lx_error *err);

/* --- rows of options that several commands have (see LX_OPTIONS) --- */

/* The options that choose a model and its back end. The struct of a command with the rows
   LX_CLI_MODEL_OPTIONS has this member, named `local`. */
typedef struct lx_cli_model_options {
    const char *model, *device, *backend, *isa, *precision; /* backend: NULL for that of device */
    const char *cuda_products;
    int64_t threads; /* 0: all cores that the process may use */
} lx_cli_model_options;

/* `usual`: the name of the model without the option, NULL for none. */
#define LX_CLI_LOCAL_MODEL_OPTION(usual)                                                           \
    LX_STRING("model", local.model, usual, "DIR",                                                  \
              "The model is this folder or GGUF file, or has this name among the models that "     \
              "came with linnet.",                                                                 \
              .letter = 'm', .variable = true)

#define LX_CLI_DEVICE_OPTIONS                                                                      \
    LX_STRING("device", local.device, "auto", "NAME",                                              \
              "Models are computed on this device: cpu, cuda or cuda:N; auto takes cuda where a "  \
              "GPU is usable, otherwise cpu.",                                                     \
              .variable = true),                                                                   \
        LX_CHOICE("backend", local.backend, NULL, "cpu|reference|cuda", "NAME",                    \
                  "This back end computes the models, whatever --device says.", .variable = true), \
        LX_CHOICE("isa", local.isa, "auto",                                                        \
                  "auto|plain|avx2|avx512|avx512bf16|avx512vnni|amx|amxplain|neon|neondot|"        \
                  "neonbf16|neonbf16plain",                                                        \
                  "NAME",                                                                          \
                  "The cpu back end uses this instruction set; auto takes the fastest one that "   \
                  "the processor has.",                                                            \
                  .variable = true),                                                               \
        LX_CHOICE(                                                                                 \
            "precision", local.precision, "auto", "auto|f32|int8|int4", "NAME",                    \
            "Matrix products have this precision: auto is bf16 where the processor has "           \
            "instructions for it, f32 is exact, int8 and int4 (cpu only) hold weights as whole "   \
            "numbers with scales.",                                                                \
            .variable = true),                                                                     \
        LX_CHOICE("cuda-products", local.cuda_products, "cublas", "cublas|own", "NAME",            \
                  "On a GPU this library multiplies matrices in bf16: NVIDIA's cuBLAS, or "        \
                  "linnet's own kernels.",                                                         \
                  .variable = true)

#define LX_CLI_BACKEND_OPTIONS                                                                     \
    LX_CLI_DEVICE_OPTIONS,                                                                         \
        LX_INT("threads", local.threads, "0", 0, 256, "N",                                         \
               "N threads compute; 0 takes all cores.", .letter = 't', .variable = true)

#define LX_CLI_MODEL_OPTIONS(usual) LX_CLI_LOCAL_MODEL_OPTION(usual), LX_CLI_BACKEND_OPTIONS

#define LX_CLI_CONFIG_OPTION                                                                       \
    LX_STRING("config", config, NULL, "FILE",                                                      \
              "The command reads options of serve from this file, in lines of name = value; "      \
              "arguments and variables win over the file.",                                        \
              .variable = true)

#define LX_CLI_DRAFT_OPTION                                                                        \
    LX_INT(                                                                                        \
        "draft", draft, "-1", -1, LX_MAX_DRAFT, "N",                                               \
        "At most N tokens of an answer are guessed per step, so that a step computes several; "    \
        "the answer does not change. 0 guesses none, -1 takes the number that suits the device.",  \
        .variable = true)

#define LX_CLI_BEAM_OPTION                                                                         \
    LX_INT(                                                                                        \
        "beam", beam, "0", 0, LX_CTC_MAX_WIDTH, "N",                                               \
        "Speech: the search keeps N beginnings of the text; 0 follows only the likeliest path.")

#define LX_CLI_JSON_OPTION                                                                         \
    LX_FLAG("json", json, "off", "The command prints one JSON object instead of text.")

/* --- models --- */

enum { LX_CLI_WHY_BYTES = 512 }; /* the longest line of lx_backend_choose */

enum { LX_CLI_MAX_SOUND = 64 << 20 }; /* bytes of a sound file */

/* An opened model: of speech with encoder and listener, any other with a transformer. */
typedef struct lx_cli_model {
    lx_backend *be;
    lx_model *model;
    lx_transformer *transformer;
    lx_encoder *encoder; /* for one input at a time */
    lx_listener *listener;
} lx_cli_model;

/* Loads the model of a folder or a name (lx_places_model). */
lx_status lx_cli_load_model(const char *given, lx_model **out, lx_error *err) LX_MUST_USE;

/* The options of the back end. */
lx_backend_options lx_cli_backend_options(const lx_cli_model_options *o);
typedef enum lx_cli_sort { LX_CLI_WRITES, LX_CLI_HEARS, LX_CLI_ANY } lx_cli_sort;
/* Opens back end, model, and transformer (for steps of max_tokens rows), or encoder and listener.
   LX_ERR_INVALID for a model that is not of the sort. */
lx_status lx_cli_open(const lx_cli_model_options *o, lx_cli_sort sort, int32_t max_tokens,
                      lx_cli_model *out, lx_error *err) LX_MUST_USE;
void lx_cli_close(lx_cli_model *m);

/* --- standard input and output --- */

/* Appends standard input to the buffer, until the buffer is full. LX_ERR_IO with the system's
   reason; other errors are in the buffer. */
lx_status lx_cli_read_input(lx_buffer *out, lx_error *err) LX_MUST_USE;

/* Prints a JSON string, quotes included: all of `text`, or its first n bytes. */
void lx_cli_print_json_string(const char *text);
void lx_cli_print_json_bytes(const char *text, size_t n);

/* Prints the beginning of a JSON object, with its first member, "model". */
void lx_cli_begin_json(const char *model);

/* A progress bar on stderr for long work. Where stderr is no terminal it shows nothing. */
typedef struct lx_progress {
    bool on;          /* stderr is a terminal; without one the other members do not count */
    const char *unit; /* "pixels" */
    int64_t total, start_ns, next_ns;
} lx_progress;

void lx_progress_begin(lx_progress *p, const char *unit, int64_t total);
/* Shows that `done` of the total is there; at most ten times per second. */
void lx_progress_update(lx_progress *p, int64_t done);
/* Takes the bar away. */
void lx_progress_end(lx_progress *p);

/*
 * --- places (places.c) ---
 *
 * Where models are looked for when no folder is named, so that a command works from any folder:
 *
 *   LINNET_MODELS                      if it is set, alone; for one model a list FOLDER:FOLDER
 *   PROGRAM/../share/linnet/models     the program is installed: /usr/share/linnet/models
 *   PROGRAM/../weights                 it was built in its source: build/linnet
 *   /usr/share/linnet/models
 *
 * PROGRAM is the folder the program lies in. The first of them that exists is taken.
 *
 * And where Debian's packages put fonts of Chinese characters.
 * Any thread.
 */
enum { LX_PLACE_BYTES = 4096 }; /* of a path, with its end */

/* The folder whose subfolders are models. LX_ERR_NOT_FOUND names the places. */
lx_status lx_places_models(char out[LX_PLACE_BYTES], lx_error *err) LX_MUST_USE;

/* The folder of one model. `given` is a folder, or, without a "/" and where no such folder is here,
   the name of a folder in lx_places_models(), or in the first folder of LINNET_MODELS that has it.
   A folder of that list may be the model itself. `given` may also be a GGUF file. LX_ERR_NOT_FOUND
   names where it was looked for. */
lx_status lx_places_model(const char *given, char out[LX_PLACE_BYTES], lx_error *err) LX_MUST_USE;

/* The first known font that is installed: fonts of brush strokes come before printed ones; NULL
   without one. Static. */
const char *lx_places_font(void);

#endif
