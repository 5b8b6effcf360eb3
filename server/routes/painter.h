/*
 * The thread that draws the pictures of links, one after another. A drawing takes tens of
 * milliseconds, too long for a thread that reads and answers requests, and a font has one user.
 *
 * A route computes the content, then hands its answer over to a painting.
 */
#ifndef LINNET_SERVER_ROUTES_PAINTER_H
#define LINNET_SERVER_ROUTES_PAINTER_H

#include <stdatomic.h>

#include "model/formats/font.h"
#include "server/http/server.h"

enum { LX_PAINTER_MAX_WAITING = 64, LX_PAINTING_MAX_BYTES = 4 << 20 /* of a file */ };

typedef struct lx_painter lx_painter;

/* One picture. The first four members are the route's; zeros for the rest. */
typedef struct lx_painting {
    /* Appends a PNG; in the painter's thread, before the painting is released. font may be NULL. */
    lx_status (*draw)(void *context, lx_font *font, lx_buffer *png, lx_error *err);
    void *context;
    void (*wake)(void *context); /* the request's */
    void *wake_context;
    lx_painter *painter;
    struct lx_painting *next;
    atomic_bool cancelled, done;
    lx_status status;
    lx_error err;
    lx_buffer png;
} lx_painting;

/* Starts the thread, with a font for texts or NULL; takes the font, also on failure. */
lx_status lx_painter_new(lx_font *font, lx_painter **out, lx_error *err) LX_MUST_USE;
/* After the last painting was released. NULL is allowed. */
void lx_painter_free(lx_painter *p);
/* Whether texts can be drawn; no with NULL. */
bool lx_painter_has_font(const lx_painter *p);

/*
 * For `finish` of a deferred answer: the painting, which lives until that answer is released,
 * becomes the rest of it. The rest is the picture, or the page's own card if the font lacks a
 * character or is damaged, or an error. 429 where LX_PAINTER_MAX_WAITING are waiting. Its release
 * waits for a drawing that is under way.
 */
void lx_painter_take(lx_painter *p, lx_painting *painting, int64_t deadline_ns, lx_response *rs);

/* The page's own card, which shows nothing of the link. */
void lx_painter_respond_card(lx_response *rs);

#endif
