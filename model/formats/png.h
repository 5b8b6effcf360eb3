/*
 * PNG files through libpng, with limits that hold before a file's claims cause an allocation.
 * Images are 8-bit, 1 (grey) or 3 (R, G, B) channels, row-major, channels together.
 *
 * Reading converts: palette, 1-, 2-, 4- and 16-bit samples become 8 bits, interlaced files are put
 * in order, gamma and colour profiles are not applied. Colour becomes grey (Rec. 601 luma, rounded)
 * for a grey model and grey becomes R = G = B for a colour one. Any thread.
 */
#ifndef LINNET_MODEL_PNG_H
#define LINNET_MODEL_PNG_H

#include <stdint.h>

#include "common/buffer.h"

typedef struct lx_picture {
    int32_t width, height, n_channels;
    uint8_t *values; /* [height, width, n_channels], owned */
    uint8_t *alpha;  /* [height, width], owned; NULL when the file has no transparency */
} lx_picture;

/* Largest picture that is read; a larger one is refused from its header alone. */
typedef struct lx_picture_limits {
    int32_t width, height;
    int32_t n_channels; /* the range that the values are converted to */
} lx_picture_limits;

/* Decodes a whole file. LX_ERR_INVALID with `param` and a text for a person when it is no PNG, is
   damaged, cut or larger than the limits. Memory is bounded by the limits, not by the file. */
lx_status lx_png_read(const void *data, size_t bytes, const lx_picture_limits *limits,
                      const char *param, lx_picture *out, lx_error *err) LX_MUST_USE;
void lx_picture_fini(lx_picture *p);

/* Appends a PNG of values [height, width, n_channels]. The same values give the same bytes. */
lx_status lx_png_write(const uint8_t *values, int32_t width, int32_t height, int32_t n_channels,
                       lx_buffer *out, lx_error *err) LX_MUST_USE;

/* Appends one PNG that shows n images of one size in a near-square grid, row by row, with a border
 * of 2 pixels around each. Image i's values come from image(context, i), valid until the next call.
 */
lx_status lx_png_write_sheet(int32_t n, int32_t width, int32_t height, int32_t n_channels,
                             const uint8_t *(*image)(void *context, int32_t i), void *context,
                             lx_buffer *out, lx_error *err) LX_MUST_USE;

#endif
