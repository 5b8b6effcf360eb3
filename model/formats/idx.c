/* idx files of images (see idx.h), read through zlib, which takes plain files as they are. */
#include "model/formats/idx.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "model/formats/file.h"

enum { MAGIC = 2048, MAX_SIDE = 4096, MAX_BYTES = 1 << 30, MAX_RATIO = 1100 };
enum { COUNT, HEIGHT, WIDTH, CHANNELS, MOST_DIMENSIONS }; /* a grey image's has the first three */

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Fills d[MOST_DIMENSIONS]. */
static lx_status read_dimensions(gzFile f, const char *label, uint32_t *d, lx_error *err)
{
    uint8_t h[4 * (1 + MOST_DIMENSIONS)];
    int n = gzread(f, h, 4);
    if (n < 0)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: is damaged", label);
    uint32_t dimensions = n == 4 ? big_endian(h) - MAGIC : 0;
    if ((dimensions != CHANNELS && dimensions != MOST_DIMENSIONS) ||
        gzread(f, h + 4, 4 * dimensions) != 4 * (int)dimensions)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: is not an idx file of 8-bit images", label);
    d[CHANNELS] = 1;
    for (uint32_t i = 0; i < dimensions; i++)
        d[i] = big_endian(h + 4 + 4 * i);
    return LX_OK;
}

/* `n_bytes`: of the file. Not even gzip makes as few of so many images, so room for them all is not
   asked for before they are seen. */
static lx_status read_header(gzFile f, const char *label, size_t n_bytes, lx_idx *x, lx_error *err)
{
    uint32_t d[MOST_DIMENSIONS];
    lx_status st = read_dimensions(f, label, d, err);
    if (st != LX_OK)
        return st;
    if (d[CHANNELS] != 1 && d[CHANNELS] != 3)
        return lx_fail(err, LX_ERR_FORMAT, NULL,
                       "%s: its images have %u values per pixel, not 1 or 3", label, d[CHANNELS]);
    if (d[COUNT] < 1 || d[HEIGHT] < 1 || d[HEIGHT] > MAX_SIDE || d[WIDTH] < 1 ||
        d[WIDTH] > MAX_SIDE || d[COUNT] > MAX_BYTES / d[HEIGHT] / d[WIDTH] / d[CHANNELS])
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: %u images of %u x %u are not within limits",
                       label, d[COUNT], d[WIDTH], d[HEIGHT]);
    if ((size_t)d[COUNT] * d[HEIGHT] * d[WIDTH] * d[CHANNELS] / MAX_RATIO > n_bytes)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: ends before its %u images of %u x %u", label,
                       d[COUNT], d[WIDTH], d[HEIGHT]);
    *x = (lx_idx){.n = (int32_t)d[COUNT],
                  .height = (int32_t)d[HEIGHT],
                  .width = (int32_t)d[WIDTH],
                  .channels = (int32_t)d[CHANNELS]};
    return LX_OK;
}

/* The file's first x->n images; `all`: there must be no more, and gzip's checksum must fit. */
static lx_status read_values(gzFile f, const char *label, bool all, lx_idx *x, lx_error *err)
{
    size_t image = (size_t)x->height * (size_t)x->width * (size_t)x->channels;
    x->values = malloc((size_t)x->n * image);
    if (x->values == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory for %d images", label, x->n);
    for (int32_t i = 0; i < x->n; i++) {
        if (gzread(f, x->values + (size_t)i * image, (unsigned)image) != (int)image)
            return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: ends or is damaged in image %d of %d",
                           label, i + 1, x->n);
    }
    uint8_t more;
    if (all && gzread(f, &more, 1) != 0)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: is damaged or longer than its %d images",
                       label, x->n);
    return LX_OK;
}

lx_status lx_idx_read(const char *path, int32_t limit, lx_idx *out, lx_error *err)
{
    const char *label = lx_file_label(path);
    int fd = -1;
    size_t n_bytes = 0;
    lx_status st = lx_file_open(path, MAX_BYTES, &fd, &n_bytes, err);
    if (st != LX_OK)
        return st;
    gzFile f = gzdopen(fd, "rb");
    if (f == NULL) {
        (void)close(fd);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", label);
    }
    lx_idx x = {0};
    st = read_header(f, label, n_bytes, &x, err);
    bool all = limit <= 0 || limit >= x.n;
    if (st == LX_OK && !all)
        x.n = limit;
    if (st == LX_OK)
        st = read_values(f, label, all, &x, err);
    int closed = gzclose_r(f); /* also finds whether packed data were cut after their last image */
    if (st == LX_OK && all && closed != Z_OK)
        st = lx_fail(err, LX_ERR_FORMAT, NULL, "%s: is cut", label);
    if (st != LX_OK) {
        lx_idx_fini(&x);
        return st;
    }
    *out = x;
    return LX_OK;
}

void lx_idx_fini(lx_idx *x)
{
    free(x->values);
    *x = (lx_idx){0};
}
