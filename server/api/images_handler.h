/* What the files of the images routes share. */
#ifndef LINNET_SERVER_API_IMAGES_HANDLER_H
#define LINNET_SERVER_API_IMAGES_HANDLER_H

#include "server/api/images.h"
#include "server/json/image_requests.h"

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

/* pull of lx_deferred, images_stream.c */
bool lx_image_answer_pull(void *context, lx_buffer *out);

/* The most bytes an event has: a picture in base64 and what is around it. */
enum { LX_MAX_IMAGE_EVENT = LX_MAX_PNG / 3 * 4 + 4096 };

/* Pixels given and made, of one sample or of all. */
lx_json_pixels lx_image_answer_usage(const lx_image_answer *a, int64_t n_tokens);

#endif
