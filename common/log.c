#include "common/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/visible.h"

enum { MESSAGE_BYTES = 1024 };

static _Atomic int threshold = LX_LOG_INFO;
static _Atomic bool as_json;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void lx_log_set_level(lx_log_level level)
{
    atomic_store(&threshold, (int)level);
}

void lx_log_set_json(bool json)
{
    atomic_store(&as_json, json);
}

bool lx_log_is_json(void)
{
    return atomic_load(&as_json);
}

/* "2026-01-31T12:00:00.123Z" */
static size_t write_time(char *line, size_t size)
{
    struct timespec now;
    struct tm utc;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &utc);
    return n + (size_t)snprintf(line + n, size - n, ".%03ldZ", now.tv_nsec / 1000000);
}

/* --- JSON --- */

/* A line that is being written; `full` once something did not fit. */
typedef struct json_line {
    char text[LX_LOG_LINE];
    size_t n;
    bool full;
} json_line;

static void put(json_line *l, const char *bytes, size_t n)
{
    if (l->full || n > sizeof l->text - l->n - 2) { /* room for the end of the line */
        l->full = true;
        return;
    }
    memcpy(l->text + l->n, bytes, n);
    l->n += n;
}

static void put_string(json_line *l, const char *text)
{
    put(l, "\"", 1);
    for (const char *s = text; *s != '\0';) {
        lx_character c = lx_character_at(s);
        char code[8];
        if (c.bytes == 0)
            put(l, "?", 1);
        else if (*s == '"' || *s == '\\')
            put(l, (const char[]){'\\', *s}, 2);
        else if (!c.visible)
            put(l, code,
                (size_t)snprintf(code, sizeof code, "\\u%04x", (unsigned)(c.code & 0xffff)));
        else
            put(l, s, c.bytes);
        s += c.bytes == 0 ? 1 : c.bytes;
    }
    put(l, "\"", 1);
}

static void put_field(json_line *l, const lx_log_field *f)
{
    size_t begin = l->n;
    char number[40];
    put(l, begin > 1 ? ", " : "", begin > 1 ? 2 : 0);
    put_string(l, f->name);
    put(l, ": ", 2);
    if (f->text != NULL)
        put_string(l, f->text);
    else
        put(l, number, (size_t)snprintf(number, sizeof number, "%.15g", f->number));
    if (l->full) {
        l->n = begin;
        l->full = false;
    }
}

void lx_log_fields(lx_log_level level, const lx_log_field *fields, int n)
{
    if ((int)level < atomic_load(&threshold))
        return;
    char now[40];
    json_line line;
    line.n = 0;
    line.full = false;
    (void)write_time(now, sizeof now);
    put(&line, "{", 1);
    put_field(&line, &(lx_log_field){.name = "time", .text = now});
    put_field(&line, &(lx_log_field){.name = "level", .text = level_names[level]});
    for (int i = 0; i < n; i++)
        put_field(&line, &fields[i]);
    line.text[line.n++] = '}';
    line.text[line.n++] = '\n';
    lx_log_sink_write(line.text, line.n);
}

/* --- text --- */

static void log_text(lx_log_level level, const char *message)
{
    char line[2 * MESSAGE_BYTES];
    size_t n = write_time(line, sizeof line);
    n += (size_t)snprintf(line + n, sizeof line - n, " %s ", level_names[level]);
    while (*message != '\0' && n < sizeof line - LX_VISIBLE_BYTES) {
        lx_character c = lx_character_at(message);
        if (c.visible)
            memcpy(line + n, message, c.bytes);
        n += c.visible ? c.bytes : lx_visible_escape(c, line + n);
        message += c.bytes == 0 ? 1 : c.bytes;
    }
    line[n++] = '\n';
    lx_log_sink_write(line, n);
}

void lx_log(lx_log_level level, const char *fmt, ...)
{
    if ((int)level < atomic_load(&threshold))
        return;
    char message[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    if (n < 0)
        return;
    if (atomic_load(&as_json))
        lx_log_fields(level, &(lx_log_field){.name = "message", .text = message}, 1);
    else
        log_text(level, message);
}

void lx_log_report_loss(uint64_t lines)
{
    lx_log(LX_LOG_WARN, "%llu lines of the log were dropped: they were not read in time",
           (unsigned long long)lines);
}
