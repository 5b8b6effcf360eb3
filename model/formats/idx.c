/* idx files of images (see idx.h), read through zlib, which takes plain files as they are. */
#include "model/formats/idx.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "model/formats/file.h"

enum { HEADER = 16, MAGIC_IMAGES = 2051, MAX_SIDE = 4096, MAX_BYTES = 1 << 30, MAX_RATIO = 1100 };

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* `n_bytes`: of the file. Not even gzip makes as few of so many images, so room for them all is not
   asked for before they are seen. */
static lx_status read_header(gzFile f, const char *label, size_t n_bytes, lx_idx *x, lx_error *err)
{
    uint8_t h[HEADER];
    int n = gzread(f, h, sizeof h);
    if (n < 0)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: is damaged", label);
    if (n != HEADER || big_endian(h) != MAGIC_IMAGES)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: is not an idx file of 8-bit images", label);
    uint32_t images = big_endian(h + 4), height = big_endian(h + 8), width = big_endian(h + 12);
    if (images < 1 || height < 1 || height > MAX_SIDE || width < 1 || width > MAX_SIDE ||
        images > MAX_BYTES / height / width)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: %u images of %u x %u are not within limits",
                       label, images, width, height);
    if ((size_t)images * height * width / MAX_RATIO > n_bytes)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: ends before its %u images of %u x %u", label,
                       images, width, height);
    *x = (lx_idx){.n = (int32_t)images, .height = (int32_t)height, .width = (int32_t)width};
    return LX_OK;
}

/* The file's first x->n images; `all`: there must be no more, and gzip's checksum must fit. */
static lx_status read_values(gzFile f, const char *label, bool all, lx_idx *x, lx_error *err)
{
    size_t image = (size_t)x->height * (size_t)x->width;
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
    int closed = gzclose_r(f); /* also says whether packed data were cut behind their last image */
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
