/*
 * Limits of the control group (see cgroup.h).
 *
 * /proc/self/cgroup names the group, one line a hierarchy ("0::/path" in version 2,
 * "4:memory:/path" in version 1). Inside a container that path may be the host's and lead nowhere
 * while the mount's own root is the container's group, so the limits of the path, of each group
 * above it and of the root all count: each bounds the process.
 */
#include "common/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = 4096 };

/* The first one or two numbers of a file: how many were there. "max" is no number. */
static int read_numbers(const char *dir, const char *name, double out[2])
{
    char path[MAX_PATH + 64], line[128];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = n > 0 && n < (int)sizeof path ? fopen(path, "re") : NULL;
    if (f == NULL)
        return 0;
    char *end = line;
    int count = 0;
    if (fgets(line, sizeof line, f) != NULL)
        for (char *at = line; count < 2; at = end, count++) {
            out[count] = strtod(at, &end);
            if (end == at)
                break;
        }
    (void)fclose(f);
    return count;
}

static void take_memory(lx_cgroup *c, const char *dir, const char *name)
{
    double v[2];
    /* Version 1 says "no limit" with a number near 2^63. */
    if (read_numbers(dir, name, v) < 1 || v[0] <= 0 || v[0] > 1e18)
        return;
    if (c->memory_bytes == 0 || (int64_t)v[0] < c->memory_bytes)
        c->memory_bytes = (int64_t)v[0];
}

static void take_cpus(lx_cgroup *c, double quota, double period)
{
    if (quota > 0 && period > 0 && (!(c->cpus > 0) || quota / period < c->cpus))
        c->cpus = quota / period;
}

static void take_group(lx_cgroup *c, const char *dir)
{
    double v[2], period[2];
    take_memory(c, dir, "memory.max");
    take_memory(c, dir, "memory.limit_in_bytes");
    if (read_numbers(dir, "cpu.max", v) == 2)
        take_cpus(c, v[0], v[1]);
    if (read_numbers(dir, "cpu.cfs_quota_us", v) >= 1 &&
        read_numbers(dir, "cpu.cfs_period_us", period) >= 1)
        take_cpus(c, v[0], period[0]);
}

/* The group at mount/controller/path and those above it, up to the mount's root. */
static void take_groups(lx_cgroup *c, const char *mount, const char *controller, const char *path)
{
    char dir[MAX_PATH];
    int root = snprintf(dir, sizeof dir, "%s/%s", mount, controller);
    int n = snprintf(dir, sizeof dir, "%s/%s%s", mount, controller, path);
    if (n <= 0 || n >= (int)sizeof dir)
        return;
    while (n >= root) {
        take_group(c, dir);
        do
            n--;
        while (n > root && dir[n] != '/');
        dir[n > 0 ? n : 0] = '\0';
    }
}

lx_cgroup lx_cgroup_read(const char *mount, const char *self)
{
    lx_cgroup c = {0};
    char line[MAX_PATH];
    FILE *f = fopen(self, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL)
            continue;
        *path++ = '\0';
        controllers++;
        if (*controllers == '\0')
            take_groups(&c, mount, ".", path);
        else if (strcmp(controllers, "memory") == 0)
            take_groups(&c, mount, "memory", path);
        else if (strcmp(controllers, "cpu") == 0 || strcmp(controllers, "cpu,cpuacct") == 0)
            take_groups(&c, mount, controllers, path);
    }
    if (f != NULL)
        (void)fclose(f);
    return c;
}

lx_cgroup lx_cgroup_own(void)
{
    return lx_cgroup_read("/sys/fs/cgroup", "/proc/self/cgroup");
}

int64_t lx_cgroup_free_memory(void)
{
    long long available_kb = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "re");
    static const char label[] = "MemAvailable:";
    while (f != NULL && available_kb == 0 && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, label, sizeof label - 1) == 0)
            available_kb = strtoll(line + sizeof label - 1, NULL, 10);
    if (f != NULL)
        (void)fclose(f);
    int64_t limit = lx_cgroup_own().memory_bytes;
    return limit > 0 && limit < available_kb * 1024 ? limit : available_kb * 1024;
}
