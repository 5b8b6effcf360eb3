/* The options that say how the tokens of a text are chosen and where it ends; by the names of the
 * API's fields. `type` is the struct that is filled, `member` its lx_cli_sampling. */
#ifndef LINNET_SERVER_CLI_SAMPLING_OPTIONS_H
#define LINNET_SERVER_CLI_SAMPLING_OPTIONS_H

#include "server/cli/cli.h"
#include "server/engine/sampling.h"
#include "server/engine/stops.h"

typedef struct lx_cli_sampling {
    const char *stop; /* NULL: none */
    int64_t seed, top_k, max_tokens;
    double temperature; /* NAN: what the task is used to */
    double top_p, min_p, typical_p;
    double frequency_penalty, presence_penalty, repetition_penalty;
} lx_cli_sampling;

#define LX_CLI_REAL_OPTION(type, member, field, flag, usual, least, most, ...)                     \
    {                                                                                              \
        .name = flag, .kind = LX_OPTION_REAL, .offset = offsetof(type, member.field),              \
        .fallback = usual, .min = least, .max = most, __VA_ARGS__                                  \
    }

#define LX_CLI_INT_OPTION(type, member, field, flag, ...)                                          \
    {                                                                                              \
        .name = flag, .kind = LX_OPTION_INT, .offset = offsetof(type, member.field),               \
        .fallback = "0", .min = 0, .max = 1000000, __VA_ARGS__                                     \
    }

#define LX_CLI_PENALTY_OPTIONS(type, member)                                                       \
    LX_CLI_REAL_OPTION(type, member, frequency_penalty, "frequency-penalty", "0", -2, 2,           \
                       .value = "X",                                                               \
                       .help = "taken from a token's logit for every time the answer has it"),     \
        LX_CLI_REAL_OPTION(type, member, presence_penalty, "presence-penalty", "0", -2, 2,         \
                           .value = "X",                                                           \
                           .help = "taken from the logit of every token that the answer has"),     \
        LX_CLI_REAL_OPTION(                                                                        \
            type, member, repetition_penalty, "repetition-penalty", "1", 0.01, 10, .value = "X",   \
            .help = "logits of tokens that are there already are divided by it, negative "         \
                    "ones multiplied")

#define LX_CLI_SAMPLING_OPTIONS(type, member, temperatures)                                        \
    LX_CLI_SEED_OPTION(type, member.seed, .fallback = "-1", .min = -1,                             \
                       .help = "of the random numbers, -1: a new one each time"),                  \
        LX_CLI_TEMPERATURE_OPTION(type, member.temperature, .help = temperatures),                 \
        LX_CLI_INT_OPTION(type, member, top_k, "top-k", .value = "K",                              \
                          .help = "sample among the K likeliest, 0: all"),                         \
        LX_CLI_REAL_OPTION(type, member, top_p, "top-p", "1", 1e-6, 1, .value = "P",               \
                           .help = "sample within this much probability"),                         \
        LX_CLI_REAL_OPTION(type, member, min_p, "min-p", "0", 0, 1, .value = "P",                  \
                           .help = "only tokens with this share of the likeliest one's "           \
                                   "probability"),                                                 \
        LX_CLI_REAL_OPTION(type, member, typical_p, "typical-p", "1", 1e-6, 1, .value = "P",       \
                           .help = "of the top-k likeliest, the most typical ones that have "      \
                                   "this share"),                                                  \
        LX_CLI_PENALTY_OPTIONS(type, member),                                                      \
        LX_CLI_INT_OPTION(type, member, max_tokens, "max-tokens", .value = "N",                    \
                          .help = "stop after so many tokens, 0: whole answer"),                   \
    {                                                                                              \
        .name = "stop", .kind = LX_OPTION_STRING, .offset = offsetof(type, member.stop),           \
        .value = "TEXT", .help = "the answer ends before this text"                                \
    }

/* For a job: its seed is chosen, the temperature is `usual` unless one is given. */
lx_sampling_params lx_cli_sampling_params(const lx_cli_sampling *o, double usual);
/* Adds --stop to those that are there. LX_ERR_INVALID for an empty or too long one, or one too
   many. */
lx_status lx_cli_add_stop(const lx_cli_sampling *o, lx_stops *stops, lx_error *err) LX_MUST_USE;
/* The first of these that was asked for, "--stop"; NULL: none. For models that paint. */
const char *lx_cli_text_only(const lx_cli_sampling *o);

#endif
