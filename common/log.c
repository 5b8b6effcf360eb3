#include "common/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static _Atomic int threshold = LX_LOG_INFO;

void lx_log_set_level(lx_log_level level)
{
    atomic_store(&threshold, (int)level);
}

/* "2026-01-31T12:00:00.123Z LEVEL " */
static int write_prefix(char *line, size_t size, lx_log_level level)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    struct timespec now;
    struct tm utc;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &utc);
    return (int)n +
           snprintf(line + n, size - n, ".%03ldZ %s ", now.tv_nsec / 1000000, names[level]);
}

void lx_log(lx_log_level level, const char *fmt, ...)
{
    if ((int)level < atomic_load(&threshold))
        return;
    char line[1024];
    int start = write_prefix(line, sizeof line, level);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line + start, sizeof line - (size_t)start - 1, fmt, args);
    va_end(args);
    if (n < 0)
        return;
    int end = start + n;
    if (end > (int)sizeof line - 2)
        end = (int)sizeof line - 2;
    for (int i = start; i < end; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[end++] = '\n';
    (void)!write(STDERR_FILENO, line, (size_t)end);
}
