/*
 * PNG files of every form, made without the library under test: any bit depth, colour type and
 * interlacing, data in stored blocks, further chunks as wanted. For files that must be read and
 * files that must be refused.
 */
#ifndef LINNET_TESTS_SUPPORT_PNG_MAKER_H
#define LINNET_TESTS_SUPPORT_PNG_MAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct png_maker {
    uint8_t bytes[1 << 18];
    size_t n;
} png_maker;

typedef struct png_form {
    uint32_t width, height;
    int depth, colour_type; /* as in the PNG specification: 0, 2, 3, 4, 6 */
    bool interlaced;
} png_form;

/* Samples of a pixel: 1, 3, 1, 2, 4 for the colour types. */
int png_maker_channels(const png_form *form);

/* Begins a file: signature and IHDR. */
void png_maker_begin(png_maker *m, const png_form *form);
void png_maker_chunk(png_maker *m, const char *type, const void *data, size_t n);
/* IDAT and IEND; sample(context, x, y, c) is a sample as the file stores it. `extra` bytes of zero
   follow the picture's own within the compressed data. */
void png_maker_end(png_maker *m, const png_form *form,
                   unsigned (*sample)(void *context, uint32_t x, uint32_t y, int c), void *context,
                   size_t extra);

/* Corrects the checksum of the chunk that begins (with its length) at `at`. */
void png_maker_fix(uint8_t *file, size_t at);

#endif
