/*
 * The server's log: one line an event on standard error, "TIME LEVEL message", or as JSON:
 * {"time": ..., "level": ..., "message": ...}.
 * Thread: any; a line is written with one write(), and without waiting once log_sink.h has started.
 */
#ifndef LINNET_COMMON_LOG_H
#define LINNET_COMMON_LOG_H

#include <stdbool.h>
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

/* A line of JSON with these members after time and level, in any format. Text that is no UTF-8 gets
   '?' for the bytes at fault; what acts on a terminal is written as JSON's escapes; what does not
   fit a line of LX_LOG_LINE bytes is left out, member by member. */
enum { LX_LOG_LINE = 16384 };
void lx_log_fields(lx_log_level level, const lx_log_field *fields, int n);

/* Characters of the message that act on a terminal are escaped (common/visible.h), so that a line
 * stays one line. */
void lx_log(lx_log_level level, const char *fmt, ...) LX_PRINTF(2, 3);

/* Says that so many lines were dropped: for lx_log_sink_start. */
void lx_log_report_loss(uint64_t lines);

#endif
