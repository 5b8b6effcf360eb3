/* In place of line_editor.c where LINNET_LINE_EDITOR is off: the terminal's own editing of a line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/cli/line_editor.h"

struct lx_line_editor {
    const char *prompt;
    char *text; /* of getline */
    size_t room;
};

lx_status lx_line_editor_open(const char *prompt, lx_line_editor **out, lx_error *err)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for lines");
    (*out)->prompt = prompt;
    return LX_OK;
}

const char *lx_line_editor_read(lx_line_editor *e, size_t *n)
{
    (void)fputs(e->prompt, stdout);
    (void)fflush(stdout);
    errno = 0;
    ssize_t count = getline(&e->text, &e->room, stdin);
    *n = count > 0 ? (size_t)count : 0;
    return e->text;
}

void lx_line_editor_close(lx_line_editor *e)
{
    if (e == NULL)
        return;
    free(e->text);
    free(e);
}
