#include "common/process.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { START_FIELD = 22, LINE = 1024 }; /* starttime of /proc/self/stat, proc(5) */

/* ".", ".." and the folder's own descriptor are not counted. */
int64_t lx_process_open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int64_t n = -3;
    if (dir == NULL)
        return -1;
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n;
}

/* The first line of the file that begins so. */
static bool read_line(const char *path, const char *begin, char line[LINE])
{
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file != NULL && !found && fgets(line, LINE, file) != NULL)
        found = strncmp(line, begin, strlen(begin)) == 0;
    if (file != NULL)
        (void)fclose(file);
    return found;
}

static void read_memory(lx_process_facts *f)
{
    char line[LINE], *end = NULL;
    if (!read_line("/proc/self/statm", "", line))
        return;
    int64_t page = sysconf(_SC_PAGESIZE);
    f->virtual_bytes = strtoll(line, &end, 10) * page;
    f->resident_bytes = strtoll(end, NULL, 10) * page;
}

/* The machine's start as Unix time, -1: unknown. */
static double boot_seconds(void)
{
    static const char name[] = "btime ";
    char line[LINE];
    return read_line("/proc/stat", name, line) ? (double)strtoll(line + sizeof name - 1, NULL, 10)
                                               : -1;
}

/* Ticks from the machine's start to the process's, -1: unknown. The second field is the program's
   name in parentheses, which may hold spaces. */
static double start_ticks(void)
{
    char line[LINE];
    const char *at = read_line("/proc/self/stat", "", line) ? strrchr(line, ')') : NULL;
    for (int field = 2; at != NULL && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at != NULL ? (double)strtoull(at + 1, NULL, 10) : -1;
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

lx_process_facts lx_process_get_facts(void)
{
    lx_process_facts f = {-1, -1, -1, -1, -1, -1};
    struct rusage used;
    struct rlimit files;
    read_memory(&f);
    f.open_files = lx_process_open_files();
    if (getrusage(RUSAGE_SELF, &used) == 0)
        f.cpu_seconds = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur <= INT64_MAX)
        f.most_files = (int64_t)files.rlim_cur;
    double boot = boot_seconds(), ticks = start_ticks();
    if (boot >= 0 && ticks >= 0)
        f.start_seconds = boot + ticks / (double)sysconf(_SC_CLK_TCK);
    return f;
}
