/* What the control group allows this process: the limits of a container, a pod or a service. */
#ifndef LINNET_COMMON_CGROUP_H
#define LINNET_COMMON_CGROUP_H

#include <stdint.h>

typedef struct lx_cgroup {
    int64_t memory_bytes; /* 0: no limit */
    int64_t memory_free;  /* with a limit: what the processes of the groups leave of it */
    double cpus;          /* CPU time a second of time, 0: no limit */
} lx_cgroup;

/*
 * Reads both versions of control groups, the tighter limit where there are several. `mount` is
 * /sys/fs/cgroup, `self` /proc/self/cgroup (tests have their own). What cannot be read is no limit:
 * a machine without control groups has none.
 */
lx_cgroup lx_cgroup_read(const char *mount, const char *self);

/* The same of this process. */
lx_cgroup lx_cgroup_own(void);

/*
 * Bytes this process may still take: what the machine has free, or what a control group's limit
 * leaves where that is fewer. Cached files count as free. -1 where neither is known.
 */
int64_t lx_cgroup_free_memory(void);

/* Bytes of this process's own memory, files that it maps not counted; 0 where that is unknown. */
int64_t lx_cgroup_own_memory(void);

#endif
