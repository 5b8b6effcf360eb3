/*
 * A strict parser of bodies, and functions that the readers of JSON share. Only server/json/
 * includes this.
 *
 * Texts may have NULs (U+0000) in them where a model's own text may come back: answers have them.
 */
#ifndef LINNET_SERVER_JSON_FIELDS_H
#define LINNET_SERVER_JSON_FIELDS_H

#include <jansson.h>

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

enum { LX_MAX_TIMEOUT_MS = 24 * 60 * 60 * 1000 }; /* so that no sum of times can overflow */

/* The body's outermost object; the caller frees it with json_decref. */
lx_status lx_json_parse(const char *body, size_t bytes, json_t **out, lx_error *err) LX_MUST_USE;

/* NULL when absent or null. */
const json_t *lx_json_field(const json_t *root, const char *name);
/* The text of an object or a list, which the caller frees; NULL without memory. */
char *lx_json_copy_text(const json_t *value);
/* Whether it is that string. */
bool lx_json_is(const json_t *value, const char *text);

/* A string without NULs, borrowed from the value; `name` is the field's. */
lx_status lx_json_take_string(const json_t *value, const char *name, const char **out,
                              size_t *bytes, lx_error *err) LX_MUST_USE;
lx_status lx_json_fail_nul(const char *name, lx_error *err);
/* A list of token ids, which stands at `where` in the field `name`: *ids [*n] malloc'ed, also after
   a failure. The model may not have them. */
lx_status lx_json_keep_ids(const json_t *list, const char *name, const char *where, int32_t **ids,
                           size_t *n, lx_error *err) LX_MUST_USE;

#endif
