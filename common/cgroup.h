/* What the control group allows this process: the limits of a container, a pod or a service. */
#ifndef LINNET_COMMON_CGROUP_H
#define LINNET_COMMON_CGROUP_H

#include <stdint.h>

typedef struct lx_cgroup {
    int64_t memory_bytes; /* 0: no limit */
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
 * Bytes the machine has free, or a container's limit where that is fewer; 0 where neither is known.
 * What is shared out by it (slots, states) is a fixed part each, so that the parts fit together.
 */
int64_t lx_cgroup_free_memory(void);

#endif
