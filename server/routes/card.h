/*
 * The picture of a text for other sites: a couplet or a poem as the page hangs it, from top to
 * bottom, gold on red paper, LX_CARD_WIDTH x LX_CARD_HEIGHT. The same font and text give the same
 * bytes. Thread: that of the font.
 */
#ifndef LINNET_SERVER_ROUTES_CARD_H
#define LINNET_SERVER_ROUTES_CARD_H

#include "common/buffer.h"
#include "model/formats/font.h"

enum { LX_CARD_WIDTH = 1200, LX_CARD_HEIGHT = 630, LX_CARD_MAX_CHARS = 400 };
/* A drawing takes at most so many bytes, its file included. */
enum { LX_CARD_BYTES = LX_CARD_WIDTH * LX_CARD_HEIGHT * 3 * 3 };

/* The texts to draw: UTF-8, NUL-terminated, borrowed. The paper has room for the longest answers
   that the page asks for; a longer text is cut. */
typedef struct lx_card {
    const char *upper, *lower; /* of a couplet */
    const char *caption;       /* over it, read from the right; "" or NULL: none */
    const char *poem;          /* NULL: a couplet */
    bool has_form;             /* the poem's lines are columns; else its text runs on */
} lx_card;

/* Appends a PNG. LX_ERR_NOT_FOUND: the font lacks a character; LX_ERR_FORMAT: it is damaged. */
lx_status lx_card_draw(const lx_card *card, lx_font *font, lx_buffer *png,
                       lx_error *err) LX_MUST_USE;

#endif
