/*
 * The fields of requests: one table (field_table.c) with a row for each name on each route. The
 * row says how the route reads the field, that the route refuses it, or that it changes nothing
 * there. Every member of a body that is in no row of its route becomes a warning, so a field is
 * read, refused or warned about. web/openapi.json describes the rows that are read; a test compares
 * the two.
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
    LX_JSON_RELOAD,
    LX_JSON_ROUTES
} lx_json_route;

/* A body that is being read: what a row's own reader may look at and write to. */
typedef struct lx_json_reading {
    json_t *root;
    lx_json_route route;
    int32_t max_n;        /* the server's bound of n, where the route has one */
    void *params;         /* the route's struct, which the rows' targets are members of */
    lx_json_notes *notes; /* what the answer will warn of */
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
    bool noted;       /* read, and warned about all the same */
    const char *why;  /* of a field that is refused or ignored: what to do instead, or NULL */
    unsigned neutral; /* values that ask for what happens anyway: neither refused nor warned of */
    size_t at_name;   /* of a const char * that becomes the field's name; 0: none */
} lx_field;

/* As `most` of a number: the reading's max_n. */
#define LX_FIELD_MAX_N (-1.0)

/* Row i of the table, NULL after the last. */
const lx_field *lx_json_field_row(int32_t i);

/* Reads all fields of r->root that r->route has, in the order of the table, and notes the others.
   LX_ERR_INVALID, or LX_ERR_NOT_FOUND for a model, with the name of the first that is bad. */
lx_status lx_json_read_fields(lx_json_reading *r, lx_error *err) LX_MUST_USE;

#endif
