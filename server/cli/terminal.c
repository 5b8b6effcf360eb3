/* A terminal (see terminal.h). The only user of libedit. */
#include "server/cli/terminal.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HISTORY_LINES = 1000 };

/* --- showing --- */

/* U+0080 to U+009F are C2 80 to C2 9F. */
static bool is_c1(const char *text, size_t n)
{
    return n >= 2 && (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] >= 0x80 &&
           (unsigned char)text[1] < 0xa0;
}

void lx_terminal_show(const char *text, size_t n, lx_buffer *out)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (is_c1(text + i, n - i))
            lx_buffer_printf(out, "<U+%04X>", (unsigned char)text[++i]);
        else if (c == 0x7f || (c < 0x20 && c != '\n' && c != '\t'))
            lx_buffer_printf(out, "^%c", c ^ 0x40);
        else
            lx_buffer_append(out, text + i, 1);
    }
}

bool lx_terminal_is(FILE *out)
{
    return isatty(fileno(out)) == 1;
}

/* --- reading --- */

struct lx_lines {
    EditLine *edit; /* NULL: the input is no terminal */
    History *history;
    const char *prompt;
    char *text; /* of getline */
    size_t room;
};

static char *prompt_of(EditLine *edit)
{
    const lx_lines *l = NULL;
    (void)el_get(edit, EL_CLIENTDATA, &l);
    return (char *)l->prompt; /* which libedit only reads */
}

static lx_status open_editor(lx_lines *l, lx_error *err)
{
    HistEvent event;
    const char *name = setlocale(LC_CTYPE, "");
    if (name == NULL || MB_CUR_MAX == 1) /* lines are in UTF-8 whatever the system's language is */
        (void)setlocale(LC_CTYPE, "C.UTF-8");
    l->edit = el_init("linnet", stdin, stdout, stderr);
    l->history = history_init();
    if (l->edit == NULL || l->history == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the editor of lines");
    (void)history(l->history, &event, H_SETSIZE, HISTORY_LINES);
    (void)history(l->history, &event, H_SETUNIQUE, 1);
    (void)el_set(l->edit, EL_CLIENTDATA, l);
    (void)el_set(l->edit, EL_PROMPT, prompt_of);
    (void)el_set(l->edit, EL_EDITOR, "emacs");
    (void)el_set(l->edit, EL_HIST, history, l->history);
    (void)el_set(l->edit, EL_SIGNAL, 1); /* the terminal is left as it was */
    return LX_OK;
}

lx_status lx_lines_open(const char *prompt, lx_lines **out, lx_error *err)
{
    lx_lines *l = calloc(1, sizeof *l);
    if (l == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for lines");
    l->prompt = prompt;
    bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
    lx_status st = terminal ? open_editor(l, err) : LX_OK;
    if (st != LX_OK) {
        lx_lines_close(l);
        return st;
    }
    *out = l;
    return LX_OK;
}

/* *n 0: there is none. */
static const char *edited(lx_lines *l, size_t *n)
{
    int count = 0;
    HistEvent event;
    (void)el_set(l->edit, EL_PREP_TERM,
                 1); /* libedit shows the prompt first: a ^D typed in between would be lost */
    errno = 0;
    const char *text = el_gets(l->edit, &count);
    if (text != NULL && count > 1)
        (void)history(l->history, &event, H_ENTER, text);
    *n = text != NULL && count > 0 ? (size_t)count : 0;
    return text;
}

static const char *plain(lx_lines *l, size_t *n)
{
    ssize_t count = getline(&l->text, &l->room, stdin);
    *n = count > 0 ? (size_t)count : 0;
    return l->text;
}

lx_status lx_lines_read(lx_lines *l, lx_buffer *line, lx_error *err)
{
    size_t n = 0;
    const char *text = l->edit != NULL ? edited(l, &n) : plain(l, &n);
    if (n == 0 && ferror(stdin) != 0 && errno != EINTR)
        return lx_fail(err, LX_ERR_IO, NULL, "standard input: %s", strerror(errno));
    if (n == 0)
        return LX_ERR_CANCELLED;
    n -= text[n - 1] == '\n';
    lx_buffer_puts(line, "");
    lx_buffer_append(line, text, n);
    return line->status == LX_OK
               ? LX_OK
               : lx_fail(err, line->status, NULL, "the line has %zu bytes, which is too many", n);
}

void lx_lines_close(lx_lines *l)
{
    if (l == NULL)
        return;
    if (l->history != NULL)
        history_end(l->history);
    if (l->edit != NULL)
        el_end(l->edit);
    free(l->text);
    free(l);
}
