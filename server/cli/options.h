/*
 * Command-line options from one table per command: name, default, range, help. Parsing, the
 * environment, --help, the manual and the completions read the same table, so they cannot disagree.
 *
 * "--name value" and "--name=value"; a flag is "--name" or "--no-name", in the environment 1, on,
 * true, yes, enabled / 0, off, false, no, disabled. An argument wins over the environment, the
 * environment over the file of --config (where a command has that option), the file over the
 * default.
 */
#ifndef LINNET_SERVER_CLI_OPTIONS_H
#define LINNET_SERVER_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/status.h"

typedef enum lx_option_kind {
    LX_OPTION_FLAG,   /* bool */
    LX_OPTION_INT,    /* int64_t within min .. max */
    LX_OPTION_REAL,   /* double within min .. max, finite */
    LX_OPTION_STRING, /* const char *, borrowed from argv, the environment or the table */
    LX_OPTION_CHOICE  /* const char *, one of the words of `choices` ("a|b|c") */
} lx_option_kind;

typedef struct lx_option {
    const char *name; /* "port" for --port */
    lx_option_kind kind;
    size_t offset;        /* of the field in the struct that is filled */
    const char *fallback; /* the default as text; NULL: without one, a STRING is NULL, a REAL NAN */
    double min, max;      /* INT, REAL */
    const char *choices;  /* CHOICE */
    const char *value;    /* the name of the value in help: "N", "DIR" */
    const char *help;     /* whole sentences, which name the unit */
    char letter;          /* 'n' for -n, 0 for none */
    bool variable;        /* LINNET_NAME in the environment sets the option */
    const char *several;  /* the option for several values, where this one may be given only once */
} lx_option;

/* Rows of a table. The table's file defines LX_OPTIONS, the struct that is filled; `at` is a field
   of it. Further members may follow the help: .letter = 'p'. */
#define LX_OPTION(flag, type, at, usual, ...)                                                      \
    {                                                                                              \
        .name = flag, .kind = type, .offset = offsetof(LX_OPTIONS, at), .fallback = usual,         \
        __VA_ARGS__                                                                                \
    }
#define LX_FLAG(flag, at, usual, ...)                                                              \
    LX_OPTION(flag, LX_OPTION_FLAG, at, usual, .help = __VA_ARGS__)
#define LX_INT(flag, at, usual, least, most, unit, ...)                                            \
    LX_OPTION(flag, LX_OPTION_INT, at, usual, .min = least, .max = most, .value = unit,            \
              .help = __VA_ARGS__)
#define LX_REAL(flag, at, usual, least, most, unit, ...)                                           \
    LX_OPTION(flag, LX_OPTION_REAL, at, usual, .min = least, .max = most, .value = unit,           \
              .help = __VA_ARGS__)
#define LX_STRING(flag, at, usual, unit, ...)                                                      \
    LX_OPTION(flag, LX_OPTION_STRING, at, usual, .value = unit, .help = __VA_ARGS__)
#define LX_CHOICE(flag, at, usual, words, unit, ...)                                               \
    LX_OPTION(flag, LX_OPTION_CHOICE, at, usual, .choices = words, .value = unit,                  \
              .help = __VA_ARGS__)

typedef struct lx_command {
    const char *name;       /* "serve" */
    const char *brief;      /* its purpose, in a list of commands */
    const char *summary;    /* one line */
    const char *positional; /* "FILE", NULL when the command takes none */
    int min_positional, max_positional;
    const char *notes; /* text after the options in --help, NULL for none */
    const lx_option *options;
    size_t n_options;
    bool variables;                     /* every option has one */
    const struct lx_command *config_of; /* the command whose file --config names; NULL: its own */
    size_t values_bytes;                /* of the struct that the options fill */
    /* Runs the command with that struct and its other arguments, of which NULL follows the last.
       LX_ERR_INVALID: they are wrong. */
    lx_status (*run)(void *values, const char *const *rest, lx_error *err);
} lx_command;

/* The members of a command that follow from its table, which is named `options`. */
#define LX_COMMAND(function)                                                                       \
    .options = options, .n_options = sizeof options / sizeof *options,                             \
    .values_bytes = sizeof(LX_OPTIONS), .run = function

/*
 * Fills `values` (the struct that the offsets refer to). positional[max_positional] receives the
 * other arguments and *n_positional their number. argv[0] is the first argument after the command's
 * name. LX_ERR_INVALID: the text names the flag (variable, file and line), the value and the
 * allowed values; for an unknown flag it suggests a known one that resembles it. Where every option
 * has a variable, one that resembles an option's is a fault, too. LX_ERR_CANCELLED
 * after --help, -h, --help=markdown or --help=man: the caller prints the help and ends with
 * success.
 */
lx_status lx_options_parse(const lx_command *command, int argc, char **argv, void *values,
                           const char **positional, int *n_positional, lx_error *err) LX_MUST_USE;

enum { LX_VARIABLE_BYTES = 64 };

/* The option's variable in the environment, "LINNET_MAX_N" for --max-n; NULL for none. */
const char *lx_option_variable(const lx_command *c, const lx_option *o,
                               char room[LX_VARIABLE_BYTES]);

/* The next variable LINNET_... of the environment that no option has and that neither Kubernetes
   nor our deployments set, and its length; NULL: there is none. *at begins as 0. nearest: the
   option that it resembles, NULL for none; with one, lx_options_parse has failed. */
const char *lx_options_unknown_variable(const lx_command *c, size_t *at, size_t *length,
                                        const lx_option **nearest);

/* --- pages that are made of the tables (manual.c): --help, a table in Markdown for
   docs/operations.md, manual pages (linnet(1), and one per command), and the completions of bash
   and zsh. The build runs the program to write the manual and the completions --- */

void lx_manual_help(const lx_command *command, FILE *out);
void lx_manual_markdown(const lx_command *command, FILE *out);
void lx_manual_command(const lx_command *command, FILE *out);

void lx_manual_program(const lx_command *const *commands, size_t n, FILE *out);
void lx_manual_bash(const lx_command *const *commands, size_t n, FILE *out);
void lx_manual_zsh(const lx_command *const *commands, size_t n, FILE *out);

#endif
