/*
 * Answers about images and scores (see answers.h). The small part of an object is built by
 * the JSON library; pictures and long lists, which need no escaping, are appended after it as
 * text.
 */
#include <math.h>

#include "common/base64.h"
#include "server/json/answers.h"
#include "server/json/fields.h"
#include "server/json/parts.h"

/* With as many digits as a float has: what is read back is the same number. */
static void append_real(double x, lx_buffer *out)
{
    if (isfinite(x))
        lx_buffer_printf(out, "%.9g", x);
    else
        lx_buffer_puts(out, "null");
}

static void append_states(const char *states, lx_buffer *out)
{
    if (states != NULL)
        lx_buffer_printf(out, ",\"states\":%s", states);
}

static void append_subject(int32_t class_number, const lx_json_notes *notes, lx_buffer *out)
{
    if (class_number > 0)
        lx_buffer_printf(out, ",\"class\":%d", class_number - 1);
    lx_json_write_notes(notes, out);
}

static void append_picture(const lx_buffer *png, lx_buffer *out)
{
    if (png->status != LX_OK)
        out->status = png->status;
    lx_buffer_puts(out, "\"b64_json\":\"");
    lx_base64_append(png->data, png->length, out);
    lx_buffer_puts(out, "\"");
}

static json_t *make_usage(lx_json_pixels u)
{
    json_t *details = json_pack("{s:I, s:i, s:I}", "image_tokens", (json_int_t)u.given,
                                "text_tokens", 0, "cached_tokens", (json_int_t)u.cached);
    return json_pack("{s:I, s:o, s:I, s:I}", "input_tokens", (json_int_t)u.given,
                     "input_tokens_details", details, "output_tokens", (json_int_t)u.made,
                     "total_tokens", (json_int_t)(u.given + u.made));
}

void lx_json_images_begin(const lx_json_images *a, lx_buffer *out)
{
    lx_json_open(json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:o}", "created",
                           (json_int_t)a->created, "background", "opaque", "output_format", "png",
                           "size", a->size, "model", a->model, "system_fingerprint", a->fingerprint,
                           "seed", (json_int_t)a->seed, "usage", make_usage(a->usage)),
                 out);
    lx_json_write_timings(a->timings, out);
    append_subject(a->class_number, a->notes, out);
    lx_buffer_puts(out, ",\"data\":[");
}

void lx_json_images_add(int32_t index, const lx_buffer *png, double bits_per_dim, bool suspended,
                        lx_buffer *out)
{
    lx_buffer_puts(out, index > 0 ? ",{" : "{");
    append_picture(png, out);
    lx_buffer_puts(out, ",\"bits_per_dim\":");
    append_real(bits_per_dim, out);
    lx_buffer_puts(out, suspended ? ",\"finish_reason\":\"parked\"}" : "}");
}

void lx_json_images_end(const char *states, lx_buffer *out)
{
    lx_buffer_puts(out, "]");
    append_states(states, out);
    lx_buffer_puts(out, "}");
}

void lx_json_write_image_event(const lx_json_image_event *e, const lx_buffer *png, lx_buffer *out)
{
    json_t *root = json_pack("{s:s, s:i, s:I, s:s, s:s, s:s, s:s}", "type", e->type, "index",
                             (int)e->index, "created_at", (json_int_t)e->created, "size", e->size,
                             "quality", "auto", "background", "opaque", "output_format", "png");
    json_t *more =
        e->partial >= 0
            ? json_pack("{s:i}", "partial_image_index", (int)e->partial)
            : json_pack("{s:I, s:o, s:o}", "seed", (json_int_t)e->seed, "bits_per_dim",
                        lx_json_real_or_null(e->bits_per_dim), "usage", make_usage(e->usage));
    lx_json_open(root, out);
    lx_json_members(more, out);
    lx_buffer_puts(out, ",");
    append_picture(png, out);
    append_subject(e->class_number, e->notes, out);
    append_states(e->states, out);
    lx_buffer_puts(out, "}");
}

/* "," or nothing, then 0 .. 255 in decimal: up to a million of them in an image. */
static void append_value(bool first, uint8_t value, lx_buffer *out)
{
    char text[4];
    size_t n = 0;
    if (!first)
        text[n++] = ',';
    if (value >= 100)
        text[n++] = (char)('0' + value / 100);
    if (value >= 10)
        text[n++] = (char)('0' + value / 10 % 10);
    text[n++] = (char)('0' + value % 10);
    lx_buffer_append(out, text, n);
}

void lx_json_write_values_event(const char *type, int32_t index, int32_t start,
                                const uint8_t *values, int32_t n, lx_buffer *out)
{
    lx_buffer_printf(out, "{\"type\":\"%s\",\"index\":%d,\"start\":%d,\"values\":[", type, index,
                     start);
    for (int32_t i = 0; i < n; i++)
        append_value(i == 0, values[i], out);
    lx_buffer_puts(out, "]}");
}

static double mean_surprise(const lx_json_score *s)
{
    double sum = 0;
    for (int32_t i = 0; i < s->n; i++)
        sum -= (double)s->logprobs[i];
    return sum / s->n / s->unit;
}

void lx_json_write_score(const lx_json_score *s, lx_buffer *out)
{
    int64_t n = s->n;
    json_t *usage =
        json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)s->n_prompt, "completion_tokens",
                  (json_int_t)n, "total_tokens", (json_int_t)(s->n_prompt + n));
    lx_json_open(json_pack("{s:s, s:s, s:s, s:o, s:o}", "object", "score", "model", s->model,
                           "system_fingerprint", s->fingerprint, s->mean_name,
                           lx_json_real_or_null(mean_surprise(s)), "usage", usage),
                 out);
    lx_json_write_timings(s->timings, out);
    lx_buffer_puts(out, ",\"surprise\":[");
    for (int32_t i = 0; i < s->n; i++) {
        if (i > 0)
            lx_buffer_puts(out, ",");
        append_real((double)-s->logprobs[i] / s->unit, out);
    }
    lx_buffer_puts(out, "]}");
}
