/*
 * The page for browsers without JavaScript: the form it posts, and index.html with two places
 * filled in: {{upper}}, the value of the input, and <!--linnet:answers-->, the answers or an error.
 * Everything that comes from outside is escaped.
 */
#ifndef LINNET_SERVER_PAGE_H
#define LINNET_SERVER_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"

enum { LX_FORM_TEXT_BYTES = 512 };

/* What the form sent. A field that is absent or empty has its default. */
typedef struct lx_form {
    char upper[LX_FORM_TEXT_BYTES]; /* as it came, may be malformed UTF-8 */
    size_t upper_bytes;
    int32_t n;
    double temperature;
    bool has_seed;
    int64_t seed;
} lx_form;

/* Reads application/x-www-form-urlencoded. LX_ERR_INVALID names the field; what was read up to then
   is in *form, so that the page can show it again. */
lx_status lx_form_read(const char *body, size_t bytes, int32_t max_n, lx_form *form,
                       lx_error *err) LX_MUST_USE;

typedef struct lx_page_answer {
    const char *text;
    size_t bytes;
    double score; /* mean log-probability */
} lx_page_answer;

typedef struct lx_page {
    const char *upper; /* NULL on the first visit */
    size_t upper_bytes;
    const char *error; /* NULL when there is none */
    const lx_page_answer *answers;
    int32_t n_answers;
    int64_t seed;
} lx_page;

/* Appends text with & < > " ' escaped; bytes that are no UTF-8 or control characters become
   U+FFFD. Fit for element content and double-quoted attributes. */
void lx_page_escape(const char *text, size_t bytes, lx_buffer *out);

/* Fills the template (index.html). */
void lx_page_render(const char *html, size_t bytes, const lx_page *page, lx_buffer *out);

#endif
