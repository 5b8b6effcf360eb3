/*
 * linnet eval of an image model: bits per dimension of the images of an idx file.
 *
 * Every image is scored whole, nothing given, in parallel form: its values are known, so thousands
 * of rows pass in few steps and no step waits for the one before it to be sampled. One plan serves
 * all images, for the request (no given values) is the same.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "model/formats/idx.h"
#include "model/score.h"
#include "model/tasks/image.h"
#include "server/cli/eval.h"
#include "server/cli/progress.h"

/* Values scored between two moves of the progress bar; sequences a step can hold. */
enum { GROUP_VALUES = 1 << 16, N_SLOTS = 16 };

/* Images that are scored by one call. */
typedef struct group {
    int32_t capacity, n_values; /* images; values of one */
    lx_score_item *items;       /* [capacity] */
    int32_t *targets;           /* [capacity, n_values] */
    float *logprobs;            /* [capacity, n_values] */
} group;

typedef struct result {
    int64_t n_images, n_pixels, n_values;
    double bits, seconds;
} result;

static void group_fini(group *g)
{
    free(g->items);
    free(g->targets);
    free(g->logprobs);
}

static lx_status group_init(group *g, const lx_plan *plan, lx_error *err)
{
    int32_t size = plan->n_new;
    *g = (group){.capacity = size < GROUP_VALUES ? GROUP_VALUES / size : 1, .n_values = size};
    size_t n = (size_t)g->capacity, n_values = n * (size_t)size;
    g->items = calloc(n, sizeof *g->items);
    g->targets = calloc(n_values, sizeof *g->targets);
    g->logprobs = calloc(n_values, sizeof *g->logprobs);
    if (g->items == NULL || g->targets == NULL || g->logprobs == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %d images", g->capacity);
    for (size_t i = 0; i < n; i++)
        g->items[i] =
            (lx_score_item){plan, g->targets + i * (size_t)size, g->logprobs + i * (size_t)size};
    return LX_OK;
}

/* Adds the bits of n images, whose values follow each other. */
static lx_status score_group(group *g, lx_scorer *scorer, const uint8_t *values, int32_t n,
                             result *r, lx_error *err)
{
    size_t n_values = (size_t)n * (size_t)g->n_values;
    const lx_config *c = &g->items[0].plan->model->config;
    for (size_t i = 0; i < n_values; i++)
        g->targets[i] = lx_image_level(c, values[i]);
    lx_status st = lx_scorer_run(scorer, g->items, n, err);
    for (size_t i = 0; i < n_values && st == LX_OK; i++)
        r->bits -= (double)g->logprobs[i] / log(2.0);
    return st;
}

static lx_status score_all(const lx_idx *x, lx_scorer *scorer, group *g, result *r, lx_error *err)
{
    lx_progress bar;
    lx_status st = LX_OK;
    int64_t start = lx_now_ns(), n_values = g->n_values;
    lx_progress_begin(&bar, "pixels", x->n * n_values / x->channels);
    for (int32_t i = 0; i < x->n && st == LX_OK; i += g->capacity) {
        int32_t n = x->n - i < g->capacity ? x->n - i : g->capacity;
        st = score_group(g, scorer, x->values + i * n_values, n, r, err);
        lx_progress_update(&bar, (i + n) * n_values / x->channels);
    }
    lx_progress_end(&bar);
    r->n_images = x->n;
    r->n_values = x->n * n_values;
    r->n_pixels = r->n_values / x->channels;
    r->seconds = (double)(lx_now_ns() - start) / (double)LX_NS_PER_S;
    return st;
}

static lx_status check_fit(const lx_idx *x, const lx_image_config *c, const char *path,
                           lx_error *err)
{
    if (x->width == c->width && x->height == c->height && x->channels == c->n_channels)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, NULL,
                   "%s: holds %s images of %dx%d, the model's are %s ones of %dx%d", path,
                   x->channels == 1 ? "grey" : "colour", x->width, x->height,
                   c->n_channels == 1 ? "grey" : "colour", c->width, c->height);
}

static void print_result(const lx_eval_options *o, const char *model, const result *r)
{
    double bits = r->bits / (double)r->n_values, rate = (double)r->n_pixels / r->seconds;
    if (o->json) {
        (void)printf("{\"model\": ");
        lx_cli_print_json_string(model);
        (void)printf(", \"images\": %lld, \"pixels\": %lld, \"bits_per_dim\": %.6f, "
                     "\"seconds\": %.3f, \"pixels_per_second\": %.1f}\n",
                     (long long)r->n_images, (long long)r->n_pixels, bits, r->seconds, rate);
        return;
    }
    (void)printf("model           %s\nimages          %lld\npixels          %lld\n", model,
                 (long long)r->n_images, (long long)r->n_pixels);
    (void)printf("bits/dim        %.4f\nspeed           %.0f pixels/s, %.1f s\n", bits, rate,
                 r->seconds);
}

lx_status lx_eval_images(const lx_eval_options *o, const char *path, const lx_cli_model *local,
                         lx_error *err)
{
    lx_idx x = {.values = NULL};
    group g = {.items = NULL};
    result r = {.bits = 0};
    lx_plan *plan = NULL;
    lx_scorer *scorer = NULL;
    const lx_task_request whole = {.text = NULL};
    lx_status st = lx_idx_read(path, (int32_t)o->limit, &x, err);
    if (st == LX_OK)
        st = check_fit(&x, lx_image_of(&local->model->config), path, err);
    if (st == LX_OK)
        st = lx_plan_new(local->model, &whole, &plan, err);
    if (st == LX_OK)
        st = group_init(&g, plan, err);
    if (st == LX_OK)
        st = lx_scorer_new(local->transformer, LX_EVAL_ROWS, N_SLOTS, &scorer, err);
    if (st == LX_OK)
        st = score_all(&x, scorer, &g, &r, err);
    if (st == LX_OK)
        print_result(o, local->model->name, &r);
    lx_scorer_free(scorer);
    lx_plan_free(plan);
    group_fini(&g);
    lx_idx_fini(&x);
    return st;
}
