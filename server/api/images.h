/*
 * One request for images: the job, and pictures of its values so far. The API's handlers and the
 * page's form are two faces of it.
 */
#ifndef LINNET_SERVER_API_IMAGES_H
#define LINNET_SERVER_API_IMAGES_H

#include "server/api/generation.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

/* A PNG of the largest image there is (2^20 values), stored without compression, fits. */
enum { LX_MAX_PNG = 2 << 20 };

typedef struct lx_images {
    lx_work work;    /* first, see generation.h */
    int32_t given;   /* values of every image that were not generated */
    int32_t size;    /* values of one image */
    uint8_t *raster; /* [size] the picture that is being written */
} lx_images;

/* A request; values[n_values] is the beginning of every image's raster. */
typedef struct lx_images_request {
    const uint8_t *values;
    int32_t n_values;
    int32_t class_number; /* see lx_task_request */
    lx_work_params work;
    int64_t answer_bytes; /* most bytes of the answer, see lx_images_bytes */
} lx_images_request;

/* Submits the job into *im; see lx_work_start. n images of the model's size have at most
   LX_MAX_JOB_TOKENS values together (param "n"), so that an answer has a known maximum. */
lx_status lx_images_start(lx_images *im, lx_api *api, lx_served_model *served,
                          const lx_images_request *r, const lx_request *rq, int32_t *retry_after_s,
                          lx_error *err) LX_MUST_USE;
void lx_images_fini(lx_images *im);

/* Values from .. to - 1 of image i, which must be there. Valid until the next call for an image.
   The time it takes grows with their number alone: a stream reads each value once. */
const uint8_t *lx_images_values(lx_images *im, int32_t i, int32_t from, int32_t to);

/* Appends a PNG of image i with its first n_tokens generated values at most, 0 where nothing is
 * yet. */
lx_status lx_images_png(lx_images *im, int32_t i, int32_t n_tokens, lx_buffer *out,
                        lx_error *err) LX_MUST_USE;
/* --- the answer --- */

/* Where the reader of one sample stands. */
typedef struct lx_image_reader {
    int32_t sent;     /* values of the raster that were sent */
    int32_t partials; /* partial images already sent */
    bool done;        /* the finished image was */
} lx_image_reader;

/* An images request that is being answered. */
typedef struct lx_image_answer {
    lx_images images; /* first: begins with the lx_work */
    bool edit, contact_sheet;
    char size[24];        /* "28x28" */
    int32_t class_number; /* see lx_task_request */
    lx_json_notes notes;
    /* streams */
    int32_t partial_images;
    lx_stream_unit unit;
    lx_buffer event;   /* the one that is being handed out */
    size_t event_read; /* so much of it is gone */
    bool ended;
    int32_t next;              /* the sample to look at first */
    lx_image_reader readers[]; /* [n] */
} lx_image_answer;

/* pull of lx_deferred. */
bool lx_image_answer_pull(void *context, lx_buffer *out);

/* The most bytes of an event: a picture in base64 and the rest of the object. */
enum { LX_MAX_IMAGE_EVENT = LX_MAX_PNG / 3 * 4 + 4096 };

/* The most bytes that the answer to such a request takes, but for its job. */
int64_t lx_images_bytes(const lx_config *config, const lx_image_params *p);

#endif
