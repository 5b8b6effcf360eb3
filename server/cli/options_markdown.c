/*
 * A command's options as a table in Markdown, from the table that parses them: docs/operations.md
 * holds the program's own words (scripts/operations), and cannot fall behind it.
 */
#include "server/cli/options.h"

/* Text of a cell: a bar would end it. */
static void put_cell(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            (void)fputc('\\', out);
        (void)fputc(*text, out);
    }
}

static void put_name(const lx_option *o, FILE *out)
{
    (void)fprintf(out, "| `--%s%s", o->kind == LX_OPTION_FLAG ? "[no-]" : "", o->name);
    if (o->kind != LX_OPTION_FLAG)
        (void)fprintf(out, " %s", o->value);
    (void)fputc('`', out);
    if (o->short_name != '\0')
        (void)fprintf(out, ", `-%c`", o->short_name);
}

static void put_range(const lx_option *o, FILE *out)
{
    if (o->kind == LX_OPTION_INT || o->kind == LX_OPTION_REAL)
        (void)fprintf(out, "%.16g to %.16g", o->min, o->max);
    else if (o->kind == LX_OPTION_CHOICE)
        put_cell(o->choices, out);
    else if (o->kind == LX_OPTION_FLAG)
        (void)fprintf(out, "on, off");
}

void lx_options_markdown(const lx_command *c, FILE *out)
{
    (void)fprintf(out, "| option | variable | default | allowed | meaning |\n"
                       "| --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < c->n_options; i++) {
        const lx_option *o = &c->options[i];
        put_name(o, out);
        (void)fprintf(out, " | %s%s%s | ", o->env != NULL ? "`" : "", o->env != NULL ? o->env : "",
                      o->env != NULL ? "`" : "");
        if (o->fallback != NULL && o->fallback[0] != '\0')
            (void)fprintf(out, "`%s`", o->fallback);
        (void)fprintf(out, " | ");
        put_range(o, out);
        (void)fprintf(out, " | ");
        put_cell(o->help, out);
        (void)fprintf(out, " |\n");
    }
}
