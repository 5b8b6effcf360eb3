/* The pictures of a link of the images' tab (see link.h), drawn as the page shows them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "model/formats/png.h"
#include "model/tasks/image.h"
#include "server/api/images.h"
#include "server/routes/link.h"
#include "server/routes/painter.h"

enum { WIDTH = 1200, HEIGHT = 630, MARGIN = 30, GAP = 2 };
enum { MAX_INK = 8192 };

typedef struct link_picture {
    lx_images images; /* first: an lx_work begins it */
    lx_painting painting;
    int32_t n;
} link_picture;

/* --- the query --- */

/* The bytes of a drawing: base64url without padding. */
static lx_status decode_ink(const char *text, uint8_t **out, size_t *n, lx_error *err)
{
    char plain[MAX_INK + 4];
    size_t length = strlen(text);
    if (length > MAX_INK)
        return lx_fail(err, LX_ERR_INVALID, "ink", "ink has more than %d characters", MAX_INK);
    for (size_t i = 0; i < length; i++)
        plain[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
    while (length % 4 != 0)
        plain[length++] = '=';
    return lx_base64_decode(plain, length, "ink", out, n, err);
}

/* Puts a drawing's runs (0 and how many zeros, or a value) into values[size]. */
static bool spread(const uint8_t *bytes, size_t n, uint8_t *values, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        size_t count = bytes[i] > 0 ? 1 : i + 1 < n ? bytes[i + 1] : 0;
        if (count == 0 || count > size - at)
            return false;
        memset(values + at, bytes[i], count);
        at += count;
        i += bytes[i] > 0 ? 1 : 2;
    }
    return at == size;
}

/* The kept rows of the link's drawing; *n_values is 0 where it has none. */
static lx_status read_drawing(const lx_request *rq, const lx_image_config *c, uint8_t **values,
                              int32_t *n_values, lx_error *err)
{
    int32_t rows = 0;
    uint8_t *bytes = NULL;
    size_t n = 0, size = (size_t)c->width * (size_t)c->height * (size_t)c->n_channels;
    if (lx_link_field(rq, "ink")[0] == '\0')
        return LX_OK;
    lx_status st = lx_link_index(rq, "rows", c->height, &rows, err);
    if (st == LX_OK)
        st = decode_ink(lx_link_field(rq, "ink"), &bytes, &n, err);
    *values = st == LX_OK ? malloc(size) : NULL;
    if (st == LX_OK && *values == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a drawing");
    if (st == LX_OK && (rows < 1 || !spread(bytes, n, *values, size)))
        st = lx_fail(err, LX_ERR_INVALID, "ink",
                     "the drawing does not have the size of the model's images");
    free(bytes);
    *n_values = st == LX_OK ? rows * c->width * c->n_channels : 0;
    return st;
}

/* --- the picture --- */

typedef struct grid {
    int32_t columns, rows, scale; /* screen pixels per pixel */
} grid;

/* The arrangement that shows n pictures largest. */
static grid arrange(const lx_image_config *c, int32_t n)
{
    grid best = {.columns = 1, .rows = n, .scale = 0};
    for (int32_t columns = 1; columns <= n; columns++) {
        int32_t rows = (n + columns - 1) / columns;
        int32_t across = (WIDTH - 2 * MARGIN) / (columns * (c->width + GAP));
        int32_t down = (HEIGHT - 2 * MARGIN) / (rows * (c->height + GAP));
        int32_t scale = across < down ? across : down;
        if (scale > best.scale)
            best = (grid){columns, rows, scale};
    }
    return best;
}

/* web/picture.js has the same colours: no ink is the paper's red, full ink its gold. */
static void put_colour(const uint8_t *values, int32_t n_channels, uint8_t rgb[3])
{
    static const int32_t paper[3] = {134, 14, 22}, ink[3] = {255, 223, 145};
    for (int32_t k = 0; k < 3; k++)
        rgb[k] = n_channels == 3
                     ? values[k]
                     : (uint8_t)lround(paper[k] + (ink[k] - paper[k]) * (double)values[0] / 255);
}

static void draw_one(const lx_image_config *c, const uint8_t *values, grid g, int32_t i,
                     uint8_t *canvas)
{
    int32_t step_x = (c->width + GAP) * g.scale, step_y = (c->height + GAP) * g.scale;
    int32_t left = (WIDTH - g.columns * step_x + GAP * g.scale) / 2 + i % g.columns * step_x;
    int32_t top = (HEIGHT - g.rows * step_y + GAP * g.scale) / 2 + i / g.columns * step_y;
    for (int32_t y = 0; y < c->height * g.scale; y++) {
        for (int32_t x = 0; x < c->width * g.scale; x++) {
            int32_t pixel = y / g.scale * c->width + x / g.scale;
            put_colour(values + pixel * c->n_channels, c->n_channels,
                       canvas + ((int64_t)(top + y) * WIDTH + left + x) * 3);
        }
    }
}

static lx_status draw(void *context, lx_font *font, lx_buffer *png, lx_error *err)
{
    (void)font; /* there is nothing to write */
    link_picture *p = context;
    static const uint8_t night[3] = {0x15, 0x13, 0x1b};
    const lx_image_config *c = lx_image_of(&p->images.work.pending.served->model->config);
    grid g = arrange(c, p->n);
    uint8_t *canvas = malloc((size_t)WIDTH * HEIGHT * 3);
    if (canvas == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a picture");
    for (size_t i = 0; i < (size_t)WIDTH * HEIGHT; i++)
        memcpy(canvas + 3 * i, night, sizeof night);
    for (int32_t i = 0; i < p->n && g.scale > 0; i++)
        draw_one(c, lx_images_values(&p->images, i, 0, p->images.size), g, i, canvas);
    lx_status st = lx_png_write(canvas, WIDTH, HEIGHT, 3, png, err);
    free(canvas);
    return st;
}

/* --- the route --- */

void lx_link_paint(const lx_work *w, lx_painting *painting, lx_status st, const lx_error *err,
                   lx_response *rs)
{
    painting->wake = w->rq.wake;
    painting->wake_context = w->rq.wake_context;
    if (st == LX_OK)
        lx_painter_take(w->pending.api->painter, painting, w->deadline_ns, rs);
    else
        lx_respond_status(rs, st, err);
}

static void finish(void *context, lx_response *rs)
{
    link_picture *p = context;
    lx_work *w = &p->images.work;
    lx_error err = {0};
    lx_status st = lx_work_status(w, &err);
    (void)lx_work_count(w, st);
    p->painting = (lx_painting){.draw = draw, .context = p};
    lx_link_paint(w, &p->painting, st, &err, rs);
}

static void release(void *context)
{
    link_picture *p = context;
    lx_images_fini(&p->images);
    free(p);
}

lx_status lx_link_start_picture(lx_api *api, const lx_request *rq, lx_response *rs,
                                int32_t *retry_after_s, lx_error *err)
{
    lx_form form;
    lx_served_model *served = NULL;
    uint8_t *values = NULL;
    int32_t n_values = 0, class_index = -1;
    lx_status st = lx_link_numbers(api, rq, true, &form, err);
    if (st == LX_OK)
        st = lx_api_check_ready(api, err);
    if (st == LX_OK)
        st = lx_serving_find_task(api->serving, "image", &served, err);
    if (st == LX_OK)
        st = lx_link_index(rq, "class", LX_MAX_CLASSES, &class_index, err);
    if (st == LX_OK)
        st = read_drawing(rq, lx_image_of(&served->model->config), &values, &n_values, err);
    link_picture *p = st == LX_OK ? calloc(1, sizeof *p) : NULL;
    if (st == LX_OK && p == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    if (st == LX_OK) {
        p->n = form.n;
        lx_images_request request = {.values = values,
                                     .n_values = n_values,
                                     .class_number = class_index + 1,
                                     .answer_bytes = 2 * LX_PAINTING_MAX_BYTES,
                                     .work = {.n = form.n,
                                              .sampling = {.temperature = form.temperature,
                                                           .top_p = 1,
                                                           .has_seed = true,
                                                           .seed = form.seed}}};
        st = lx_images_start(&p->images, api, served, &request, rq, retry_after_s, err);
    }
    free(values);
    if (st != LX_OK) {
        free(p);
        return st;
    }
    lx_work_await_end(&p->images.work);
    rs->deferred = (lx_deferred){.context = p,
                                 .advance = lx_work_advance,
                                 .is_done = lx_work_is_done,
                                 .finish = finish,
                                 .cancel = lx_work_cancel,
                                 .release = release,
                                 .deadline_ns = p->images.work.deadline_ns};
    return LX_OK;
}
