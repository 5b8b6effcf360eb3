/*
 * Limits of the control group (see cgroup.h).
 *
 * /proc/self/cgroup names the group, one line a hierarchy ("0::/path" in version 2,
 * "4:memory:/path" in version 1). Inside a container that path may be the host's and lead nowhere,
 * while the root of the mount is the container's group. So the limits of the path, of each group
 * above it and of the root all count.
 */
#include "common/cgroup.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = 4096, KIB = 1024 };

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

/* The number after a label at the start of a line and white space; 0 without such a line. */
static int64_t read_label(const char *path, const char *label)
{
    char line[128];
    int64_t value = 0;
    size_t length = strlen(label);
    FILE *f = fopen(path, "re");
    while (f != NULL && value == 0 && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, label, length) == 0 && isspace((unsigned char)line[length]))
            value = strtoll(line + length, NULL, 10);
    if (f != NULL)
        (void)fclose(f);
    return value;
}

/* How the two versions of control groups name the same numbers. */
typedef struct memory_names {
    const char *limit, *used, *files, *shared;
} memory_names;

/* Cached files give way when memory is wanted. Shared memory counts as files and does not. */
static void take_memory(lx_cgroup *c, const char *dir, const memory_names *names)
{
    double v[2], used[2] = {0, 0};
    char stat[MAX_PATH + 64];
    /* Version 1 says "no limit" with a number near 2^63. */
    if (read_numbers(dir, names->limit, v) < 1 || v[0] <= 0 || v[0] > 1e18)
        return;
    int64_t limit = (int64_t)v[0], held = 0;
    (void)snprintf(stat, sizeof stat, "%s/memory.stat", dir);
    if (read_numbers(dir, names->used, used) >= 1)
        held = (int64_t)used[0] - read_label(stat, names->files) + read_label(stat, names->shared);
    int64_t left = held > 0 ? limit - held : limit;
    left = left > 0 ? left : 0;
    if (c->memory_bytes == 0 || left < c->memory_free)
        c->memory_free = left;
    if (c->memory_bytes == 0 || limit < c->memory_bytes)
        c->memory_bytes = limit;
}

static void take_cpus(lx_cgroup *c, double quota, double period)
{
    if (quota > 0 && period > 0 && (!(c->cpus > 0) || quota / period < c->cpus))
        c->cpus = quota / period;
}

static void take_group(lx_cgroup *c, const char *dir)
{
    static const memory_names first = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                       "total_cache", "total_shmem"};
    static const memory_names second = {"memory.max", "memory.current", "file", "shmem"};
    double v[2], period[2];
    take_memory(c, dir, &second);
    take_memory(c, dir, &first);
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
    int64_t available = read_label("/proc/meminfo", "MemAvailable:") * KIB;
    if (available == 0)
        available = -1;
    lx_cgroup own = lx_cgroup_own();
    bool is_limited = own.memory_bytes > 0 && (available < 0 || own.memory_free < available);
    return is_limited ? own.memory_free : available;
}

int64_t lx_cgroup_own_memory(void)
{
    return read_label("/proc/self/status", "RssAnon:") * KIB;
}
