/* Texts as pictures (see card.h). web/share.js saves the same scrolls, web/style.css has the
   colours. */
#include "server/routes/card.h"

#include <stdlib.h>
#include <string.h>

#include "model/formats/png.h"
#include "model/utf8.h"

enum { MARGIN = 34, FRAME = 9, LINE = 2 }; /* of the paper: to the edge, its golden line */
enum { MOST_SIZE = 108, READABLE = 46, LEAST_SIZE = 26, PAD = 30 };
enum { MAX_COLUMNS = 32, MAX_SCROLL_COLUMNS = 4, GAP = 260, CAPTION_HEIGHT = 128 };

typedef struct column {
    const int32_t *characters;
    int32_t n;
} column;

typedef struct columns {
    int32_t n, longest; /* characters of the longest */
    column at[MAX_COLUMNS];
} columns;

typedef struct text {
    int32_t n;
    int32_t characters[LX_CARD_MAX_CHARS];
} text;

typedef struct area {
    int32_t x, y, width, height;
} area;

static const int32_t night[3] = {0x15, 0x13, 0x1b}, gold[3] = {0xff, 0xdf, 0x91},
                     red[3] = {0xb3, 0x16, 0x1e}, red_deep[3] = {0x8d, 0x0f, 0x17};

/* --- texts --- */

/* The first `most` characters, without malformed UTF-8 and control characters. */
static text decode(const char *utf8, int32_t most)
{
    text t = {0};
    size_t bytes = utf8 != NULL ? strlen(utf8) : 0;
    for (size_t at = 0; at < bytes && t.n < most;) {
        size_t from = at;
        int32_t c = lx_utf8_next(utf8, bytes, &at);
        if (c < 0)
            at = from + 1;
        if (c >= 0x20 && c != 0x7f)
            t.characters[t.n++] = c;
    }
    return t;
}

/* ，。、 stand in the upper right of their squares, as they do in a column. */
static bool stands_aside(int32_t c)
{
    return c == 0xff0c || c == 0x3002 || c == 0x3001;
}

static void add_column(columns *c, const int32_t *characters, int32_t n)
{
    if (n == 0 || c->n == MAX_COLUMNS)
        return;
    c->at[c->n++] = (column){characters, n};
    c->longest = n > c->longest ? n : c->longest;
}

/* Columns of `rows` characters, or one more where the next is a mark: no column begins with one. */
static columns split_evenly(const text *t, int32_t rows)
{
    columns c = {0};
    for (int32_t from = 0; from < t->n;) {
        int32_t end = t->n - from < rows ? t->n : from + rows;
        end += end < t->n && stands_aside(t->characters[end]);
        add_column(&c, t->characters + from, end - from);
        from = end;
    }
    return c;
}

/* A column for each line, its mark with it. */
static columns split_lines(const text *t)
{
    columns c = {0};
    int32_t from = 0;
    for (int32_t i = 0; i < t->n; i++) {
        bool ends = t->characters[i] == 0xff0c || t->characters[i] == 0x3002;
        if (ends || i + 1 == t->n) {
            add_column(&c, t->characters + from, i + 1 - from);
            from = i + 1;
        }
    }
    return c;
}

/* --- ink and paper --- */

/* Beyond the canvas there is nothing. */
static void blend(uint8_t *canvas, int32_t x, int32_t y, const int32_t colour[3], int32_t share)
{
    if (x < 0 || x >= LX_CARD_WIDTH || y < 0 || y >= LX_CARD_HEIGHT)
        return;
    uint8_t *pixel = canvas + ((int64_t)y * LX_CARD_WIDTH + x) * 3;
    for (int32_t k = 0; k < 3; k++)
        pixel[k] = (uint8_t)((pixel[k] * (255 - share) + colour[k] * share + 127) / 255);
}

static void fill(uint8_t *canvas, area a, const int32_t colour[3])
{
    for (int32_t y = a.y; y < a.y + a.height; y++)
        for (int32_t x = a.x; x < a.x + a.width; x++)
            blend(canvas, x, y, colour, 255);
}

/* Deep red at the sides, red from three tenths to seven, and a line of gold within. */
static void draw_sheet(uint8_t *canvas, area a)
{
    for (int32_t x = 0; x < a.width; x++) {
        int32_t side = x < a.width - 1 - x ? x : a.width - 1 - x;
        int32_t share = side * 10 >= a.width * 3 ? 255 : side * 10 * 255 / (a.width * 3);
        for (int32_t y = 0; y < a.height; y++) {
            blend(canvas, a.x + x, a.y + y, red_deep, 255);
            blend(canvas, a.x + x, a.y + y, red, share);
        }
    }
    area in = {a.x + FRAME, a.y + FRAME, a.width - 2 * FRAME, a.height - 2 * FRAME};
    fill(canvas, (area){in.x, in.y, in.width, LINE}, gold);
    fill(canvas, (area){in.x, in.y + in.height - LINE, in.width, LINE}, gold);
    fill(canvas, (area){in.x, in.y, LINE, in.height}, gold);
    fill(canvas, (area){in.x + in.width - LINE, in.y, LINE, in.height}, gold);
}

/* A character in the square whose corner is (x, y). */
static lx_status draw_character(uint8_t *canvas, lx_font *font, int32_t c, int32_t x, int32_t y,
                                int32_t size, lx_error *err)
{
    lx_glyph g;
    lx_status st = lx_font_draw(font, c, size, &g, err);
    if (st != LX_OK)
        return st;
    for (int32_t row = 0; row < g.height; row++)
        for (int32_t k = 0; k < g.width; k++)
            blend(canvas, x + g.left + k, y + g.top + row, gold,
                  g.ink[(int64_t)row * g.stride + k]);
    return LX_OK;
}

/* --- columns --- */

static int32_t row_of(int32_t size)
{
    return size * 113 / 100;
}

static int32_t column_of(int32_t size)
{
    return size * 136 / 100;
}

/* The largest size in which the columns fit into so much room. */
static int32_t largest_size(const columns *c, int32_t width, int32_t height)
{
    int32_t size = MOST_SIZE;
    while (size > LEAST_SIZE &&
           (c->longest * row_of(size) > height || c->n * column_of(size) > width))
        size--;
    return size;
}

/* Columns on a sheet of paper: the first is on the right; all are in the middle, and begin at one
   height. */
static lx_status draw_paper(uint8_t *canvas, lx_font *font, const columns *c, int32_t size, area a,
                            lx_error *err)
{
    draw_sheet(canvas, a);
    int32_t most = (a.height - 2 * (FRAME + LINE)) / row_of(size); /* within the golden line */
    int32_t longest = c->longest < most ? c->longest : most;
    int32_t right = a.x + (a.width + c->n * column_of(size)) / 2;
    int32_t top = a.y + (a.height - longest * row_of(size)) / 2;
    for (int32_t i = 0; i < c->n; i++) {
        int32_t x = right - (i + 1) * column_of(size) + (column_of(size) - size) / 2;
        for (int32_t k = 0; k < c->at[i].n && k < longest; k++) {
            int32_t character = c->at[i].characters[k];
            int32_t aside = stands_aside(character) ? size / 2 : 0;
            int32_t y = top + k * row_of(size) + (row_of(size) - size) / 2;
            lx_status st = draw_character(canvas, font, character, x + aside, y - aside, size, err);
            if (st != LX_OK)
                return st;
        }
    }
    return LX_OK;
}

/* --- a couplet --- */

enum { SCROLL_HEIGHT = LX_CARD_HEIGHT - 2 * MARGIN };
enum { MOST_IN_SCROLL = MAX_SCROLL_COLUMNS * 17, MOST_IN_CAPTION = 16 };

/* As few columns as leave the characters readable where the picture is shown small. */
static columns split_scroll(const text *t, int32_t *size)
{
    columns c = {0};
    for (int32_t n = 1; n <= MAX_SCROLL_COLUMNS; n++) {
        c = split_evenly(t, (t->n + n - 1) / n);
        *size = largest_size(&c, LX_CARD_WIDTH, SCROLL_HEIGHT - 2 * PAD);
        if (*size >= READABLE)
            break;
    }
    return c;
}

/* A caption over the door, from right to left, as much of it as `room` pixels hold; its paper in
 *out. */
static columns split_caption(const text *t, int32_t room, int32_t *size, area *out)
{
    columns c = split_evenly(t, 1);
    *size = largest_size(&c, room - 2 * PAD, CAPTION_HEIGHT - PAD);
    int32_t most = (room - 2 * PAD) / column_of(*size);
    c.n = c.n < most ? c.n : most;
    *out = (area){0, MARGIN, c.n * column_of(*size) + 2 * PAD, CAPTION_HEIGHT};
    out->x = (LX_CARD_WIDTH - out->width) / 2;
    return c;
}

static lx_status draw_couplet(uint8_t *canvas, lx_font *font, const lx_card *card, lx_error *err)
{
    text upper = decode(card->upper, MOST_IN_SCROLL), lower = decode(card->lower, MOST_IN_SCROLL),
         caption = decode(card->caption, MOST_IN_CAPTION);
    if (upper.n == 0 || lower.n == 0)
        return lx_fail(err, LX_ERR_INVALID, NULL, "a couplet needs two lines that are not empty");
    int32_t size = 0, other = 0;
    columns right = split_scroll(&upper, &size), left = split_scroll(&lower, &other);
    size = size < other ? size : other;
    int32_t wide = (right.n > left.n ? right.n : left.n) * column_of(size) + PAD;
    int32_t gap = GAP, caption_size = 0;
    area paper = {0};
    columns over =
        split_caption(&caption, LX_CARD_WIDTH - 2 * wide - 4 * MARGIN, &caption_size, &paper);
    if (over.n > 0)
        gap = paper.width + 2 * MARGIN;
    area a = {(LX_CARD_WIDTH - gap) / 2 - wide, MARGIN, wide, SCROLL_HEIGHT};
    lx_status st = draw_paper(canvas, font, &left, size, a, err);
    a.x = (LX_CARD_WIDTH + gap) / 2;
    if (st == LX_OK)
        st = draw_paper(canvas, font, &right, size, a, err);
    if (st == LX_OK && over.n > 0)
        st = draw_paper(canvas, font, &over, caption_size, paper, err);
    return st;
}

/* --- a poem --- */

enum { POEM_WIDTH = LX_CARD_WIDTH - 2 * MARGIN - 2 * PAD };

/* A text without lines runs on, in the largest characters that leave room for all of it. */
static columns split_text(const text *t)
{
    columns c = {0};
    for (int32_t size = MOST_SIZE; size >= LEAST_SIZE; size--) {
        int32_t rows = (SCROLL_HEIGHT - 2 * PAD) / row_of(size) - 1; /* one is for a mark */
        c = split_evenly(t, rows);
        if (c.n * column_of(size) <= POEM_WIDTH)
            break;
    }
    return c;
}

static lx_status draw_poem(uint8_t *canvas, lx_font *font, const lx_card *card, lx_error *err)
{
    text t = decode(card->poem, LX_CARD_MAX_CHARS);
    columns c = card->has_form ? split_lines(&t) : split_text(&t);
    if (c.n == 0)
        return lx_fail(err, LX_ERR_INVALID, NULL, "a poem needs a line that is not empty");
    int32_t size = largest_size(&c, POEM_WIDTH, SCROLL_HEIGHT - 2 * PAD);
    int32_t most = POEM_WIDTH / column_of(size);
    c.n = c.n < most ? c.n : most;
    area a = {0, MARGIN, c.n * column_of(size) + 2 * PAD, SCROLL_HEIGHT};
    a.x = (LX_CARD_WIDTH - a.width) / 2;
    return draw_paper(canvas, font, &c, size, a, err);
}

lx_status lx_card_draw(const lx_card *card, lx_font *font, lx_buffer *png, lx_error *err)
{
    uint8_t *canvas = calloc((size_t)LX_CARD_WIDTH * LX_CARD_HEIGHT, 3);
    if (canvas == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a picture");
    fill(canvas, (area){0, 0, LX_CARD_WIDTH, LX_CARD_HEIGHT}, night);
    lx_status st = card->poem != NULL ? draw_poem(canvas, font, card, err)
                                      : draw_couplet(canvas, font, card, err);
    if (st == LX_OK)
        st = lx_png_write(canvas, LX_CARD_WIDTH, LX_CARD_HEIGHT, 3, png, err);
    free(canvas);
    return st;
}
