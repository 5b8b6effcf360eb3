/*
 * Files of a model folder (see file.h). O_NONBLOCK keeps the open itself from waiting for the other
 * end of a pipe. The size is taken from the open file, so only the content can change between check
 * and use. No file is mapped: an access after the end of a file that was shortened would end the
 * process (docs/adr/0030-files-are-read-not-mapped.md).
 */
#include "model/formats/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
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

/* Where `modified` is not NULL it becomes the time of the file's last change. */
static lx_status check_open_file(int fd, const char *path, size_t max_bytes, size_t *n_bytes,
                                 struct timespec *modified, lx_error *err)
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
    if (modified != NULL)
        *modified = s.st_mtim;
    return LX_OK;
}

static lx_status open_file(const char *path, size_t max_bytes, int *fd, size_t *n_bytes,
                           struct timespec *modified, lx_error *err)
{
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (f < 0) {
        bool full =
            errno == EMFILE || errno == ENFILE || errno == ENOMEM; /* no fault of the file */
        lx_status st = full                                  ? LX_ERR_NO_MEMORY
                       : errno == ENOENT || errno == ENOTDIR ? LX_ERR_NOT_FOUND
                                                             : LX_ERR_IO;
        return lx_fail(err, st, NULL, "%s: %s", lx_file_label(path), strerror(errno));
    }
    lx_status st = check_open_file(f, path, max_bytes, n_bytes, modified, err);
    if (st != LX_OK) {
        (void)close(f);
        return st;
    }
    *fd = f;
    return LX_OK;
}

lx_status lx_file_open(const char *path, size_t max_bytes, int *fd, size_t *n_bytes, lx_error *err)
{
    return open_file(path, max_bytes, fd, n_bytes, NULL, err);
}

/* --- reading in parts --- */

lx_status lx_file_begin(const char *path, size_t max_bytes, lx_file *out, lx_error *err)
{
    lx_file f = {.fd = -1};
    lx_status st = open_file(path, max_bytes, &f.fd, &f.n_bytes, &f.modified, err);
    if (st == LX_OK)
        *out = f;
    return st;
}

void lx_file_end(lx_file *f)
{
    if (f->fd >= 0)
        (void)close(f->fd);
    f->fd = -1;
}

/* By the time of the last write. The time of the last change moves, too, when another file is
   renamed to the path, and that changes nothing here. */
static bool has_changed(const lx_file *f)
{
    struct stat s;
    return fstat(f->fd, &s) != 0 || s.st_size != (off_t)f->n_bytes ||
           s.st_mtim.tv_sec != f->modified.tv_sec || s.st_mtim.tv_nsec != f->modified.tv_nsec;
}

lx_status lx_file_fail_changed(const char *label, lx_error *err)
{
    return lx_fail(err, LX_ERR_CONFLICT, NULL,
                   "%s: the file was changed while it was read: try again when it is complete",
                   label);
}

lx_status lx_file_read_at(const lx_file *f, const char *label, uint64_t at, void *data, size_t n,
                          lx_error *err)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(f->fd, (char *)data + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return lx_fail(err, LX_ERR_IO, NULL, "%s: %s", label, strerror(errno));
        if (got == 0)
            break; /* the file has become shorter */
        done += (size_t)got;
    }
    return done < n || has_changed(f) ? lx_file_fail_changed(label, err) : LX_OK;
}

lx_status lx_file_read(const char *path, size_t max_bytes, char **data, size_t *n_bytes,
                       lx_error *err)
{
    lx_file f = {.fd = -1};
    lx_status st = lx_file_begin(path, max_bytes, &f, err);
    if (st != LX_OK)
        return st;
    char *text = malloc(f.n_bytes + 1);
    if (text == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for %zu bytes",
                     lx_file_label(path), f.n_bytes);
    else
        st = lx_file_read_at(&f, lx_file_label(path), 0, text, f.n_bytes, err);
    lx_file_end(&f);
    if (st != LX_OK) {
        free(text);
        return st;
    }
    text[f.n_bytes] = '\0';
    *data = text;
    *n_bytes = f.n_bytes;
    return LX_OK;
}

/* --- hashes --- */

static uint64_t hash_word(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * UINT64_C(0x100000001b3);
}

/* A word as it lies in memory: weights are used in place, so the machine is little-endian anyway.
 */
static uint64_t load_word(const unsigned char *bytes, size_t n)
{
    uint64_t word = 0;
    memcpy(&word, bytes, n);
    return word;
}

void lx_hasher_add(lx_hasher *h, const void *data, size_t n_bytes)
{
    const unsigned char *bytes = data;
    size_t i = 0, n_rest = h->n_bytes % 8;
    uint64_t hash = h->hash;
    h->n_bytes += n_bytes;
    if (n_rest > 0) {
        while (n_rest < 8 && i < n_bytes)
            h->rest[n_rest++] = bytes[i++];
        if (n_rest < 8)
            return;
        hash = hash_word(hash, load_word(h->rest, 8));
    }
    for (; i + 8 <= n_bytes; i += 8)
        hash = hash_word(hash, load_word(bytes + i, 8));
    memcpy(h->rest, bytes + i, n_bytes - i);
    h->hash = hash;
}

/* A hash waits for each of its products, so four are computed side by side. */
void lx_hasher_add_quarters(lx_hasher *h, const void *data, size_t n_bytes)
{
    const unsigned char *bytes = data;
    size_t quarter = n_bytes / 32 * 8;
    uint64_t hash[4] = {LX_HASH_SEED, LX_HASH_SEED, LX_HASH_SEED, LX_HASH_SEED};
    for (size_t i = 0; i < quarter; i += 8) {
        for (size_t k = 0; k < 4; k++)
            hash[k] = hash_word(hash[k], load_word(bytes + k * quarter + i, 8));
    }
    lx_hasher_add(h, hash, sizeof hash);
    lx_hasher_add(h, bytes + 4 * quarter, n_bytes - 4 * quarter);
}

uint64_t lx_hasher_end(const lx_hasher *h)
{
    uint64_t hash = h->hash;
    if (h->n_bytes % 8 > 0)
        hash = hash_word(hash, load_word(h->rest, h->n_bytes % 8));
    return hash_word(hash, h->n_bytes);
}

uint64_t lx_file_hash(uint64_t seed, const void *data, size_t n_bytes)
{
    lx_hasher h = {.hash = seed};
    lx_hasher_add(&h, data, n_bytes);
    return lx_hasher_end(&h);
}

const char *lx_file_quote(const char *text, char *out, size_t size)
{
    size_t i = 0;
    for (; i + 1 < size && text[i] != '\0'; i++)
        out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    out[i] = '\0';
    return out;
}
