/* Glyphs through FreeType (see font.h). */
#include "model/formats/font.h"

#include <errno.h>
#include <fcntl.h>
#include <ft2build.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include FT_FREETYPE_H
#include FT_OUTLINE_H

enum { FULL_SQUARE = 0x56fd }; /* 国, whose strokes go around its square */
enum { EMBOLDEN = 36 }; /* of a font that is not bold: strokes are wider by size / EMBOLDEN */
enum { MAX_FACES = 64, OVERHANG = 2 /* squares a glyph may reach over its own */ };

struct lx_font {
    int fd;
    FT_StreamRec stream;
    FT_Library library;
    FT_Face face;
    double middle; /* of 国 above the baseline, in units of the size */
    char path[160];
};

/* --- the file --- */

/* FreeType's reader: with count 0 it asks whether it can go there, 0 is yes. */
static unsigned long read_at(FT_Stream stream, unsigned long offset, unsigned char *buffer,
                             unsigned long count)
{
    const lx_font *f = stream->descriptor.pointer;
    if (count == 0)
        return offset > stream->size;
    unsigned long n = 0;
    while (n < count) {
        ssize_t got = pread(f->fd, buffer + n, count - n, (off_t)(offset + n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (unsigned long)got;
    }
    return n;
}

static lx_status open_file(lx_font *f, const char *path, lx_error *err)
{
    struct stat s;
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0)
        return lx_fail(err, errno == ENOENT ? LX_ERR_NOT_FOUND : LX_ERR_IO, NULL,
                       "cannot open %.150s: %s", path, strerror(errno));
    if (fstat(f->fd, &s) != 0 || !S_ISREG(s.st_mode))
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%.180s is no file", path);
    f->stream =
        (FT_StreamRec){.size = (unsigned long)s.st_size, .descriptor.pointer = f, .read = read_at};
    return LX_OK;
}

static FT_Error open_face(lx_font *f, FT_Long index)
{
    FT_Open_Args args = {.flags = FT_OPEN_STREAM, .stream = &f->stream};
    return FT_Open_Face(f->library, &args, index, &f->face);
}

static bool is_simplified(FT_Face face)
{
    const char *name = face->family_name != NULL ? face->family_name : "";
    size_t n = strlen(name);
    return n > 3 && strcmp(name + n - 3, " SC") == 0;
}

/* Leaves the face that is wanted in f->face. */
static FT_Error choose_face(lx_font *f)
{
    FT_Error code = open_face(f, 0);
    FT_Long n = code == 0 ? f->face->num_faces : 0;
    for (FT_Long i = 1; code == 0 && i < n && i < MAX_FACES && !is_simplified(f->face); i++) {
        FT_Face first = f->face;
        code = open_face(f, i);
        if (code != 0 || !is_simplified(f->face)) {
            if (code == 0)
                (void)FT_Done_Face(f->face);
            f->face = first;
        } else {
            (void)FT_Done_Face(first);
        }
    }
    return code;
}

/* --- glyphs --- */

/* Where the middle of 国 is: fonts disagree about ascent and descent, not about that. */
static lx_status find_middle(lx_font *f, lx_error *err)
{
    FT_BBox box = {0};
    FT_UInt glyph = FT_Get_Char_Index(f->face, FULL_SQUARE);
    if (glyph == 0)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s has no Chinese characters", f->path);
    if (FT_Load_Glyph(f->face, glyph, FT_LOAD_NO_SCALE) == 0 &&
        f->face->glyph->format == FT_GLYPH_FORMAT_OUTLINE)
        FT_Outline_Get_CBox(&f->face->glyph->outline, &box);
    if (box.yMax <= box.yMin || f->face->units_per_EM == 0)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s is damaged: 国 has no outline", f->path);
    f->middle = (double)(box.yMin + box.yMax) / 2 / f->face->units_per_EM;
    return LX_OK;
}

lx_status lx_font_open(const char *path, lx_font **out, lx_error *err)
{
    lx_font *f = calloc(1, sizeof *f);
    if (f == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a font");
    (void)strncpy(f->path, path, sizeof f->path - 1);
    lx_status st = open_file(f, path, err);
    if (st == LX_OK && FT_Init_FreeType(&f->library) != 0)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a font");
    if (st == LX_OK && choose_face(f) != 0)
        st = lx_fail(err, LX_ERR_FORMAT, NULL, "%s is no font, or damaged", f->path);
    if (st == LX_OK)
        st = find_middle(f, err);
    if (st == LX_OK)
        *out = f;
    else
        lx_font_free(f);
    return st;
}

void lx_font_free(lx_font *f)
{
    if (f == NULL)
        return;
    if (f->face != NULL)
        (void)FT_Done_Face(f->face);
    if (f->library != NULL)
        (void)FT_Done_FreeType(f->library);
    if (f->fd >= 0)
        (void)close(f->fd);
    free(f);
}

/* Whether the outline stays near its square: larger outlines of a damaged file are not drawn. */
static bool fits(FT_GlyphSlot slot, int32_t size)
{
    FT_BBox box;
    FT_Pos most = (FT_Pos)(1 + OVERHANG) * size * 64;
    if (slot->format != FT_GLYPH_FORMAT_OUTLINE)
        return false;
    FT_Outline_Get_CBox(&slot->outline, &box);
    return box.xMin > -most && box.yMin > -most && box.xMax < most && box.yMax < most;
}

lx_status lx_font_draw(lx_font *f, int32_t character, int32_t size, lx_glyph *out, lx_error *err)
{
    FT_UInt glyph = FT_Get_Char_Index(f->face, (FT_ULong)character);
    if (glyph == 0)
        return lx_fail(err, LX_ERR_NOT_FOUND, NULL, "%s lacks U+%04X", f->path,
                       (unsigned)character);
    FT_GlyphSlot slot = f->face->glyph;
    bool bold = (f->face->style_flags & FT_STYLE_FLAG_BOLD) != 0;
    FT_Pos wider = bold ? 0 : (FT_Pos)size * 64 / EMBOLDEN; /* it grows to the right and up */
    if (FT_Set_Pixel_Sizes(f->face, 0, (FT_UInt)size) != 0 ||
        FT_Load_Glyph(f->face, glyph, FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP) != 0 ||
        !fits(slot, size) || FT_Outline_Embolden(&slot->outline, wider) != 0 ||
        FT_Render_Glyph(slot, FT_RENDER_MODE_NORMAL) != 0)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: U+%04X cannot be drawn", f->path,
                       (unsigned)character);
    int32_t left = (int32_t)((size * 64 - slot->advance.x - wider) / 128);
    int32_t baseline = (int32_t)(size * (0.5 + f->middle) + (double)wider / 128 + 0.5);
    *out = (lx_glyph){.left = left + slot->bitmap_left,
                      .top = baseline - slot->bitmap_top,
                      .width = (int32_t)slot->bitmap.width,
                      .height = (int32_t)slot->bitmap.rows,
                      .stride = slot->bitmap.pitch,
                      .ink = slot->bitmap.buffer};
    return LX_OK;
}
