/* See scratch.h. The folder lies under TMPDIR or /tmp. */
#include "tests/support/scratch.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[1024];

int scratch_setup(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder, "%s/linnet-test-XXXXXX", tmp != NULL ? tmp : "/tmp");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

int scratch_teardown(void **state)
{
    enum { OPEN_FOLDERS = 8 };
    (void)state;
    return nftw(folder, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_path(const char *name)
{
    static char path[2048];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

const char *scratch_write(const char *name, const void *bytes, size_t n)
{
    const char *path = scratch_path(name);
    (void)unlink(path); /* ext4 waits for the disk where a file that has bytes is written anew */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

char *scratch_replace(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (at == NULL || strstr(at + 1, from) != NULL)
        fail_msg("\"%s\" is not there exactly once", from);
    size_t n = strlen(text) + strlen(to) + 1;
    char *out = malloc(n);
    assert_non_null(out);
    (void)snprintf(out, n, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

void must(lx_status st, const lx_error *err)
{
    if (st != LX_OK)
        fail_msg("%s", err->text);
}

void scratch_expect(lx_status got, const lx_error *err, lx_status status, const char *part)
{
    if (got != status || err->status != status)
        fail_msg("status %d (%s), not %d; expected \"%s\"", (int)got, err->text, (int)status, part);
    if (strstr(err->text, part) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", err->text, part);
    assert_null(strchr(err->text, '\n'));
}

uint64_t scratch_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
