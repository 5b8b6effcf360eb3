/* Uploaded PNGs as rasters of an image model. Thread: any. */
#ifndef LINNET_MODEL_PICTURE_H
#define LINNET_MODEL_PICTURE_H

#include "model/config.h"

/* A PNG file in memory; data NULL: none. */
typedef struct lx_png_file {
    const void *data;
    size_t bytes;
} lx_png_file;

/* A whole picture of the model's size, transparency ignored: *values is malloc'ed,
   [height, width, channels]. LX_ERR_INVALID with param "image". */
lx_status lx_picture_read(const lx_config *config, lx_png_file image, uint8_t **values,
                          lx_error *err) LX_MUST_USE;

/*
 * The first values of a picture that is to be completed: *values is malloc'ed, *n_values of them.
 * What is kept: the mask's pixels with alpha != 0, or without a mask those of the image, or all of
 * an image of the full width and fewer rows. It must be the beginning of the raster and leave
 * something to paint. LX_ERR_INVALID with param "image" or "mask".
 */
lx_status lx_picture_read_prefix(const lx_config *config, lx_png_file image, lx_png_file mask,
                                 uint8_t **values, int32_t *n_values, lx_error *err) LX_MUST_USE;

#endif
