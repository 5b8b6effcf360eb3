/*
 * The image task: the first values of a raster in, the rest out.
 *
 * A raster has height x width x channels values of 8 bits, row by row, a pixel's channels together
 * (R, G, B). A token is a value, or with a palette in config.json its level, the place of its value
 * there; given values become those of the nearest levels. Step t predicts value t, and sees these
 * inputs, by their names in config.json, with their sizes:
 *
 *     token        value t - 1 of the raster; START at t = 0         levels + 1
 *     w, ww        the pixel to the left, two to the left            levels + 1 each
 *     n, nw, ne    the pixels above, above left, above right         levels + 1 each
 *     nn           the pixel two above                               levels + 1
 *     row, column, channel                                           height, width, channels
 *     position     t                                                 height * width * channels
 *     class        the class that the image is to show               n_classes + 1
 *
 * Neighbours are those of the same channel; one outside the image, and START, is id `levels`. Class
 * n_classes stands for any class. `token` is required, all further inputs are the model's choice,
 * in any order. All are known before the step; none touches the recurrent state.
 *
 * With g given values the rows of steps 0 .. g are the prompt: n_prompt = g + 1, n_new = the rest.
 * A complete raster is refused (param "image"): nothing is left to paint.
 */
#ifndef LINNET_MODEL_IMAGE_H
#define LINNET_MODEL_IMAGE_H

#include "model/tasks/task.h"

enum { LX_MAX_CLASSES = 100, LX_MAX_PALETTE = 256, LX_MAX_CLASS_NAMES = 64 };

/* The keys of "image" in config.json. */
typedef struct lx_image_config {
    int32_t width, height;
    int32_t period;     /* rows of one picture of a strip; 0: the raster is one picture */
    int32_t n_channels; /* 1 (grey) or 3 (R, G, B) */
    int32_t n_classes;  /* that a request can ask for */
    int32_t n_palette;  /* levels; 0: a level is its value, of 256 */
    uint8_t palette[LX_MAX_PALETTE]; /* the value of each level, rising */
    /* The names of each class, with single spaces between: "seven 7 七"; the first is its name. */
    char classes[LX_MAX_CLASSES][LX_MAX_CLASS_NAMES];
} lx_image_config;
LX_TASK_PART(lx_image_config, lx_image_of, lx_image_own)

/* The fields of a request, see lx_task_request. */
typedef struct lx_image_request {
    const uint8_t *values; /* the first n_values of the raster, given (may be none) */
    int32_t n_values;
    int32_t class_number; /* the class to show + 1; 0: any */
} lx_image_request;

extern const lx_task_ops lx_image_task;

/* Values of one image: width * height * channels. */
int32_t lx_image_size(const lx_config *config);

/* The token that stands for a value: the value itself, or with a palette the nearest level, of two
   the lower one. */
int32_t lx_image_level(const lx_config *config, uint8_t value);

/* Values from .. to - 1 of the raster, which are the given ones and then the generated tokens:
   fills out[to - from]. */
void lx_image_values(const lx_plan *plan, const int32_t *tokens, int32_t from, int32_t to,
                     uint8_t *out);

/* Of a plan: how many values were given. */
int32_t lx_image_given(const lx_plan *plan);

/* The class that a text asks for by one of its names in config.json ("a seven", "7"), with any text
   around it. Returns its number + 1, or 0 when the text names none or several. Letters A to Z count
   as a to z; a name of ASCII letters and digits must be a whole word. */
int32_t lx_image_find_class(const lx_config *config, const char *text, size_t n_bytes);

/* Of a plan: the class it shows + 1, 0 for none. */
int32_t lx_image_class(const lx_plan *plan);

/* Of a plan of a strip: its pictures from value `at` on show this class (its number + 1). A picture
   after the first must begin there. LX_ERR_INVALID with param "class". */
lx_status lx_image_set_class(lx_plan *plan, int32_t at, int32_t class_number,
                             lx_error *err) LX_MUST_USE;

/* The given part of a picture that is to be completed. keep[i] says whether pixel i (not value)
   stays; what stays must be the first pixels of the raster. Returns the number of given values, or
   -1 when a kept pixel comes after a pixel to paint. */
int32_t lx_image_kept(const lx_config *config, const uint8_t *keep);

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
 * Kept pixels: the pixels with alpha != 0 of the mask, or without a mask of the image, or all of an
 * image of the full width and fewer rows. They must be the beginning of the raster and leave
 * something to paint. LX_ERR_INVALID with param "image" or "mask".
 */
lx_status lx_picture_read_prefix(const lx_config *config, lx_png_file image, lx_png_file mask,
                                 uint8_t **values, int32_t *n_values, lx_error *err) LX_MUST_USE;

#endif
