/*
 * A redis-server for one test program, on a port of its own, that keeps nothing on disk. Every
 * function fails the running test when something goes wrong.
 */
#ifndef LINNET_TESTS_SUPPORT_REDIS_PROCESS_H
#define LINNET_TESTS_SUPPORT_REDIS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct redis_process {
    pid_t pid; /* 0: not running */
    int port;  /* 0: not chosen yet; kept over a restart */
    char url[64];
} redis_process;

/* Returns when the server listens; false when none is installed. */
bool redis_start(redis_process *r);
void redis_kill(redis_process *r); /* also one that does not run */

#endif
