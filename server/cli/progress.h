/* A progress bar on stderr for work that takes long. Where stderr is no terminal: nothing. */
#ifndef LINNET_SERVER_CLI_PROGRESS_H
#define LINNET_SERVER_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct lx_progress {
    bool on;          /* stderr is a terminal; without it nothing else counts */
    const char *unit; /* "pixels" */
    int64_t total, start_ns, next_ns;
} lx_progress;

void lx_progress_begin(lx_progress *p, const char *unit, int64_t total);
/* Shows that `done` of the total is there; at most ten times a second. */
void lx_progress_update(lx_progress *p, int64_t done);
/* Takes the bar away. */
void lx_progress_end(lx_progress *p);

#endif
