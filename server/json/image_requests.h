/*
 * Requests for images and scores in, their answers out: JSON and form fields as plain structs.
 *
 * Readers are as strict as those of answers.h; a form's fields are read as JSON reads them
 * (numbers, true, false), everything else as text. Answers with many images are written piece by
 * piece, so that they are never in memory twice.
 */
#ifndef LINNET_SERVER_JSON_IMAGE_REQUESTS_H
#define LINNET_SERVER_JSON_IMAGE_REQUESTS_H

#include "server/json/answers.h"
#include "server/json/forms.h"

enum { LX_MAX_IMAGE_PROMPT = 32 << 10, LX_MAX_PARTIAL_IMAGES = 3, LX_MAX_JOB_VALUES = 1 << 24 };

typedef enum lx_stream_unit {
    LX_STREAM_NO_VALUES,
    LX_STREAM_PIXELS,
    LX_STREAM_ROWS
} lx_stream_unit;

typedef struct lx_image_params {
    char model[LX_MAX_MODEL_NAME]; /* "": see lx_api_find_model */
    char size[24];                 /* "": any */
    int32_t n;
    lx_sampling_params sampling;
    bool stream, contact_sheet;
    int64_t timeout_ms; /* 0: the server's */
    int32_t partial_images;
    lx_stream_unit stream_unit;
    lx_upload image, mask; /* edits */
    char *state;           /* owned, NUL-terminated: see lx_state_source; NULL: from nothing */
    bool return_state;
    const char *suspend;  /* see lx_completion_params */
    int32_t max_tokens;   /* values that are generated, 0: the rest of the image */
    int32_t class_number; /* what is to be seen: the class + 1; 0: the prompt says it, or not */
    char *prompt;         /* owned; NULL: none, or empty */
    size_t prompt_bytes;  /* at most LX_MAX_IMAGE_PROMPT */
    lx_json_notes notes;  /* of the body */
} lx_image_params;

/* Every default: n 1, temperature 1. */
void lx_image_params_init(lx_image_params *p);
void lx_image_params_fini(lx_image_params *p);

/* LX_ERR_INVALID with the field's name. *p is initialised by the call and must be freed with fini,
   also after a failure, before the body. */
lx_status lx_json_read_generation(const char *body, size_t bytes, int32_t max_n, lx_image_params *p,
                                  lx_error *err) LX_MUST_USE;
lx_status lx_json_read_edit(const char *body, size_t bytes, int32_t max_n, lx_image_params *p,
                            lx_error *err) LX_MUST_USE;
lx_status lx_form_read_edit(const char *content_type, const char *body, size_t bytes, int32_t max_n,
                            lx_image_params *p, lx_error *err) LX_MUST_USE;

typedef struct lx_score_params {
    char model[LX_MAX_MODEL_NAME]; /* "": see lx_api_find_model */
    lx_upload image;
    char *prompt, *completion; /* owned; NULL: absent */
    size_t prompt_bytes, completion_bytes;
    int64_t timeout_ms;
    lx_json_notes notes; /* of the body */
} lx_score_params;

void lx_score_params_fini(lx_score_params *p);
lx_status lx_json_read_score(const char *body, size_t bytes, lx_score_params *p,
                             lx_error *err) LX_MUST_USE;
lx_status lx_form_read_score(const char *content_type, const char *body, size_t bytes,
                             lx_score_params *p, lx_error *err) LX_MUST_USE;

/* --- answers --- */

typedef struct lx_json_pixels { /* usage */
    int64_t given, made;
    int64_t cached; /* of the given ones: what a state or another request had computed */
} lx_json_pixels;

typedef struct lx_json_images {
    const char *model, *fingerprint, *size;
    int64_t created, seed;
    lx_json_pixels usage;
    const lx_json_timings *timings;
    int32_t class_number;       /* what was asked for: the class + 1, 0: nothing */
    const lx_json_notes *notes; /* sent as warnings; NULL: none */
} lx_json_images;

/* begin, then add for each image, then end. */
void lx_json_images_begin(const lx_json_images *a, lx_buffer *out);
/* suspended: the picture is not whole, as the server stops. */
void lx_json_images_add(int32_t index, const lx_buffer *png, double bits_per_dim, bool suspended,
                        lx_buffer *out);
/* states: see lx_json_image_event. */
void lx_json_images_end(const char *states, lx_buffer *out);

/* An event that carries a picture. */
typedef struct lx_json_image_event {
    const char *type, *size;
    int64_t created;
    int32_t index;   /* which sample */
    int32_t partial; /* which partial image, -1: the last picture, with all that follows */
    int64_t seed;
    double bits_per_dim;
    lx_json_pixels usage;
    int32_t class_number;       /* of the last picture; see lx_json_images */
    const lx_json_notes *notes; /* likewise */
    const char *states;         /* a JSON list of what was kept; NULL: left out */
} lx_json_image_event;

void lx_json_write_image_event(const lx_json_image_event *e, const lx_buffer *png, lx_buffer *out);
/* An event of n new values from `start` in the raster. */
void lx_json_write_values_event(const char *type, int32_t index, int32_t start,
                                const uint8_t *values, int32_t n, lx_buffer *out);

typedef struct lx_json_score {
    const char *model, *fingerprint;
    const char *mean_name; /* "bits_per_dim" */
    int64_t n_prompt;
    int32_t n;
    const float *logprobs; /* [n], natural logarithms */
    double unit;           /* nats that make one of the answer's units */
    const lx_json_timings *timings;
} lx_json_score;

/* The mean and every value's surprise, -logprob / unit. */
void lx_json_write_score(const lx_json_score *s, lx_buffer *out);

#endif
