/* Answers about images and scores (see answers.h). */
#include <math.h>

#include "common/base64.h"
#include "server/json/answers.h"
#include "server/json/parts.h"

/* With as many digits as a float needs: a reader gets the same number. */
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

static void write_usage(lx_json_pixels u, lx_buffer *out)
{
    lx_json_put(out,
                ",'usage':{'input_tokens':%jd,'input_tokens_details':{'image_tokens':%jd,"
                "'text_tokens':0,'cached_tokens':%jd},'output_tokens':%jd,'total_tokens':%jd}",
                u.given, u.given, u.cached, u.made, u.given + u.made);
}

void lx_json_images_begin(const lx_json_images *a, lx_buffer *out)
{
    lx_json_put(out,
                "{'created':%jd,'background':'opaque','output_format':'png','size':%s,'model':%s,"
                "'system_fingerprint':%s,'seed':%jd",
                a->created, a->size, a->model, a->fingerprint, a->seed);
    write_usage(a->usage, out);
    lx_json_write_timings(a->timings, out);
    append_subject(a->class_number, a->notes, out);
    lx_json_put(out, ",'data':[");
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
    lx_json_put(out,
                "{'type':%s,'index':%d,'created_at':%jd,'size':%s,'quality':'auto',"
                "'background':'opaque','output_format':'png'",
                e->type, e->index, e->created, e->size);
    if (e->partial >= 0) {
        lx_json_put(out, ",'partial_image_index':%d", e->partial);
    } else {
        lx_json_put(out, ",'seed':%jd,'bits_per_dim':%f", e->seed, e->bits_per_dim);
        write_usage(e->usage, out);
    }
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
    lx_json_put(out, "{'type':%s,'index':%d,'start':%d,'values':[", type, index, start);
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
    lx_json_put(out,
                "{'object':'score','model':%s,'system_fingerprint':%s,%s:%f,'usage':"
                "{'prompt_tokens':%jd,'completion_tokens':%jd,'total_tokens':%jd}",
                s->model, s->fingerprint, s->mean_name, mean_surprise(s), s->n_prompt, n,
                s->n_prompt + n);
    lx_json_write_timings(s->timings, out);
    lx_json_put(out, ",'surprise':[");
    for (int32_t i = 0; i < s->n; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        append_real((double)-s->logprobs[i] / s->unit, out);
    }
    lx_buffer_puts(out, "]}");
}
