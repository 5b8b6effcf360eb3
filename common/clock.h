/* Monotonic time in nanoseconds. Thread: any. */
#ifndef LINNET_COMMON_CLOCK_H
#define LINNET_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

#define LX_NS_PER_S INT64_C(1000000000)
#define LX_NS_PER_MS INT64_C(1000000)

static inline int64_t lx_now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * LX_NS_PER_S + t.tv_nsec;
}

#endif
