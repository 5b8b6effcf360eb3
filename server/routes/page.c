/* The page without JavaScript (see page.h). The markup follows web/index.html and style.css. */
#include "server/routes/page.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/hex.h"
#include "model/utf8.h"
#include "server/json/answers.h"
#include "server/json/requests.h"

/* --- the form --- */

/* Decodes [s, s + n) into out[max], NUL-terminated. The length, or -1 when it does not fit. */
static int64_t decode(const char *s, size_t n, char *out, size_t max)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        char c = s[i] == '+' ? ' ' : s[i];
        if (c == '%' && i + 2 < n && lx_hex_digit(s[i + 1]) >= 0 && lx_hex_digit(s[i + 2]) >= 0) {
            c = (char)(lx_hex_digit(s[i + 1]) * 16 + lx_hex_digit(s[i + 2]));
            i += 2;
        }
        if (k + 1 >= max)
            return -1;
        out[k++] = c;
    }
    out[k] = '\0';
    return (int64_t)k;
}

static lx_status read_number(const char *name, const char *text, double min, double max,
                             double *out, lx_error *err)
{
    char *end = NULL;
    errno = 0;
    double x = strtod(text, &end);
    bool decimal = text[strspn(text, "0123456789.-e")] == '\0'; /* strtod takes 0x10 as well */
    if (end == text || *end != '\0' || errno == ERANGE || !decimal || !(x >= min && x <= max))
        return lx_fail(err, LX_ERR_INVALID, name, "%s must be a number from %.15g to %.15g", name,
                       min, max);
    *out = x;
    return LX_OK;
}

static lx_status read_whole(const char *name, const char *text, double min, double max,
                            int64_t *out, lx_error *err)
{
    double x = 0;
    lx_status st = read_number(name, text, min, max, &x, err);
    if (st == LX_OK && x != trunc(x))
        st = lx_fail(err, LX_ERR_INVALID, name, "%s must be a whole number", name);
    if (st == LX_OK)
        *out = (int64_t)x;
    return st;
}

/* The values of an empty form, of the couplets and of the images. */
static const char *const default_n[] = {"5", "16"};
static const char *const default_temperature[] = {"0.8", "1"};

static void fill_default(char *text, size_t size, const char *value)
{
    if (text[0] == '\0')
        (void)snprintf(text, size, "%s", value);
}

static void fill_defaults(lx_form *f)
{
    fill_default(f->n_text, sizeof f->n_text, default_n[f->image]);
    fill_default(f->temperature_text, sizeof f->temperature_text, default_temperature[f->image]);
}

/* The place for a field's text, or NULL for a name that is none of ours. */
static char *text_of(lx_form *f, const char *name, size_t *max)
{
    *max = LX_FORM_NUMBER_BYTES;
    if (strcmp(name, "n") == 0)
        return f->n_text;
    if (strcmp(name, "temperature") == 0)
        return f->temperature_text;
    if (strcmp(name, "seed") == 0)
        return f->seed_text;
    *max = LX_FORM_TEXT_BYTES;
    return strcmp(name, "upper") == 0 ? f->upper : NULL;
}

static lx_status read_pair(lx_form *f, const char *pair, size_t n, lx_error *err)
{
    char name[32], task[8];
    const char *equals = memchr(pair, '=', n);
    size_t name_bytes = equals != NULL ? (size_t)(equals - pair) : n;
    const char *value = equals != NULL ? equals + 1 : pair + n;
    size_t value_bytes = (size_t)(pair + n - value);
    if (decode(pair, name_bytes, name, sizeof name) < 0)
        return LX_OK; /* no field of ours has so long a name */
    if (strcmp(name, "task") == 0)
        f->image = decode(value, value_bytes, task, sizeof task) > 0 && strcmp(task, "image") == 0;
    size_t max = 0;
    char *text = text_of(f, name, &max);
    if (text == NULL)
        return LX_OK;
    int64_t bytes = decode(value, value_bytes, text, max);
    if (text == f->upper)
        f->upper_bytes = bytes < 0 ? 0 : (size_t)bytes;
    if (bytes >= 0)
        return LX_OK;
    text[0] = '\0'; /* cut, it would be another one */
    return lx_fail(err, LX_ERR_INVALID, text == f->upper ? "prompt" : name, "%s is too long", name);
}

static lx_status read_pairs(lx_form *f, const char *body, size_t bytes, lx_error *err)
{
    lx_status first = LX_OK;
    for (size_t i = 0; i <= bytes;) {
        const char *amp = i < bytes ? memchr(body + i, '&', bytes - i) : NULL;
        size_t end = amp != NULL ? (size_t)(amp - body) : bytes;
        lx_status st = read_pair(f, body + i, end - i, first == LX_OK ? err : NULL);
        first = first == LX_OK ? st : first;
        i = end + 1;
    }
    return first;
}

static lx_status read_numbers(lx_form *f, int32_t max_n, lx_error *err)
{
    int64_t n = 0;
    lx_status st = read_whole("n", f->n_text, 1, max_n, &n, err);
    f->n = (int32_t)n;
    if (st == LX_OK)
        st = read_number("temperature", f->temperature_text, 0, 10, &f->temperature, err);
    if (st == LX_OK && f->seed_text[0] != '\0') {
        st = read_whole("seed", f->seed_text, 0, (double)LX_MAX_SEED, &f->seed, err);
        f->has_seed = st == LX_OK;
    }
    return st;
}

lx_status lx_form_read(const char *body, size_t bytes, const lx_form_limits *limits, lx_form *form,
                       lx_error *err)
{
    *form = (lx_form){0};
    int32_t images = limits->images < LX_FORM_MAX_IMAGES ? limits->images : LX_FORM_MAX_IMAGES;
    lx_status st = read_pairs(form, body, bytes, err);
    fill_defaults(form);
    return st == LX_OK ? read_numbers(form, form->image ? images : limits->n, err) : st;
}

static bool is_space(int32_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0xa0 || c == 0x3000;
}

size_t lx_form_line(const lx_form *form, char line[LX_FORM_TEXT_BYTES])
{
    size_t n = 0;
    for (size_t pos = 0; pos < form->upper_bytes;) {
        size_t from = pos;
        int32_t c = lx_utf8_next(form->upper, form->upper_bytes, &pos);
        if (c < 0)
            pos = from + 1; /* malformed, for the task to refuse */
        if (is_space(c))
            continue;
        memcpy(line + n, form->upper + from, pos - from);
        n += pos - from;
    }
    line[n] = '\0';
    return n;
}

/* --- the page --- */

static const char *entity(int32_t c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return c < 0x20 || c == 0x7f ? "\xef\xbf\xbd" : NULL; /* also -1, malformed */
    }
}

void lx_page_escape(const char *text, size_t bytes, lx_buffer *out)
{
    for (size_t pos = 0; pos < bytes;) {
        size_t from = pos;
        int32_t c = lx_utf8_next(text, bytes, &pos);
        if (c < 0)
            pos = from + 1;
        const char *replacement = entity(c);
        if (replacement != NULL)
            lx_buffer_puts(out, replacement);
        else
            lx_buffer_append(out, text + from, pos - from);
    }
}

static int32_t count_chars(const char *text, size_t bytes)
{
    int32_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static const char *size_class(const lx_page *page)
{
    int32_t n = count_chars(page->answers[0].text, page->answers[0].bytes);
    return n <= 5 ? "few" : n <= 7 ? "short" : n <= 12 ? "medium" : "long";
}

static void render_answers(const lx_page *page, lx_buffer *out)
{
    char upper[LX_FORM_TEXT_BYTES];
    size_t upper_bytes = lx_form_line(page->form, upper);
    lx_buffer_printf(out, "<section class=\"answers\">\n<div class=\"scrolls %s\">\n",
                     size_class(page));
    lx_buffer_puts(out, "<p class=\"scroll upper\" lang=\"zh\">");
    lx_page_escape(upper, upper_bytes, out);
    lx_buffer_puts(out, "</p>\n<p class=\"scroll lower\" lang=\"zh\">");
    lx_page_escape(page->answers[0].text, page->answers[0].bytes, out);
    lx_buffer_puts(out, "</p>\n</div>\n<div class=\"door\">\n<ol class=\"candidates\">\n");
    for (int32_t i = 0; i < page->n_answers; i++) {
        lx_buffer_puts(out, "<li lang=\"zh\"><span class=\"line\">");
        lx_page_escape(page->answers[i].text, page->answers[i].bytes, out);
        lx_buffer_printf(out, "</span> <small class=\"score\">%.2f</small></li>\n",
                         page->answers[i].score);
    }
    lx_buffer_printf(out, "</ol>\n<p class=\"facts\">seed %lld</p>\n</div>\n</section>",
                     (long long)page->seed);
}

void lx_page_add_image(int32_t i, int32_t width, int32_t height, const lx_buffer *png,
                       lx_buffer *images)
{
    lx_buffer_printf(images,
                     "<li><img class=\"picture\" alt=\"%d\" width=\"%d\" height=\"%d\""
                     " src=\"data:image/png;base64,",
                     i + 1, width, height);
    lx_base64_append(png->data, png->length, images);
    lx_buffer_puts(images, "\"></li>\n");
}

static void render_images(const lx_page *page, lx_buffer *out)
{
    lx_buffer_printf(out, "<section class=\"pictures\">\n<ul class=\"tiles%s\">\n",
                     page->grey ? " grey" : "");
    lx_buffer_append(out, page->images->data, page->images->length);
    lx_buffer_printf(out, "</ul>\n<p class=\"facts\">seed %lld</p>\n</section>",
                     (long long)page->seed);
}

/* The answer or the error, if it is the one of this form. */
static void fill_result(const lx_page *page, bool image, lx_buffer *out)
{
    if (page->form == NULL || page->form->image != image)
        return;
    if (page->error != NULL) {
        lx_buffer_puts(out, "<p class=\"error\" role=\"alert\">");
        lx_page_escape(page->error, strlen(page->error), out);
        lx_buffer_puts(out, "</p>");
    } else if (page->images != NULL) {
        render_images(page, out);
    } else if (page->n_answers > 0) {
        render_answers(page, out);
    }
}

/* The text of the form at this offset. */
static void fill_text(const lx_form *form, size_t at, lx_buffer *out)
{
    const char *text = (const char *)form + at;
    lx_page_escape(text, text == form->upper ? form->upper_bytes : strlen(text), out);
}

static void fill_card(const lx_page *page, lx_buffer *out)
{
    const char *parts[] = {page->site != NULL ? page->site : "",
                           page->card != NULL ? page->card : "/card.png"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        lx_page_escape(parts[i], strlen(parts[i]), out);
}

static void fill_title(const lx_page *page, lx_buffer *out)
{
    const char *text = page->title != NULL
                           ? page->title
                           : "Linnet: however long it writes, its memory stays one size";
    lx_page_escape(text, strlen(text), out);
}

/* The places of the template: texts of a form, or parts of the head, or with neither a result. */
static const struct place {
    const char *mark;
    bool image;  /* belongs to the images' form */
    size_t text; /* offset in lx_form, 0: none */
    void (*fill_head)(const lx_page *page, lx_buffer *out);
} places[] = {
    {"{{upper}}", false, offsetof(lx_form, upper), NULL},
    {"{{n}}", false, offsetof(lx_form, n_text), NULL},
    {"{{temperature}}", false, offsetof(lx_form, temperature_text), NULL},
    {"{{seed}}", false, offsetof(lx_form, seed_text), NULL},
    {"{{image_n}}", true, offsetof(lx_form, n_text), NULL},
    {"{{image_temperature}}", true, offsetof(lx_form, temperature_text), NULL},
    {"{{image_seed}}", true, offsetof(lx_form, seed_text), NULL},
    {"{{card}}", false, 0, fill_card},
    {"{{title}}", false, 0, fill_title},
    {"<!--linnet:answers-->", false, 0, NULL},
    {"<!--linnet:images-->", true, 0, NULL},
};

static const struct place *find_place(const char *text, size_t bytes)
{
    if (text[0] != '{' && text[0] != '<')
        return NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        size_t n = strlen(places[i].mark);
        if (bytes >= n && memcmp(text, places[i].mark, n) == 0)
            return &places[i];
    }
    return NULL;
}

/* The form that was not sent shows its defaults. */
static void fill_place(const struct place *place, const lx_page *page, lx_buffer *out)
{
    lx_form empty = {.image = place->image};
    fill_defaults(&empty);
    bool sent = page->form != NULL && page->form->image == place->image;
    if (place->fill_head != NULL)
        place->fill_head(page, out);
    else if (place->text != 0)
        fill_text(sent ? page->form : &empty, place->text, out);
    else
        fill_result(page, place->image, out);
}

void lx_page_render(const char *html, size_t bytes, const lx_page *page, lx_buffer *out)
{
    size_t from = 0;
    for (size_t i = 0; i < bytes;) {
        const struct place *place = find_place(html + i, bytes - i);
        if (place == NULL) {
            i++;
            continue;
        }
        lx_buffer_append(out, html + from, i - from);
        fill_place(place, page, out);
        i += strlen(place->mark);
        from = i;
    }
    lx_buffer_append(out, html + from, bytes - from);
}
