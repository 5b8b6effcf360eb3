/*
 * The server's log: one line an event on standard error, "TIME LEVEL message", or as JSON:
 * {"time": ..., "level": ..., "message": ...}.
 * Thread: any; a line is written with one write(), and without waiting after lx_log_sink_start.
 */
#ifndef LINNET_COMMON_LOG_H
#define LINNET_COMMON_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

typedef enum lx_log_level { LX_LOG_DEBUG, LX_LOG_INFO, LX_LOG_WARN, LX_LOG_ERROR } lx_log_level;

/* Lines below `level` are dropped. Default LX_LOG_INFO. */
void lx_log_set_level(lx_log_level level);

/* Lines of JSON instead of text from now on. */
void lx_log_set_json(bool json);
bool lx_log_is_json(void);

/* One member of a JSON line. */
typedef struct lx_log_field {
    const char *name;
    const char *text; /* NULL: the number */
    double number;
} lx_log_field;

/* A line of JSON with these members after time and level, in any format. Bytes that are not UTF-8
   become '?'. Characters that act on a terminal become escapes of JSON. Members that do not fit
   into a line of LX_LOG_LINE bytes are left out. */
enum { LX_LOG_LINE = 16384 };
void lx_log_fields(lx_log_level level, const lx_log_field *fields, int n);

/* Characters of the message that act on a terminal are escaped (common/visible.h), so that a line
 * stays one line. */
void lx_log(lx_log_level level, const char *fmt, ...) LX_PRINTF(2, 3);

/* Says that so many lines were dropped: for lx_log_sink_start. */
void lx_log_report_loss(uint64_t lines);

/*
 * The log's way out (log_sink.c): standard error, without ever waiting for its reader.
 *
 * Until lx_log_sink_start every line is written at once, as a command line program does. From then
 * on, lines for a pipe, a socket or a terminal that takes no more wait in a bounded buffer. A
 * thread empties the buffer when there is room again; lines that do not fit are dropped and
 * counted. A regular file is written at once. Thread: start and stop by one; the rest any.
 */
/* report: says that so many lines were dropped; called by the thread, without a lock held. */
lx_status lx_log_sink_start(void (*report)(uint64_t lines), lx_error *err) LX_MUST_USE;
/* Waits for at most `ms` until what waits is written, then ends the thread. */
void lx_log_sink_stop(int64_t ms);
/* One line with its end. */
void lx_log_sink_write(const char *line, size_t n);
/* Lines dropped so far. */
uint64_t lx_log_sink_dropped(void);

#endif
