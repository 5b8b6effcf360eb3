/* The page without JavaScript (see page.h). The markup follows web/index.html and style.css. */
#include "server/page.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/utf8.h"
#include "server/json_api.h"

/* --- the form
 * ------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes [s, s + n) into out[max], NUL-terminated. The length, or -1 when it does not fit. */
static int64_t decode(const char *s, size_t n, char *out, size_t max)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        char c = s[i] == '+' ? ' ' : s[i];
        if (c == '%' && i + 2 < n && hex_digit(s[i + 1]) >= 0 && hex_digit(s[i + 2]) >= 0) {
            c = (char)(hex_digit(s[i + 1]) * 16 + hex_digit(s[i + 2]));
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
    if (end == text || *end != '\0' || errno == ERANGE || !(x >= min && x <= max))
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

static lx_status set_field(lx_form *f, const char *name, const char *text, int32_t max_n,
                           lx_error *err)
{
    lx_status st = LX_OK;
    int64_t n = f->n;
    if (text[0] == '\0')
        return LX_OK;
    if (strcmp(name, "n") == 0) {
        st = read_whole("n", text, 1, max_n, &n, err);
        f->n = (int32_t)n;
    } else if (strcmp(name, "seed") == 0) {
        st = read_whole("seed", text, 0, (double)LX_MAX_SEED, &f->seed, err);
        f->has_seed = st == LX_OK;
    } else if (strcmp(name, "temperature") == 0) {
        st = read_number("temperature", text, 0, 10, &f->temperature, err);
    }
    return st;
}

static lx_status read_pair(lx_form *f, const char *pair, size_t n, int32_t max_n, lx_error *err)
{
    char name[32], text[LX_FORM_TEXT_BYTES];
    const char *equals = memchr(pair, '=', n);
    size_t name_bytes = equals != NULL ? (size_t)(equals - pair) : n;
    if (decode(pair, name_bytes, name, sizeof name) < 0)
        return LX_OK; /* no field of ours has so long a name */
    const char *value = equals != NULL ? equals + 1 : pair + n;
    int64_t bytes = decode(value, (size_t)(pair + n - value), text, sizeof text);
    bool is_upper = strcmp(name, "upper") == 0;
    if (bytes < 0)
        return lx_fail(err, LX_ERR_INVALID, is_upper ? "prompt" : name, "%s is too long", name);
    if (!is_upper)
        return set_field(f, name, text, max_n, err);
    memcpy(f->upper, text, (size_t)bytes + 1);
    f->upper_bytes = (size_t)bytes;
    return LX_OK;
}

lx_status lx_form_read(const char *body, size_t bytes, int32_t max_n, lx_form *form, lx_error *err)
{
    *form = (lx_form){.n = 1, .temperature = 0.8};
    lx_status first = LX_OK;
    for (size_t i = 0; i <= bytes;) {
        const char *amp = i < bytes ? memchr(body + i, '&', bytes - i) : NULL;
        size_t end = amp != NULL ? (size_t)(amp - body) : bytes;
        lx_status st = read_pair(form, body + i, end - i, max_n, first == LX_OK ? err : NULL);
        first = first == LX_OK ? st : first;
        i = end + 1;
    }
    return first;
}

/* --- the page
 * ------------------------------------------------------------------------------------- */

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

static void trim(const char **text, size_t *bytes)
{
    while (*bytes > 0 && strchr(" \t\r\n", (*text)[0]) != NULL && (*text)[0] != '\0') {
        ++*text;
        --*bytes;
    }
    while (*bytes > 0 && strchr(" \t\r\n", (*text)[*bytes - 1]) != NULL &&
           (*text)[*bytes - 1] != '\0')
        --*bytes;
}

static void render_answers(const lx_page *page, lx_buffer *out)
{
    const char *upper = page->upper;
    size_t upper_bytes = page->upper_bytes;
    trim(&upper, &upper_bytes);
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

static void render_result(const lx_page *page, lx_buffer *out)
{
    if (page->error != NULL) {
        lx_buffer_puts(out, "<p class=\"error\" role=\"alert\">");
        lx_page_escape(page->error, strlen(page->error), out);
        lx_buffer_puts(out, "</p>");
    } else if (page->n_answers > 0) {
        render_answers(page, out);
    }
}

void lx_page_render(const char *html, size_t bytes, const lx_page *page, lx_buffer *out)
{
    static const char upper_mark[] = "{{upper}}", result_mark[] = "<!--linnet:answers-->";
    const size_t n_upper = sizeof upper_mark - 1, n_result = sizeof result_mark - 1;
    size_t from = 0;
    for (size_t i = 0; i < bytes;) {
        bool is_upper = bytes - i >= n_upper && memcmp(html + i, upper_mark, n_upper) == 0;
        bool is_result = bytes - i >= n_result && memcmp(html + i, result_mark, n_result) == 0;
        if (!is_upper && !is_result) {
            i++;
            continue;
        }
        lx_buffer_append(out, html + from, i - from);
        if (is_upper && page->upper != NULL)
            lx_page_escape(page->upper, page->upper_bytes, out);
        if (is_result)
            render_result(page, out);
        i += is_upper ? n_upper : n_result;
        from = i;
    }
    lx_buffer_append(out, html + from, bytes - from);
}
