/* One request for images (see images.h). */
#include "server/api/images.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/png.h"
#include "model/tasks/image.h"
#include "server/api/state_flow.h"
#include "server/http/sse.h"

static const lx_image_config *config_of(const lx_images *im)
{
    return lx_image_of(&im->work.pending.served->model->config);
}

/* Takes the plan. */
static lx_status start_work(lx_images *im, lx_api *api, lx_served_model *served, lx_plan *plan,
                            const lx_images_request *r, const lx_request *rq,
                            int32_t *retry_after_s, lx_error *err)
{
    lx_work_params p = r->work;
    p.load.samples_field = "n";
    p.load.tokens_field = p.n > 1 ? "n" : NULL;
    lx_work_set_load(&p, &plan, 1);
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

/* A strip's next picture may have a class of its own. */
static lx_status plan_from(lx_served_model *served, const lx_saved_state *from,
                           int32_t class_number, lx_plan **out, lx_error *err)
{
    lx_status st = lx_work_plan_from(served, from, false, out, err);
    if (st != LX_OK || class_number == 0)
        return st;
    st = lx_image_set_class(*out, lx_image_given(*out) + from->start.n_tokens, class_number, err);
    if (st != LX_OK) {
        lx_plan_free(*out);
        *out = NULL;
        lx_served_count(served, st);
    }
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
        lx_served_count(served, st);
    if (st == LX_OK)
        st = from != NULL ? plan_from(served, from, r->class_number, &plan, err)
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

/* Appends one PNG of all images. */
static lx_status write_sheet(lx_images *im, lx_buffer *out, lx_error *err)
{
    const lx_image_config *c = config_of(im);
    return lx_png_write_sheet(im->work.params->n, c->width, c->height, c->n_channels, whole_image,
                              im, out, err);
}

/* Bits per generated value of image i, or of all with i < 0; NAN without values. */
static double bits_per_dim(const lx_images *im, int32_t i)
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

/* Of an answer: LX_MAX_JOB_TOKENS values at worst, uncompressed, in base64 (22 MiB), and for each
   of at most 100,000 images the frame of a PNG and of a JSON object. A contact sheet adds borders,
   at worst 25 bytes for an image of one pixel. */
enum { MAX_ANSWER = 96 << 20, MAX_SHEET = 64 << 20 };

static lx_json_pixels usage_of(const lx_image_answer *a, int64_t n_tokens)
{
    int32_t channels = config_of(&a->images)->n_channels;
    const lx_work *w = &a->images.work;
    int32_t there = a->images.given + w->params->start.n_tokens;
    /* The first row a state has seen is no pixel's. */
    int32_t rows = w->params->start.rows + lx_job_cached_rows(w->job);
    return (lx_json_pixels){.given = there / channels,
                            .made = n_tokens / channels,
                            .cached = rows > 0 ? (rows - 1) / channels : 0};
}

/* --- whole --- */

static lx_status add_all(lx_image_answer *a, lx_buffer *out, lx_error *err)
{
    lx_status st = LX_OK;
    lx_buffer png;
    lx_buffer_init(&png, a->contact_sheet ? MAX_SHEET : LX_MAX_PNG);
    bool suspended = lx_work_suspended(&a->images.work);
    if (a->contact_sheet) {
        st = write_sheet(&a->images, &png, err);
        lx_json_images_add(0, &png, bits_per_dim(&a->images, -1), suspended, out);
    }
    for (int32_t i = 0; !a->contact_sheet && st == LX_OK && i < a->images.work.params->n; i++) {
        png.length = 0;
        st = lx_images_png(&a->images, i, INT32_MAX, &png, err);
        lx_json_images_add(i, &png, bits_per_dim(&a->images, i), suspended, out);
    }
    lx_buffer_fini(&png);
    return st;
}

static lx_status write_whole(lx_image_answer *a, lx_buffer *out, lx_error *err)
{
    const lx_work *w = &a->images.work;
    lx_status st = lx_work_status(w, err);
    (void)lx_work_count(&a->images.work, st);
    if (st != LX_OK)
        return st;
    lx_json_timings timings = lx_work_timings(w);
    a->notes.unkept = lx_works_unkept(w, 1);
    lx_json_images head = {
        .model = w->pending.served->model->name,
        .fingerprint = w->pending.served->fingerprint,
        .size = a->size,
        .created = w->created,
        .seed = w->params->sampling.seed,
        .usage = usage_of(a, lx_work_tokens(w)),
        .timings = &timings,
        .class_number = a->class_number,
        .notes = &a->notes,
    };
    lx_json_images_begin(&head, out);
    st = add_all(a, out, err);
    lx_buffer kept;
    lx_json_images_end(lx_works_states(w, 1, NULL, 0, &kept), out);
    lx_buffer_fini(&kept);
    if (st == LX_OK && out->status != LX_OK)
        st = lx_fail(err, out->status, NULL, "the answer does not fit");
    return st;
}

static void finish(void *context, lx_response *rs)
{
    lx_error err = {0};
    lx_buffer body;
    lx_buffer_init(&body, MAX_ANSWER);
    lx_status st = write_whole(context, &body, &err);
    lx_respond_whole(rs, st, &err, &body);
}

/* --- streamed --- */

/*
 * Streamed. Nothing is made before the reader can take it: an event is written
 * when the one before is gone, from whatever is there by then. So a slow reader gets fewer and
 * larger events of values, and costs one event's memory.
 *
 * Samples are served in turn. For each, in this order: values that are new, a partial image that is
 * due, the finished image. A partial image shows exactly the pixels that made it due, so that its
 * bytes do not depend on the reader's speed.
 */
enum { MAX_VALUES = 4096 }; /* of one event */

static const char *event_name(const lx_image_answer *a, const char *edit, const char *generation)
{
    return a->edit ? edit : generation;
}

/* --- one event --- */

static int32_t values_of_unit(const lx_image_answer *a)
{
    const lx_image_config *c = config_of(&a->images);
    return a->unit == LX_STREAM_ROWS ? c->width * c->n_channels : c->n_channels;
}

/* How many values of a raster may be sent when `made` of them are there and more will come. */
static int32_t whole_units(const lx_image_answer *a, int32_t made)
{
    return made / values_of_unit(a) * values_of_unit(a);
}

/* Of sample i: with how many tokens its next partial image, or its finished one, is there. */
static int32_t next_picture(const lx_image_answer *a, int32_t i)
{
    int64_t parts = a->partial_images + 1, part = a->readers[i].partials + 1;
    return (int32_t)((part * a->images.work.params->max_new + parts - 1) / parts);
}

/* The number of tokens at which sample i has its next event. The reader sleeps until then. */
static int32_t next_event(const lx_image_answer *a, int32_t i)
{
    int32_t picture = next_picture(a, i);
    if (a->unit == LX_STREAM_NO_VALUES)
        return picture;
    int32_t unit = values_of_unit(a), sent = a->readers[i].sent;
    int32_t values = (sent / unit + 1) * unit - a->images.given;
    return values < picture ? values : picture;
}

static bool write_values(lx_image_answer *a, int32_t i, int32_t count)
{
    lx_image_reader *r = &a->readers[i];
    if (a->unit == LX_STREAM_NO_VALUES)
        return false;
    int32_t made = a->images.given + count;
    bool last = count == a->images.work.params->max_new || lx_work_suspended(&a->images.work);
    int32_t n = (last ? made : whole_units(a, made)) - r->sent;
    if (n <= 0)
        return false;
    if (n > MAX_VALUES)
        n = MAX_VALUES;
    const char *name = event_name(a, "image_edit.values", "image_generation.values");
    const uint8_t *values = lx_images_values(&a->images, i, r->sent, r->sent + n);
    lx_sse_begin_named(&a->event, name);
    lx_json_write_values_event(name, i, r->sent, values, n, &a->event);
    lx_sse_end(&a->event);
    r->sent += n;
    return true;
}

static void write_picture(lx_image_answer *a, int32_t n_tokens, const lx_json_image_event *e)
{
    lx_buffer png;
    lx_buffer_init(&png, LX_MAX_PNG);
    lx_status st = lx_images_png(&a->images, e->index, n_tokens, &png, NULL);
    lx_sse_begin_named(&a->event, e->type);
    lx_json_write_image_event(e, &png, &a->event);
    lx_sse_end(&a->event);
    if (st != LX_OK)
        a->event.status = st;
    lx_buffer_fini(&png);
}

static bool write_partial(lx_image_answer *a, int32_t i, int32_t count)
{
    lx_image_reader *r = &a->readers[i];
    const lx_work *w = &a->images.work;
    if (r->partials == a->partial_images)
        return false;
    int32_t due = next_picture(a, i);
    if (count < due)
        return false;
    lx_json_image_event e = {
        .type = event_name(a, "image_edit.partial_image", "image_generation.partial_image"),
        .size = a->size,
        .created = w->created,
        .index = i,
        .partial = r->partials++,
    };
    write_picture(a, due, &e);
    return true;
}

/* The last picture of a sample: the whole one, or, when the server stops, one with the state to
   continue from. One that promises its state waits until that is kept. */
static bool write_last(lx_image_answer *a, int32_t i, int32_t count)
{
    lx_image_reader *r = &a->readers[i];
    const lx_work *w = &a->images.work;
    bool whole = count == w->params->max_new;
    if (r->done || (!whole && !lx_work_suspended(w)) || (w->return_state && !lx_work_is_done(w)))
        return false;
    lx_buffer kept;
    a->notes.unkept = lx_works_unkept(w, 1);
    lx_json_image_event e = {
        .type = whole ? event_name(a, "image_edit.completed", "image_generation.completed")
                      : event_name(a, "image_edit.parked", "image_generation.parked"),
        .size = a->size,
        .created = w->created,
        .index = i,
        .partial = -1,
        .seed = w->params->sampling.seed,
        .bits_per_dim = bits_per_dim(&a->images, i),
        .usage = usage_of(a, count - w->params->start.n_tokens),
        .class_number = a->class_number,
        .notes = &a->notes,
        .states = lx_works_states(w, 1, NULL, 0, &kept),
    };
    write_picture(a, count, &e);
    lx_buffer_fini(&kept);
    r->done = true;
    return true;
}

static void write_error(lx_image_answer *a, lx_status status, const lx_error *err)
{
    lx_sse_begin_named(&a->event, "error");
    lx_api_write_error(LX_ENVELOPE_OPENAI, status, err, &a->event);
    lx_sse_end(&a->event);
}

/* --- the stream --- */

/* Writes the next event of any sample; false when nothing is new. */
static bool write_next(lx_image_answer *a)
{
    int32_t n = a->images.work.params->n;
    for (int32_t k = 0; k < n; k++) {
        int32_t i = a->next;
        lx_job_want(a->images.work.job, i, next_event(a, i));
        int32_t count = lx_job_tokens(a->images.work.job, i, NULL, NULL);
        a->next = i + 1 < n ? i + 1 : 0;
        if (write_values(a, i, count) || write_partial(a, i, count) || write_last(a, i, count))
            return true;
    }
    return false;
}

/* The job has finished and all its tokens were sent. */
static void end(lx_image_answer *a)
{
    lx_error err = {0};
    lx_status st = lx_work_status(&a->images.work, &err);
    (void)lx_work_count(&a->images.work, st);
    if (st != LX_OK)
        write_error(a, st, &err);
    a->ended = true;
}

bool lx_image_answer_pull(void *context, lx_buffer *out)
{
    lx_image_answer *a = context;
    lx_work_advance(&a->images.work);
    bool done = lx_work_is_done(&a->images.work); /* before the tokens are read: no more come */
    while (lx_pending_hand_out(&a->event, &a->event_read, out) && !a->ended) {
        if (write_next(a))
            continue;
        if (!done)
            return false;
        end(a);
    }
    return a->ended && a->event.length == 0;
}

/* --- memory of an answer --- */

/* libpng's and zlib's own memory; an image's JSON but for the picture; an event but for it. */
enum { DEFLATE = 512 * 1024, IMAGE_TEXT = 128, EVENT_TEXT = 16 * 1024 };

/* A PNG whose rows do not get smaller: zlib then stores them, libpng frames 8 KiB at a time. */
static int64_t png_bytes(int64_t width, int64_t height, int64_t n_channels)
{
    int64_t raw = (width * n_channels + 1) * height;
    return raw + raw / 8 + 1024;
}

static int64_t base64_bytes(int64_t n)
{
    return n / 3 * 4 + 8;
}

/* A sheet (lx_png_write_sheet) is a near-square grid with a border of 2 pixels, made a row of
   images at a time. At most 2 n + 2 images have room in it. */
int64_t lx_images_bytes(const lx_config *config, const lx_image_params *p)
{
    const lx_image_config *c = lx_image_of(config);
    int64_t raster = (int64_t)c->width * c->height * c->n_channels;
    int64_t png = png_bytes(c->width, c->height, c->n_channels), n = p->n;
    int64_t states = lx_cost_states(p->return_state || p->suspend != NULL ? p->n : 0);
    if (p->contact_sheet && !p->stream) {
        png = png_bytes(c->width + 4, c->height + 4, c->n_channels) * (2 * n + 2);
        n = 1;
    }
    int64_t text = p->stream ? base64_bytes(png) + EVENT_TEXT + states
                             : n * (base64_bytes(png) + IMAGE_TEXT) + states + LX_COST_HEAD;
    int64_t band = p->contact_sheet ? png : 0;
    return LX_COST_GROWN * (text + png) + band + raster + p->n * (int64_t)sizeof(lx_image_reader) +
           LX_COST_GROWN * states + DEFLATE + (p->stream ? LX_COST_STREAM : 0);
}

/* --- the routes --- */

static void release(void *context)
{
    lx_image_answer *a = context;
    lx_images_fini(&a->images);
    lx_buffer_fini(&a->event);
    free(a);
}

static void defer(lx_image_answer *a, bool stream, lx_response *rs)
{
    rs->deferred = (lx_deferred){
        .context = a,
        .advance = lx_work_advance,
        .is_done = lx_work_is_done,
        .finish = finish,
        .pull = stream ? lx_image_answer_pull : NULL,
        .costly = a->images.work.return_state || a->images.work.suspend != NULL,
        .cancel = lx_work_cancel,
        .release = release,
        .ping = LX_SSE_PING,
        .failure = LX_SSE_NAMED_FAILURE,
        .deadline_ns = a->images.work.deadline_ns,
    };
    if (stream)
        lx_sse_start(rs);
    else
        lx_work_await_end(&a->images.work);
}

static lx_status new_answer(const lx_image_params *p, bool edit, const lx_image_config *config,
                            lx_image_answer **out, lx_error *err)
{
    lx_image_answer *a = calloc(1, sizeof *a + (size_t)p->n * sizeof *a->readers);
    if (a == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    a->edit = edit;
    a->contact_sheet = p->contact_sheet;
    a->partial_images = p->partial_images;
    a->unit = p->stream_unit;
    (void)snprintf(a->size, sizeof a->size, "%dx%d", config->width, config->height);
    lx_buffer_init(&a->event, LX_MAX_IMAGE_EVENT);
    *out = a;
    return LX_OK;
}

/* The class that the prompt asks for, unless it was given by its number. A prompt that cannot be
   followed is answered with a picture of anything and a warning: most clients must send some
   prompt. */
static void read_prompt(lx_image_params *p, const lx_config *c)
{
    static const char unknown[] = "the prompt names none of the model's classes, or several (GET "
                                  "/v1/models lists them): the picture shows any class";
    static const char no_classes[] =
        "this model cannot be asked for anything: the prompt was ignored";
    if (p->class_number > 0 || p->prompt_bytes == 0)
        return;
    p->class_number = lx_image_find_class(c, p->prompt, p->prompt_bytes);
    if (p->class_number == 0)
        p->notes.prompt = lx_image_of(c)->n_classes > 0 ? unknown : no_classes;
}

static void start(lx_api *api, lx_served_model *served, lx_image_params *p, bool edit,
                  const uint8_t *values, int32_t n_values, const lx_saved_state *from,
                  const lx_request *rq, lx_response *rs)
{
    if (from == NULL)
        read_prompt(p, &served->model->config);
    lx_images_request request = {
        .answer_bytes = lx_images_bytes(&served->model->config, p),
        .values = values,
        .n_values = n_values,
        .class_number = p->class_number,
        .work = {.n = p->n,
                 .sampling = p->sampling,
                 .timeout_ms = p->timeout_ms,
                 .max_new = p->max_tokens,
                 .from = from,
                 .return_state = p->return_state,
                 .suspend = p->suspend},
    };
    lx_error err = {0};
    int32_t retry_after_s = 0;
    lx_image_answer *a = NULL;
    lx_status st = new_answer(p, edit, lx_image_of(&served->model->config), &a, &err);
    if (st == LX_OK)
        st = lx_images_start(&a->images, api, served, &request, rq, &retry_after_s, &err);
    if (st == LX_OK) {
        for (int32_t i = 0; i < p->n; i++)
            a->readers[i].sent = a->images.given + a->images.work.params->start.n_tokens;
        a->class_number = lx_image_class(lx_job_plan(a->images.work.job));
        a->notes = p->notes;
        defer(a, p->stream, rs);
        return;
    }
    free(a);
    lx_respond_unstarted(rs, st, &err, retry_after_s);
}

static lx_status check_size(const lx_image_params *p, const lx_image_config *c, lx_error *err)
{
    char own[24];
    (void)snprintf(own, sizeof own, "%dx%d", c->width, c->height);
    if (p->size[0] == '\0' || strcmp(p->size, own) == 0)
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, "size", "size must be \"%s\" or \"auto\"", own);
}

/* Everything between the fields and the job: the model, the size, the pixels that are kept. */
static lx_status prepare(lx_api *api, const lx_image_params *p, lx_served_model **served,
                         uint8_t **values, int32_t *n_values, lx_error *err)
{
    lx_status st = lx_serving_find_model(api->serving, p->model, LX_IMAGE, served, err);
    if (st == LX_OK)
        st = check_size(p, lx_image_of(&(*served)->model->config), err);
    if (st == LX_OK && p->image.data != NULL)
        st = lx_picture_read_prefix(
            &(*served)->model->config, (lx_png_file){p->image.data, p->image.bytes},
            (lx_png_file){p->mask.data, p->mask.bytes}, values, n_values, err);
    return st;
}

static void answer(lx_api *api, lx_image_params *p, bool edit, lx_status st, lx_error *err,
                   const lx_request *rq, lx_response *rs)
{
    lx_served_model *served = NULL;
    uint8_t *values = NULL;
    int32_t n_values = 0;
    if (st == LX_OK)
        st = prepare(api, p, &served, &values, &n_values, err);
    if (st == LX_OK)
        start(api, served, p, edit, values, n_values, NULL, rq, rs);
    else
        lx_api_refuse(api, p->model, st, err, rs);
    free(values);
}

/* Continues the image that the state belongs to. */
static void start_from(lx_api *api, lx_served_model *served, void *params,
                       const lx_saved_state *state, const lx_request *rq, lx_response *rs)
{
    lx_image_params *p = params;
    lx_error err = {0};
    lx_status st = check_size(p, lx_image_of(&served->model->config), &err);
    if (st == LX_OK && p->prompt_bytes > 0)
        st = lx_fail(&err, LX_ERR_INVALID, "prompt",
                     "a state continues its own picture: leave prompt out or empty");
    if (st == LX_OK)
        start(api, served, p, false, NULL, 0, state, rq, rs);
    else
        lx_api_refuse(api, p->model, st, &err, rs);
}

static void fini_params(void *params)
{
    lx_image_params_fini(params);
}

/* Takes what p holds. */
static void resolve_state(lx_api *api, lx_image_params *p, const lx_request *rq, lx_response *rs)
{
    lx_state_source source = {.text = p->state,
                              .bytes = strlen(p->state),
                              .start = start_from,
                              .modality = LX_IMAGE,
                              .params = p,
                              .params_bytes = sizeof *p,
                              .fini_params = fini_params};
    memcpy(source.model, p->model, sizeof source.model);
    lx_state_resolve(api, &source, rq, rs);
    lx_image_params_init(p);
}

void lx_handle_images_generations(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_request_begins(api, rq, "application/json", rs))
        return;
    lx_error err = {0};
    lx_image_params p;
    lx_status st = lx_json_read_generation(rq->body, rq->body_bytes, api->max_images, &p, &err);
    if (st == LX_OK && p.state != NULL)
        resolve_state(api, &p, rq, rs);
    else
        answer(api, &p, false, st, &err, rq, rs);
    lx_image_params_fini(&p);
}

void lx_handle_images_edits(lx_api *api, const lx_request *rq, lx_response *rs)
{
    if (!lx_request_begins(api, rq, "multipart/form-data or application/json", rs))
        return;
    bool form = lx_request_is_multipart(rq);
    lx_error err = {0};
    lx_image_params p;
    lx_status st = form ? lx_form_read_edit(rq->content_type, rq->body, rq->body_bytes,
                                            api->max_images, &p, &err)
                        : lx_json_read_edit(rq->body, rq->body_bytes, api->max_images, &p, &err);
    answer(api, &p, true, st, &err, rq, rs);
    lx_image_params_fini(&p);
}
