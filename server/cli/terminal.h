/* A terminal: text of a model that is shown there, and lines that are read from there. */
#ifndef LINNET_SERVER_CLI_TERMINAL_H
#define LINNET_SERVER_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

#include "common/buffer.h"

/* Appends text in UTF-8 as a terminal may show it. Control characters except line feeds and tabs
   become visible ("^[", "<U+009B>"), as they could move the cursor or change the text above it.
   Every piece of a text must end with a whole character. */
void lx_terminal_show(const char *text, size_t n, lx_buffer *out);

/* Whether `out` is a terminal. */
bool lx_terminal_is(FILE *out);

/* Lines from standard input; on a terminal they can be edited, and the history ends with the
   program. One at a time in a program; the thread that opened it. */
typedef struct lx_lines lx_lines;

/* `prompt`, static, stands before every line on a terminal. LX_ERR_NO_MEMORY. */
lx_status lx_lines_open(const char *prompt, lx_lines **out, lx_error *err) LX_MUST_USE;
/* The next line, without its end, into an empty buffer that is already initialised: its maximum
   holds for the line. LX_ERR_CANCELLED: there are no more. LX_ERR_TOO_LARGE with the bytes. */
lx_status lx_lines_read(lx_lines *l, lx_buffer *line, lx_error *err) LX_MUST_USE;
void lx_lines_close(lx_lines *l); /* NULL is allowed */

/* --- lines that a person types, with libedit (line_editor.c): they can be edited, and earlier
   lines come back with the arrow keys. A build without it (LINNET_LINE_EDITOR) has no editor --- */

typedef struct lx_line_editor lx_line_editor;

/* Standard input and output are a terminal. `prompt`, static, stands before every line. *out NULL
   with LX_OK: the build has no editor. LX_ERR_NO_MEMORY. */
lx_status lx_line_editor_open(const char *prompt, lx_line_editor **out, lx_error *err) LX_MUST_USE;
/* The next line with its end, valid until the next call; *n 0: there is none. */
const char *lx_line_editor_read(lx_line_editor *e, size_t *n);
void lx_line_editor_close(lx_line_editor *e); /* NULL is allowed */

#endif
