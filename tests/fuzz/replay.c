/* Feeds a subject with every file of the folders named: a fuzzer's seeds as a plain test. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/subject.h"

enum { MAX_FILE = 1 << 20 };

static int feed(const char *folder, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(MAX_FILE);
    if (f == NULL || data == NULL)
        return -1;
    size_t n = fread(data, 1, MAX_FILE, f);
    uint8_t *exact = malloc(n > 0 ? n : 1); /* so that a read past the end is seen */
    if (exact == NULL)
        return -1;
    memcpy(exact, data, n);
    (void)fclose(f);
    free(data);
    (void)LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    return 0;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        if (d == NULL)
            return EXIT_FAILURE;
        for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
            if (e->d_name[0] == '.')
                continue;
            if (feed(argv[i], e->d_name) != 0)
                return EXIT_FAILURE;
            n++;
        }
        (void)closedir(d);
    }
    (void)printf("%d files\n", n);
    return n > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
