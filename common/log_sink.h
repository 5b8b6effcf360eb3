/*
 * Where the log's lines go: standard error, without ever waiting for its reader.
 *
 * Until lx_log_sink_start every line is written at once, as a command line program does. From then
 * on a pipe, a socket or a terminal that takes no more makes lines wait in a bounded buffer, which
 * a thread empties when there is room again; what does not fit there is dropped and counted. A
 * regular file is written at once.
 * Thread: start and stop by one; the rest any.
 */
#ifndef LINNET_COMMON_LOG_SINK_H
#define LINNET_COMMON_LOG_SINK_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* report: says that so many lines were dropped; called by the thread, without a lock held. */
lx_status lx_log_sink_start(void (*report)(uint64_t lines), lx_error *err) LX_MUST_USE;
/* Waits for at most `ms` until what waits is written, then ends the thread. */
void lx_log_sink_stop(int64_t ms);
/* One line with its end. */
void lx_log_sink_write(const char *line, size_t n);
/* Lines dropped so far. */
uint64_t lx_log_sink_dropped(void);

#endif
