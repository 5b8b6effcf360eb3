/*
 * A look at a JSON text before a parser builds anything of it: one pass, no memory. It counts what
 * makes a parser's tree large and deep, for texts that are not JSON too; the part of those that a
 * parser reads before it stops is counted the same way. Thread: any.
 */
#ifndef LINNET_SERVER_JSON_SCAN_H
#define LINNET_SERVER_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* The largest request that is of use has some 20,000 values: LX_MAX_PROMPTS lists of tokens. */
enum { LX_JSON_MAX_VALUES = 32768, LX_JSON_MAX_DEPTH = 32 };

typedef struct lx_json_extent {
    int32_t depth;
    int64_t containers; /* objects and lists */
    int64_t strings;    /* keys too */
    int64_t scalars;    /* numbers, true, false, null */
    int64_t string_bytes;
    char key[sizeof((lx_error *)0)->param]; /* the last key of the outermost object, or "body" */
} lx_json_extent;

/* Of text[0 .. n - 1]. */
void lx_json_scan(const char *text, size_t n, lx_json_extent *out);

/* LX_ERR_INVALID, naming the key, when it is nested deeper than LX_JSON_MAX_DEPTH or has more than
   LX_JSON_MAX_VALUES values and keys. */
lx_status lx_json_check_extent(const lx_json_extent *e, lx_error *err) LX_MUST_USE;

/* The most bytes that the JSON library's tree of it has, and reading it takes. */
int64_t lx_json_tree_bytes(const lx_json_extent *e);

#endif
