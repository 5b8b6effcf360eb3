/*
 * Images as server-sent events. Nothing is made before the reader can take it: an event is written
 * when the one before is gone, from whatever is there by then. So a slow reader gets fewer and
 * larger events of values, and costs one event's memory.
 *
 * Samples are served in turn. For each, in this order: values that are new, a partial image that is
 * due, the finished image. A partial image shows exactly the pixels that made it due, so that its
 * bytes do not depend on the reader's speed.
 */
#include "model/tasks/image.h"
#include "server/api/images_handler.h"
#include "server/http/sse.h"

enum {
    PULL_BYTES = 16 * 1024, /* a pull stops here */
    MAX_VALUES = 4096       /* of one event */
};

static const char *event_name(const lx_image_answer *a, const char *edit, const char *generation)
{
    return a->edit ? edit : generation;
}

/* --- one event --- */

static int32_t values_of_unit(const lx_image_answer *a)
{
    const lx_image_config *c = lx_image_of(&a->images.work.served->model->config);
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

/* The last picture of a sample: all that was asked for, or, when the server stops, with the state
   to go on from. One that promises its state waits until that is kept. */
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
        .bits_per_dim = lx_images_bits_per_dim(&a->images, i),
        .usage = lx_image_answer_usage(a, count - w->params->start.n_tokens),
        .class_number = a->class_number,
        .notes = &a->notes,
        .states = lx_works_states(w, 1, &kept),
    };
    write_picture(a, count, &e);
    lx_buffer_fini(&kept);
    r->done = true;
    return true;
}

static void write_error(lx_image_answer *a, lx_status status, const lx_error *err)
{
    lx_sse_begin_named(&a->event, "error");
    lx_api_write_error(status, err, &a->event);
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

/* Moves the event, or as much as fits this pull. True when all of it is gone and there is room. */
static bool hand_out(lx_image_answer *a, lx_buffer *out)
{
    size_t n = a->event.length - a->event_read;
    size_t room = out->length < PULL_BYTES ? PULL_BYTES - out->length : 0;
    bool all = room > 0 && n <= room;
    n = n < room ? n : room;
    if (n > 0)
        lx_buffer_append(out, a->event.data + a->event_read, n);
    a->event_read += n;
    if (all)
        a->event.length = a->event_read = 0;
    return all;
}

bool lx_image_answer_pull(void *context, lx_buffer *out)
{
    lx_image_answer *a = context;
    lx_work_advance(&a->images.work);
    bool done = lx_work_is_done(&a->images.work); /* before the tokens are read: no more come */
    while (hand_out(a, out) && !a->ended) {
        if (!write_next(a)) {
            if (!done)
                return false;
            end(a);
        }
        if (a->event.status != LX_OK) { /* no memory: the stream breaks off */
            out->status = a->event.status;
            return false;
        }
    }
    return a->ended && a->event.length == 0;
}
