/*
 * The glyphs of one font file, TrueType or OpenType, through FreeType: an operator's file, never a
 * client's. It is read piece by piece when a glyph is wanted, so that a file that shrinks meanwhile
 * is an error and no crash.
 *
 * Glyphs are drawn from their outlines, without hints or embedded bitmaps: the same file and size
 * give the same bytes. Thread: one at a time.
 */
#ifndef LINNET_MODEL_FONT_H
#define LINNET_MODEL_FONT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

enum { LX_FONT_MIN_SIZE = 8, LX_FONT_MAX_SIZE = 256 }; /* of a character's square, in pixels */

typedef struct lx_font lx_font;

/* How much of each pixel is ink, 0 to 255. */
typedef struct lx_glyph {
    int32_t left, top; /* of its corner, in pixels from that of the character's square */
    int32_t width, height;
    int32_t stride; /* bytes from row to row */
    const uint8_t *ink;
} lx_glyph;

/* Opens a file of Chinese characters; of several fonts in it that of simplified Chinese, where one
   is named so, else the first. LX_ERR_NOT_FOUND without such a file; LX_ERR_FORMAT where it is no
   font, damaged, or has no Chinese characters. The texts name the file. */
lx_status lx_font_open(const char *path, lx_font **out, lx_error *err) LX_MUST_USE;
/* NULL is allowed. */
void lx_font_free(lx_font *f);

/* Draws a character into a square of `size` pixels (LX_FONT_MIN_SIZE to LX_FONT_MAX_SIZE, which the
   caller ensures), in which 国 stands in the middle. The result is valid until the next call.
   LX_ERR_NOT_FOUND: the font lacks it; LX_ERR_FORMAT: the file is damaged. */
lx_status lx_font_draw(lx_font *f, int32_t character, int32_t size, lx_glyph *out,
                       lx_error *err) LX_MUST_USE;

#endif
