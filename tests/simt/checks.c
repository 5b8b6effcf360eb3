/* See checks.h. */
#include "tests/simt/checks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int failed, passed;

void check(bool good, const char *what, const char *text)
{
    if (good) {
        passed++;
        return;
    }
    failed++;
    (void)printf("FAILED %s: %s\n", what, text);
}

bool simt_open(int argc, char **argv, simt *s)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s LIBRARY, with its folder in LD_LIBRARY_PATH\n", argv[0]);
        return false;
    }
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    void *fail_at = plugin != NULL ? dlsym(plugin, "simt_fail_at") : NULL;
    void *count = plugin != NULL ? dlsym(plugin, "simt_count") : NULL;
    void *listen = plugin != NULL ? dlsym(plugin, "simt_listen") : NULL;
    if (fail_at == NULL || count == NULL || listen == NULL) {
        (void)fprintf(stderr, "%s: %s\n", argv[0], dlerror());
        return false;
    }
    memcpy(&s->fail_at, &fail_at, sizeof s->fail_at);
    memcpy(&s->count, &count, sizeof s->count);
    memcpy(&s->listen, &listen, sizeof s->listen);
    return true;
}

int checks_end(void)
{
    (void)printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
