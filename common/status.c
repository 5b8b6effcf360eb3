#include "common/status.h"

#include <stdarg.h>
#include <stdio.h>

const char *lx_status_text(lx_status status)
{
    static const char *const texts[] = {
#define X(name, text, http) text,
        LX_STATUS_TABLE(X)
#undef X
    };
    return texts[status];
}

int lx_status_http(lx_status status)
{
    static const int codes[] = {
#define X(name, text, http) http,
        LX_STATUS_TABLE(X)
#undef X
    };
    return codes[status];
}

/* Drops the bytes of a character that the end of a text cut off: answers need valid UTF-8. */
static void drop_cut_character(char *text, size_t n)
{
    size_t at = n > 0 ? n - 1 : 0; /* of its first byte */
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
        at--;
    unsigned char lead = (unsigned char)text[at];
    size_t whole = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (n - at < whole)
        text[at] = '\0';
}

void lx_error_set(lx_error *err, lx_status status, const char *param, const char *fmt, ...)
{
    if (err == NULL)
        return;
    err->status = status;
    (void)snprintf(err->param, sizeof err->param, "%s", param != NULL ? param : "");
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    if (n >= (int)sizeof err->text)
        drop_cut_character(err->text, sizeof err->text - 1);
}
