/* The limits that the control group of a container, a pod or a service sets for this process. */
#ifndef LINNET_COMMON_CGROUP_H
#define LINNET_COMMON_CGROUP_H

#include <stdint.h>

typedef struct lx_cgroup {
    int64_t memory_bytes; /* 0: no limit */
    int64_t memory_free;  /* the part of a limit that the processes of its group leave */
    double cpus;          /* CPU time a second of time, 0: no limit */
} lx_cgroup;

/*
 * Reads both versions of control groups, the tighter limit where there are several. `mount` is
 * /sys/fs/cgroup, `self` /proc/self/cgroup (tests have their own). A limit that cannot be read does
 * not count: a machine without control groups has none.
 */
lx_cgroup lx_cgroup_read(const char *mount, const char *self);

/* The limits of this process. */
lx_cgroup lx_cgroup_own(void);

/*
 * Bytes this process may still take: the machine's free memory, or the rest of a control group's
 * limit where that is less. Cached files count as free. -1 where neither is known.
 */
int64_t lx_cgroup_free_memory(void);

/* Bytes of this process's own memory, files that it maps not counted; 0 where that is unknown. */
int64_t lx_cgroup_own_memory(void);

#endif
