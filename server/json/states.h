/* Requests and answers of the routes for states, as plain structs (see answers.h). */
#ifndef LINNET_SERVER_JSON_STATES_H
#define LINNET_SERVER_JSON_STATES_H

#include "server/json/image_requests.h"
#include "server/states/blob.h"

/* POST /v1/states: a request to be continued later. */
typedef struct lx_state_create {
    char model[LX_MAX_MODEL_NAME]; /* "": the first that makes images */
    char *prompt;                  /* owned; NULL: absent */
    size_t prompt_bytes;
    lx_upload image, mask; /* of an image model: what is given of it */
    int32_t class_number;  /* of one that has classes: the class + 1, 0: any */
    bool rules, normalize;
    lx_poem_request poem;        /* its texts are owned */
    lx_sampling_params sampling; /* of it only the seed is read: it is the state's */
    int64_t timeout_ms;
    lx_json_notes notes; /* of the body */
} lx_state_create;

/* LX_ERR_INVALID with the field's name; free with fini, also after a failure, before the body. */
lx_status lx_json_read_state_create(const char *body, size_t bytes, lx_state_create *p,
                                    lx_error *err) LX_MUST_USE;
void lx_state_create_fini(lx_state_create *p);

/* POST /v1/states/ID/fork */
typedef struct lx_state_fork {
    int32_t n;
    uint64_t *seeds;     /* [n], owned; NULL: the state's own */
    lx_json_notes notes; /* of the body */
} lx_state_fork;

lx_status lx_json_read_state_fork(const char *body, size_t bytes, int32_t max_n, lx_state_fork *p,
                                  lx_error *err) LX_MUST_USE;

/* The facts about a state in an answer. */
typedef struct lx_json_state {
    const char *id;
    const char *model; /* NULL: not served here */
    const lx_saved_state *state;
    size_t bytes;
    int64_t ttl_ms;
} lx_json_state;

void lx_json_write_state(const lx_json_state *s, lx_buffer *out);
/* {"object": "list", "data": [...]} */
void lx_json_write_state_list(const lx_json_state *states, int32_t n, lx_buffer *out);

/* s and z of one head, and what can be read off them. */
typedef struct lx_json_inspection {
    const char *id;
    int32_t layer, head, n_layers, n_heads, d_key, d_value;
    const float *s; /* [d_key, d_value] */
    const float *z; /* [d_key] */
} lx_json_inspection;

void lx_json_write_inspection(const lx_json_inspection *l, lx_buffer *out);

/* What one head keeps, whatever its kind. */
typedef struct lx_json_state_field {
    const char *name;
    int32_t rows, cols;
    const float *values; /* [rows, cols] */
} lx_json_state_field;

typedef struct lx_json_fields {
    const char *id;
    int32_t layer, head, n_layers, n_heads, n;
    const lx_json_state_field *fields; /* [n] */
} lx_json_fields;

void lx_json_write_fields(const lx_json_fields *l, lx_buffer *out);

/* The newest rows that one head keeps. */
typedef struct lx_json_rows {
    const char *id;
    int32_t layer, head, n_layers, n_heads, d_key, d_value;
    int32_t n_kept, n;        /* rows there are, and rows that follow */
    const int32_t *positions; /* [n] ascending */
    const float *k, *v;       /* [n, d_key], [n, d_value] */
} lx_json_rows;

void lx_json_write_rows(const lx_json_rows *r, lx_buffer *out);

/* Element `index` of an answer's "states". */
typedef struct lx_json_kept {
    const char *id;
    lx_status status; /* LX_OK: kept */
    const char *why;  /* not */
    int32_t index, tokens, rows;
    size_t bytes;         /* of the blob */
    int64_t memory_bytes; /* of the network's state in it */
} lx_json_kept;

void lx_json_append_kept(const lx_json_kept *k, lx_buffer *out);

#endif
