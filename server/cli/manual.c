/* The pages that are made of the tables of options (see options.h). */
#include "server/cli/options.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "common/buffer.h"
#include "common/version.h"

enum { COLUMN = 33, WIDTH = 100, MOST_TEXT = 4096 }; /* of --help, in bytes */

/* --- rows of a table --- */

static bool is_number(const lx_option *o)
{
    return o->kind == LX_OPTION_INT || o->kind == LX_OPTION_REAL;
}

/* "" for an option without a default that can be shown. */
static const char *shown_default(const lx_option *o)
{
    return o->fallback != NULL ? o->fallback : "";
}

/* Writes n bytes of text so that they mean themselves in a page. */
typedef void escape(const char *text, size_t n, FILE *out);

/* Writes the form as it is, and escapes the texts that stand for its %s. */
static void put_escaped(FILE *out, escape *e, const char *form, ...) LX_PRINTF(3, 4);

static void put_escaped(FILE *out, escape *e, const char *form, ...)
{
    va_list args;
    va_start(args, form);
    for (size_t n = strcspn(form, "%"); n > 0 || *form != '\0'; n = strcspn(form, "%")) {
        (void)fwrite(form, 1, n, out);
        form += n;
        if (*form == '\0')
            break;
        const char *text = va_arg(args, const char *);
        e(text, strlen(text), out);
        form += sizeof "%s" - 1;
    }
    va_end(args);
}

/* Writes the words of "a|b|c" with `between` between them. */
static void put_choices(const char *choices, const char *between, FILE *out)
{
    for (; *choices != '\0'; choices++) {
        if (*choices == '|')
            (void)fputs(between, out);
        else
            (void)fputc(*choices, out);
    }
}

/* --- --help --- */

/* Text after the column of names, in lines of at most WIDTH bytes where words allow. */
static void print_wrapped(const char *text, FILE *out)
{
    for (size_t at = COLUMN; *text != '\0'; text += *text == ' ') {
        size_t n = strcspn(text, " ");
        if (at > COLUMN && at + 1 + n > WIDTH) {
            (void)fprintf(out, "\n%*s", COLUMN, "");
            at = COLUMN;
        } else if (at > COLUMN) {
            (void)fputc(' ', out);
            at++;
        }
        (void)fwrite(text, 1, n, out);
        at += n;
        text += n;
    }
    (void)fputc('\n', out);
}

static void print_option(const lx_command *c, const lx_option *o, FILE *out)
{
    char left[COLUMN + 40], letter[8] = "    ", room[LX_VARIABLE_BYTES];
    const char *variable = lx_option_variable(c, o, room);
    bool flag = o->kind == LX_OPTION_FLAG;
    lx_buffer text;
    lx_buffer_init(&text, MOST_TEXT);
    lx_buffer_puts(&text, o->help);
    if (o->kind == LX_OPTION_CHOICE)
        lx_buffer_printf(&text, " (%s)", o->choices);
    if (is_number(o))
        lx_buffer_printf(&text, " (%.16g to %.16g)", o->min, o->max);
    if (shown_default(o)[0] != '\0')
        lx_buffer_printf(&text, " [%s]", o->fallback);
    if (variable != NULL)
        lx_buffer_printf(&text, " {%s}", variable);
    if (o->letter != '\0')
        (void)snprintf(letter, sizeof letter, "-%c, ", o->letter);
    (void)snprintf(left, sizeof left, "%s--%s%s%s%s", letter, flag ? "[no-]" : "", o->name,
                   flag ? "" : " ", flag ? "" : o->value);
    (void)fprintf(out, "  %-*s ", COLUMN - 3, left);
    if (strlen(left) > COLUMN - 3)
        (void)fprintf(out, "\n%*s", COLUMN, "");
    print_wrapped(text.status == LX_OK ? text.data : o->help, out);
    lx_buffer_fini(&text);
}

void lx_manual_help(const lx_command *c, FILE *out)
{
    (void)fprintf(out, "usage: linnet %s [options]%s%s\n\n%s\n\n", c->name,
                  c->positional != NULL ? " " : "", c->positional != NULL ? c->positional : "",
                  c->summary);
    (void)fprintf(out, "options:        (allowed) [default] {environment variable}\n");
    for (size_t i = 0; i < c->n_options; i++)
        print_option(c, &c->options[i], out);
    (void)fprintf(out, "  %-*s %s\n", COLUMN - 3, "-h, --help",
                  "Prints this help; --help=markdown prints it as a table.");
    if (c->notes != NULL)
        (void)fprintf(out, "\n%s", c->notes);
}

/* --- Markdown --- */

/* A bar would end a cell. */
static void escape_cell(const char *text, size_t n, FILE *out)
{
    for (const char *end = text + n; text < end; text++)
        (void)fprintf(out, *text == '|' ? "\\%c" : "%c", *text);
}

static void put_code(const char *text, FILE *out)
{
    (void)fprintf(out, text[0] != '\0' ? " | `%s`" : " | %s", text);
}

static void put_row(const lx_command *c, const lx_option *o, FILE *out)
{
    char room[LX_VARIABLE_BYTES];
    const char *variable = lx_option_variable(c, o, room);
    bool flag = o->kind == LX_OPTION_FLAG;
    (void)fprintf(out, "| `--%s%s%s%s`", flag ? "[no-]" : "", o->name, flag ? "" : " ",
                  flag ? "" : o->value);
    if (o->letter != '\0')
        (void)fprintf(out, ", `-%c`", o->letter);
    put_code(variable != NULL ? variable : "", out);
    put_code(shown_default(o), out);
    if (is_number(o))
        (void)fprintf(out, " | %.16g to %.16g", o->min, o->max);
    else
        put_escaped(out, escape_cell, " | %s",
                    o->kind == LX_OPTION_CHOICE ? o->choices
                    : flag                      ? "on, off"
                                                : "");
    put_escaped(out, escape_cell, " | %s |\n", o->help);
}

void lx_manual_markdown(const lx_command *c, FILE *out)
{
    (void)fputs("| option | variable | default | allowed | meaning |\n"
                "| --- | --- | --- | --- | --- |\n",
                out);
    for (size_t i = 0; i < c->n_options; i++)
        put_row(c, &c->options[i], out);
}

/* --- manual pages --- */

static const char EXAMPLES[] = "examples: "; /* where a command's notes become commands to copy */

/* n bytes as plain text: troff's special characters are escaped, a hyphen is the one of the
   keyboard, and no line begins with a request. */
static void escape_troff(const char *text, size_t n, FILE *out)
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

/* The page's date is left empty: it is as old as its version, and two builds write equal pages. */
static void put_head(const char *command, const char *brief, FILE *out)
{
    const char *dash = command[0] != '\0' ? "\\-" : "";
    (void)fprintf(out, ".TH LINNET%s", dash);
    for (const char *c = command; *c != '\0'; c++)
        (void)fputc(toupper((unsigned char)*c), out);
    (void)fprintf(out, " 1 \"\" \"linnet %s\" \"Linnet\"\n.SH NAME\nlinnet%s%s", LX_VERSION, dash,
                  command);
    put_escaped(out, escape_troff, " \\- %s\n", brief);
}

static void put_meaning(const lx_command *c, const lx_option *o, FILE *out)
{
    char room[LX_VARIABLE_BYTES], range[80];
    const char *variable = lx_option_variable(c, o, room);
    put_escaped(out, escape_troff, "%s\n", o->help);
    if (o->kind == LX_OPTION_CHOICE) {
        (void)fputs("Allowed: ", out);
        put_choices(o->choices, ", ", out);
        (void)fputs(".\n", out);
    }
    (void)snprintf(range, sizeof range, "%.16g to %.16g", o->min, o->max);
    if (is_number(o))
        put_escaped(out, escape_troff, "Allowed: %s.\n", range);
    if (shown_default(o)[0] != '\0')
        put_escaped(out, escape_troff, "Default: %s.\n", o->fallback);
    if (variable != NULL)
        (void)fprintf(out, "Variable:\n.BR %s .\n", variable);
}

static void put_option(const lx_command *c, const lx_option *o, FILE *out)
{
    (void)fputs(".TP\n", out);
    if (o->letter != '\0')
        (void)fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
    if (o->kind == LX_OPTION_FLAG)
        put_escaped(out, escape_troff, "\\fB\\-\\-%s\\fR, \\fB\\-\\-no\\-%s\\fR\n", o->name,
                    o->name);
    else
        put_escaped(out, escape_troff, "\\fB\\-\\-%s\\fR \\fI%s\\fR\n", o->name, o->value);
    put_meaning(c, o, out);
}

/* Notes are a text whose lines troff fills, or, after "examples: ", lines that stay as they are. */
static void put_notes(const char *notes, FILE *out)
{
    bool examples = strncmp(notes, EXAMPLES, strlen(EXAMPLES)) == 0;
    (void)fputs(examples ? ".SH EXAMPLES\n.nf\n" : ".SH NOTES\n", out);
    for (const char *line = notes; *line != '\0';) {
        size_t n = strcspn(line, "\n"),
               skip = examples && n > strlen(EXAMPLES) ? strlen(EXAMPLES) : 0;
        escape_troff(line + skip, n - skip, out);
        (void)fputc('\n', out);
        line += n + (line[n] == '\n');
    }
    if (examples)
        (void)fputs(".fi\n", out);
}

static void put_exit_status(FILE *out)
{
    (void)fputs(".SH EXIT STATUS\n"
                ".TP\n.B 0\nThe command succeeded.\n"
                ".TP\n.B 1\nThe command failed; one line on standard error gives the reason.\n"
                ".TP\n.B 2\nThe arguments are wrong; one line on standard error names the fault.\n",
                out);
}

void lx_manual_command(const lx_command *c, FILE *out)
{
    put_head(c->name, c->brief, out);
    (void)fprintf(out, ".SH SYNOPSIS\n.B linnet %s\n[\\fIoptions\\fR]", c->name);
    if (c->positional != NULL)
        put_escaped(out, escape_troff, " \\fI%s\\fR", c->positional);
    put_escaped(out, escape_troff, "\n.SH DESCRIPTION\n%s", c->summary);
    (void)fputs("\n.SH OPTIONS\n"
                "A value follows its option or an equals sign. An option wins over its environment "
                "variable.\n",
                out);
    for (size_t i = 0; i < c->n_options; i++)
        put_option(c, &c->options[i], out);
    (void)fputs(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nPrint the options and end.\n", out);
    if (c->notes != NULL)
        put_notes(c->notes, out);
    put_exit_status(out);
    (void)fputs(".SH SEE ALSO\n.BR linnet (1)\n", out);
}

void lx_manual_program(const lx_command *const *commands, size_t n, FILE *out)
{
    put_head("", "inference server for linear transformers", out);
    (void)fputs(
        ".SH SYNOPSIS\n.B linnet\n\\fICOMMAND\\fR [\\fIoptions\\fR]\n.SH DESCRIPTION\n"
        "Linnet serves linear transformers, and the recurrent models that grew out of them, "
        "over HTTP, and runs, measures and inspects them on the command line.\n"
        ".SH COMMANDS\n",
        out);
    for (size_t i = 0; i < n; i++)
        put_escaped(out, escape_troff, ".TP\n.BR linnet\\-%s (1)\n%s\n", commands[i]->name,
                    commands[i]->brief);
    (void)fputs(
        ".SH OPTIONS\n"
        ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nPrint the commands and end; "
        "\\fBlinnet\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR prints the options of a command.\n"
        ".TP\n.B \\-\\-version\nPrint the version, with the commit it was built from.\n",
        out);
    put_exit_status(out);
    (void)fputs(".SH SEE ALSO\n", out);
    for (size_t i = 0; i < n; i++)
        (void)fprintf(out, ".BR linnet\\-%s (1)%s\n", commands[i]->name, i + 1 < n ? "," : "");
}

/* --- bash --- */

/* The word for $wanted in the script, by the name of a value: folder, path, or value, for which
   nothing is offered. */
static const char *bash_wanted(const char *value)
{
    return strstr(value, "DIR") != NULL    ? "folder"
           : strstr(value, "FILE") != NULL ? "path"
                                           : "value";
}

static void put_bash_value(const lx_option *o, FILE *out)
{
    if (o->kind == LX_OPTION_CHOICE) {
        (void)fputs("\"words:", out);
        put_choices(o->choices, " ", out);
        (void)fputs("\"", out);
    } else {
        (void)fputs(bash_wanted(o->value), out);
    }
}

static void put_bash_command(const lx_command *c, FILE *out)
{
    (void)fprintf(out, "    %s)\n        options=\"", c->name);
    for (size_t i = 0; i < c->n_options; i++) {
        const char *name = c->options[i].name;
        (void)fprintf(out, "--%s ", name);
        if (c->options[i].kind == LX_OPTION_FLAG)
            (void)fprintf(out, "--no-%s ", name);
    }
    (void)fputs("--help\"\n", out);
    if (c->positional != NULL)
        (void)fprintf(out, "        rest=%s\n", bash_wanted(c->positional));
    (void)fputs("        case $before in\n", out);
    for (size_t i = 0; i < c->n_options; i++) {
        const lx_option *o = &c->options[i];
        if (o->kind == LX_OPTION_FLAG)
            continue;
        (void)fprintf(out, "        --%s", o->name);
        if (o->letter != '\0')
            (void)fprintf(out, " | -%c", o->letter);
        (void)fputs(") wanted=", out);
        put_bash_value(o, out);
        (void)fputs(" ;;\n", out);
    }
    (void)fputs("        esac\n        ;;\n", out);
}

void lx_manual_bash(const lx_command *const *commands, size_t n, FILE *out)
{
    (void)fputs(
        "# Completion of linnet for bash, made by the program from its tables of options.\n"
        "# shellcheck shell=bash\n"
        "_linnet() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} before='' options='' rest='' wanted='' i\n"
        "    COMPREPLY=()\n"
        "    [ \"$COMP_CWORD\" -lt 2 ] || before=${COMP_WORDS[COMP_CWORD - 1]}\n"
        "    # bash takes --name=value apart at the equals sign\n"
        "    if [ \"$word\" = = ]; then\n"
        "        word=''\n"
        "    elif [ \"$before\" = = ]; then\n"
        "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
        "    fi\n"
        "    case ${COMP_WORDS[1]} in\n",
        out);
    for (size_t i = 0; i < n; i++)
        put_bash_command(commands[i], out);
    (void)fputs("    esac\n"
                "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                "        wanted=\"words:",
                out);
    for (size_t i = 0; i < n; i++)
        (void)fprintf(out, "%s ", commands[i]->name);
    (void)fputs(
        "--help --version\"\n"
        "    fi\n"
        "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
        "        [ \"${COMP_WORDS[i]}\" != -- ] || wanted=${rest:-value}\n"
        "    done\n"
        "    if [ -z \"$wanted\" ]; then\n"
        "        [[ -n $rest && $word != -* ]] && wanted=$rest || wanted=\"words:$options\"\n"
        "    fi\n"
        "    case $wanted in\n"
        "    words:*) mapfile -t COMPREPLY < <(compgen -W \"${wanted#words:}\" -- \"$word\") ;;\n"
        "    path | folder)\n"
        "        compopt -o filenames 2>/dev/null\n"
        "        [ \"$wanted\" = path ] && i=-f || i=-d\n"
        "        mapfile -t COMPREPLY < <(compgen \"$i\" -- \"$word\")\n"
        "        ;;\n"
        "    esac\n"
        "}\n"
        "complete -F _linnet linnet\n",
        out);
}

/* --- zsh --- */

/* Text between single quotes, in a description of _arguments or _describe. */
static void escape_zsh(const char *text, size_t n, FILE *out)
{
    for (const char *end = text + n; text < end; text++) {
        if (*text == '\'')
            (void)fputs("'\\'", out);
        else if (strchr("[]:\\", *text) != NULL)
            (void)fputc('\\', out);
        (void)fputc(*text, out);
    }
}

/* How zsh completes a value of this name; "": it offers nothing. */
static const char *zsh_action(const char *value)
{
    return strstr(value, "DIR") != NULL    ? "_files -/"
           : strstr(value, "FILE") != NULL ? "_files"
                                           : "";
}

/* One name of an option, with the option's other names, which are not offered after it. */
static void put_zsh_name(const lx_option *o, const char *dashes, const char *name, FILE *out)
{
    bool flag = o->kind == LX_OPTION_FLAG;
    (void)fprintf(out, flag ? "            '(--%s --no-%s" : "            '(--%s", o->name,
                  o->name);
    if (o->letter != '\0')
        (void)fprintf(out, " -%c", o->letter);
    (void)fprintf(out, ")%s%s%s", dashes, name, flag ? "" : dashes[1] == '-' ? "=" : "+");
    put_escaped(out, escape_zsh, "[%s]", o->help);
    if (!flag)
        put_escaped(out, escape_zsh, ":%s:", o->value);
    if (o->kind == LX_OPTION_CHOICE) {
        (void)fputc('(', out);
        put_choices(o->choices, " ", out);
        (void)fputc(')', out);
    } else if (!flag) {
        (void)fputs(zsh_action(o->value), out);
    }
    (void)fputs("' \\\n", out);
}

static void put_zsh_command(const lx_command *c, FILE *out)
{
    (void)fprintf(out, "        %s)\n        _arguments \\\n", c->name);
    for (const lx_option *o = c->options; o < c->options + c->n_options; o++) {
        put_zsh_name(o, "--", o->name, out);
        if (o->kind == LX_OPTION_FLAG)
            put_zsh_name(o, "--no-", o->name, out);
        if (o->letter != '\0')
            put_zsh_name(o, "-", (const char[]){o->letter, '\0'}, out);
    }
    if (c->positional != NULL) {
        put_escaped(out, escape_zsh, "            '1:%s", c->positional);
        (void)fprintf(out, ":%s' \\\n", zsh_action(c->positional));
    }
    (void)fputs("            '(- *)'{-h,--help}'[print the options]'\n        ;;\n", out);
}

void lx_manual_zsh(const lx_command *const *commands, size_t n, FILE *out)
{
    (void)fputs("#compdef linnet\n"
                "# Completion of linnet for zsh, made by the program from its tables of options.\n"
                "local curcontext=$curcontext state line\n"
                "typeset -A opt_args\n"
                "local -a commands=(\n",
                out);
    for (size_t i = 0; i < n; i++)
        put_escaped(out, escape_zsh, "    '%s:%s'\n", commands[i]->name, commands[i]->brief);
    (void)fputs(")\n"
                "_arguments -C \\\n"
                "    '(- *)'{-h,--help}'[print the commands]' \\\n"
                "    '(- *)--version[print the version]' \\\n"
                "    '1:command:->command' \\\n"
                "    '*::argument:->argument' && return\n"
                "case $state in\n"
                "command) _describe command commands ;;\n"
                "argument)\n"
                "    curcontext=\"${curcontext%:*:*}:linnet-$words[1]:\"\n"
                "    case $words[1] in\n",
                out);
    for (size_t i = 0; i < n; i++)
        put_zsh_command(commands[i], out);
    (void)fputs("    esac\n    ;;\nesac\n", out);
}
