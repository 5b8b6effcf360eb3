/*
 * Readers of fields that are more than a number, a bool or a text (request_fields.h): rows of the
 * table name them. A failure leaves in the params what was read, for their fini.
 */
#ifndef LINNET_SERVER_JSON_FIELD_READERS_H
#define LINNET_SERVER_JSON_FIELD_READERS_H

#include "server/json/request_fields.h"

#define LX_READER(name)                                                                            \
    lx_status lx_read_##name(const json_t *value, const lx_json_reading *r, lx_error *err)

/* r->to is a char[LX_MAX_MODEL_NAME], an lx_sampling_params, an int32_t of class +
   1, and a const char * that becomes the field's name where it is true */
LX_READER(model);
LX_READER(seed);
LX_READER(class);
LX_READER(suspend);

LX_READER(prompt);
LX_READER(stop);
LX_READER(stream_options);
LX_READER(text_format);

LX_READER(logit_bias);
LX_READER(allowed_token_ids);

LX_READER(messages);
LX_READER(input);
LX_READER(tools);
LX_READER(tool_choice);
LX_READER(template_variables);
LX_READER(enable_thinking);

LX_READER(padded_stream);
LX_READER(response_text);
LX_READER(truncation);
LX_READER(include);

/* A file is a data: URL, r->to an lx_upload */
LX_READER(file);
LX_READER(images);
LX_READER(mask);
LX_READER(size);
LX_READER(only_b64);
LX_READER(only_png);
LX_READER(stream_unit);

LX_READER(seeds);
LX_READER(tokens);

LX_READER(transcript_format);
LX_READER(granularities);
LX_READER(language);

/* Whether the value is one of those LX_NEUTRAL_ values. */
bool lx_json_is_neutral(const json_t *value, unsigned neutral);
/* Notes the members of a field's own object that say something and are not among `known`, which
   ends with NULL; a warning names them as prefix.name. */
void lx_json_note_members(const json_t *object, const char *prefix, const char *const *known,
                          lx_json_notes *notes);

#endif
