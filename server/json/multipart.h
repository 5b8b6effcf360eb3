/*
 * A multipart/form-data body (RFC 7578), complete in memory, taken apart without copying.
 *
 * Strict: the first line is a delimiter, the last delimiter is there, every part names its field.
 * Limits: 32 parts, a boundary of 1 .. 70 characters, 1 KiB of headers a part, names of 63
 * printable ASCII characters.
 */
#ifndef LINNET_SERVER_JSON_MULTIPART_H
#define LINNET_SERVER_JSON_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum { LX_MAX_PARTS = 32, LX_MAX_PART_NAME = 63, LX_MAX_PART_HEAD = 1024 };

typedef struct lx_part {
    char name[LX_MAX_PART_NAME + 1];
    bool is_file;     /* it has a file name */
    const char *data; /* in the body, not NUL-terminated */
    size_t bytes;
} lx_part;

typedef struct lx_multipart {
    int32_t n;
    lx_part parts[LX_MAX_PARTS];
} lx_multipart;

/* LX_ERR_INVALID with param "Content-Type" or "body". */
lx_status lx_multipart_parse(const char *content_type, const char *body, size_t bytes,
                             lx_multipart *out, lx_error *err) LX_MUST_USE;

#endif
