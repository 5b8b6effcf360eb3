/*
 * A form (multipart/form-data) as the equivalent JSON object, so that one reader checks both. Its
 * files are taken from the body as they are. Only server/json/ reads forms; others know lx_upload.
 */
#ifndef LINNET_SERVER_JSON_FORMS_H
#define LINNET_SERVER_JSON_FORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

typedef struct json_t json_t; /* of jansson.h, which few include */

/* A file that came with a request. */
typedef struct lx_upload {
    const uint8_t *data; /* NULL: none; in the request's body or in `owned` */
    size_t bytes;
    uint8_t *owned;
} lx_upload;

typedef struct lx_form_file {
    const char *name; /* of the field, which may also be called NAME[] */
    lx_upload *out;   /* stays as it is when the form has no such field */
} lx_form_file;

/* Text fields become members of root, which are strings; those of fields NAME[] a list NAME in
   their order. Files of other fields become objects, which no field of a form is. LX_ERR_INVALID
   with the name of a field that comes twice or is no UTF-8, or as lx_multipart_parse;
   LX_ERR_NO_MEMORY, also where root is NULL. */
lx_status lx_json_read_form(const char *content_type, const char *body, size_t bytes,
                            const lx_form_file *files, int32_t n_files, json_t *root,
                            lx_error *err) LX_MUST_USE;

/*
 * A multipart/form-data body (RFC 7578), complete in memory, taken apart without copying.
 *
 * Strict: the first line is a delimiter, the last delimiter is there, every part names its field.
 * Limits: 32 parts, a boundary of 1 .. 70 characters, 1 KiB of headers a part, names of 63
 * printable ASCII characters.
 */
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
