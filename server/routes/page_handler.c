/*
 * The handlers of the page: its first visit, its files, the pictures of its links, and POST /, its
 * two forms, for browsers that run no script. The answer to a form is the page again, with couplets
 * or images in it. Images are part of the page (data: URLs), so that nothing of a request is kept
 * after its answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "model/tasks/image.h"
#include "server/api/completion.h"
#include "server/api/images.h"
#include "server/routes/assets.h"
#include "server/routes/link.h"
#include "server/routes/page.h"
#include "server/routes/painter.h"

enum { GZIP_FORMAT = 16 };    /* which zlib adds to the size of its window */
enum { MAX_PAGE = 32 << 20 }; /* the images of an answer are in it */
enum { MAX_CARD = 8192 };     /* a link's fields, its drawing among them */
enum { MAX_SITE = 320 };      /* a host's name has 253 bytes at most */

static const char html_type[] = "text/html; charset=utf-8";

static void add_security_headers(lx_response *rs)
{
    lx_response_add(rs, "Content-Security-Policy",
                    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                    "img-src 'self' data:; form-action 'self'; base-uri 'none'; "
                    "frame-ancestors 'none'");
    lx_response_add(rs, "Referrer-Policy", "no-referrer");
}

/* Whether the client takes gzip: the list of codings has the word, with no weight or one above 0.
 */
static bool takes_gzip(const char *codings)
{
    const char *word = strcasestr(codings, "gzip");
    if (word == NULL)
        return false;
    word += strlen("gzip");
    word += strspn(word, " ");
    return *word != ';' || strncmp(word + 1 + strspn(word + 1, " "), "q=0", 3) != 0 ||
           strtod(word + 1 + strspn(word + 1, " ") + 2, NULL) > 0;
}

/* Packs the page for a client that takes gzip, which saves two thirds of its bytes. The page stays
   plain if there is no memory. */
static void pack(const lx_request *rq, lx_buffer *body, lx_response *rs)
{
    z_stream z = {0};
    lx_buffer packed;
    lx_buffer_init(&packed, MAX_PAGE);
    lx_response_add(rs, "Vary", "Accept-Encoding");
    if (body->status != LX_OK || !takes_gzip(rq->accept_encoding) ||
        deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + GZIP_FORMAT, MAX_MEM_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return;
    unsigned char part[4096];
    int st = Z_OK;
    z.next_in = (unsigned char *)body->data;
    z.avail_in = (uInt)body->length;
    while (st == Z_OK) {
        z.next_out = part;
        z.avail_out = sizeof part;
        st = deflate(&z, Z_FINISH);
        lx_buffer_append(&packed, part, sizeof part - z.avail_out);
    }
    (void)deflateEnd(&z);
    if (st == Z_STREAM_END && packed.status == LX_OK) {
        lx_buffer_fini(body);
        *body = packed;
        lx_response_add(rs, "Content-Encoding", "gzip");
    } else {
        lx_buffer_fini(&packed);
    }
}

/* The page as a response, with its security headers. It is packed only for the head of a request,
   which a form's answer no longer has (`rq` is NULL). */
static void respond_page(lx_response *rs, int status, const lx_page *page, const lx_request *rq)
{
    const lx_asset *html = lx_asset_find("/index.html");
    if (html == NULL) {
        lx_respond_error(rs, 404, "not_found", "path", "this build has no page");
        return;
    }
    lx_buffer body;
    lx_buffer_init(&body, MAX_PAGE);
    lx_page_render((const char *)html->data, html->size, page, &body);
    if (rq != NULL)
        pack(rq, &body, rs);
    lx_response_take(rs, status, html_type, &body);
    lx_response_add(rs, "Cache-Control", "no-cache");
    add_security_headers(rs);
}

static void append_encoded(const char *text, lx_buffer *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    for (; *text != '\0'; text++) {
        if (strchr(plain, *text) != NULL)
            lx_buffer_append(out, text, 1);
        else
            lx_buffer_printf(out, "%%%02X", (unsigned)(unsigned char)*text);
    }
}

static const char *const image_fields[] = {"n",    "temperature", "seed", "class",
                                           "rows", "ink",         NULL};
static const char *const line_fields[] = {"line", "n",      "temperature", "seed",
                                          "pick", "banner", NULL};
static const char *const poem_fields[] = {"tab",     "kind",        "title", "form",
                                          "pattern", "rhyme",       "begin", "acrostic",
                                          "seed",    "temperature", "pick",  NULL};

/* The fields of a link that has a picture of its own, NULL for any other: cards show pictures of
   the first model. */
static const char *const *fields_of(const lx_api *api, const lx_request *rq)
{
    if (rq->argument(rq->query, "seed") == NULL || api->painter == NULL)
        return NULL;
    if (!lx_link_is_text(rq))
        return strcmp(lx_link_field(rq, "tab"), "images") == 0 &&
                       rq->argument(rq->query, "model") == NULL
                   ? image_fields
                   : NULL;
    if (!lx_painter_has_font(api->painter))
        return NULL;
    return rq->argument(rq->query, "line") != NULL ? line_fields : poem_fields;
}

/* The address of /link.png for the link; NULL for one without a picture, or too long for one. */
static const char *name_card(const lx_api *api, const lx_request *rq, lx_buffer *out)
{
    const char *const *names = fields_of(api, rq);
    lx_buffer_puts(out, "/link.png");
    char mark = '?';
    for (; names != NULL && *names != NULL; names++) {
        const char *text = rq->argument(rq->query, *names);
        if (text == NULL)
            continue;
        lx_buffer_printf(out, "%c%s=", mark, *names);
        append_encoded(text, out);
        mark = '&';
    }
    return mark == '&' && out->status == LX_OK ? out->data : NULL;
}

/* "https://example.org"; NULL for a host that is none, as that of a client by hand may be. */
static const char *name_site(const lx_request *rq, char *out, size_t size)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]";
    size_t n = strlen(rq->host);
    if (n == 0 || n + 16 > size || strspn(rq->host, plain) != n)
        return NULL;
    (void)snprintf(out, size, "%s://%s", rq->https ? "https" : "http", rq->host);
    return out;
}

/* The title of the link on other sites: its line, or its poem's title. */
static const char *name_title(const lx_request *rq, char *out, size_t size)
{
    const char *line = rq->argument(rq->query, "line");
    bool poem = line == NULL && lx_link_is_text(rq);
    const char *text = poem ? lx_link_field(rq, "title") : line != NULL ? line : "";
    if (text[0] == '\0' || strlen(text) + 32 >= size)
        return NULL;
    (void)snprintf(out, size, poem ? "《%s》 · Linnet" : "%s · Linnet", text);
    return out;
}

/* Other sites show a picture and a title that follow from the link's query; the page's script reads
   the same fields. */
void lx_handle_page(lx_api *api, const lx_request *rq, lx_response *rs)
{
    char title[LX_FORM_TEXT_BYTES], site[MAX_SITE];
    lx_buffer card;
    lx_buffer_init(&card, MAX_CARD);
    lx_page page = {.site = name_site(rq, site, sizeof site),
                    .card = name_card(api, rq, &card),
                    .title = name_title(rq, title, sizeof title)};
    respond_page(rs, 200, &page, rq);
    lx_buffer_fini(&card);
}

void lx_handle_link_picture(lx_api *api, const lx_request *rq, lx_response *rs)
{
    lx_error err = {0};
    int32_t retry_after_s = 0;
    lx_status st = lx_link_is_text(rq) ? lx_link_start_text(api, rq, rs, &retry_after_s, &err)
                                       : lx_link_start_picture(api, rq, rs, &retry_after_s, &err);
    if (st != LX_OK)
        lx_respond_unstarted(rs, st, &err, retry_after_s);
}

/* --- files --- */

/* FNV-1a: an ETag must show a change of content, and need not withstand an attack. */
static uint64_t hash(const unsigned char *data, size_t n)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < n; i++)
        h = (h ^ data[i]) * UINT64_C(1099511628211);
    return h;
}

void lx_handle_asset(lx_api *api, const lx_request *rq, lx_response *rs)
{
    const lx_asset *asset = lx_asset_find(rq->path);
    if (asset == NULL ||
        strcmp(rq->path, "/index.html") == 0) { /* the page with its places empty */
        lx_handle_page(api, rq, rs);
        return;
    }
    bool packed = asset->packed != NULL && takes_gzip(rq->accept_encoding);
    const unsigned char *body = packed ? asset->packed : asset->data;
    size_t size = packed ? asset->packed_size : asset->size;
    lx_response_add(rs, "ETag", "\"%016llx\"", (unsigned long long)hash(body, size));
    if (asset->packed != NULL)
        lx_response_add(rs, "Vary", "Accept-Encoding");
    lx_response_add(rs, "Cache-Control", "no-cache");
    add_security_headers(rs);
    if (strstr(rq->if_none_match, rs->headers[0].value) != NULL) {
        rs->status = 304;
        return;
    }
    rs->status = 200;
    rs->content_type = asset->content_type;
    rs->static_body = body;
    rs->body_bytes = size;
    if (packed)
        lx_response_add(rs, "Content-Encoding", "gzip");
}

/* --- forms --- */

enum { MAX_IMAGES = 24 << 20 }; /* bytes of all images of a page */

static void respond_failure(lx_response *rs, const lx_form *form, lx_status status,
                            const lx_error *err)
{
    const char *text = err->text[0] != '\0' ? err->text : lx_status_text(status);
    lx_page page = {.form = form, .error = text};
    respond_page(rs, lx_status_http(status), &page, NULL);
}

/* The first model of a task; *err names a missing one. */
static lx_status find_model(lx_api *api, const char *task, lx_served_model **out, lx_error *err)
{
    lx_status st = lx_api_check_ready(api, err);
    return st == LX_OK ? lx_serving_find_task(api->serving, task, out, err) : st;
}

static lx_sampling_params sampling_of(const lx_form *form)
{
    return (lx_sampling_params){.temperature = form->temperature,
                                .top_p = 1,
                                .has_seed = form->has_seed,
                                .seed = form->seed};
}

/* --- couplets --- */

typedef struct couplet_form {
    lx_completion *completion; /* first: see lx_completion_held_advance */
    lx_form form;
    char line[LX_FORM_TEXT_BYTES];
} couplet_form;

static lx_status make_answers(lx_completion *c, lx_page_answer *shown, lx_error *err)
{
    lx_status st = lx_completion_finish(c, err);
    if (st == LX_OK)
        st = lx_completion_read_all(c, 0, err);
    for (int32_t i = 0; st == LX_OK && i < c->n; i++) {
        lx_json_choice choice;
        lx_answer *a = &c->choices[i].answer;
        lx_answer_take(a, a->n_ready, &choice);
        shown[i] = (lx_page_answer){
            .text = choice.text, .bytes = choice.text_bytes, .score = lx_answer_mean_logprob(a)};
    }
    return st;
}

static void finish_couplet(void *context, lx_response *rs)
{
    const couplet_form *f = context;
    lx_error err = {0};
    lx_page_answer *shown = calloc((size_t)f->form.n, sizeof *shown);
    lx_status st = shown != NULL
                       ? make_answers(f->completion, shown, &err)
                       : lx_fail(&err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    lx_page page = {
        .form = &f->form,
        .answers = shown,
        .n_answers = f->form.n,
        .seed = f->completion->works[0].params->sampling.seed,
    };
    if (st == LX_OK)
        respond_page(rs, 200, &page, NULL);
    else
        respond_failure(rs, &f->form, st, &err);
    free(shown);
}

static void release_couplet(void *context)
{
    couplet_form *f = context;
    lx_completion_release(f->completion);
    free(f);
}

static lx_status start_couplet(lx_api *api, const lx_request *rq, const lx_form *form,
                               lx_response *rs, int32_t *retry_after_s, lx_error *err)
{
    lx_served_model *served = NULL;
    lx_status st = find_model(api, "couplet", &served, err);
    couplet_form *f = st == LX_OK ? calloc(1, sizeof *f) : NULL;
    if (st == LX_OK && f == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    if (st != LX_OK)
        return st;
    f->form = *form;
    lx_prompt upper = {.text = f->line, .bytes = lx_form_line(form, f->line)}; /* borrowed */
    lx_completion_params p;
    lx_completion_params_init(&p);
    p.prompts = &upper;
    p.n_prompts = 1;
    p.n = form->n;
    p.sampling = sampling_of(form);
    st = lx_completion_start(api, served, &p, rq, &f->completion, retry_after_s, err);
    if (st != LX_OK) {
        free(f);
        return st;
    }
    lx_completion_await_end(f->completion);
    rs->deferred = (lx_deferred){.context = f,
                                 .advance = lx_completion_held_advance,
                                 .is_done = lx_completion_held_is_done,
                                 .finish = finish_couplet,
                                 .cancel = lx_completion_held_cancel,
                                 .release = release_couplet,
                                 .deadline_ns = f->completion->works[0].deadline_ns};
    return LX_OK;
}

/* --- images --- */

typedef struct image_form {
    lx_images images; /* first: an lx_work begins it */
    lx_form form;
} image_form;

static lx_status add_images(image_form *f, lx_buffer *html, lx_error *err)
{
    const lx_image_config *config = lx_image_of(&f->images.work.pending.served->model->config);
    lx_status st = lx_work_status(&f->images.work, err);
    (void)lx_work_count(&f->images.work, st);
    lx_buffer png;
    lx_buffer_init(&png, LX_MAX_PNG);
    for (int32_t i = 0; i < f->form.n && st == LX_OK; i++) {
        png.length = 0;
        st = lx_images_png(&f->images, i, INT32_MAX, &png, err);
        if (st == LX_OK)
            lx_page_add_image(i, config->width, config->height, &png, html);
    }
    lx_buffer_fini(&png);
    if (st == LX_OK && html->status != LX_OK)
        st = lx_fail(err, html->status, "n",
                     "the page has no room for so many images; ask for fewer");
    return st;
}

static void finish_image(void *context, lx_response *rs)
{
    image_form *f = context;
    lx_error err = {0};
    lx_buffer html;
    lx_buffer_init(&html, MAX_IMAGES);
    lx_status st = add_images(f, &html, &err);
    lx_page page = {
        .form = &f->form,
        .images = &html,
        .grey = lx_image_of(&f->images.work.pending.served->model->config)->n_channels == 1,
        .seed = f->images.work.params->sampling.seed,
    };
    if (st == LX_OK)
        respond_page(rs, 200, &page, NULL);
    else
        respond_failure(rs, &f->form, st, &err);
    lx_buffer_fini(&html);
}

static void release_image(void *context)
{
    image_form *f = context;
    lx_images_fini(&f->images);
    free(f);
}

static lx_status start_image(lx_api *api, const lx_request *rq, const lx_form *form,
                             lx_response *rs, int32_t *retry_after_s, lx_error *err)
{
    lx_served_model *served = NULL;
    lx_status st = find_model(api, "image", &served, err);
    image_form *f = st == LX_OK ? calloc(1, sizeof *f) : NULL;
    if (st == LX_OK && f == NULL)
        st = lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the request");
    if (st != LX_OK)
        return st;
    f->form = *form;
    lx_images_request request = {.work = {.n = form->n, .sampling = sampling_of(form)}};
    lx_image_params asked = {.n = form->n};
    request.answer_bytes = 2 * lx_images_bytes(&served->model->config, &asked); /* and the page */
    st = lx_images_start(&f->images, api, served, &request, rq, retry_after_s, err);
    if (st != LX_OK) {
        free(f);
        return st;
    }
    lx_work_await_end(&f->images.work);
    rs->deferred = (lx_deferred){.context = f,
                                 .advance = lx_work_advance,
                                 .is_done = lx_work_is_done,
                                 .finish = finish_image,
                                 .cancel = lx_work_cancel,
                                 .release = release_image,
                                 .deadline_ns = f->images.work.deadline_ns};
    return LX_OK;
}

/* --- either form --- */

void lx_handle_form(lx_api *api, const lx_request *rq, lx_response *rs)
{
    static const char form_type[] = "application/x-www-form-urlencoded";
    lx_error err = {0};
    int32_t retry_after_s = 0;
    if (strncasecmp(rq->content_type, form_type, sizeof form_type - 1) != 0) {
        lx_respond_error(rs, 415, "unsupported_media_type", "Content-Type",
                         "send the form as application/x-www-form-urlencoded");
        return;
    }
    lx_form form;
    lx_form_limits limits = {.n = api->max_n, .images = api->max_images};
    lx_status st = lx_form_read(rq->body, rq->body_bytes, &limits, &form, &err);
    if (st == LX_OK && form.image)
        st = start_image(api, rq, &form, rs, &retry_after_s, &err);
    else if (st == LX_OK)
        st = start_couplet(api, rq, &form, rs, &retry_after_s, &err);
    if (st == LX_OK)
        return;
    respond_failure(rs, &form, st, &err);
    if (retry_after_s > 0)
        lx_response_add(rs, "Retry-After", "%d", retry_after_s);
}
