/*
 * Command-line options, driven by one table per command (see options.h).
 *
 * Values are set in passes over the same setter: defaults, the file of --config, environment,
 * arguments. So every source is checked the same way and its message names where the value came
 * from.
 *
 * The file of --config has lines of `name = value`, where the names are those of the flags without
 * "--", blank lines, and comments, whose first character is "#". A value is the rest of its line
 * without blanks at its ends, so it may contain "#", and nothing is quoted.
 */
#include "server/cli/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/auth/secret.h"

enum { MAX_OPTIONS = 128, MAX_CONFIG = 1 << 16, SOURCE_BYTES = 160, PATH_SHOWN = 96 };

/* --- one value --- */

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

/* `source` ("--port", "LINNET_PORT") begins the error's text. */
static lx_status set(const lx_option *o, void *values, const char *text, const char *source,
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

static lx_status set_defaults(const lx_command *c, void *values, lx_error *err)
{
    lx_status st = LX_OK;
    for (size_t i = 0; i < c->n_options && st == LX_OK; i++) {
        const lx_option *o = &c->options[i];
        void *field = (char *)values + o->offset;
        if (o->fallback != NULL)
            st = set(o, values, o->fallback, o->name, err);
        else if (o->kind == LX_OPTION_REAL)
            *(double *)field = (double)NAN;
        else
            *(const char **)field = NULL;
    }
    return st;
}

/* --- the environment --- */

const char *lx_option_variable(const lx_command *c, const lx_option *o,
                               char room[LX_VARIABLE_BYTES])
{
    if (!c->variables && !o->variable)
        return NULL;
    (void)snprintf(room, LX_VARIABLE_BYTES, "LINNET_%s", o->name);
    for (char *p = room; *p != '\0'; p++)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
    return room;
}

static lx_status set_from_environment(const lx_command *c, void *values, lx_error *err)
{
    lx_status st = LX_OK;
    for (size_t i = 0; i < c->n_options && st == LX_OK; i++) {
        char room[LX_VARIABLE_BYTES];
        const char *variable = lx_option_variable(c, &c->options[i], room);
        const char *text = variable != NULL ? getenv(variable) : NULL;
        if (text != NULL)
            st = set(&c->options[i], values, text, variable, err);
    }
    return st;
}

/* --- names --- */

/* The option whose name is these n bytes, NULL for none. */
static const lx_option *find(const lx_command *c, const char *name, size_t n)
{
    for (size_t i = 0; i < c->n_options; i++)
        if (strlen(c->options[i].name) == n && strncmp(c->options[i].name, name, n) == 0)
            return &c->options[i];
    return NULL;
}

static const lx_option *find_letter(const lx_command *c, char letter)
{
    for (size_t i = 0; i < c->n_options; i++)
        if (c->options[i].letter == letter && letter != '\0')
            return &c->options[i];
    return NULL;
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

/* The option whose name takes the fewest edits to become `name`, at most so many; NULL: none. */
static const lx_option *nearest_option(const lx_command *c, const char *name, size_t n,
                                       size_t most_edits)
{
    const lx_option *nearest = NULL;
    size_t best = most_edits + 1;
    for (size_t i = 0; i < c->n_options; i++) {
        size_t d = edit_distance(name, n, c->options[i].name);
        if (d < best) {
            best = d;
            nearest = &c->options[i];
        }
    }
    return nearest;
}

/* Of the name of n bytes that no option has. `where` begins the text: "", "FILE:3: "; `dashes` are
   those of a flag. A letter resembles none. */
static lx_status fail_unknown(const lx_command *c, const char *where, const char *dashes,
                              const char *name, size_t n, lx_error *err)
{
    bool is_letter = strcmp(dashes, "-") == 0; /* farther than two edits is no typo */
    const lx_option *nearest = is_letter ? NULL : nearest_option(c, name, n, 2);
    int shown = n < 60 ? (int)n : 60;
    if (nearest != NULL)
        return lx_fail(err, LX_ERR_INVALID, nearest->name,
                       "%sunknown option \"%s%.*s\"; did you mean %s%s?", where, dashes, shown,
                       name, dashes, nearest->name);
    return lx_fail(err, LX_ERR_INVALID, NULL, "%sunknown option \"%s%.*s\"; see linnet %s --help",
                   where, dashes, shown, name, c->name);
}

/* --- variables that no option has --- */

static const char prefix[] = "LINNET_";

static bool ends_with(const char *name, size_t n, const char *end)
{
    size_t m = strlen(end);
    return n >= m && memcmp(name + n - m, end, m) == 0;
}

/* Kubernetes gives pods variables of each service, such as "linnet" and "linnet-redis". The name
   begins with an underscore. */
static bool is_of_service(const char *name, size_t n, const char *value)
{
    static const char port[] = "_PORT_", named[] = "_SERVICE_PORT_";
    const char *at = memmem(name, n, port, sizeof port - 1);
    return ends_with(name, n, "_SERVICE_HOST") || ends_with(name, n, "_SERVICE_PORT") ||
           memmem(name, n, named, sizeof named - 1) != NULL ||
           (at != NULL && isdigit((unsigned char)at[sizeof port - 1])) ||
           (ends_with(name, n, "_PORT") && strstr(value, "://") != NULL);
}

/* Of the proxy, the files of compose and the tests, whose environment a server may have. */
static bool is_of_deployment(const char *name, size_t n)
{
    static const char *const names[] = {"1",      "2",         "BIND",       "STATUS_BIND", "IMAGE",
                                        "MEMORY", "PUBLISH",   "CUDA_IMAGE", "DATA",        "URL",
                                        "TESTS",  "MODEL_DIR", "MODELS_DIR"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && memcmp(names[i], name, n) == 0)
            return true;
    return false;
}

/* The option that a variable's name of n bytes, without its prefix, resembles: by one edit, and by
   two where it is long, as other programs may have short names. */
static const lx_option *find_near(const lx_command *c, const char *name, size_t n)
{
    char flag[LX_VARIABLE_BYTES];
    if (n >= sizeof flag)
        return NULL;
    for (size_t i = 0; i < n; i++)
        flag[i] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
    return nearest_option(c, flag, n, n < 8 ? 1 : 2);
}

static bool is_variable(const lx_command *c, const char *name, size_t n)
{
    for (size_t i = 0; i < c->n_options; i++) {
        char room[LX_VARIABLE_BYTES];
        const char *own = lx_option_variable(c, &c->options[i], room);
        if (own != NULL && strlen(own) == n && memcmp(own, name, n) == 0)
            return true;
    }
    return false;
}

const char *lx_options_unknown_variable(const lx_command *c, size_t *at, size_t *length,
                                        const lx_option **nearest)
{
    size_t skipped = sizeof prefix - 1;
    while (environ != NULL && environ[*at] != NULL) {
        const char *name = environ[(*at)++];
        size_t n = strcspn(name, "=");
        const char *own = name + skipped;
        if (n <= skipped || strncmp(name, prefix, skipped) != 0 || is_variable(c, name, n) ||
            is_of_deployment(own, n - skipped) || is_of_service(own - 1, n - skipped + 1, name + n))
            continue;
        *length = n;
        *nearest = find_near(c, own, n - skipped);
        return name;
    }
    return NULL;
}

static lx_status check_variables(const lx_command *c, lx_error *err)
{
    const lx_option *nearest = NULL;
    const char *name = NULL;
    char room[LX_VARIABLE_BYTES];
    size_t n = 0;
    for (size_t at = 0; (name = lx_options_unknown_variable(c, &at, &n, &nearest)) != NULL;)
        if (nearest != NULL)
            return lx_fail(err, LX_ERR_INVALID, nearest->name,
                           "unknown variable \"%.*s\"; did you mean %s?", (int)n, name,
                           lx_option_variable(c, nearest, room));
    return LX_OK;
}

/* --- arguments --- */

/* A command line on its way through the parser. */
typedef struct arguments {
    int argc, at;
    char **argv;
    bool given[MAX_OPTIONS]; /* by the option's place in the table */
} arguments;

/* Most options may be repeated, as a shell's alias may have some of its own; the last one wins. */
static lx_status check_repeated(const lx_command *c, const lx_option *o, arguments *a,
                                lx_error *err)
{
    size_t i = (size_t)(o - c->options);
    assert(i < MAX_OPTIONS);
    if (o->several != NULL && a->given[i])
        return lx_fail(err, LX_ERR_INVALID, o->name,
                       "--%s was given twice; for several values there is %s", o->name, o->several);
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
    const lx_option *o = is_long ? find(c, name, n) : find_letter(c, *name);
    char source[LX_VARIABLE_BYTES];
    if (o == NULL && is_long && n > 3 && strncmp(name, "no-", 3) == 0 && name[n] == '\0') {
        o = find(c, name + 3, n - 3);
        if (o != NULL && o->kind == LX_OPTION_FLAG)
            return set(o, values, "off", arg, err);
        o = NULL;
    }
    if (o == NULL)
        return fail_unknown(c, "", is_long ? "--" : "-", name, is_long ? n : strlen(name), err);
    (void)snprintf(source, sizeof source, "--%s", o->name);
    if (name[n] != '\0')
        value = is_long ? name + n + 1 : name + 1;
    else if (o->kind == LX_OPTION_FLAG)
        value = "on";
    else if (a->at + 1 < a->argc)
        value = a->argv[++a->at];
    if (value == NULL)
        return lx_fail(err, LX_ERR_INVALID, o->name, "%s needs a value (%s)", source, o->value);
    lx_status st = check_repeated(c, o, a, err);
    return st == LX_OK ? set(o, values, value, source, err) : st;
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

/* --- the file of --config --- */

typedef struct config_file {
    const lx_command *command, *names; /* whose values are set, and whose names are known */
    const char *path;
    char where[SOURCE_BYTES]; /* "FILE:LINE: " */
    int line;
    int seen[MAX_OPTIONS]; /* by option of `names`: its line, 0 for none */
} config_file;

static lx_status set_one(config_file *f, const char *name, const char *value, void *values,
                         lx_error *err)
{
    const lx_option *o = find(f->names, name, strlen(name));
    if (o == NULL)
        return fail_unknown(f->names, f->where, "", name, strlen(name), err);
    if (strcmp(name, "config") == 0)
        return lx_fail(err, LX_ERR_INVALID, "config",
                       "%sa file of options cannot name another file", f->where);
    int *seen = &f->seen[o - f->names->options];
    if (*seen > 0)
        return lx_fail(err, LX_ERR_INVALID, o->name, "%s%s is already in line %d", f->where,
                       o->name, *seen);
    *seen = f->line;
    o = find(f->command, name, strlen(name));
    if (o == NULL) /* of the other command, which checks it */
        return LX_OK;
    char source[SOURCE_BYTES + LX_VARIABLE_BYTES];
    (void)snprintf(source, sizeof source, "%s%s", f->where, o->name);
    return set(o, values, value, source, err);
}

/* The text without blanks at its ends; the blanks at its end are overwritten. */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    text[n] = '\0';
    return text;
}

static lx_status read_line(config_file *f, char *line, void *values, lx_error *err)
{
    size_t n = strlen(f->path); /* of a long path its end, which says more than its beginning */
    (void)snprintf(f->where, sizeof f->where,
                   "%s:%d: ", f->path + (n > PATH_SHOWN ? n - PATH_SHOWN : 0), ++f->line);
    char *text = trim(line), *equals = strchr(text, '=');
    if (text[0] == '\0' || text[0] == '#')
        return LX_OK;
    if (equals == NULL)
        return lx_fail(err, LX_ERR_INVALID, "config", "%s\"%.40s\" is not name = value", f->where,
                       text);
    *equals = '\0';
    return set_one(f, trim(text), trim(equals + 1), values, err);
}

/* Sets the options that the file names. Its text is kept for the process's life, as values point
   into it. */
static lx_status read_config(const lx_command *c, const char *path, void *values, lx_error *err)
{
    static char *kept; /* a command parses its arguments once */
    char *text = NULL;
    lx_status st = lx_secret_read_file(path, MAX_CONFIG, "config", &text, err);
    if (st != LX_OK)
        return st;
    free(kept);
    kept = text;
    config_file f = {.command = c, .names = c->config_of != NULL ? c->config_of : c, .path = path};
    assert(f.names->n_options <= MAX_OPTIONS);
    while (text != NULL && st == LX_OK) {
        char *next = strchr(text, '\n');
        if (next != NULL)
            *next++ = '\0';
        st = read_line(&f, text, values, err);
        text = next;
    }
    return st;
}

/* --- all of them --- */

lx_status lx_options_parse(const lx_command *c, int argc, char **argv, void *values,
                           const char **positional, int *n_positional, lx_error *err)
{
    const lx_option *config = find(c, "config", strlen("config"));
    lx_status st = set_defaults(c, values, err);
    *n_positional = 0;
    for (int pass = 0; pass < 2 && st == LX_OK; pass++) {
        const char *path = NULL;
        if (pass == 1 && config != NULL) /* as environment and arguments have just set it */
            path = *(const char *const *)(const void *)((const char *)values + config->offset);
        if (pass == 1 && path == NULL)
            break;
        if (path != NULL)
            st = read_config(c, path, values, err);
        if (st == LX_OK)
            st = set_from_environment(c, values, err);
        if (st == LX_OK)
            st = parse_arguments(c, argc, argv, values, positional, n_positional, err);
    }
    if (st == LX_OK && c->variables)
        st = check_variables(c, err);
    if (st == LX_OK && *n_positional < c->min_positional)
        st = lx_fail(err, LX_ERR_INVALID, NULL, "%s is missing; see linnet %s --help",
                     c->positional, c->name);
    return st;
}
