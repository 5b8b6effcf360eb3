/*
 * GET /link.png: the pictures of a link of the images' tab, painted anew and drawn as the page
 * shows them, in the size that other sites show with a link. The query is the link's own, so the
 * bytes follow from it and nothing is kept.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "model/formats/png.h"
#include "server/api/cost.h"
#include "server/api/images.h"
#include "server/routes/page.h"

enum { WIDTH = 1200, HEIGHT = 630, MARGIN = 30, GAP = 2, MAX_PICTURE = 4 << 20 };
enum { MAX_INK = 8192 };

typedef struct link_picture {
    lx_images images; /* first: an lx_work begins it */
    int32_t n;
} link_picture;

/* --- the query --- */

static const char *field(const lx_request *rq, const char *name)
{
    const char *text = rq->argument(rq->query, name);
    return text != NULL ? text : "";
}

/* The numbers by the form's own reader, with the form's limits and defaults. */
static lx_status read_numbers(const lx_api *api, const lx_request *rq, lx_form *form, lx_error *err)
{
    static const char *const names[] = {"n", "temperature", "seed"};
    char body[4 * LX_FORM_NUMBER_BYTES] = "task=image";
    size_t used = strlen(body);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = field(rq, names[i]);
        if (strlen(text) >= 32 || strspn(text, "0123456789.") != strlen(text))
            return lx_fail(err, LX_ERR_INVALID, names[i], "%s must be a number", names[i]);
        used += (size_t)snprintf(body + used, sizeof body - used, "&%s=%s", names[i], text);
    }
    lx_form_limits limits = {.n = api->max_n, .images = api->max_images};
    lx_status st = lx_form_read(body, used, &limits, form, err);
    if (st == LX_OK && !form->has_seed)
        st = lx_fail(err, LX_ERR_INVALID, "seed", "a link's picture needs its seed");
    return st;
}

/* A whole number below `most`, -1 where the field is absent. */
static lx_status read_index(const lx_request *rq, const char *name, int32_t most, int32_t *out,
                            lx_error *err)
{
    const char *text = field(rq, name);
    size_t n = strlen(text);
    *out = n > 0 ? (int32_t)strtol(n < 6 ? text : "", NULL, 10) : -1;
    if (n == 0 || (n < 6 && strspn(text, "0123456789") == n && *out < most))
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, name, "%s must be a whole number below %d", name, most);
}

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
static lx_status read_drawing(const lx_request *rq, const lx_config *c, uint8_t **values,
                              int32_t *n_values, lx_error *err)
{
    int32_t rows = 0;
    uint8_t *bytes = NULL;
    size_t n = 0, size = (size_t)c->width * (size_t)c->height * (size_t)c->n_channels;
    if (field(rq, "ink")[0] == '\0')
        return LX_OK;
    lx_status st = read_index(rq, "rows", c->height, &rows, err);
    if (st == LX_OK)
        st = decode_ink(field(rq, "ink"), &bytes, &n, err);
    *values = st == LX_OK ? malloc(size) : NULL;
    if (st == LX_OK && *values == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a drawing");
    if (st == LX_OK && (rows < 1 || !spread(bytes, n, *values, size)))
        st = lx_fail(err, LX_ERR_INVALID, "ink", "the drawing is none of this model's size");
    free(bytes);
    *n_values = st == LX_OK ? rows * c->width * c->n_channels : 0;
    return st;
}

/* --- the picture --- */

typedef struct grid {
    int32_t columns, rows, scale; /* screen pixels a pixel */
} grid;

/* The arrangement that shows n pictures largest. */
static grid arrange(const lx_config *c, int32_t n)
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

static void draw_one(const lx_config *c, const uint8_t *values, grid g, int32_t i, uint8_t *canvas)
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

static lx_status draw(link_picture *p, lx_buffer *png, lx_error *err)
{
    static const uint8_t night[3] = {0x15, 0x13, 0x1b};
    const lx_config *c = &p->images.work.served->model->config;
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

static void finish(void *context, lx_response *rs)
{
    link_picture *p = context;
    lx_error err = {0};
    lx_buffer png;
    lx_buffer_init(&png, MAX_PICTURE);
    lx_status st = lx_work_status(&p->images.work, &err);
    (void)lx_work_count(&p->images.work, st);
    if (st == LX_OK)
        st = draw(p, &png, &err);
    if (st == LX_OK) {
        lx_response_take(rs, 200, "image/png", &png);
        lx_response_add(rs, "Cache-Control", "public, max-age=86400");
    } else {
        lx_buffer_fini(&png);
        lx_respond_status(rs, st, &err);
    }
}

static void release(void *context)
{
    link_picture *p = context;
    lx_images_fini(&p->images);
    free(p);
}

static lx_status start(lx_api *api, const lx_request *rq, lx_response *rs, int32_t *retry_after_s,
                       lx_error *err)
{
    lx_form form;
    lx_served_model *served = NULL;
    uint8_t *values = NULL;
    int32_t n_values = 0, class_index = -1;
    lx_status st = read_numbers(api, rq, &form, err);
    if (st == LX_OK)
        st = lx_api_check_ready(api, err);
    if (st == LX_OK)
        st = lx_api_find_task(api, "image", &served, err);
    if (st == LX_OK)
        st = read_index(rq, "class", LX_MAX_CLASSES, &class_index, err);
    if (st == LX_OK)
        st = read_drawing(rq, &served->model->config, &values, &n_values, err);
    link_picture *p = st == LX_OK ? calloc(1, sizeof *p) : NULL;
    if (st == LX_OK && p == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    if (st == LX_OK) {
        p->n = form.n;
        lx_images_request request = {.values = values,
                                     .n_values = n_values,
                                     .class_number = class_index + 1,
                                     .answer_bytes = 2 * MAX_PICTURE,
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

void lx_handle_link_picture(lx_api *api, const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    int32_t retry_after_s = 0;
    lx_status st = start(api, rq, rs, &retry_after_s, &err);
    if (st != LX_OK)
        lx_respond_unstarted(rs, st, &err, retry_after_s);
}
