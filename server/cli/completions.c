/* Completions of bash and zsh (see completions.h). */
#include "server/cli/completions.h"

#include <stdbool.h>
#include <string.h>

/* What a value is, by the name that help gives it: "[DIR]" is a folder. */
static bool names_a_folder(const char *value)
{
    return strstr(value, "DIR") != NULL;
}

static bool names_a_file(const char *value)
{
    return strstr(value, "FILE") != NULL;
}

/* The words of "a|b|c" with blanks between them. */
static void put_choices(const char *choices, FILE *out)
{
    for (; *choices != '\0'; choices++)
        (void)fputc(*choices == '|' ? ' ' : *choices, out);
}

/* --- bash --- */

/* Words are offered for $wanted: folder, path, value (nothing is known of it), words:LIST. */
static const char *bash_wanted(const char *value)
{
    return names_a_folder(value) ? "folder" : names_a_file(value) ? "path" : "value";
}

static void put_bash_value(const lx_option *o, FILE *out)
{
    if (o->kind == LX_OPTION_CHOICE) {
        (void)fputs("\"words:", out);
        put_choices(o->choices, out);
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
        if (o->short_name != '\0')
            (void)fprintf(out, " | -%c", o->short_name);
        (void)fputs(") wanted=", out);
        put_bash_value(o, out);
        (void)fputs(" ;;\n", out);
    }
    (void)fputs("        esac\n        ;;\n", out);
}

void lx_completions_bash(const lx_command *const *commands, size_t n, FILE *out)
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
static void put_zsh_text(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            (void)fputs("'\\'", out);
        else if (strchr("[]:\\", *text) != NULL)
            (void)fputc('\\', out);
        (void)fputc(*text, out);
    }
}

/* How zsh completes a value of this name; nothing is known of many. */
static const char *zsh_action(const char *value)
{
    return names_a_folder(value) ? "_files -/" : names_a_file(value) ? "_files" : "";
}

static void put_zsh_value(const lx_option *o, FILE *out)
{
    (void)fputc(':', out);
    put_zsh_text(o->value, out);
    (void)fputc(':', out);
    if (o->kind == LX_OPTION_CHOICE) {
        (void)fputc('(', out);
        put_choices(o->choices, out);
        (void)fputc(')', out);
    } else {
        (void)fputs(zsh_action(o->value), out);
    }
}

/* One name of an option, with the names that are not offered beside it. */
static void put_zsh_name(const lx_option *o, const char *name, FILE *out)
{
    bool flag = o->kind == LX_OPTION_FLAG;
    (void)fprintf(out, "            '(--%s", o->name);
    if (flag)
        (void)fprintf(out, " --no-%s", o->name);
    if (o->short_name != '\0')
        (void)fprintf(out, " -%c", o->short_name);
    (void)fprintf(out, ")%s%s[", name, flag ? "" : name[1] == '-' ? "=" : "+");
    put_zsh_text(o->help, out);
    (void)fputc(']', out);
    if (!flag)
        put_zsh_value(o, out);
    (void)fputs("' \\\n", out);
}

static void put_zsh_option(const lx_option *o, FILE *out)
{
    char name[80];
    (void)snprintf(name, sizeof name, "--%s", o->name);
    put_zsh_name(o, name, out);
    if (o->kind == LX_OPTION_FLAG) {
        (void)snprintf(name, sizeof name, "--no-%s", o->name);
        put_zsh_name(o, name, out);
    }
    if (o->short_name != '\0') {
        (void)snprintf(name, sizeof name, "-%c", o->short_name);
        put_zsh_name(o, name, out);
    }
}

static void put_zsh_command(const lx_command *c, FILE *out)
{
    (void)fprintf(out, "        %s)\n        _arguments \\\n", c->name);
    for (size_t i = 0; i < c->n_options; i++)
        put_zsh_option(&c->options[i], out);
    if (c->positional != NULL) {
        (void)fputs("            '1:", out);
        put_zsh_text(c->positional, out);
        (void)fprintf(out, ":%s' \\\n", zsh_action(c->positional));
    }
    (void)fputs("            '(- *)'{-h,--help}'[print the options]'\n        ;;\n", out);
}

void lx_completions_zsh(const lx_command *const *commands, size_t n, FILE *out)
{
    (void)fputs("#compdef linnet\n"
                "# Completion of linnet for zsh, made by the program from its tables of options.\n"
                "local curcontext=$curcontext state line\n"
                "typeset -A opt_args\n"
                "local -a commands=(\n",
                out);
    for (size_t i = 0; i < n; i++) {
        (void)fprintf(out, "    '%s:", commands[i]->name);
        put_zsh_text(commands[i]->brief, out);
        (void)fputs("'\n", out);
    }
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
