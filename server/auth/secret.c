/* Files that hold secrets (see secret.h). */
#include "server/auth/secret.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lx_status read_open(FILE *f, const char *path, size_t max, const char *param, char **out,
                           lx_error *err)
{
    char *text = malloc(max + 2);
    if (text == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, param, "no memory for %s", path);
    size_t n = fread(text, 1, max + 1, f);
    lx_status st = LX_OK;
    if (ferror(f) != 0)
        st = lx_fail(err, LX_ERR_IO, param, "%s: %s", path, strerror(errno));
    else if (n > max)
        st = lx_fail(err, LX_ERR_TOO_LARGE, param, "%s has more than %zu bytes", path, max);
    else if (memchr(text, '\0', n) != NULL)
        st = lx_fail(err, LX_ERR_INVALID, param, "%s is not a text file", path);
    text[n] = '\0';
    if (st == LX_OK) {
        *out = text;
        return LX_OK;
    }
    explicit_bzero(text, n);
    free(text);
    return st;
}

lx_status lx_secret_read_file(const char *path, size_t max, const char *param, char **out,
                              lx_error *err)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return lx_fail(err, LX_ERR_INVALID, param, "--%s: %s: %s", param, path, strerror(errno));
    lx_status st = read_open(f, path, max, param, out, err);
    (void)fclose(f);
    return st;
}
