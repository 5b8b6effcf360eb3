/* Uploaded PNGs as rasters (see picture.h). */
#include "model/tasks/picture.h"

#include <stdbool.h>
#include <stdlib.h>

#include "model/formats/png.h"
#include "model/tasks/image.h"

static lx_status read_png(const lx_config *c, lx_png_file file, const char *param, lx_picture *out,
                          lx_error *err)
{
    lx_picture_limits limits = {
        .width = c->width, .height = c->height, .n_channels = c->n_channels};
    return lx_png_read(file.data, file.bytes, &limits, param, out, err);
}

static lx_status check_size(const lx_config *c, const lx_picture *p, bool fewer_rows,
                            const char *param, lx_error *err)
{
    if (p->width == c->width && (p->height == c->height || (fewer_rows && p->height < c->height)))
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, param, "%s is %dx%d, the model paints %dx%d", param,
                   p->width, p->height, c->width, c->height);
}

lx_status lx_picture_read(const lx_config *config, lx_png_file image, uint8_t **values,
                          lx_error *err)
{
    lx_picture p = {.width = 0};
    lx_status st = read_png(config, image, "image", &p, err);
    if (st == LX_OK)
        st = check_size(config, &p, false, "image", err);
    if (st == LX_OK) {
        *values = p.values;
        p.values = NULL;
    }
    lx_picture_fini(&p);
    return st;
}

/* keep[width * height]: what an image without a mask says of itself. */
static lx_status keep_of_image(const lx_config *c, const lx_picture *image, uint8_t *keep,
                               lx_error *err)
{
    if (image->alpha == NULL && image->height == c->height)
        return lx_fail(err, LX_ERR_INVALID, "mask",
                       "nothing says what to keep: send a mask, an image with transparent pixels, "
                       "or one of fewer rows");
    int32_t n = image->width * image->height;
    for (int32_t i = 0; i < n; i++)
        keep[i] = image->alpha == NULL || image->alpha[i] != 0;
    return LX_OK;
}

static lx_status keep_of_mask(const lx_config *c, lx_png_file file, const lx_picture *image,
                              uint8_t *keep, lx_error *err)
{
    lx_picture mask = {.width = 0};
    lx_status st = check_size(c, image, false, "image", err);
    if (st == LX_OK)
        st = read_png(c, file, "mask", &mask, err);
    if (st == LX_OK)
        st = check_size(c, &mask, false, "mask", err);
    if (st == LX_OK && mask.alpha == NULL)
        st = lx_fail(err, LX_ERR_INVALID, "mask",
                     "mask has no alpha channel; its transparent pixels are those to paint");
    for (int32_t i = 0; st == LX_OK && i < c->width * c->height; i++)
        keep[i] = mask.alpha[i] != 0;
    lx_picture_fini(&mask);
    return st;
}

static lx_status count_kept(const lx_config *c, const uint8_t *keep, int32_t *n_values,
                            lx_error *err)
{
    int32_t n = lx_image_kept(c, keep);
    if (n < 0)
        return lx_fail(err, LX_ERR_INVALID, "mask",
                       "mask: what is kept must be the first pixels of the image, row by row, with "
                       "nothing to paint between them");
    if (n == lx_image_size(c))
        return lx_fail(err, LX_ERR_INVALID, "mask",
                       "mask: every pixel is kept, nothing is left to paint");
    *n_values = n;
    return LX_OK;
}

lx_status lx_picture_read_prefix(const lx_config *config, lx_png_file image, lx_png_file mask,
                                 uint8_t **values, int32_t *n_values, lx_error *err)
{
    lx_picture p = {.width = 0};
    uint8_t *keep = calloc((size_t)config->width * (size_t)config->height, 1);
    lx_status st = keep != NULL ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory");
    if (st == LX_OK)
        st = read_png(config, image, "image", &p, err);
    if (st == LX_OK)
        st = check_size(config, &p, true, "image", err);
    if (st == LX_OK)
        st = mask.data != NULL ? keep_of_mask(config, mask, &p, keep, err)
                               : keep_of_image(config, &p, keep, err);
    if (st == LX_OK)
        st = count_kept(config, keep, n_values, err);
    if (st == LX_OK) {
        *values = p.values;
        p.values = NULL;
    }
    lx_picture_fini(&p);
    free(keep);
    return st;
}
