/*
 * A growing byte buffer with a fixed maximum, for text that is built piece by piece.
 *
 * Errors are sticky, so a caller checks once at the end: an append that would pass `max` or finds
 * no memory sets `status` to LX_ERR_TOO_LARGE or LX_ERR_NO_MEMORY. The content then stays
 * unchanged, and later appends do nothing. The content is always NUL-terminated once something was
 * appended. Thread: one at a time.
 */
#ifndef LINNET_COMMON_BUFFER_H
#define LINNET_COMMON_BUFFER_H

#include <stddef.h>

#include "common/status.h"

typedef struct lx_buffer {
    char *data;    /* owned; NULL until the first append */
    size_t length; /* bytes, without the final NUL */
    size_t max;    /* upper limit of length */
    size_t capacity;
    lx_status status;
} lx_buffer;

void lx_buffer_init(lx_buffer *b, size_t max);
void lx_buffer_fini(lx_buffer *b); /* frees the content; the buffer may be initialised again */
/* Room for so many bytes in all, exactly: more appends do not move the content until then. */
void lx_buffer_reserve(lx_buffer *b, size_t bytes);
void lx_buffer_append(lx_buffer *b, const void *bytes, size_t n);
void lx_buffer_puts(lx_buffer *b, const char *text);
void lx_buffer_printf(lx_buffer *b, const char *fmt, ...) LX_PRINTF(2, 3);

/* Takes the content out: the caller frees it with free(). NULL when status is not LX_OK. */
char *lx_buffer_take(lx_buffer *b, size_t *length);

#endif
