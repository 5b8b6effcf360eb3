/* See open_files.h. */
#include "server/cli/open_files.h"

#include <dirent.h>
#include <stddef.h>
#include <sys/resource.h>

enum {
    OWN = 5,        /* the watcher's, the log's, the listening socket, what looks at the system */
    PER_THREAD = 2, /* an HTTP thread's epoll set and its waker */
    /* For files of models that are read again, connections to Redis, refused clients that are still
       heard: one in so many of all, at most. */
    SPARE = 16,
    MOST_SPARE = 64,
};

/* How many are open now; those that programs begin with where the system does not say. */
static int64_t count_open(void)
{
    int64_t n = 3;
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL)
        return n;
    for (n = -3; readdir(dir) != NULL;) /* without ".", ".." and the folder's own */
        n++;
    (void)closedir(dir);
    return n;
}

lx_status lx_open_files_connections(int64_t wanted, int32_t n_threads, int32_t *out, lx_error *err)
{
    struct rlimit limit = {0};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        *out = (int32_t)wanted;
        return LX_OK;
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    int64_t all = limit.rlim_cur < (1 << 24) ? (int64_t)limit.rlim_cur : 1 << 24;
    int64_t spare = all / SPARE < MOST_SPARE ? all / SPARE : MOST_SPARE;
    int64_t most = all - spare - count_open() - OWN - PER_THREAD * (int64_t)n_threads;
    if (most < 1)
        return lx_fail(err, LX_ERR_INVALID, "max-connections",
                       "the limit of open files is %lld, which leaves none for connections: raise "
                       "it to %lld at least (ulimit -n, LimitNOFILE=)",
                       (long long)all, (long long)(all - most + 2));
    *out = (int32_t)(wanted < most ? wanted : most);
    return LX_OK;
}
