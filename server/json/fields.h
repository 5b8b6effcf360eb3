/*
 * What the readers and writers of JSON share: a strict parser and typed fields. Only
 * server/json_*.c include this.
 *
 * A reader leaves *out as it is when the field is absent or null, so that a default stays. A field
 * of another type or out of its range is LX_ERR_INVALID with its name as param.
 */
#ifndef LINNET_SERVER_JSON_FIELDS_H
#define LINNET_SERVER_JSON_FIELDS_H

#include <jansson.h>

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "server/engine/sampling.h"
#include "server/json/limits.h"

enum { LX_MAX_TIMEOUT_MS = 24 * 60 * 60 * 1000 };

/* The body's outermost object; the caller frees it with json_decref. */
lx_status lx_json_parse(const char *body, size_t bytes, json_t **out, lx_error *err) LX_MUST_USE;

/* NULL when absent or null. */
const json_t *lx_json_field(const json_t *root, const char *name);

lx_status lx_json_read_int(const json_t *root, const char *name, int64_t min, int64_t max,
                           int64_t *out, lx_error *err) LX_MUST_USE;
lx_status lx_json_read_int32(const json_t *root, const char *name, int32_t min, int32_t max,
                             int32_t *out, lx_error *err) LX_MUST_USE;
/* "class": *out is the class + 1, 0 when absent. */
lx_status lx_json_read_class(const json_t *root, int32_t *out, lx_error *err) LX_MUST_USE;
/* "timeout_ms", the only time that requests name: 1 .. LX_MAX_TIMEOUT_MS, so that no sum of times
   can overflow. */
lx_status lx_json_read_timeout(const json_t *root, int64_t *out, lx_error *err) LX_MUST_USE;
lx_status lx_json_read_real(const json_t *root, const char *name, double min, double max,
                            double *out, lx_error *err) LX_MUST_USE;
lx_status lx_json_read_bool(const json_t *root, const char *name, bool *out,
                            lx_error *err) LX_MUST_USE;
/* "suspend", or "park" as it was first called: *out is the name of the one that is true, NULL when
   neither is. */
lx_status lx_json_read_suspend(const json_t *root, const char **out, lx_error *err) LX_MUST_USE;
/* "seed" */
lx_status lx_json_read_seed(const json_t *root, lx_sampling_params *out, lx_error *err) LX_MUST_USE;
/* Whether tokens may be guessed (lx_sampling_params.no_draft); by default they may. */
lx_status lx_json_read_draft(const json_t *root, lx_sampling_params *out,
                             lx_error *err) LX_MUST_USE;
/* A copy of an optional string, which the caller frees; *out is left alone when it is absent. */
lx_status lx_json_copy_string(const json_t *root, const char *name, char **out, size_t *bytes,
                              lx_error *err) LX_MUST_USE;
/* A string, borrowed from root; *out is NULL when absent and not required. */
lx_status lx_json_read_string(const json_t *root, const char *name, bool required, const char **out,
                              size_t *bytes, lx_error *err) LX_MUST_USE;
/* A list of token ids, field `name`: *ids [*n] malloc'ed, also after a failure. The model may not
   have them. */
lx_status lx_json_keep_ids(const json_t *list, const char *name, int32_t **ids, size_t *n,
                           lx_error *err) LX_MUST_USE;
/* "state": an id or base64, *out malloc'ed and NUL-terminated; NULL when absent. */
lx_status lx_json_read_state(const json_t *root, char **out, lx_error *err) LX_MUST_USE;
/* A file as "data:TYPE;base64,...", see image_requests.h; NULL data when absent. */
struct lx_upload;
struct lx_poem_fields;
lx_status lx_json_read_file(const json_t *root, const char *name, struct lx_upload *out,
                            lx_error *err) LX_MUST_USE;
/* "logit_bias", into p->biases, by ascending ids. */
struct lx_completion_params;
lx_status lx_json_read_biases(const json_t *root, struct lx_completion_params *p,
                              lx_error *err) LX_MUST_USE;
/* "form", "acrostic" and "rhyme": fini frees them, also after a failure. */
lx_status lx_json_read_poem(const json_t *root, struct lx_poem_fields *out,
                            lx_error *err) LX_MUST_USE;
/* model[LX_MAX_MODEL_NAME]; LX_ERR_NOT_FOUND for one that is empty or
   longer, as no model has it. */
lx_status lx_json_read_model(const json_t *root, bool required, char *model,
                             lx_error *err) LX_MUST_USE;

/* Writes and frees root; NULL, a value that could not be built, leaves the buffer without memory.
 */
void lx_json_dump(json_t *root, lx_buffer *out);
json_t *lx_json_real_or_null(double x);

#endif
