/* A look at JSON before it is parsed (see scan.h). */
#include "server/json/scan.h"

#include <string.h>

/* Bytes that jansson 2.14 takes on 64 bits, with malloc's own. An object has its first buckets. A
   key's pair counts as a string, with its share of grown buckets. A list doubles its places. */
enum { CONTAINER_BYTES = 272, STRING_BYTES = 192, SCALAR_BYTES = 32, PLACE_BYTES = 24 };

/* The position after the string that begins at text[i] (a quote). */
static size_t skip_string(const char *text, size_t n, size_t i)
{
    for (i++; i < n && text[i] != '"'; i++)
        if (text[i] == '\\')
            i++;
    return i + 1;
}

static bool in_scalar(char c)
{
    return (unsigned char)c > ' ' && strchr("{}[],:\"", c) == NULL;
}

static size_t skip_scalar(const char *text, size_t n, size_t i)
{
    while (i < n && in_scalar(text[i]))
        i++;
    return i;
}

static void copy_key(const char *text, size_t n, char *key)
{
    memcpy(key, "body", sizeof "body"); /* where the key below is none that can be named */
    if (n == 0 || n >= sizeof((lx_json_extent *)0)->key)
        return;
    for (size_t i = 0; i < n; i++) { /* no field of ours has another name */
        unsigned char c = (unsigned char)text[i];
        if (c <= 0x20 || c >= 0x7f || c == '\\')
            return;
    }
    memcpy(key, text, n);
    key[n] = '\0';
}

static void open_container(lx_json_extent *e, int32_t *depth)
{
    e->containers++;
    *depth += 1;
    e->depth = *depth > e->depth ? *depth : e->depth;
}

/* Notes where a bound is passed for the first time. */
static void note_fault(lx_json_extent *e, int64_t most_bytes)
{
    bool too_large = lx_json_tree_bytes(e) > most_bytes;
    if (e->fault[0] != '\0' || (!too_large && e->depth <= LX_JSON_MAX_DEPTH))
        return;
    e->too_large = too_large;
    memcpy(e->fault, e->key, sizeof e->fault);
}

void lx_json_scan(const char *text, size_t n, lx_json_extent *e)
{
    *e = (lx_json_extent){.key = "body"};
    int64_t most_bytes = lx_json_most_tree_bytes((int64_t)n);
    int32_t depth = 0;
    bool in_object = false, key_next = false; /* the outermost container; a list has no keys */
    for (size_t i = 0; i < n;) {
        char c = text[i];
        size_t end = i + 1;
        if (c == '"') {
            end = skip_string(text, n, i);
            if (depth == 1 && key_next && end <= n)
                copy_key(text + i + 1, end - i - 2, e->key);
            key_next = false;
            e->strings++;
            e->string_bytes += (int64_t)(end - i);
        } else if (c == '{' || c == '[') {
            open_container(e, &depth);
            in_object = depth == 1 ? c == '{' : in_object;
            key_next = depth == 1 && in_object;
        } else if (c == '}' || c == ']') {
            depth--;
        } else if (c == ',' && depth == 1) {
            key_next = in_object;
        } else if (in_scalar(c)) {
            end = skip_scalar(text, n, i);
            e->scalars++;
        }
        note_fault(e, most_bytes);
        i = end;
    }
}

lx_status lx_json_check_extent(const lx_json_extent *e, lx_error *err)
{
    if (e->fault[0] == '\0')
        return LX_OK;
    if (!e->too_large)
        return lx_fail(err, LX_ERR_INVALID, e->fault, "the body's JSON is nested more than %d deep",
                       LX_JSON_MAX_DEPTH);
    return lx_fail(err, LX_ERR_INVALID, e->fault,
                   "the body's JSON has too many values: reading it would take more than %d bytes "
                   "of memory and %d for each of its own bytes",
                   LX_JSON_TREE_BYTES, LX_JSON_TREE_GROWTH);
}

int64_t lx_json_tree_bytes(const lx_json_extent *e)
{
    /* a string is in the parser's buffer, which doubles, before it is in the tree */
    return e->containers * (CONTAINER_BYTES + PLACE_BYTES) +
           e->strings * (STRING_BYTES + PLACE_BYTES) + e->scalars * (SCALAR_BYTES + PLACE_BYTES) +
           4 * e->string_bytes;
}

int64_t lx_json_most_tree_bytes(int64_t body_bytes)
{
    return LX_JSON_TREE_BYTES + LX_JSON_TREE_GROWTH * body_bytes;
}
