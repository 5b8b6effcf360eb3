/*
 * The page for browsers without JavaScript: its two forms, and index.html with its places filled
 * in. {{upper}}, {{n}}, ... {{image_n}}, ... are the values of the inputs. <!--linnet:answers-->
 * and <!--linnet:images--> are the answers or an error. {{card}} and {{title}} are the preview of a
 * link on other sites. Everything that comes from outside is escaped.
 */
#ifndef LINNET_SERVER_ROUTES_PAGE_H
#define LINNET_SERVER_ROUTES_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"

enum { LX_FORM_TEXT_BYTES = 512, LX_FORM_NUMBER_BYTES = 64, LX_FORM_MAX_IMAGES = 64 };

/* The fields that one of the two forms sent. An absent or empty field has its default, which the
   form shows on a first visit. */
typedef struct lx_form {
    bool image;                     /* the images' form, otherwise the couplets' */
    char upper[LX_FORM_TEXT_BYTES]; /* as it came, may be malformed UTF-8 */
    size_t upper_bytes;
    /* The numbers as they came, or their default, to be shown again. */
    char n_text[LX_FORM_NUMBER_BYTES];
    char temperature_text[LX_FORM_NUMBER_BYTES];
    char seed_text[LX_FORM_NUMBER_BYTES];
    int32_t n;
    double temperature;
    bool has_seed;
    int64_t seed;
} lx_form;

/* The largest n of each form; of images LX_FORM_MAX_IMAGES at most. */
typedef struct lx_form_limits {
    int32_t n, images;
} lx_form_limits;

/* Reads application/x-www-form-urlencoded. LX_ERR_INVALID names the first field at fault; all the
   text is in *form even then, so that the page can show it again. */
lx_status lx_form_read(const char *body, size_t bytes, const lx_form_limits *limits, lx_form *form,
                       lx_error *err) LX_MUST_USE;

/* The couplet's upper line without the white space that may have come with it, NUL-terminated; its
   bytes. */
size_t lx_form_line(const lx_form *form, char line[LX_FORM_TEXT_BYTES]);

typedef struct lx_page_answer {
    const char *text;
    size_t bytes;
    double score; /* mean log-probability */
} lx_page_answer;

typedef struct lx_page {
    const lx_form *form; /* NULL on the first visit */
    const char *error;   /* NULL when there is none; shown next to the form that was sent */
    const lx_page_answer *answers;
    int32_t n_answers;
    const lx_buffer *images; /* of lx_page_add_image; NULL when none were asked for */
    bool grey;               /* the images are */
    int64_t seed;
    const char *site;  /* scheme and host before the picture's path: other sites want it; or NULL */
    const char *card;  /* path of the picture for other sites; NULL: the picture of the page */
    const char *title; /* for other sites, NULL: the page's own */
} lx_page;

/* Appends the markup of image i (0-based), a PNG, to a page's images. */
void lx_page_add_image(int32_t i, int32_t width, int32_t height, const lx_buffer *png,
                       lx_buffer *images);

/* Appends text with & < > " ' escaped; bytes that are no UTF-8 or control characters become
   U+FFFD. Fit for element content and double-quoted attributes. */
void lx_page_escape(const char *text, size_t bytes, lx_buffer *out);

/* Fills the template (index.html). */
void lx_page_render(const char *html, size_t bytes, const lx_page *page, lx_buffer *out);

#endif
