/* The thread that draws (see painter.h). */
#include "server/routes/painter.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/compute_thread.h"
#include "common/log.h"
#include "server/api/api.h"
#include "server/routes/assets.h"

struct lx_painter {
    lx_font *font; /* the thread's */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, idle;  /* something to draw or to end for; a drawing is over */
    lx_painting *first, **last; /* that wait */
    const lx_painting *under_way;
    int32_t n_waiting;
    bool ends;
    atomic_bool said; /* the log has a line about the font */
};

/* --- the thread --- */

static void draw(lx_painter *p, lx_painting *g)
{
    lx_buffer_init(&g->png, LX_PAINTING_MAX_BYTES);
    if (atomic_load(&g->cancelled))
        g->status = lx_fail(&g->err, LX_ERR_CANCELLED, NULL, "the request was cancelled");
    else
        g->status = g->draw(g->context, p->font, &g->png, &g->err);
}

static void *run(void *context)
{
    lx_painter *p = context;
    lx_compute_thread();
    (void)pthread_mutex_lock(&p->lock);
    while (!p->ends) {
        lx_painting *g = p->first;
        if (g == NULL) {
            (void)pthread_cond_wait(&p->work, &p->lock);
            continue;
        }
        p->first = g->next;
        p->last = p->first == NULL ? &p->first : p->last;
        p->n_waiting--;
        p->under_way = g;
        (void)pthread_mutex_unlock(&p->lock);
        draw(p, g);
        atomic_store(&g->done, true);
        g->wake(g->wake_context);
        (void)pthread_mutex_lock(&p->lock);
        p->under_way = NULL;
        (void)pthread_cond_broadcast(&p->idle);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

lx_status lx_painter_new(lx_font *font, lx_painter **out, lx_error *err)
{
    lx_painter *p = calloc(1, sizeof *p);
    if (p == NULL) {
        lx_font_free(font);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the thread that draws pictures");
    }
    p->font = font;
    p->last = &p->first;
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->work, NULL);
    (void)pthread_cond_init(&p->idle, NULL);
    if (pthread_create(&p->thread, NULL, run, p) != 0) {
        lx_font_free(font);
        free(p);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL,
                       "the thread that draws pictures cannot be started");
    }
    *out = p;
    return LX_OK;
}

void lx_painter_free(lx_painter *p)
{
    if (p == NULL)
        return;
    (void)pthread_mutex_lock(&p->lock);
    p->ends = true;
    (void)pthread_cond_signal(&p->work);
    (void)pthread_mutex_unlock(&p->lock);
    (void)pthread_join(p->thread, NULL);
    (void)pthread_cond_destroy(&p->idle);
    (void)pthread_cond_destroy(&p->work);
    (void)pthread_mutex_destroy(&p->lock);
    lx_font_free(p->font);
    free(p);
}

bool lx_painter_has_font(const lx_painter *p)
{
    return p != NULL && p->font != NULL;
}

/* --- an answer --- */

void lx_painter_respond_card(lx_response *rs)
{
    const lx_asset *card = lx_asset_find("/card.png");
    if (card == NULL) {
        lx_respond_error(rs, 404, "not_found", "path", "this build has no page");
        return;
    }
    rs->status = 200;
    rs->content_type = card->content_type;
    rs->static_body = card->data;
    rs->body_bytes = card->size;
    lx_response_add(rs, "Cache-Control", "no-cache"); /* another font may have more to show */
}

static bool is_done(const void *context)
{
    return atomic_load(&((const lx_painting *)context)->done);
}

static void cancel(void *context)
{
    atomic_store(&((lx_painting *)context)->cancelled, true);
}

static void finish(void *context, lx_response *rs)
{
    lx_painting *g = context;
    if (g->status == LX_OK) {
        lx_response_take(rs, 200, "image/png", &g->png);
        lx_response_add(rs, "Cache-Control", "public, max-age=86400");
    } else if (g->status == LX_ERR_NOT_FOUND || g->status == LX_ERR_FORMAT) {
        if (!atomic_exchange(&g->painter->said, true))
            lx_log(LX_LOG_WARN, "%s; such links show the page's own picture (logged once)",
                   g->err.text);
        lx_painter_respond_card(rs);
    } else {
        lx_respond_status(rs, g->status, &g->err);
    }
}

/* No wake comes after it. */
static void release(void *context)
{
    lx_painting *g = context;
    lx_painter *p = g->painter;
    (void)pthread_mutex_lock(&p->lock);
    for (lx_painting **at = &p->first; *at != NULL; at = &(*at)->next) {
        if (*at == g) {
            *at = g->next;
            p->last = *at == NULL ? at : p->last;
            p->n_waiting--;
            break;
        }
    }
    while (p->under_way == g)
        (void)pthread_cond_wait(&p->idle, &p->lock);
    (void)pthread_mutex_unlock(&p->lock);
    lx_buffer_fini(&g->png);
}

void lx_painter_take(lx_painter *p, lx_painting *g, int64_t deadline_ns, lx_response *rs)
{
    g->painter = p;
    (void)pthread_mutex_lock(&p->lock);
    bool full = p->n_waiting == LX_PAINTER_MAX_WAITING;
    if (!full) {
        *p->last = g;
        p->last = &g->next;
        p->n_waiting++;
        (void)pthread_cond_signal(&p->work);
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (full) {
        lx_error err = {0};
        lx_status st = lx_fail(&err, LX_ERR_BUSY, NULL,
                               "%d pictures already wait to be drawn; try again later",
                               LX_PAINTER_MAX_WAITING);
        lx_respond_unstarted(rs, st, &err, 1);
        return;
    }
    rs->deferred = (lx_deferred){.context = g,
                                 .is_done = is_done,
                                 .finish = finish,
                                 .cancel = cancel,
                                 .release = release,
                                 .deadline_ns = deadline_ns};
}
