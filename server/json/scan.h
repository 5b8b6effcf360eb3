/*
 * A look at a JSON text before a parser builds anything of it: one pass, no memory. It counts the
 * values that make a parser's tree large and deep. A text that is not JSON is counted too, at least
 * as far as a parser reads it. Thread: any.
 */
#ifndef LINNET_SERVER_JSON_SCAN_H
#define LINNET_SERVER_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* A tree has at most LX_JSON_TREE_BYTES and LX_JSON_TREE_GROWTH for each byte of the body. A body
   of 1 MiB full of tokens of three digits has room; a body full of empty lists, which need 100 for
   each byte, has not. */
enum { LX_JSON_MAX_DEPTH = 32, LX_JSON_TREE_BYTES = 12 << 20, LX_JSON_TREE_GROWTH = 4 };

typedef struct lx_json_extent {
    int32_t depth;
    int64_t containers; /* objects and lists */
    int64_t strings;    /* keys too */
    int64_t scalars;    /* numbers, true, false, null */
    int64_t string_bytes;
    char key[sizeof((lx_error *)0)->param];   /* the last key of the outermost object, or "body" */
    bool too_large;                           /* for a tree, from `fault` on */
    char fault[sizeof((lx_error *)0)->param]; /* the key in which a bound is passed; "": in none */
} lx_json_extent;

/* Of text[0 .. n - 1]. */
void lx_json_scan(const char *text, size_t n, lx_json_extent *out);

/* LX_ERR_INVALID, naming the key, when it is nested deeper than LX_JSON_MAX_DEPTH or its tree has
   more than lx_json_most_tree_bytes. */
lx_status lx_json_check_extent(const lx_json_extent *e, lx_error *err) LX_MUST_USE;

/* The most bytes that the JSON library's tree of it has, and reading it takes. */
int64_t lx_json_tree_bytes(const lx_json_extent *e);
/* The most that a tree of a body of so many bytes may have. */
int64_t lx_json_most_tree_bytes(int64_t body_bytes);

#endif
