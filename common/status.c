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

void lx_error_set(lx_error *err, lx_status status, const char *param, const char *fmt, ...)
{
    if (err == NULL)
        return;
    err->status = status;
    (void)snprintf(err->param, sizeof err->param, "%s", param != NULL ? param : "");
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
}
