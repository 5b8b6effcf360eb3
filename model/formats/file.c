/*
 * Files of a model folder (see file.h). O_NONBLOCK keeps the open itself from waiting for the other
 * end of a pipe; the size is taken from the open file, so nothing can change between check and use
 * but the content.
 */
#include "model/formats/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LABEL_BYTES 96

const char *lx_file_label(const char *path)
{
    size_t n = strlen(path);
    return n <= LABEL_BYTES ? path : path + n - LABEL_BYTES;
}

static lx_status check_open_file(int fd, const char *path, size_t max_bytes, size_t *n_bytes,
                                 lx_error *err)
{
    struct stat s;
    const char *label = lx_file_label(path);
    if (fstat(fd, &s) != 0)
        return lx_fail(err, LX_ERR_IO, NULL, "%s: %s", label, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: not a regular file", label);
    if (s.st_size <= 0)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: the file is empty", label);
    if ((uintmax_t)s.st_size > max_bytes)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: %jd bytes, at most %zu are allowed", label,
                       (intmax_t)s.st_size, max_bytes);
    *n_bytes = (size_t)s.st_size;
    return LX_OK;
}

lx_status lx_file_open(const char *path, size_t max_bytes, int *fd, size_t *n_bytes, lx_error *err)
{
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (f < 0) {
        lx_status st = errno == ENOENT || errno == ENOTDIR ? LX_ERR_NOT_FOUND : LX_ERR_IO;
        return lx_fail(err, st, NULL, "%s: %s", lx_file_label(path), strerror(errno));
    }
    lx_status st = check_open_file(f, path, max_bytes, n_bytes, err);
    if (st != LX_OK) {
        (void)close(f);
        return st;
    }
    *fd = f;
    return LX_OK;
}

/* Reads exactly n bytes; a file that shrank meanwhile is an error. */
static lx_status read_all(int fd, const char *path, char *data, size_t n, lx_error *err)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = read(fd, data + at, n - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return lx_fail(err, LX_ERR_IO, NULL, "%s: %s", lx_file_label(path), strerror(errno));
        if (got == 0)
            return lx_fail(err, LX_ERR_IO, NULL, "%s: ended at byte %zu of %zu",
                           lx_file_label(path), at, n);
        at += (size_t)got;
    }
    return LX_OK;
}

lx_status lx_file_read(const char *path, size_t max_bytes, char **data, size_t *n_bytes,
                       lx_error *err)
{
    int fd = -1;
    size_t n = 0;
    lx_status st = lx_file_open(path, max_bytes, &fd, &n, err);
    if (st != LX_OK)
        return st;
    char *text = malloc(n + 1);
    if (text == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for %zu bytes",
                     lx_file_label(path), n);
    else
        st = read_all(fd, path, text, n, err);
    (void)close(fd);
    if (st != LX_OK) {
        free(text);
        return st;
    }
    text[n] = '\0';
    *data = text;
    *n_bytes = n;
    return LX_OK;
}

static uint64_t hash_word(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * UINT64_C(0x100000001b3);
}

/* Words as they lie in memory: weights are used in place, so the machine is little-endian anyway.
 */
static uint64_t load_word(const unsigned char *bytes, size_t n)
{
    uint64_t word = 0;
    memcpy(&word, bytes, n);
    return word;
}

uint64_t lx_file_hash(uint64_t seed, const void *data, size_t n_bytes)
{
    const unsigned char *bytes = data;
    uint64_t hash = seed;
    size_t i = 0;
    for (; i + 8 <= n_bytes; i += 8)
        hash = hash_word(hash, load_word(bytes + i, 8));
    if (i < n_bytes)
        hash = hash_word(hash, load_word(bytes + i, n_bytes - i));
    return hash_word(hash, n_bytes);
}

const char *lx_file_quote(const char *text, char *out, size_t size)
{
    size_t i = 0;
    for (; i + 1 < size && text[i] != '\0'; i++)
        out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    out[i] = '\0';
    return out;
}
