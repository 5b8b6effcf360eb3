/*
 * Command-line options, driven by one table per command (see options.h).
 *
 * Values are set in passes over the same setter: defaults, the file of --config, environment,
 * arguments. So every source is checked the same way and its message names where the value came
 * from.
 */
#include "server/cli/options_internal.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static lx_status set_flag(const lx_option *o, void *field, const char *text, const char *source,
                          lx_error *err)
{
    static const char *const yes[] = {"1", "on", "true", "yes", "enabled"};
    static const char *const no[] = {"0", "off", "false", "no", "disabled"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *(bool *)field = strcmp(text, yes[i]) == 0;
            return LX_OK;
        }
    }
    return lx_fail(err, LX_ERR_INVALID, o->name, "%s: \"%s\" is neither on nor off", source, text);
}

static lx_status set_number(const lx_option *o, void *field, const char *text, const char *source,
                            lx_error *err)
{
    char *end = NULL;
    errno = 0;
    double real = strtod(text, &end);
    bool decimal =
        text[strspn(text, "0123456789.-e")] == '\0'; /* strtod takes 0x10 and " 1" as well */
    bool whole = o->kind == LX_OPTION_REAL || text[strspn(text, "0123456789-")] == '\0';
    if (end == text || *end != '\0' || errno == ERANGE || !isfinite(real) || !decimal)
        return lx_fail(err, LX_ERR_INVALID, o->name, "%s: \"%s\" is not a number", source, text);
    if (!whole || real < o->min || real > o->max)
        return lx_fail(err, LX_ERR_INVALID, o->name, "%s: %s is not %s from %.16g to %.16g", source,
                       text, o->kind == LX_OPTION_INT ? "a whole number" : "a number", o->min,
                       o->max);
    if (o->kind == LX_OPTION_INT)
        *(int64_t *)field = strtoll(text, NULL, 10);
    else
        *(double *)field = real;
    return LX_OK;
}

static lx_status set_choice(const lx_option *o, void *field, const char *text, const char *source,
                            lx_error *err)
{
    size_t n = strlen(text);
    for (const char *word = o->choices; word != NULL; word = strchr(word, '|')) {
        word += *word == '|';
        if (n > 0 && strcspn(word, "|") == n && strncmp(word, text, n) == 0) {
            *(const char **)field = text;
            return LX_OK;
        }
    }
    return lx_fail(err, LX_ERR_INVALID, o->name, "%s: \"%s\" is not one of %s", source, text,
                   o->choices);
}

lx_status lx_option_set(const lx_option *o, void *values, const char *text, const char *source,
                        lx_error *err)
{
    void *field = (char *)values + o->offset;
    switch (o->kind) {
    case LX_OPTION_FLAG:
        return set_flag(o, field, text, source, err);
    case LX_OPTION_INT:
    case LX_OPTION_REAL:
        return set_number(o, field, text, source, err);
    case LX_OPTION_CHOICE:
        return set_choice(o, field, text, source, err);
    case LX_OPTION_STRING:
        *(const char **)field = text;
        return LX_OK;
    }
    return LX_ERR_INTERNAL;
}

static void set_left_out(const lx_option *o, void *field)
{
    if (o->kind == LX_OPTION_REAL)
        *(double *)field = (double)NAN;
    else
        *(const char **)field = NULL;
}

static lx_status set_defaults(const lx_command *c, void *values, lx_error *err)
{
    lx_status st = LX_OK;
    for (size_t i = 0; i < c->n_options && st == LX_OK; i++) {
        const lx_option *o = &c->options[i];
        if (o->fallback == NULL)
            set_left_out(o, (char *)values + o->offset);
        else
            st = lx_option_set(o, values, o->fallback, o->name, err);
    }
    return st;
}

static lx_status set_from_environment(const lx_command *c, void *values, lx_error *err)
{
    lx_status st = LX_OK;
    for (size_t i = 0; i < c->n_options && st == LX_OK; i++) {
        const lx_option *o = &c->options[i];
        const char *text = o->env != NULL ? getenv(o->env) : NULL;
        if (text != NULL)
            st = lx_option_set(o, values, text, o->env, err);
    }
    return st;
}

/* Edit distance of two short words, for "did you mean". */
static size_t edit_distance(const char *a, size_t n, const char *b)
{
    size_t m = strlen(b), row[64];
    if (n >= 64 || m >= 64)
        return 64;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t above = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
            if (above + 1 < best)
                best = above + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[m];
}

const char *lx_option_nearest(const lx_command *c, const char *name, size_t n)
{
    const char *nearest = NULL;
    size_t best = 3; /* farther than two edits is no typo */
    for (size_t i = 0; i < c->n_options; i++) {
        size_t d = edit_distance(name, n, c->options[i].name);
        if (d < best) {
            best = d;
            nearest = c->options[i].name;
        }
    }
    return nearest;
}

static lx_status fail_unknown(const lx_command *c, const char *arg, size_t n, lx_error *err)
{
    const char *nearest = lx_option_nearest(c, arg, n);
    if (nearest != NULL)
        return lx_fail(err, LX_ERR_INVALID, nearest, "unknown option --%.*s; did you mean --%s?",
                       (int)n, arg, nearest);
    return lx_fail(err, LX_ERR_INVALID, NULL, "unknown option --%.*s; see linnet %s --help", (int)n,
                   arg, c->name);
}

const lx_option *lx_option_find(const lx_command *c, const char *name, size_t n)
{
    for (size_t i = 0; i < c->n_options; i++)
        if (strlen(c->options[i].name) == n && strncmp(c->options[i].name, name, n) == 0)
            return &c->options[i];
    return NULL;
}

static const lx_option *find_short(const lx_command *c, char letter)
{
    for (size_t i = 0; i < c->n_options; i++)
        if (c->options[i].short_name == letter && letter != '\0')
            return &c->options[i];
    return NULL;
}

enum { MAX_OPTIONS = 128 };

/* A command line on its way through the parser. */
typedef struct arguments {
    int argc, at;
    char **argv;
    bool given[MAX_OPTIONS]; /* by the option's place in the table */
} arguments;

/* Of most options the last one wins, as an alias may have some of its own. */
static lx_status check_repeated(const lx_command *c, const lx_option *o, arguments *a,
                                lx_error *err)
{
    size_t i = (size_t)(o - c->options);
    assert(i < MAX_OPTIONS);
    if (o->several != NULL && a->given[i])
        return lx_fail(err, LX_ERR_INVALID, o->name,
                       "--%s was given twice; for several there is %s", o->name, o->several);
    a->given[i] = true;
    return LX_OK;
}

/* One "--name", "--name=value", "--no-name", "-x" or "-xVALUE"; a->at moves on when the value is
   the next argument. */
static lx_status parse_option(const lx_command *c, arguments *a, void *values, lx_error *err)
{
    const char *arg = a->argv[a->at], *value = NULL;
    bool is_long = arg[1] == '-';
    const char *name = is_long ? arg + 2 : arg + 1;
    size_t n = is_long ? strcspn(name, "=") : 1;
    const lx_option *o = is_long ? lx_option_find(c, name, n) : find_short(c, *name);
    char source[80];
    if (o == NULL && is_long && n > 3 && strncmp(name, "no-", 3) == 0 && name[n] == '\0') {
        o = lx_option_find(c, name + 3, n - 3);
        if (o != NULL && o->kind == LX_OPTION_FLAG)
            return lx_option_set(o, values, "off", arg, err);
        o = NULL;
    }
    if (o == NULL && !is_long)
        return lx_fail(err, LX_ERR_INVALID, NULL, "unknown option %s; see linnet %s --help", arg,
                       c->name);
    if (o == NULL)
        return fail_unknown(c, name, n, err);
    (void)snprintf(source, sizeof source, "--%s", o->name);
    if (name[n] != '\0')
        value = is_long ? name + n + 1 : name + 1;
    else if (o->kind == LX_OPTION_FLAG)
        value = "on";
    else if (a->at + 1 < a->argc)
        value = a->argv[++a->at];
    if (value == NULL)
        return lx_fail(err, LX_ERR_INVALID, o->name, "%s wants a value (%s)", source, o->value);
    lx_status st = check_repeated(c, o, a, err);
    return st == LX_OK ? lx_option_set(o, values, value, source, err) : st;
}

static bool asks_for_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0 ||
           strcmp(arg, "--help=markdown") == 0 || strcmp(arg, "--help=man") == 0;
}

static lx_status parse_arguments(const lx_command *c, int argc, char **argv, void *values,
                                 const char **positional, int *n_positional, lx_error *err)
{
    lx_status st = LX_OK;
    int n = 0;
    bool only_positional = false;
    arguments a = {.argc = argc, .argv = argv};
    for (; a.at < argc && st == LX_OK; a.at++) {
        const char *arg = argv[a.at];
        if (!only_positional && asks_for_help(arg))
            return LX_ERR_CANCELLED;
        if (!only_positional && strcmp(arg, "--") == 0)
            only_positional = true;
        else if (!only_positional && arg[0] == '-' && arg[1] != '\0')
            st = parse_option(c, &a, values, err);
        else if (n < c->max_positional)
            positional[n++] = arg;
        else
            st = lx_fail(err, LX_ERR_INVALID, NULL,
                         "unexpected argument \"%s\"; see linnet %s --help", arg, c->name);
    }
    *n_positional = n;
    return st;
}

/* The path of --config, which arguments and environment have just set; NULL for none. */
static const char *config_path(const lx_command *c, const void *values)
{
    const lx_option *o = lx_option_find(c, "config", strlen("config"));
    return o != NULL ? *(const char *const *)(const void *)((const char *)values + o->offset)
                     : NULL;
}

lx_status lx_options_parse(const lx_command *c, int argc, char **argv, void *values,
                           const char **positional, int *n_positional, lx_error *err)
{
    int n = 0;
    lx_status st = set_defaults(c, values, err);
    if (st == LX_OK)
        st = set_from_environment(c, values, err);
    if (st == LX_OK)
        st = parse_arguments(c, argc, argv, values, positional, &n, err);
    const char *config = st == LX_OK ? config_path(c, values) : NULL;
    if (config != NULL) { /* what wins over the file is set again */
        st = lx_options_read_config(c, config, values, err);
        if (st == LX_OK)
            st = set_from_environment(c, values, err);
        if (st == LX_OK)
            st = parse_arguments(c, argc, argv, values, positional, &n, err);
    }
    if (st == LX_OK && n < c->min_positional)
        st = lx_fail(err, LX_ERR_INVALID, NULL, "%s is missing; see linnet %s --help",
                     c->positional, c->name);
    if (n_positional != NULL)
        *n_positional = n;
    return st;
}

static void print_option(const lx_option *o, FILE *out)
{
    char left[64];
    char letter[8] = "    ";
    if (o->short_name != '\0')
        (void)snprintf(letter, sizeof letter, "-%c, ", o->short_name);
    (void)snprintf(left, sizeof left, "%s--%s%s%s%s", letter,
                   o->kind == LX_OPTION_FLAG ? "[no-]" : "", o->name,
                   o->kind == LX_OPTION_FLAG ? "" : " ", o->kind == LX_OPTION_FLAG ? "" : o->value);
    (void)fprintf(out, "  %-30s %s", left, o->help);
    if (o->kind == LX_OPTION_CHOICE)
        (void)fprintf(out, ": %s", o->choices);
    if (o->kind == LX_OPTION_INT || o->kind == LX_OPTION_REAL)
        (void)fprintf(out, " (%.16g to %.16g)", o->min, o->max);
    if (o->fallback != NULL && o->fallback[0] != '\0')
        (void)fprintf(out, " [%s]", o->fallback);
    if (o->env != NULL)
        (void)fprintf(out, " {%s}", o->env);
    (void)fputc('\n', out);
}

void lx_options_help(const lx_command *c, FILE *out)
{
    (void)fprintf(out, "usage: linnet %s [options]%s%s\n\n%s\n\n", c->name,
                  c->positional != NULL ? " " : "", c->positional != NULL ? c->positional : "",
                  c->summary);
    (void)fprintf(out, "options:        (range) [default] {environment variable}\n");
    for (size_t i = 0; i < c->n_options; i++)
        print_option(&c->options[i], out);
    (void)fprintf(out, "  %-30s %s\n", "-h, --help",
                  "print this help; --help=markdown: as a table");
    if (c->notes != NULL)
        (void)fprintf(out, "\n%s", c->notes);
}
