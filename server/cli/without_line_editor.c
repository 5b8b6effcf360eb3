/* In place of line_editor.c where LINNET_LINE_EDITOR is off: the terminal itself edits a line. */
#include "server/cli/terminal.h"

lx_status lx_line_editor_open(const char *prompt, lx_line_editor **out, lx_error *err)
{
    (void)prompt;
    (void)err;
    *out = NULL;
    return LX_OK;
}

/* Not reached, as there is no editor. */
const char *lx_line_editor_read(lx_line_editor *e, size_t *n)
{
    (void)e;
    *n = 0;
    return NULL;
}

void lx_line_editor_close(lx_line_editor *e)
{
    (void)e;
}
