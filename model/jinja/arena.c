/* Memory of a template or a rendering: blocks that are freed together. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/jinja/internal.h"
#include "model/utf8.h"

enum { BLOCK = 16 << 10, ALIGNMENT = 16 };

typedef struct arena_block {
    struct arena_block *next;
    size_t used, room;
    _Alignas(ALIGNMENT) char bytes[];
} arena_block;

void *lx_jinja_alloc(arena *a, size_t bytes)
{
    if (bytes > a->max - a->used)
        lx_jinja_fail(a, LX_ERR_TOO_LARGE, "over %zu bytes of values", a->max);
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    arena_block *b = a->blocks;
    if (b == NULL || bytes > b->room - b->used) {
        size_t room = bytes > BLOCK ? bytes : BLOCK;
        b = calloc(1, sizeof *b + room);
        if (b == NULL)
            lx_jinja_fail(a, LX_ERR_NO_MEMORY, "no memory");
        b->room = room;
        b->next = a->blocks;
        a->blocks = b;
    }
    void *memory = b->bytes + b->used;
    b->used += bytes;
    a->used = a->max - a->used < bytes ? a->max : a->used + bytes;
    return memory;
}

void *lx_jinja_grow(arena *a, const void *old, size_t n, size_t more, size_t size)
{
    void *memory = lx_jinja_alloc(a, more * size);
    if (n > 0)
        memcpy(memory, old, n * size);
    return memory;
}

void lx_jinja_free_arena(arena *a)
{
    while (a->blocks != NULL) {
        arena_block *next = a->blocks->next;
        free(a->blocks);
        a->blocks = next;
    }
}

/* A message is one line of UTF-8, whatever words of the template or of a client are in it: others
   become question marks, as does a character that the message's length has cut. */
static void clean(char *line)
{
    size_t n = strlen(line);
    for (size_t at = 0; at < n;) {
        size_t first = at;
        int32_t c = lx_utf8_next(line, n, &at);
        if (c < ' ' || c == 127) {
            line[first] = '?';
            at = first + 1;
        }
    }
}

void lx_jinja_fail(arena *a, lx_status status, const char *fmt, ...)
{
    enum { PREFIX = 40 };
    char line[sizeof a->err.text - PREFIX];
    va_list given;
    va_start(given, fmt);
    vsnprintf(line, sizeof line, fmt, given);
    va_end(given);
    clean(line);
    lx_error_set(&a->err, status, NULL, "chat template, line %d: %s", a->line, line);
    longjmp(a->failed, 1);
}
