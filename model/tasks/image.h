/*
 * The image task: the first values of a raster in, the rest out.
 *
 * A raster has height x width x channels values of 8 bits, row by row, a pixel's channels together
 * (R, G, B). A token is a value, or with a palette in config.json its level, the place of its value
 * there; given values become those of the nearest levels. Step t predicts value t; it sees, by the
 * name of its input in config.json: token        value t - 1 of the raster; START at t = 0 (size
 * levels + 1) w, ww        the pixel to the left, two to the left               (each levels + 1)
 *   n, nw, ne    the pixels above, above left, above right
 *   nn           the pixel two above
 *   row, column, channel                                              (height, width, channels)
 *   position     t                                                    (height * width * channels)
 *   class        what the image is to show, n_classes for "anything"  (n_classes + 1)
 * Neighbours are those of the same channel; one outside the image, and START, is id `levels`.
 * `token` is required, the others are the model's choice, in any order. All are known before the
 * step; none touches the recurrent state.
 *
 * With g given values the rows of steps 0 .. g are the prompt: n_prompt = g + 1, n_new = the rest.
 * A complete raster is refused (param "image"): nothing is left to paint.
 */
#ifndef LINNET_MODEL_IMAGE_H
#define LINNET_MODEL_IMAGE_H

#include "model/tasks/task.h"

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

/* The class that a text asks for by one of its names in config.json ("a seven", "7"), whatever
   stands around it: its number + 1, or 0 when the text names none or several. Letters A to Z count
   as a to z; a name of ASCII letters and digits must be a whole word. */
int32_t lx_image_find_class(const lx_config *config, const char *text, size_t n_bytes);

/* Of a plan: the class it shows + 1, 0 for none. */
int32_t lx_image_class(const lx_plan *plan);

/* The given part of a picture that is to be completed. keep[i] says whether pixel i (not value)
   stays; what stays must be the first pixels of the raster. Returns the number of given values, or
   -1 when a pixel stays behind one that goes. */
int32_t lx_image_kept(const lx_config *config, const uint8_t *keep);

#endif
