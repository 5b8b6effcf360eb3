/*
 * JSON read without trust in the parser's own care for memory: jansson 2.14 writes past its token's
 * end when that cannot grow. Linking this file gives jansson an allocator that, while a text is
 * read, never returns NULL: instead, reading ends and frees its blocks. Any thread.
 */
#ifndef LINNET_MODEL_JSON_MEMORY_H
#define LINNET_MODEL_JSON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* json_loadb, but whole numbers beyond 64 bits are reals, as JavaScript reads them: bounds of
   schemas have such numbers. A number that is too large for a real, too, has the code
   json_error_numeric_overflow. Without memory NULL with the code json_error_out_of_memory and an
   empty text. */
json_t *lx_json_load(const char *text, size_t bytes, size_t flags, json_error_t *e);
/* As above, for the text of a file, which may begin with a byte order mark. */
json_t *lx_json_load_file(const char *text, size_t bytes, size_t flags, json_error_t *e);
/* Whether an allocation of jansson's has failed in this thread since the last call. */
bool lx_json_starved(void);

#endif
