/* Lines that can be edited (see terminal.h). The only user of libedit. */
#include "server/cli/terminal.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdlib.h>

enum { HISTORY_LINES = 1000 };

struct lx_line_editor {
    EditLine *edit;
    History *history;
    const char *prompt;
};

static char *prompt_of(EditLine *edit)
{
    const lx_line_editor *e = NULL;
    (void)el_get(edit, EL_CLIENTDATA, &e);
    return (char *)e->prompt; /* which libedit only reads */
}

static lx_status set_up(lx_line_editor *e, lx_error *err)
{
    HistEvent event;
    const char *name = setlocale(LC_CTYPE, "");
    if (name == NULL || MB_CUR_MAX == 1) /* lines are in UTF-8 whatever the system's language is */
        (void)setlocale(LC_CTYPE, "C.UTF-8");
    e->edit = el_init("linnet", stdin, stdout, stderr);
    e->history = history_init();
    if (e->edit == NULL || e->history == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the editor of lines");
    (void)history(e->history, &event, H_SETSIZE, HISTORY_LINES);
    (void)history(e->history, &event, H_SETUNIQUE, 1);
    (void)el_set(e->edit, EL_CLIENTDATA, e);
    (void)el_set(e->edit, EL_PROMPT, prompt_of);
    (void)el_set(e->edit, EL_EDITOR, "emacs");
    (void)el_set(e->edit, EL_HIST, history, e->history);
    (void)el_set(e->edit, EL_SIGNAL, 1); /* the terminal is left as it was */
    return LX_OK;
}

lx_status lx_line_editor_open(const char *prompt, lx_line_editor **out, lx_error *err)
{
    lx_line_editor *e = calloc(1, sizeof *e);
    if (e == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the editor of lines");
    e->prompt = prompt;
    lx_status st = set_up(e, err);
    if (st == LX_OK)
        *out = e;
    else
        lx_line_editor_close(e);
    return st;
}

const char *lx_line_editor_read(lx_line_editor *e, size_t *n)
{
    int count = 0;
    HistEvent event;
    /* libedit shows the prompt first: a ^D that is typed in between would be lost. */
    (void)el_set(e->edit, EL_PREP_TERM, 1);
    errno = 0;
    const char *text = el_gets(e->edit, &count);
    if (text != NULL && count > 1)
        (void)history(e->history, &event, H_ENTER, text);
    *n = text != NULL && count > 0 ? (size_t)count : 0;
    return text;
}

void lx_line_editor_close(lx_line_editor *e)
{
    if (e == NULL)
        return;
    if (e->history != NULL)
        history_end(e->history);
    if (e->edit != NULL)
        el_end(e->edit);
    free(e);
}
