/* One request for images (see images.h). */
#include "server/api/images.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/png.h"
#include "model/tasks/image.h"

static const lx_image_config *config_of(const lx_images *im)
{
    return lx_image_of(&im->work.served->model->config);
}

/* Takes the plan. */
static lx_status start_work(lx_images *im, lx_api *api, lx_served_model *served, lx_plan *plan,
                            const lx_images_request *r, const lx_request *rq,
                            int32_t *retry_after_s, lx_error *err)
{
    lx_work_params p = r->work;
    int64_t bytes = lx_work_bytes(api, &plan, 1, &p) + r->answer_bytes;
    lx_status st = lx_work_reserve(api, served, bytes, p.return_state ? "return_state" : "n",
                                   &p.reserve, retry_after_s, err);
    if (st == LX_OK)
        st = lx_work_start(&im->work, api, served, plan, &p, rq, retry_after_s, err);
    else
        lx_plan_free(plan);
    lx_reserve_unref(p.reserve);
    return st;
}

lx_status lx_images_start(lx_images *im, lx_api *api, lx_served_model *served,
                          const lx_images_request *r, const lx_request *rq, int32_t *retry_after_s,
                          lx_error *err)
{
    const lx_image_request own = {r->values, r->n_values, r->class_number};
    const lx_task_request task = {.own_of = &lx_image_task, .own = &own};
    const lx_saved_state *from = r->work.from;
    *im = (lx_images){.size = lx_image_size(&served->model->config)};
    lx_plan *plan = NULL;
    lx_status st = LX_OK;
    if (r->work.n > LX_MAX_JOB_TOKENS / im->size)
        st = lx_fail(err, LX_ERR_INVALID, "n", "n must be at most %d for images of this size",
                     LX_MAX_JOB_TOKENS / im->size);
    im->raster = st == LX_OK ? malloc((size_t)im->size) : NULL;
    if (st == LX_OK && im->raster == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an image");
    if (st != LX_OK)
        lx_count_outcome(served, st);
    if (st == LX_OK)
        st = from != NULL ? lx_work_plan_from(served, from, false, &plan, err)
                          : lx_work_plan(served, &task, &plan, err);
    if (st == LX_OK)
        im->given = lx_image_given(plan);
    if (st == LX_OK)
        st = start_work(im, api, served, plan, r, rq, retry_after_s, err);
    if (st != LX_OK)
        lx_images_fini(im);
    return st;
}

void lx_images_fini(lx_images *im)
{
    lx_work_fini(&im->work);
    free(im->raster);
    im->raster = NULL;
}

const uint8_t *lx_images_values(lx_images *im, int32_t i, int32_t from, int32_t to)
{
    const int32_t *tokens = NULL;
    (void)lx_job_tokens(im->work.job, i, &tokens, NULL);
    lx_image_values(lx_job_plan(im->work.job), tokens, from, to, im->raster);
    return im->raster;
}

static const uint8_t *raster_of(lx_images *im, int32_t i, int32_t n_tokens)
{
    int32_t n = lx_job_tokens(im->work.job, i, NULL, NULL);
    int32_t filled = im->given + (n < n_tokens ? n : n_tokens);
    memset(im->raster + filled, 0, (size_t)(im->size - filled));
    return lx_images_values(im, i, 0, filled);
}

lx_status lx_images_png(lx_images *im, int32_t i, int32_t n_tokens, lx_buffer *out, lx_error *err)
{
    const lx_image_config *c = config_of(im);
    return lx_png_write(raster_of(im, i, n_tokens), c->width, c->height, c->n_channels, out, err);
}

static const uint8_t *whole_image(void *context, int32_t i)
{
    return raster_of(context, i, INT32_MAX);
}

lx_status lx_images_sheet(lx_images *im, lx_buffer *out, lx_error *err)
{
    const lx_image_config *c = config_of(im);
    return lx_png_write_sheet(im->work.params->n, c->width, c->height, c->n_channels, whole_image,
                              im, out, err);
}

double lx_images_bits_per_dim(const lx_images *im, int32_t i)
{
    int32_t first = i < 0 ? 0 : i, end = i < 0 ? im->work.params->n : i + 1;
    double nats = 0;
    int64_t count = 0;
    for (int32_t k = first; k < end; k++) {
        const float *logprobs = NULL;
        int32_t n = lx_job_tokens(im->work.job, k, NULL, &logprobs);
        int32_t there = im->work.params->start.n_tokens; /* not of this request's making */
        for (int32_t t = there; t < n; t++)
            nats -= (double)logprobs[t];
        count += n - there;
    }
    return count > 0 ? nats / (double)count / M_LN2 : (double)NAN;
}
