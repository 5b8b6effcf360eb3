/*
 * Reading the files of a model folder under a limit. Only regular files are opened: a pipe or a
 * device in a folder would hang or never end.
 */
#ifndef LINNET_MODEL_FILE_H
#define LINNET_MODEL_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* How a path is written in an error: its last part, so that the rest of the line has room. */
const char *lx_file_label(const char *path);

/* Opens a regular file of 1 .. max_bytes bytes. The caller closes *fd. LX_ERR_NOT_FOUND when there
   is none, LX_ERR_FORMAT when it is not regular or of another size. */
lx_status lx_file_open(const char *path, size_t max_bytes, int *fd, size_t *n_bytes,
                       lx_error *err) LX_MUST_USE;

/* The whole file; the caller frees *data, which has a NUL behind its n_bytes. */
lx_status lx_file_read(const char *path, size_t max_bytes, char **data, size_t *n_bytes,
                       lx_error *err) LX_MUST_USE;

/* FNV-1a over 8-byte little-endian words, the last one padded with zeros, then the length.
   `seed` is LX_HASH_SEED or the hash of what came before. */
#define LX_HASH_SEED UINT64_C(0xcbf29ce484222325)
uint64_t lx_file_hash(uint64_t seed, const void *data, size_t n_bytes);

/* Copies `text` for an error message: what is not printable ASCII becomes '?'. Returns `out`. */
const char *lx_file_quote(const char *text, char *out, size_t size);

#endif
