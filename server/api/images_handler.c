/*
 * POST /v1/images/generations and /v1/images/edits: pictures from nothing, or from their first
 * rows. Whole: all of them in the order of their samples, or one contact sheet. Streamed: see
 * images_stream.c.
 */
#include "server/api/images_handler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tasks/image.h"
#include "server/api/cost.h"
#include "server/api/state_resolve.h"
#include "server/http/sse.h"
#include "server/json/states.h"

/* Of an answer: LX_MAX_JOB_TOKENS values at worst, uncompressed, in base64 (22 MiB), and for each
   of at most 100,000 images the frame of a PNG and of a JSON object. A contact sheet adds borders,
   at worst 25 bytes for an image of one pixel. */
enum { MAX_ANSWER = 96 << 20, MAX_SHEET = 64 << 20 };

lx_json_pixels lx_image_answer_usage(const lx_image_answer *a, int64_t n_tokens)
{
    int32_t channels = lx_image_of(&a->images.work.served->model->config)->n_channels;
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
        st = lx_images_sheet(&a->images, &png, err);
        lx_json_images_add(0, &png, lx_images_bits_per_dim(&a->images, -1), suspended, out);
    }
    for (int32_t i = 0; !a->contact_sheet && st == LX_OK && i < a->images.work.params->n; i++) {
        png.length = 0;
        st = lx_images_png(&a->images, i, INT32_MAX, &png, err);
        lx_json_images_add(i, &png, lx_images_bits_per_dim(&a->images, i), suspended, out);
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
        .model = w->served->model->name,
        .fingerprint = w->served->fingerprint,
        .size = a->size,
        .created = w->created,
        .seed = w->params->sampling.seed,
        .usage = lx_image_answer_usage(a, lx_work_tokens(w)),
        .timings = &timings,
        .class_number = a->class_number,
        .notes = &a->notes,
    };
    lx_json_images_begin(&head, out);
    st = add_all(a, out, err);
    lx_buffer kept;
    lx_json_images_end(lx_works_states(w, 1, &kept), out);
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

/* What the prompt asks for, unless the class was given by its number. A prompt that cannot be
   followed is answered with a picture of anything and a warning: most clients must send some
   prompt. */
static void read_prompt(lx_image_params *p, const lx_config *c)
{
    static const char unknown[] = "the prompt names none of the model's classes, or several (GET "
                                  "/v1/models lists them): the picture shows anything";
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
    lx_images_size size = {.n = p->n,
                           .n_states = p->return_state || p->suspend != NULL ? p->n : 0,
                           .contact_sheet = p->contact_sheet,
                           .stream = p->stream};
    lx_images_request request = {
        .answer_bytes = lx_cost_images(&served->model->config, &size),
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
    lx_status st = lx_api_find_model(api, p->model, LX_IMAGE, served, err);
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
    if (st == LX_OK && p->class_number > 0)
        st = lx_fail(&err, LX_ERR_INVALID, "class", "the state's picture has its class already");
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
    if (!lx_request_is_json(rq)) {
        lx_respond_unread(rs, "application/json");
        return;
    }
    lx_error err = {0};
    lx_image_params p;
    lx_image_params_init(&p);
    lx_status st = lx_api_check_ready(api, &err);
    if (st == LX_OK)
        st = lx_json_read_generation(rq->body, rq->body_bytes, api->max_images, &p, &err);
    if (st == LX_OK && p.state != NULL)
        resolve_state(api, &p, rq, rs);
    else
        answer(api, &p, false, st, &err, rq, rs);
    lx_image_params_fini(&p);
}

void lx_handle_images_edits(lx_api *api, const lx_request *rq, lx_response *rs)
{
    bool form = lx_request_is_multipart(rq);
    if (!form && !lx_request_is_json(rq)) {
        lx_respond_unread(rs, "multipart/form-data or application/json");
        return;
    }
    lx_error err = {0};
    lx_image_params p;
    lx_image_params_init(&p);
    lx_status st = lx_api_check_ready(api, &err);
    if (st == LX_OK && form)
        st = lx_form_read_edit(rq->content_type, rq->body, rq->body_bytes, api->max_images, &p,
                               &err);
    else if (st == LX_OK)
        st = lx_json_read_edit(rq->body, rq->body_bytes, api->max_images, &p, &err);
    answer(api, &p, true, st, &err, rq, rs);
    lx_image_params_fini(&p);
}
