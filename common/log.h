/*
 * The server's log: one line an event on standard error, "TIME LEVEL message".
 * Thread: any; a line is written with one write().
 */
#ifndef LINNET_COMMON_LOG_H
#define LINNET_COMMON_LOG_H

#include "common/status.h"

typedef enum lx_log_level { LX_LOG_DEBUG, LX_LOG_INFO, LX_LOG_WARN, LX_LOG_ERROR } lx_log_level;

/* Lines below `level` are dropped. Default LX_LOG_INFO. */
void lx_log_set_level(lx_log_level level);

/* Control characters of the message are replaced by '?', so that a line stays one line. */
void lx_log(lx_log_level level, const char *fmt, ...) LX_PRINTF(2, 3);

#endif
