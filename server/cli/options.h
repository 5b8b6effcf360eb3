/*
 * Command-line options from one table per command: name, environment variable, default, range,
 * help. Parsing, the environment and --help all read the same table, so they cannot disagree.
 *
 * "--name value" and "--name=value"; a flag is "--name" or "--no-name", in the environment 1, on,
 * true, yes, enabled / 0, off, false, no, disabled. An argument wins over the environment, that
 * over the file of --config, where a command has that option, and that over the default.
 */
#ifndef LINNET_SERVER_CLI_OPTIONS_H
#define LINNET_SERVER_CLI_OPTIONS_H

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
    char short_name;  /* 'n' for -n, 0 for none */
    const char *env;  /* "LINNET_PORT", NULL for none */
    lx_option_kind kind;
    size_t offset; /* of the field in the struct that is filled */
    const char
        *fallback;   /* the default as text; NULL: may be left out, a STRING (NULL), REAL (NAN) */
    double min, max; /* INT, REAL */
    const char *choices; /* CHOICE */
    const char *value;   /* what help calls the value: "N", "DIR" */
    const char *help;
    const char
        *several; /* it may not be given twice, and this is for several; NULL: the last wins */
} lx_option;

typedef struct lx_command {
    const char *name;       /* "serve" */
    const char *brief;      /* what it is for, in a list of commands */
    const char *summary;    /* one line */
    const char *positional; /* "FILE", NULL when the command takes none */
    int min_positional, max_positional;
    const char *notes; /* text after the options in --help, NULL for none */
    const lx_option *options;
    size_t n_options;
    const struct lx_command *config_of; /* whose file --config names; NULL: its own */
} lx_command;

/*
 * Fills `values` (the struct the offsets refer to). positional[max_positional] receives the other
 * arguments and *n_positional their number. argv[0] is the first argument after the command's name.
 * LX_ERR_INVALID with a text that names the flag (variable, file and line), the value and what is
 * allowed; an unknown flag that resembles a known one is answered with a suggestion.
 * LX_ERR_CANCELLED after --help, -h, --help=markdown or --help=man: the caller prints the help and
 * ends with success.
 */
lx_status lx_options_parse(const lx_command *command, int argc, char **argv, void *values,
                           const char **positional, int *n_positional, lx_error *err) LX_MUST_USE;

void lx_options_help(const lx_command *command, FILE *out);

/* The same as a table in Markdown, for docs/operations.md. */
void lx_options_markdown(const lx_command *command, FILE *out);

#endif
