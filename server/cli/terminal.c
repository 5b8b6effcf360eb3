/* A terminal (see terminal.h). */
#include "server/cli/terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    lx_line_editor *editor; /* NULL: the input is not a terminal, or the build has no editor */
    const char *prompt;     /* NULL: the input is not a terminal */
    char *text;             /* of getline */
    size_t room;
};

lx_status lx_lines_open(const char *prompt, lx_lines **out, lx_error *err)
{
    lx_lines *l = calloc(1, sizeof *l);
    if (l == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for lines");
    if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1)
        l->prompt = prompt;
    lx_status st = l->prompt != NULL ? lx_line_editor_open(prompt, &l->editor, err) : LX_OK;
    if (st != LX_OK) {
        lx_lines_close(l);
        return st;
    }
    *out = l;
    return LX_OK;
}

static const char *plain(lx_lines *l, size_t *n)
{
    if (l->prompt != NULL)
        (void)fputs(l->prompt, stdout);
    (void)fflush(stdout);
    errno = 0;
    ssize_t count = getline(&l->text, &l->room, stdin);
    *n = count > 0 ? (size_t)count : 0;
    return l->text;
}

lx_status lx_lines_read(lx_lines *l, lx_buffer *line, lx_error *err)
{
    size_t n = 0;
    const char *text = l->editor != NULL ? lx_line_editor_read(l->editor, &n) : plain(l, &n);
    if (n == 0 && ferror(stdin) != 0 && errno != EINTR)
        return lx_fail(err, LX_ERR_IO, NULL, "standard input: %s", strerror(errno));
    if (n == 0)
        return LX_ERR_CANCELLED;
    n -= text[n - 1] == '\n';
    lx_buffer_puts(line, "");
    lx_buffer_append(line, text, n);
    return line->status == LX_OK
               ? LX_OK
               : lx_fail(err, line->status, NULL, "the line has %zu bytes and is too long", n);
}

void lx_lines_close(lx_lines *l)
{
    if (l == NULL)
        return;
    lx_line_editor_close(l->editor);
    free(l->text);
    free(l);
}
