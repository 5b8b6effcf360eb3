/* Manual pages (see manual.h). */
#include "server/cli/manual.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "common/version.h"

static const char EXAMPLES[] = "examples: "; /* where a command's notes become commands to copy */

/* n bytes as they are to be read: what troff takes as its own is escaped, a hyphen is the one of
   the keyboard, and no line begins with a request. */
static void put_bytes(const char *text, size_t n, FILE *out)
{
    if (n > 0 && (*text == '.' || *text == '\''))
        (void)fputs("\\&", out);
    for (const char *end = text + n; text < end; text++) {
        const char *escaped = *text == '\\'   ? "\\e"
                              : *text == '-'  ? "\\-"
                              : *text == '\'' ? "\\(aq"
                              : *text == '^'  ? "\\(ha"
                              : *text == '~'  ? "\\(ti"
                              : *text == '`'  ? "\\(ga"
                                              : NULL;
        if (escaped != NULL)
            (void)fputs(escaped, out);
        else
            (void)fputc(*text, out);
    }
}

static void put(const char *text, FILE *out)
{
    put_bytes(text, strlen(text), out);
}

static void put_upper(const char *text, FILE *out)
{
    for (; *text != '\0'; text++)
        (void)fputc(toupper((unsigned char)*text), out);
}

/* The page's date is left empty: it is as old as its version, and two builds write the same. */
static void put_head(const char *command, const char *brief, FILE *out)
{
    (void)fputs(".TH LINNET", out);
    if (command != NULL) {
        (void)fputs("\\-", out);
        put_upper(command, out);
    }
    (void)fprintf(out, " 1 \"\" \"linnet %s\" \"Linnet\"\n.SH NAME\nlinnet", LX_VERSION);
    if (command != NULL)
        (void)fprintf(out, "\\-%s", command);
    (void)fputs(" \\- ", out);
    put(brief, out);
    (void)fputs("\n", out);
}

static void put_meaning(const lx_option *o, FILE *out)
{
    put(o->help, out);
    if (o->kind == LX_OPTION_CHOICE) {
        (void)fputs(": ", out);
        for (const char *word = o->choices; *word != '\0';) {
            size_t n = strcspn(word, "|");
            put_bytes(word, n, out);
            word += n + (word[n] == '|');
            (void)fputs(*word != '\0' ? ", " : "", out);
        }
    }
    if (o->kind == LX_OPTION_INT || o->kind == LX_OPTION_REAL) {
        char range[80];
        (void)snprintf(range, sizeof range, " (%.16g to %.16g)", o->min, o->max);
        put(range, out);
    }
    (void)fputs(".\n", out);
    if (o->fallback != NULL && o->fallback[0] != '\0') {
        (void)fputs("Default: ", out);
        put(o->fallback, out);
        (void)fputs(".\n", out);
    }
    if (o->env != NULL)
        (void)fprintf(out, "Variable:\n.BR %s .\n", o->env);
}

static void put_option(const lx_option *o, FILE *out)
{
    (void)fputs(".TP\n", out);
    if (o->short_name != '\0')
        (void)fprintf(out, "\\fB\\-%c\\fR, ", o->short_name);
    (void)fputs("\\fB\\-\\-", out);
    put(o->name, out);
    if (o->kind == LX_OPTION_FLAG) {
        (void)fputs("\\fR, \\fB\\-\\-no\\-", out);
        put(o->name, out);
        (void)fputs("\\fR\n", out);
    } else {
        (void)fputs("\\fR \\fI", out);
        put(o->value, out);
        (void)fputs("\\fR\n", out);
    }
    put_meaning(o, out);
}

/* Notes are text that is set anew, or, behind "examples: ", lines that stay as they are. */
static void put_notes(const char *notes, FILE *out)
{
    bool examples = strncmp(notes, EXAMPLES, strlen(EXAMPLES)) == 0;
    (void)fputs(examples ? ".SH EXAMPLES\n.nf\n" : ".SH NOTES\n", out);
    for (const char *line = notes; *line != '\0';) {
        size_t n = strcspn(line, "\n"),
               skip = examples && n > strlen(EXAMPLES) ? strlen(EXAMPLES) : 0;
        put_bytes(line + skip, n - skip, out);
        (void)fputc('\n', out);
        line += n + (line[n] == '\n');
    }
    if (examples)
        (void)fputs(".fi\n", out);
}

static void put_exit_status(FILE *out)
{
    (void)fputs(".SH EXIT STATUS\n"
                ".TP\n.B 0\nIt is done.\n"
                ".TP\n.B 1\nIt failed; one line on standard error says why.\n"
                ".TP\n.B 2\nThe arguments are wrong; one line on standard error says which.\n",
                out);
}

void lx_manual_command(const lx_command *c, FILE *out)
{
    put_head(c->name, c->brief, out);
    (void)fprintf(out, ".SH SYNOPSIS\n.B linnet %s\n[\\fIoptions\\fR]", c->name);
    if (c->positional != NULL) {
        (void)fputs(" \\fI", out);
        put(c->positional, out);
        (void)fputs("\\fR", out);
    }
    (void)fputs("\n.SH DESCRIPTION\n", out);
    put(c->summary, out);
    (void)fputs(
        "\n.SH OPTIONS\n"
        "A value stands behind its option or behind an equals sign. A variable is one of the "
        "environment; an option takes precedence.\n",
        out);
    for (size_t i = 0; i < c->n_options; i++)
        put_option(&c->options[i], out);
    (void)fputs(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nPrint the options and end.\n", out);
    if (c->notes != NULL)
        put_notes(c->notes, out);
    put_exit_status(out);
    (void)fputs(".SH SEE ALSO\n.BR linnet (1)\n", out);
}

void lx_manual_program(const lx_command *const *commands, size_t n, FILE *out)
{
    put_head(NULL, "inference server for linear transformers", out);
    (void)fputs(
        ".SH SYNOPSIS\n.B linnet\n\\fICOMMAND\\fR [\\fIoptions\\fR]\n.SH DESCRIPTION\n"
        "Linnet serves linear transformers, and the recurrent models that grew out of them, "
        "over HTTP, and runs, measures and inspects them on the command line.\n"
        ".SH COMMANDS\n",
        out);
    for (size_t i = 0; i < n; i++) {
        (void)fprintf(out, ".TP\n.BR linnet\\-%s (1)\n", commands[i]->name);
        put(commands[i]->brief, out);
        (void)fputs("\n", out);
    }
    (void)fputs(".SH OPTIONS\n"
                ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nPrint the commands and end; "
                "\\fBlinnet\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR prints the options of one.\n"
                ".TP\n.B \\-\\-version\nPrint the version, with the commit it was built from.\n",
                out);
    put_exit_status(out);
    (void)fputs(".SH SEE ALSO\n", out);
    for (size_t i = 0; i < n; i++)
        (void)fprintf(out, ".BR linnet\\-%s (1)%s\n", commands[i]->name, i + 1 < n ? "," : "");
}
