/*
 * Options from a file (--config): lines of `name = value`, the names those of the flags without
 * "--", blank lines, and comments, whose first character is "#". A value is the rest of its line
 * without blanks at its ends, so it may have "#" in it, and nothing is quoted.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "server/auth/secret.h"
#include "server/cli/options_internal.h"

enum { MAX_CONFIG = 1 << 16, MAX_CONFIG_OPTIONS = 128, SOURCE_BYTES = 160 };

typedef struct config_file {
    const lx_command *command, *names; /* whose values are set, and whose names are known */
    const char *path;
    int line;
    int seen[MAX_CONFIG_OPTIONS]; /* by option of `names`: the line it stood in, 0 for none */
} config_file;

/* The longest a path may be in an error: its end, which says more than its beginning. */
static const char *short_path(const char *path)
{
    enum { MOST = 96 };
    size_t n = strlen(path);
    return n > MOST ? path + n - MOST : path;
}

static lx_status fail_unknown(const config_file *f, const char *name, lx_error *err)
{
    const char *nearest = lx_option_nearest(f->names, name, strlen(name));
    const char *path = short_path(f->path);
    if (nearest != NULL)
        return lx_fail(err, LX_ERR_INVALID, "config",
                       "%s:%d: unknown option \"%.60s\"; did you mean %s?", path, f->line, name,
                       nearest);
    return lx_fail(err, LX_ERR_INVALID, "config",
                   "%s:%d: unknown option \"%.60s\"; see linnet %s --help", path, f->line, name,
                   f->names->name);
}

static lx_status set_one(config_file *f, const char *name, const char *value, void *values,
                         lx_error *err)
{
    const char *path = short_path(f->path);
    const lx_option *o = lx_option_find(f->names, name, strlen(name));
    if (o == NULL)
        return fail_unknown(f, name, err);
    if (strcmp(name, "config") == 0)
        return lx_fail(err, LX_ERR_INVALID, "config", "%s:%d: a file cannot name another one", path,
                       f->line);
    int *seen = &f->seen[o - f->names->options];
    if (*seen > 0)
        return lx_fail(err, LX_ERR_INVALID, o->name, "%s:%d: %s is in line %d already", path,
                       f->line, o->name, *seen);
    *seen = f->line;
    o = lx_option_find(f->command, name, strlen(name));
    if (o == NULL) /* of the other command, which checks it */
        return LX_OK;
    char source[SOURCE_BYTES];
    (void)snprintf(source, sizeof source, "%s:%d: %s", path, f->line, o->name);
    return lx_option_set(o, values, value, source, err);
}

/* The text without blanks at its ends; what follows it is overwritten. */
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
    char *text = trim(line);
    if (text[0] == '\0' || text[0] == '#')
        return LX_OK;
    char *equals = strchr(text, '=');
    if (equals == NULL)
        return lx_fail(err, LX_ERR_INVALID, "config", "%s:%d: \"%.40s\" is not name = value",
                       short_path(f->path), f->line, text);
    *equals = '\0';
    return set_one(f, trim(text), trim(equals + 1), values, err);
}

lx_status lx_options_read_config(const lx_command *c, const char *path, void *values, lx_error *err)
{
    static char *kept; /* a command parses its arguments once */
    char *text = NULL;
    lx_status st = lx_secret_read_file(path, MAX_CONFIG, "config", &text, err);
    if (st != LX_OK)
        return st;
    free(kept);
    kept = text;
    config_file f = {.command = c, .names = c->config_of != NULL ? c->config_of : c, .path = path};
    if (f.names->n_options > MAX_CONFIG_OPTIONS)
        return lx_fail(err, LX_ERR_INTERNAL, "config", "linnet %s has more than %d options",
                       f.names->name, MAX_CONFIG_OPTIONS);
    while (text != NULL && st == LX_OK) {
        char *next = strchr(text, '\n');
        if (next != NULL)
            *next++ = '\0';
        f.line++;
        st = read_line(&f, text, values, err);
        text = next;
    }
    return st;
}
