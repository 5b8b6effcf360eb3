/*
 * Writing JSON into a buffer. Thread: any; a buffer has one user at a time.
 *
 * Answers are written piece by piece (lx_json_put), so that no tree of a whole answer is in memory.
 */
#ifndef LINNET_SERVER_JSON_WRITE_H
#define LINNET_SERVER_JSON_WRITE_H

#include <stdint.h>

#include "common/buffer.h"

typedef struct json_t json_t; /* of jansson.h, which few include */

/*
 * Appends JSON: the text of `form`, in which ' stands for a quote, with values in place of
 * conversions. The compiler checks the arguments as it does those of printf.
 *   %s    a string with its quotes; NULL becomes null
 *   %.*s  a string of so many bytes
 *   %d    an int, %jd an int64_t
 *   %f    a number with 9 digits, which no float needs more of; NAN and infinities become null
 *   %i    an int that becomes true or false
 * Without memory, or for a string that is not UTF-8, the buffer's status is LX_ERR_NO_MEMORY.
 */
void lx_json_put(lx_buffer *out, const char *form, ...) LX_PRINTF(2, 3);

/* Writes and frees root. NULL, a value that could not be built, leaves the buffer without memory.
 */
void lx_json_dump(json_t *root, lx_buffer *out);
json_t *lx_json_real_or_null(double x);
/* Lists of numbers. */
void lx_json_put_ids(const int32_t *ids, int64_t n, lx_buffer *out);
void lx_json_put_reals(const float *x, int64_t n, lx_buffer *out);
void lx_json_put_bytes(const char *bytes, size_t n, lx_buffer *out);

#endif
