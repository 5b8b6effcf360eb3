/*
 * The fields of requests: one table (field_table.c) with a row for each name on each route. The row
 * says how the route reads the field, that the route refuses it, or that it changes nothing there.
 * Every member of a body that is in no row of its route becomes a warning, so a field is read,
 * refused or warned about. A test compares the rows that are read with web/openapi.json.
 *
 * A field that is null counts as absent and leaves its target alone. Thread: any.
 */
#ifndef LINNET_SERVER_JSON_REQUEST_FIELDS_H
#define LINNET_SERVER_JSON_REQUEST_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/json/parts.h"

typedef struct json_t json_t; /* of jansson.h, which few include */

typedef enum lx_json_route {
    LX_JSON_COMPLETIONS,
    LX_JSON_CHAT,
    LX_JSON_RESPONSES,
    LX_JSON_MESSAGES,       /* Anthropic's */
    LX_JSON_MESSAGE_TOKENS, /* the number of their tokens */
    LX_JSON_GENERATIONS,
    LX_JSON_EDITS,
    LX_JSON_EDITS_FORM,
    LX_JSON_SCORE,
    LX_JSON_SCORE_FORM,
    LX_JSON_STATES,
    LX_JSON_FORK,
    LX_JSON_TOKENIZE,
    LX_JSON_DETOKENIZE,
    LX_JSON_TEMPLATE,
    LX_JSON_TRANSCRIPTIONS,
    LX_JSON_CONVERSATION,
    LX_JSON_METADATA, /* of a conversation */
    LX_JSON_ITEMS,    /* for a conversation */
    LX_JSON_RELOAD,
    LX_JSON_ROUTES
} lx_json_route;

/* A body that is being read, for a row's own reader. */
typedef struct lx_json_reading {
    json_t *root;
    lx_json_route route;
    int32_t max_n;        /* the server's bound of n, where the route has one */
    void *params;         /* the route's struct, which the rows' targets are members of */
    lx_json_notes *notes; /* the warnings of the answer */
    const char *name;     /* of the field at hand */
    void *to;             /* its target */
} lx_json_reading;

/* Takes a value that is not null; LX_ERR_INVALID with the field's name. */
typedef lx_status (*lx_field_reader)(const json_t *value, const lx_json_reading *r, lx_error *err);

typedef enum lx_field_kind {
    LX_FIELD_BOOL,
    LX_FIELD_NOT, /* a bool whose target is true where the field is false */
    LX_FIELD_INT32,
    LX_FIELD_INT64,
    LX_FIELD_REAL,
    LX_FIELD_TEXT,  /* a char * that the params own; its bytes go to at_bytes */
    LX_FIELD_OWN,   /* `read` knows its type */
    LX_FIELD_LABEL, /* a text by which clients know their requests: no answer depends on it */
    LX_FIELD_REFUSED,
    LX_FIELD_IGNORED
} lx_field_kind;

/* Values of a field that is refused or ignored. */
enum {
    LX_NEUTRAL_FALSE = 1,
    LX_NEUTRAL_TRUE = 2,
    LX_NEUTRAL_ZERO = 4,
    LX_NEUTRAL_ONE = 8,
    LX_NEUTRAL_MINUS = 16, /* a number below 0 */
    LX_NEUTRAL_EMPTY = 32, /* a text, a list or an object */
    LX_NEUTRAL_AUTO = 64,  /* "auto" or "default" */
    LX_NEUTRAL_NONE = 128, /* "none", "standard" or "opaque" */
};

typedef struct lx_field {
    const char *name;
    uint32_t routes; /* a bit for each lx_json_route */
    lx_field_kind kind;
    size_t at;          /* offset of the target in the route's struct */
    size_t at_bytes;    /* of a text's bytes; 0: the text has no NUL in it and needs none */
    double least, most; /* of numbers, and of a text's bytes (most 0: any); see LX_FIELD_MAX_N */
    lx_field_reader read;
    bool noted;       /* read, and warned about too */
    const char *why;  /* of a field that is refused or ignored: what to do instead, or NULL */
    unsigned neutral; /* values that ask for what happens anyway: neither refused nor warned of */
    size_t at_name;   /* of a const char * that becomes the field's name; 0: none */
} lx_field;

/* As `most` of a number: the reading's max_n. */
#define LX_FIELD_MAX_N (-1.0)

/* Row i of the table, NULL after the last. */
const lx_field *lx_json_field_row(int32_t i);

/* Reads all fields of r->root that r->route has, in the order of the table, and notes other
   members. LX_ERR_INVALID, or LX_ERR_NOT_FOUND for a model, with the name of the first that is
   bad. */
lx_status lx_json_read_fields(lx_json_reading *r, lx_error *err) LX_MUST_USE;

/* --- readers of fields that are more than a number, a bool or a text; rows of the table name them.
   After a failure the params keep the fields that were read, for their fini --- */

#define LX_READER(name)                                                                            \
    lx_status lx_read_##name(const json_t *value, const lx_json_reading *r, lx_error *err)

/* r->to is a char[LX_MAX_MODEL_NAME], an lx_sampling_params, an int32_t of class + 1, a const char
   * that becomes the field's name where it is true, and a char * that the params own, "true" for
   true */
LX_READER(model);
LX_READER(seed);
LX_READER(class);
LX_READER(suspend);
LX_READER(choice);

LX_READER(prompt);
LX_READER(stop);
LX_READER(stream_options);

/* shape_fields.c */
LX_READER(text_format);
LX_READER(response_text);
LX_READER(output_config);
LX_READER(gbnf);
LX_READER(regex);
LX_READER(json_schema);
LX_READER(choice_of);
LX_READER(structured_outputs);

LX_READER(logit_bias);
LX_READER(allowed_token_ids);

LX_READER(messages);
LX_READER(input);
LX_READER(tools);
LX_READER(tool_choice);
LX_READER(template_variables);
LX_READER(enable_thinking);

/* message_fields.c */
LX_READER(system);
LX_READER(blocks);
LX_READER(message_tools);
LX_READER(message_tool_choice);
LX_READER(message_metadata);
LX_READER(thinking);
LX_READER(cache_control);

LX_READER(padded_stream);
LX_READER(truncation);
LX_READER(include);
LX_READER(conversation);
LX_READER(items);
LX_READER(metadata);

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

/* Appends item i of a stored conversation, which is JSON of ours, to the params' messages. These
   have room for it. */
lx_status lx_json_keep_item(const char *item, size_t bytes, size_t i, const lx_json_reading *r,
                            lx_error *err) LX_MUST_USE;

/* Whether the value is one of those LX_NEUTRAL_ values. */
bool lx_json_is_neutral(const json_t *value, unsigned neutral);
/* Notes the members of a field's own object that say something and are not among `known`, which
   ends with NULL; a warning names them as prefix.name. */
void lx_json_note_members(const json_t *object, const char *prefix, const char *const *known,
                          lx_json_notes *notes);

#endif
