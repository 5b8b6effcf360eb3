#include "common/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lx_buffer_init(lx_buffer *b, size_t max)
{
    *b = (lx_buffer){.max = max};
}

void lx_buffer_fini(lx_buffer *b)
{
    free(b->data);
    lx_buffer_init(b, b->max);
}

static int grow(lx_buffer *b, size_t capacity)
{
    char *data = realloc(b->data, capacity);
    if (data == NULL) {
        b->status = LX_ERR_NO_MEMORY;
        return 0;
    }
    b->data = data;
    b->capacity = capacity;
    return 1;
}

void lx_buffer_reserve(lx_buffer *b, size_t bytes)
{
    if (b->status != LX_OK || bytes < b->capacity)
        return;
    if (bytes > b->max)
        b->status = LX_ERR_TOO_LARGE;
    else
        (void)grow(b, bytes + 1);
}

/* Room for n more bytes and the NUL, or a sticky error. */
static int reserve(lx_buffer *b, size_t n)
{
    if (b->status != LX_OK)
        return 0;
    if (n > b->max - b->length) {
        b->status = LX_ERR_TOO_LARGE;
        return 0;
    }
    size_t need = b->length + n + 1;
    if (need <= b->capacity)
        return 1;
    size_t capacity = b->capacity < 128 ? 128 : b->capacity * 2;
    if (capacity < need)
        capacity = need;
    return grow(b, capacity);
}

void lx_buffer_append(lx_buffer *b, const void *bytes, size_t n)
{
    if (!reserve(b, n))
        return;
    if (n > 0)
        memcpy(b->data + b->length, bytes, n);
    b->length += n;
    b->data[b->length] = '\0';
}

void lx_buffer_puts(lx_buffer *b, const char *text)
{
    lx_buffer_append(b, text, strlen(text));
}

void lx_buffer_printf(lx_buffer *b, const char *fmt, ...)
{
    va_list args, copy;
    va_start(args, fmt);
    va_copy(copy, args);
    int n = vsnprintf(NULL, 0, fmt, copy);
    va_end(copy);
    if (n >= 0 && reserve(b, (size_t)n)) {
        (void)vsnprintf(b->data + b->length, (size_t)n + 1, fmt, args);
        b->length += (size_t)n;
    }
    va_end(args);
}

char *lx_buffer_take(lx_buffer *b, size_t *length)
{
    if (b->status != LX_OK) {
        lx_buffer_fini(b);
        return NULL;
    }
    lx_buffer_append(b, "", 0); /* an empty buffer becomes an empty string */
    char *data = b->data;
    if (length != NULL)
        *length = b->length;
    b->data = NULL;
    lx_buffer_init(b, b->max);
    return data;
}
