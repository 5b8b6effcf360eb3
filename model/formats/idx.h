/*
 * idx files of 8-bit images (MNIST's format): big-endian magic 2051, count, rows, columns, then the
 * bytes; magic 2052 adds a fourth dimension, 3 for red, green and blue. Plain or
 * gzip-compressed.
 */
#ifndef LINNET_MODEL_IDX_H
#define LINNET_MODEL_IDX_H

#include "common/status.h"

#include <stdint.h>

typedef struct lx_idx {
    int32_t n, height, width, channels; /* channels: 1 or 3 */
    uint8_t *values;                    /* [n, height, width, channels], owned */
} lx_idx;

/* Reads at most `limit` images (0: all). LX_ERR_IO, or LX_ERR_FORMAT with the file's name. */
lx_status lx_idx_read(const char *path, int32_t limit, lx_idx *out, lx_error *err) LX_MUST_USE;
void lx_idx_fini(lx_idx *x);

#endif
