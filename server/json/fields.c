/*
 * Reading JSON, over jansson (see fields.h).
 *
 * Before the parser sees a body, a scan (scan.h) limits the depth, as the parser is recursive, and
 * the number of values, each of which needs many bytes. The scan also notes the last key of the
 * outermost object. So a fault that only the parser finds, such as NaN, is reported with the name
 * of its field.
 */
#include "server/json/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/json_memory.h"
#include "server/json/scan.h"

/* --- parsing --- */

static lx_status fail_syntax(const char *body, size_t bytes, const json_error_t *e, lx_error *err)
{
    size_t at = e->position > 0 && (size_t)e->position < bytes ? (size_t)e->position : bytes;
    lx_json_extent found;
    lx_json_scan(body, at, &found);
    /* the parser's text may quote a piece of the body; only plain characters are kept */
    char text[120];
    size_t n = strnlen(e->text, sizeof text - 1);
    for (size_t i = 0; i < n; i++)
        text[i] = e->text[i] >= 0x20 && e->text[i] < 0x7f ? e->text[i] : '?';
    text[n] = '\0';
    bool in_field = strcmp(found.key, "body") != 0;
    const char *fault = json_error_code(e) == json_error_numeric_overflow
                            ? "the body has a number that is too large"
                            : "the body is not valid JSON";
    return lx_fail(err, LX_ERR_INVALID, found.key, "%s%s%s: %s", fault, in_field ? " at " : "",
                   in_field ? found.key : "", text);
}

lx_status lx_json_parse(const char *body, size_t bytes, json_t **out, lx_error *err)
{
    lx_json_extent found;
    lx_json_scan(body, bytes, &found);
    lx_status st = lx_json_check_extent(&found, err);
    if (st != LX_OK)
        return st;
    json_error_t e;
    json_t *root = lx_json_load(body, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (root == NULL && json_error_code(&e) == json_error_out_of_memory)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory to read the body");
    if (root == NULL)
        return fail_syntax(body, bytes, &e, err);
    if (!json_is_object(root)) {
        json_decref(root);
        return lx_fail(err, LX_ERR_INVALID, "body", "the body must be a JSON object");
    }
    *out = root;
    return LX_OK;
}

/* --- fields --- */

/* NULL when absent or null. */
const json_t *lx_json_field(const json_t *root, const char *name)
{
    const json_t *value = json_object_get(root, name);
    return json_is_null(value) ? NULL : value;
}

char *lx_json_copy_text(const json_t *value)
{
    size_t bytes = json_dumpb(value, NULL, 0, JSON_COMPACT);
    char *copy = malloc(bytes + 1);
    if (copy == NULL || json_dumpb(value, copy, bytes, JSON_COMPACT) != bytes) {
        free(copy);
        return NULL;
    }
    copy[bytes] = '\0';
    return copy;
}

bool lx_json_is(const json_t *value, const char *text)
{
    return json_is_string(value) && json_string_length(value) == strlen(text) &&
           memcmp(json_string_value(value), text, json_string_length(value)) == 0;
}

lx_status lx_json_fail_nul(const char *name, lx_error *err)
{
    return lx_fail(err, LX_ERR_INVALID, name, "%s has a NUL (\\u0000) in it", name);
}

lx_status lx_json_take_string(const json_t *value, const char *name, const char **out,
                              size_t *bytes, lx_error *err)
{
    if (!json_is_string(value))
        return lx_fail(err, LX_ERR_INVALID, name, "%s must be a string", name);
    *out = json_string_value(value);
    *bytes = json_string_length(value);
    return memchr(*out, '\0', *bytes) == NULL ? LX_OK : lx_json_fail_nul(name, err);
}

lx_status lx_json_keep_ids(const json_t *list, const char *name, const char *where, int32_t **ids,
                           size_t *n, lx_error *err)
{
    size_t count = json_array_size(list); /* 0 for other values */
    *n = 0;
    if (!json_is_array(list))
        return lx_fail(err, LX_ERR_INVALID, name, "%s must be a list of tokens", where);
    *ids = malloc((count + 1) * sizeof **ids); /* never of size 0 */
    if (*ids == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %zu tokens", count);
    for (; *n < count; ++*n) {
        const json_t *id = json_array_get(list, *n);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > INT32_MAX)
            return lx_fail(err, LX_ERR_INVALID, name,
                           "%s[%zu] is not a whole number that is a token", where, *n);
        (*ids)[*n] = (int32_t)json_integer_value(id);
    }
    return LX_OK;
}
