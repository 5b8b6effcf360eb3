/*
 * Reading the files of a model folder under a limit. Only regular files are opened: a pipe or a
 * device in a folder would hang or never end.
 */
#ifndef LINNET_MODEL_FILE_H
#define LINNET_MODEL_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/status.h"

/* How a path is written in an error: its last part, so that the rest of the line has room. */
const char *lx_file_label(const char *path);

/* Opens a regular file of 1 .. max_bytes bytes. The caller closes *fd. LX_ERR_NOT_FOUND when there
   is none, LX_ERR_FORMAT when it is not regular or of another size. */
lx_status lx_file_open(const char *path, size_t max_bytes, int *fd, size_t *n_bytes,
                       lx_error *err) LX_MUST_USE;

/*
 * A file that is read in parts over some time. Another process may shorten or overwrite the file
 * meanwhile. So each read checks that the file's size and time of change have not changed since the
 * start, and is LX_ERR_CONFLICT otherwise. Another file that is renamed to the path changes
 * nothing.
 */
typedef struct lx_file {
    int fd; /* -1: closed */
    size_t n_bytes;
    struct timespec modified;
} lx_file;

/* As lx_file_open. */
lx_status lx_file_begin(const char *path, size_t max_bytes, lx_file *out,
                        lx_error *err) LX_MUST_USE;
/* n bytes from byte `at` on; `label` names the file in errors. From any thread. */
lx_status lx_file_read_at(const lx_file *f, const char *label, uint64_t at, void *data, size_t n,
                          lx_error *err) LX_MUST_USE;
void lx_file_end(lx_file *f); /* also when it is closed already */
/* LX_ERR_CONFLICT, for a file that has changed between two reads. */
lx_status lx_file_fail_changed(const char *label, lx_error *err);

/* The whole file, read as lx_file is; the caller frees *data, which has a NUL after its n_bytes.
 */
lx_status lx_file_read(const char *path, size_t max_bytes, char **data, size_t *n_bytes,
                       lx_error *err) LX_MUST_USE;

/* FNV-1a over 8-byte little-endian words, the last one padded with zeros, then the length.
   `seed` is LX_HASH_SEED or the hash of what came before. */
#define LX_HASH_SEED UINT64_C(0xcbf29ce484222325)
uint64_t lx_file_hash(uint64_t seed, const void *data, size_t n_bytes);

/* The same hash of bytes that come in parts: begin with {.hash = seed}. */
typedef struct lx_hasher {
    uint64_t hash, n_bytes;
    unsigned char rest[8]; /* the last n_bytes % 8 bytes */
} lx_hasher;
void lx_hasher_add(lx_hasher *h, const void *data, size_t n_bytes);
uint64_t lx_hasher_end(const lx_hasher *h);
/* Adds the hashes of the four quarters of many bytes, then the rest. Other parts give other hashes.
 */
void lx_hasher_add_quarters(lx_hasher *h, const void *data, size_t n_bytes);

/* Copies `text` for an error message: what is not printable ASCII becomes '?'. Returns `out`. */
const char *lx_file_quote(const char *text, char *out, size_t size);

#endif
