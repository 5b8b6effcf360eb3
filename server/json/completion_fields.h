/*
 * What the readers of completions, chats and responses share. A failure leaves in *p what was read,
 * for its fini.
 */
#ifndef LINNET_SERVER_JSON_COMPLETION_FIELDS_H
#define LINNET_SERVER_JSON_COMPLETION_FIELDS_H

#include "server/json/answers.h"
#include "server/json/fields.h"
#include "server/json/request_fields.h"

/* Room for n prompts, 1 .. LX_MAX_PROMPTS. */
lx_status lx_json_reserve_prompts(size_t n, lx_completion_params *p, lx_error *err) LX_MUST_USE;
/* Parses the body and reads the route's fields; fields that only make sense together are the
   caller's to check, by the root, which it frees (NULL after a failure to parse). */
lx_status lx_json_read_text_request(const char *body, size_t bytes, lx_json_route route,
                                    int32_t max_n, lx_completion_params *p, json_t **root,
                                    lx_error *err) LX_MUST_USE;
/* Of a field that says in which form answers are; `name` is the format's own, for errors. */
lx_status lx_json_check_format(const json_t *format, const char *name, const lx_json_reading *r,
                               lx_error *err) LX_MUST_USE;
/* What a chat's or a response's likeliest tokens need. */
lx_status lx_json_check_top(lx_completion_params *p, const char *needs, lx_error *err) LX_MUST_USE;

#endif
