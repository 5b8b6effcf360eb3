/* What the commands share: opening a model for local use, failing with one line. */
#ifndef LINNET_SERVER_CLI_CLI_H
#define LINNET_SERVER_CLI_CLI_H

#include "model/transcribe.h"
#include "model/transformer.h"
#include "server/cli/options.h"

/* The options that choose a model and how it is computed; a command embeds this first in its own
   struct and LX_CLI_MODEL_OPTIONS first in its table. */
typedef struct lx_cli_model_options {
    const char *model, *device, *backend, *isa, *precision; /* backend: NULL for what device says */
    const char *cuda_products;
    int64_t threads; /* 0: all cores the process may use */
} lx_cli_model_options;

/* Rows that several commands have. `type` is the struct that is filled, `member` its field (for
   those of several rows: its lx_cli_model_options). */
#define LX_CLI_MODEL_OPTION(type, member, ...)                                                     \
    {                                                                                              \
        .name = "model", .short_name = 'm', .env = "LINNET_MODEL", .kind = LX_OPTION_STRING,       \
        .offset = offsetof(type, member.model), .value = "DIR", __VA_ARGS__                        \
    }

#define LX_CLI_LOCAL_MODEL_OPTION(type, member)                                                    \
    LX_CLI_MODEL_OPTION(type, member, .fallback = "couplet",                                       \
                        .help = "the model: a folder, or the name of one that came with linnet")

#define LX_CLI_DEVICE_OPTIONS(type, member)                                                        \
    {.name = "device",                                                                             \
     .env = "LINNET_DEVICE",                                                                       \
     .kind = LX_OPTION_STRING,                                                                     \
     .offset = offsetof(type, member.device),                                                      \
     .fallback = "auto",                                                                           \
     .value = "NAME",                                                                              \
     .help = "where models are computed: cpu, cuda, cuda:N; auto: cuda where there is one"},       \
        {.name = "backend",                                                                        \
         .env = "LINNET_BACKEND",                                                                  \
         .kind = LX_OPTION_CHOICE,                                                                 \
         .offset = offsetof(type, member.backend),                                                 \
         .choices = "cpu|reference|cuda",                                                          \
         .value = "NAME",                                                                          \
         .help = "back end by name, whatever --device says"},                                      \
        {.name = "isa",                                                                            \
         .env = "LINNET_ISA",                                                                      \
         .kind = LX_OPTION_CHOICE,                                                                 \
         .offset = offsetof(type, member.isa),                                                     \
         .fallback = "auto",                                                                       \
         .choices = "auto|plain|avx2|avx512|avx512bf16|avx512vnni|amx|amxplain|neon|neondot|"      \
                    "neonbf16|neonbf16plain",                                                      \
         .value = "NAME",                                                                          \
         .help = "instruction set of the cpu back end"},                                           \
        {.name = "precision",                                                                      \
         .env = "LINNET_PRECISION",                                                                \
         .kind = LX_OPTION_CHOICE,                                                                 \
         .offset = offsetof(type, member.precision),                                               \
         .fallback = "auto",                                                                       \
         .choices = "auto|f32|int8",                                                               \
         .value = "NAME",                                                                          \
         .help = "auto: products in bf16 where the processor has them, f32: exact, int8: cpu "     \
                 "only, whole numbers with scales"},                                               \
    {                                                                                              \
        .name = "cuda-products", .env = "LINNET_CUDA_PRODUCTS", .kind = LX_OPTION_CHOICE,          \
        .offset = offsetof(type, member.cuda_products), .fallback = "cublas",                      \
        .choices = "cublas|own", .value = "NAME",                                                  \
        .help = "what multiplies in bf16 on a GPU: NVIDIA's library, or linnet's own kernels"      \
    }

#define LX_CLI_BACKEND_OPTIONS(type, member)                                                       \
    LX_CLI_DEVICE_OPTIONS(type, member),                                                           \
    {                                                                                              \
        .name = "threads", .short_name = 't', .env = "LINNET_THREADS", .kind = LX_OPTION_INT,      \
        .offset = offsetof(type, member.threads), .fallback = "0", .min = 0, .max = 256,           \
        .value = "N", .help = "compute threads, 0: all cores"                                      \
    }

#define LX_CLI_MODEL_OPTIONS(type, member)                                                         \
    LX_CLI_LOCAL_MODEL_OPTION(type, member), LX_CLI_BACKEND_OPTIONS(type, member)

#define LX_CLI_CONFIG_OPTION(type, member)                                                         \
    {                                                                                              \
        .name = "config", .env = "LINNET_CONFIG", .kind = LX_OPTION_STRING,                        \
        .offset = offsetof(type, member), .value = "FILE",                                         \
        .help = "options of serve from a file, lines of name = value; arguments and variables win" \
    }

#define LX_CLI_SEED_OPTION(type, member, ...)                                                      \
    {                                                                                              \
        .name = "seed", .short_name = 's', .kind = LX_OPTION_INT,                                  \
        .offset = offsetof(type, member), .max = 9007199254740991.0, .value = "N", __VA_ARGS__     \
    }

#define LX_CLI_DRAFT_OPTION(type, member)                                                          \
    {                                                                                              \
        .name = "draft", .env = "LINNET_DRAFT", .kind = LX_OPTION_INT,                             \
        .offset = offsetof(type, member), .fallback = "-1", .min = -1, .max = LX_MAX_DRAFT,        \
        .value = "N",                                                                              \
        .help = "tokens of an answer that are guessed at most, to compute several in a step: no "  \
                "answer changes; 0: none, -1: what suits the device"                               \
    }

#define LX_CLI_TEMPERATURE_OPTION(type, member, ...)                                               \
    {                                                                                              \
        .name = "temperature", .kind = LX_OPTION_REAL, .offset = offsetof(type, member), .min = 0, \
        .max = 10, .value = "T", __VA_ARGS__                                                       \
    }

#define LX_CLI_BEAM_OPTION(type, member)                                                           \
    {                                                                                              \
        .name = "beam", .kind = LX_OPTION_INT, .offset = offsetof(type, member), .fallback = "0",  \
        .min = 0, .max = LX_CTC_MAX_WIDTH, .value = "N",                                           \
        .help =                                                                                    \
            "speech: beginnings of the text that the search keeps, 0: the likeliest path alone"    \
    }

#define LX_CLI_JSON_OPTION(type, member)                                                           \
    {                                                                                              \
        .name = "json", .kind = LX_OPTION_FLAG, .offset = offsetof(type, member),                  \
        .fallback = "off", .help = "print one JSON object instead of text"                         \
    }

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

/* Loads the model that a folder or a name says (server/cli/places.h). */
lx_status lx_cli_load_model(const char *given, lx_model **out, lx_error *err) LX_MUST_USE;

/* What the options say about the back end. */
lx_backend_options lx_cli_backend_options(const lx_cli_model_options *o);
/* Opens the back end alone. */
lx_status lx_cli_open_backend(const lx_cli_model_options *o, lx_backend **out,
                              lx_error *err) LX_MUST_USE;
/* Opens back end, model and transformer; LX_ERR_INVALID for a model of speech. */
lx_status lx_cli_open(const lx_cli_model_options *o, int32_t max_tokens, lx_cli_model *out,
                      lx_error *err) LX_MUST_USE;
/* Opens back end, model, encoder and listener; LX_ERR_INVALID for any other model. */
lx_status lx_cli_open_listener(const lx_cli_model_options *o, lx_cli_model *out,
                               lx_error *err) LX_MUST_USE;
/* Opens what the model is. */
lx_status lx_cli_open_any(const lx_cli_model_options *o, int32_t max_tokens, lx_cli_model *out,
                          lx_error *err) LX_MUST_USE;
void lx_cli_close(lx_cli_model *m);

/* Parses the arguments of a command. LX_OK, or prints help or error and sets *exit_status. */
lx_status lx_cli_parse(const lx_command *c, int argc, char **argv, void *values,
                       const char **positional, int *n_positional, int *exit_status) LX_MUST_USE;

/* Prints "linnet COMMAND: text" and returns the exit status: 2 for LX_ERR_INVALID, otherwise 1. */
int lx_cli_fail(const lx_command *c, lx_status status, const lx_error *err);

/* Prints text as a JSON string, quotes included; the other one of n bytes. */
void lx_cli_print_json_string(const char *text);
void lx_cli_print_json_bytes(const char *text, size_t n);

/* Cores this process may run on, at least 1; a container's share of CPU time, rounded up. */
int32_t lx_cli_core_count(void);

#endif
