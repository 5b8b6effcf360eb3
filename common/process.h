/*
 * Facts of the running process for its metrics: memory, processor time, open files, start. Linux
 * has them in /proc/self. Thread: any.
 */
#ifndef LINNET_COMMON_PROCESS_H
#define LINNET_COMMON_PROCESS_H

#include <stdint.h>

/* A fact that cannot be read is negative: a container may hide /proc, and a process without a free
   descriptor cannot open it. */
typedef struct lx_process_facts {
    int64_t resident_bytes, virtual_bytes;
    double cpu_seconds;   /* of all threads, user and system */
    int64_t open_files;   /* descriptors in use */
    int64_t most_files;   /* that may be in use, ulimit -n */
    double start_seconds; /* Unix time of the process's start */
} lx_process_facts;

lx_process_facts lx_process_get_facts(void);

/* Descriptors in use, -1 where /proc cannot be read. */
int64_t lx_process_open_files(void);

#endif
