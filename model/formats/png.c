/*
 * PNG through libpng (see png.h). The library leaves a function by longjmp on an error, so whatever
 * must be freed then is in one struct that the function before the jump owns.
 *
 * The cost of a file is bounded: its size is known before the library sees it. Only the chunks that
 * make the pixels are read; text and profiles are passed over. The library's reader of streams
 * reads the file and stops at the last row; the library's other reader would expand all data after
 * it. Data there are refused without being expanded.
 */
#include "model/formats/png.h"

#include <png.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIGNATURE = 8, IHDR_END = 29, BORDER = 2, GREY = 96, PASSES = 7 };

typedef struct reader {
    png_structp png;
    png_infop info;
    uint8_t *values; /* [height, width, n_channels] as the file has them, expanded */
    png_uint_32 width, height;
    int n_channels;
    bool no_memory, ended;
    char message[96];
} reader;

/* --- errors --- */

static void fail_read(png_structp png, png_const_charp message)
{
    reader *r = png_get_error_ptr(png);
    (void)snprintf(r->message, sizeof r->message, "%s", message);
    png_longjmp(png, 1);
}

static void fail_write(png_structp png, png_const_charp message)
{
    (void)message;
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

/* A fault of which the library only warns: data after the last row. */
static void note_warning(png_structp png, png_const_charp message)
{
    if (strncmp(message, "Extra compress", 14) == 0)
        png_error(png, "it has more data than a picture of its size");
}

/* --- memory --- */

static png_voidp allocate(png_structp png, png_alloc_size_t n)
{
    bool *failed = png_get_mem_ptr(png);
    void *p = malloc(n);
    if (p == NULL)
        *failed = true;
    return p;
}

static void release(png_structp png, png_voidp p)
{
    (void)png;
    free(p);
}

/* --- reading --- */

/* The library's calls while it reads. */

static void start_rows(png_structp png, png_infop info)
{
    reader *r = png_get_progressive_ptr(png);
    /* Grey, grey and alpha, RGB or RGBA, 8 bits each, whatever the file has. */
    png_set_expand(png);
    png_set_scale_16(png);
    (void)png_set_interlace_handling(png);
    png_read_update_info(png, info);
    r->width = png_get_image_width(png, info);
    r->height = png_get_image_height(png, info);
    r->n_channels = png_get_channels(png, info);
    r->values = calloc(r->height, (size_t)r->width * (size_t)r->n_channels);
    r->no_memory = r->values == NULL;
    if (r->no_memory)
        png_error(png, "no memory");
}

/* An interlaced picture has every row several times, each time with more of it. */
static void take_row(png_structp png, png_bytep row, png_uint_32 y, int pass)
{
    (void)pass;
    reader *r = png_get_progressive_ptr(png);
    if (row != NULL && y < r->height)
        png_progressive_combine_row(png, r->values + (size_t)y * r->width * (size_t)r->n_channels,
                                    row);
}

/* The library is content with fewer rows; it counts them, or the passes of an interlaced picture.
 */
static void note_end(png_structp png, png_infop info)
{
    reader *r = png_get_progressive_ptr(png);
    bool passes = png_get_interlace_type(png, info) != PNG_INTERLACE_NONE;
    if (passes ? png_get_current_pass_number(png) < PASSES
               : png_get_current_row_number(png) < r->height)
        png_error(png, "it has less data than a picture of its size");
    r->ended = true;
}

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The size a file claims, before libpng has allocated anything for it. */
static lx_status check_head(const uint8_t *file, size_t bytes, const lx_picture_limits *limits,
                            const char *param, lx_error *err)
{
    if (bytes < SIGNATURE || png_sig_cmp(file, 0, SIGNATURE) != 0)
        return lx_fail(err, LX_ERR_INVALID, param, "this is not a PNG file");
    if (bytes < IHDR_END || memcmp(file + 12, "IHDR", 4) != 0)
        return lx_fail(err, LX_ERR_INVALID, param, "the PNG file is cut or damaged");
    uint32_t width = big_endian(file + 16), height = big_endian(file + 20);
    if (width < 1 || height < 1 || width > (uint32_t)limits->width ||
        height > (uint32_t)limits->height)
        return lx_fail(err, LX_ERR_INVALID, param, "the picture is %u x %u pixels, not %d x %d",
                       width, height, limits->width, limits->height);
    return LX_OK;
}

static bool open_reader(reader *r)
{
    r->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, r, fail_read, note_warning,
                                      &r->no_memory, allocate, release);
    r->info = r->png != NULL ? png_create_info_struct(r->png) : NULL;
    return r->info != NULL;
}

static void set_limits(reader *r, const lx_picture_limits *limits)
{
    png_set_progressive_read_fn(r->png, r, start_rows, take_row, note_end);
    png_set_benign_errors(r->png, 0); /* a wrong sum over the pixels is an error */
    png_set_user_limits(r->png, (png_uint_32)limits->width, (png_uint_32)limits->height);
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* known ones as well */
    png_set_crc_action(r->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
}

/* All that may jump; false after an error, with its text in the reader. */
static bool decode(reader *r, const uint8_t *file, size_t bytes, const lx_picture_limits *limits)
{
    if (setjmp(png_jmpbuf(r->png)) != 0)
        return false;
    set_limits(r, limits);
    png_process_data(r->png, r->info, (png_bytep)(uintptr_t)file, bytes);
    if (!r->ended)
        png_error(r->png, "the file is cut");
    return true;
}

static uint8_t luma(const uint8_t *rgb)
{
    return (uint8_t)((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
}

static void convert_pixel(const uint8_t *from, int n_from, uint8_t *to, int n_to)
{
    bool colour = n_from >= 3;
    for (int c = 0; c < n_to; c++)
        to[c] = !colour ? from[0] : n_to == 1 ? luma(from) : from[c];
}

static lx_status convert(const reader *r, int32_t n_channels, lx_picture *out)
{
    size_t n = (size_t)r->width * r->height;
    bool has_alpha = r->n_channels == 2 || r->n_channels == 4;
    *out = (lx_picture){.width = (int32_t)r->width,
                        .height = (int32_t)r->height,
                        .n_channels = n_channels,
                        .values = malloc(n * (size_t)n_channels),
                        .alpha = has_alpha ? malloc(n) : NULL};
    if (out->values == NULL || (has_alpha && out->alpha == NULL))
        return LX_ERR_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *pixel = r->values + i * (size_t)r->n_channels;
        convert_pixel(pixel, r->n_channels, out->values + i * (size_t)n_channels, n_channels);
        if (has_alpha)
            out->alpha[i] = pixel[r->n_channels - 1];
    }
    return LX_OK;
}

lx_status lx_png_read(const void *data, size_t bytes, const lx_picture_limits *limits,
                      const char *param, lx_picture *out, lx_error *err)
{
    const uint8_t *file = data;
    lx_status st = check_head(file, bytes, limits, param, err);
    if (st != LX_OK)
        return st;
    reader r = {.png = NULL};
    lx_picture p = {0};
    if (!open_reader(&r))
        st = LX_ERR_NO_MEMORY;
    else if (!decode(&r, file, bytes, limits))
        st = r.no_memory
                 ? LX_ERR_NO_MEMORY
                 : lx_fail(err, LX_ERR_INVALID, param, "the PNG file is damaged: %s", r.message);
    else
        st = convert(&r, limits->n_channels, &p);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    free(r.values);
    if (st == LX_OK) {
        *out = p;
        return LX_OK;
    }
    lx_picture_fini(&p);
    return st == LX_ERR_NO_MEMORY ? lx_fail(err, st, NULL, "no memory for a picture") : st;
}

void lx_picture_fini(lx_picture *p)
{
    free(p->values);
    free(p->alpha);
    *p = (lx_picture){0};
}

/* --- writing --- */

typedef struct writer {
    png_structp png;
    png_infop info;
    lx_buffer *out;
} writer;

static void collect(png_structp png, png_bytep data, size_t n)
{
    writer *w = png_get_io_ptr(png);
    lx_buffer_append(w->out, (const char *)data, n);
    if (w->out->status != LX_OK)
        png_error(png, "the buffer is full");
}

static void flush(png_structp png)
{
    (void)png;
}

/* Makes the rows of the picture in turn. */
typedef struct rows {
    int32_t width, height, n_channels;
    const uint8_t *(*row)(void *context, int32_t y);
    void *context;
} rows;

/* All that may jump. */
static bool encode(writer *w, const rows *r)
{
    if (setjmp(png_jmpbuf(w->png)) != 0)
        return false;
    png_set_write_fn(w->png, w, collect, flush);
    png_set_IHDR(w->png, w->info, (png_uint_32)r->width, (png_uint_32)r->height, 8,
                 r->n_channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(w->png, w->info);
    for (int32_t y = 0; y < r->height; y++)
        png_write_row(w->png, r->row(r->context, y));
    png_write_end(w->png, w->info);
    return true;
}

static lx_status write_rows(const rows *r, lx_buffer *out, lx_error *err)
{
    writer w = {.out = out};
    bool no_memory = false;
    w.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &w, fail_write, ignore, &no_memory,
                                      allocate, release);
    w.info = w.png != NULL ? png_create_info_struct(w.png) : NULL;
    bool ok = w.info != NULL && encode(&w, r);
    png_destroy_write_struct(&w.png, &w.info);
    if (ok)
        return LX_OK;
    lx_status st = no_memory              ? LX_ERR_NO_MEMORY
                   : out->status != LX_OK ? out->status
                                          : LX_ERR_INTERNAL;
    return lx_fail(err, st, NULL, "%s: the picture could not be written", lx_status_text(st));
}

typedef struct flat {
    const uint8_t *values;
    size_t row_bytes;
} flat;

static const uint8_t *flat_row(void *context, int32_t y)
{
    const flat *f = context;
    return f->values + (size_t)y * f->row_bytes;
}

lx_status lx_png_write(const uint8_t *values, int32_t width, int32_t height, int32_t n_channels,
                       lx_buffer *out, lx_error *err)
{
    flat f = {values, (size_t)width * (size_t)n_channels};
    return write_rows(&(rows){width, height, n_channels, flat_row, &f}, out, err);
}

/* --- a contact sheet --- */

typedef struct sheet {
    int32_t n, columns, width, height, n_channels; /* of images; of one image */
    const uint8_t *(*image)(void *context, int32_t i);
    void *context;
    uint8_t *band; /* one row of images with the border above them */
    size_t row_bytes;
} sheet;

static int32_t columns_for(int32_t n)
{
    int32_t c = 1;
    while ((int64_t)c * c < n)
        c++;
    return c;
}

static void fill_band(sheet *s, int32_t first)
{
    size_t image_row = (size_t)s->width * (size_t)s->n_channels;
    size_t pitch = (size_t)(s->width + BORDER) * (size_t)s->n_channels;
    memset(s->band, GREY, s->row_bytes * (size_t)(s->height + BORDER));
    for (int32_t i = 0; i < s->columns && first + i < s->n; i++) {
        const uint8_t *values = s->image(s->context, first + i);
        for (int32_t y = 0; y < s->height; y++)
            memcpy(s->band + (size_t)(y + BORDER) * s->row_bytes + (size_t)i * pitch +
                       (size_t)(BORDER * s->n_channels),
                   values + (size_t)y * image_row, image_row);
    }
}

static const uint8_t *sheet_row(void *context, int32_t y)
{
    sheet *s = context;
    int32_t pitch = s->height + BORDER, band = y / pitch, row = y % pitch;
    if (row == 0)
        fill_band(s, band * s->columns); /* past the last image: border only */
    return s->band + (size_t)row * s->row_bytes;
}

lx_status lx_png_write_sheet(int32_t n, int32_t width, int32_t height, int32_t n_channels,
                             const uint8_t *(*image)(void *context, int32_t i), void *context,
                             lx_buffer *out, lx_error *err)
{
    sheet s = {n, columns_for(n), width, height, n_channels, image, context, NULL, 0};
    int32_t lines = (n + s.columns - 1) / s.columns;
    rows r = {.width = s.columns * (width + BORDER) + BORDER,
              .height = lines * (height + BORDER) + BORDER,
              .n_channels = n_channels,
              .row = sheet_row,
              .context = &s};
    s.row_bytes = (size_t)r.width * (size_t)n_channels;
    s.band = malloc(s.row_bytes * (size_t)(height + BORDER));
    if (s.band == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a contact sheet");
    lx_status st = write_rows(&r, out, err);
    free(s.band);
    return st;
}
