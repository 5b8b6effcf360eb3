/*
 * Lines that a person types on a terminal, with libedit: they can be edited, and earlier lines come
 * back with the arrow keys. A build without it (LINNET_LINE_EDITOR) has no editor. One at a time in
 * a program; the thread that opened it.
 */
#ifndef LINNET_SERVER_CLI_LINE_EDITOR_H
#define LINNET_SERVER_CLI_LINE_EDITOR_H

#include <stddef.h>

#include "common/status.h"

typedef struct lx_line_editor lx_line_editor;

/* Standard input and output are a terminal. `prompt`, static, stands before every line. *out NULL
   with LX_OK: the build has no editor. LX_ERR_NO_MEMORY. */
lx_status lx_line_editor_open(const char *prompt, lx_line_editor **out, lx_error *err) LX_MUST_USE;
/* The next line with its end, valid until the next call; *n 0: there is none. */
const char *lx_line_editor_read(lx_line_editor *e, size_t *n);
void lx_line_editor_close(lx_line_editor *e); /* NULL is allowed */

#endif
