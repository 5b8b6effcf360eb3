/*
 * The page, its form and its files. GET / and POST / are the same page: the first empty, the second
 * with an answer rendered here for browsers that run no script.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/assets.h"
#include "server/completion.h"
#include "server/page.h"

enum { MAX_PAGE = 1 << 20 };

typedef struct form_answer {
    lx_completion *completion;
    lx_form form;
} form_answer;

static const char html_type[] = "text/html; charset=utf-8";

static void add_security_headers(lx_response *rs)
{
    lx_response_add(rs, "Content-Security-Policy",
                    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
    lx_response_add(rs, "Referrer-Policy", "no-referrer");
}

static void respond_page(lx_response *rs, int status, const lx_page *page)
{
    const lx_asset *html = lx_asset_find("/index.html");
    if (html == NULL) {
        lx_respond_error(rs, 404, "not_found", "path", "this build has no page");
        return;
    }
    lx_buffer body;
    lx_buffer_init(&body, MAX_PAGE);
    lx_page_render((const char *)html->data, html->size, page, &body);
    lx_response_take(rs, status, html_type, &body);
    lx_response_add(rs, "Cache-Control", "no-cache");
    add_security_headers(rs);
}

void lx_handle_page(lx_api *api, const lx_request *rq, lx_response *rs)
{
    (void)api;
    (void)rq;
    respond_page(rs, 200, &(lx_page){0});
}

static void respond_page_error(lx_response *rs, const lx_form *form, lx_status status,
                               const lx_error *err)
{
    const char *text = err->text[0] != '\0' ? err->text : lx_status_text(status);
    lx_page page = {.upper = form->upper, .upper_bytes = form->upper_bytes, .error = text};
    respond_page(rs, lx_status_http(status), &page);
}

/* --- the answer to the form
 * ----------------------------------------------------------------------- */

static lx_status make_answers(const form_answer *f, lx_answer *answers, lx_page_answer *shown,
                              lx_buffer *text, lx_error *err)
{
    if (answers == NULL || shown == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the answer");
    lx_status st = lx_work_status(&f->completion->work, err);
    lx_work_count(&f->completion->work, st);
    if (st == LX_OK)
        st = lx_completion_answers(f->completion, answers, text, err);
    for (int32_t i = 0; i < f->form.n && st == LX_OK; i++)
        shown[i] = (lx_page_answer){.text = text->data + answers[i].begin,
                                    .bytes = answers[i].bytes,
                                    .score = answers[i].mean_logprob};
    return st;
}

static void finish(void *context, lx_response *rs)
{
    const form_answer *f = context;
    lx_error err = {0};
    lx_answer *answers = calloc((size_t)f->form.n, sizeof *answers);
    lx_page_answer *shown = calloc((size_t)f->form.n, sizeof *shown);
    lx_buffer text;
    lx_buffer_init(&text, MAX_PAGE);
    lx_status st = make_answers(f, answers, shown, &text, &err);
    lx_page page = {
        .upper = f->form.upper,
        .upper_bytes = f->form.upper_bytes,
        .answers = shown,
        .n_answers = f->form.n,
        .seed = (int64_t)f->completion->work.params->seed,
    };
    if (st == LX_OK)
        respond_page(rs, 200, &page);
    else
        respond_page_error(rs, &f->form, st, &err);
    lx_buffer_fini(&text);
    free(answers);
    free(shown);
}

static bool ready(void *context)
{
    return lx_work_ready(((form_answer *)context)->completion);
}

static void cancel(void *context)
{
    lx_work_cancel(((form_answer *)context)->completion);
}

static void release(void *context)
{
    form_answer *f = context;
    lx_completion_release(f->completion);
    free(f);
}

static lx_status start(lx_api *api, const lx_request *rq, form_answer *f, int32_t *retry_after_s,
                       lx_error *err)
{
    lx_status st = lx_api_check_ready(api, err);
    lx_served_model *served = lx_serving_find_task(api->serving, "couplet");
    if (st == LX_OK && served == NULL)
        st = lx_fail(err, LX_ERR_NOT_FOUND, "model", "no couplet model is being served");
    if (st != LX_OK)
        return st;
    lx_completion_params p;
    lx_completion_params_init(&p);
    p.prompt = f->form.upper; /* borrowed: not freed here */
    p.prompt_bytes = f->form.upper_bytes;
    p.n = f->form.n;
    p.temperature = f->form.temperature;
    p.has_seed = f->form.has_seed;
    p.seed = f->form.seed;
    return lx_completion_start(api, served, &p, rq, &f->completion, retry_after_s, err);
}

void lx_handle_form(lx_api *api, const lx_request *rq, lx_response *rs)
{
    static const char form_type[] = "application/x-www-form-urlencoded";
    lx_error err = {0};
    int32_t retry_after_s = 0;
    if (strncasecmp(rq->content_type, form_type, sizeof form_type - 1) != 0) {
        lx_respond_error(rs, 415, "unsupported_media_type", "Content-Type",
                         "the form is read as application/x-www-form-urlencoded only");
        return;
    }
    form_answer *f = calloc(1, sizeof *f);
    if (f == NULL) {
        lx_respond_status(rs, LX_ERR_NO_MEMORY, &err);
        return;
    }
    lx_status st = lx_form_read(rq->body, rq->body_bytes, api->max_n, &f->form, &err);
    if (st == LX_OK)
        st = start(api, rq, f, &retry_after_s, &err);
    if (st == LX_OK) {
        rs->deferred = (lx_deferred){.context = f,
                                     .ready = ready,
                                     .finish = finish,
                                     .cancel = cancel,
                                     .release = release,
                                     .deadline_ns = f->completion->work.deadline_ns};
        return;
    }
    respond_page_error(rs, &f->form, st, &err);
    if (retry_after_s > 0)
        lx_response_add(rs, "Retry-After", "%d", retry_after_s);
    free(f);
}

/* --- files
 * ---------------------------------------------------------------------------------------- */

/* FNV-1a: a change of content is what an ETag must show, not an attack. */
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
    lx_response_add(rs, "ETag", "\"%016llx\"", (unsigned long long)hash(asset->data, asset->size));
    lx_response_add(rs, "Cache-Control", "no-cache");
    add_security_headers(rs);
    if (strstr(rq->if_none_match, rs->headers[0].value) != NULL) {
        rs->status = 304;
        return;
    }
    rs->status = 200;
    rs->content_type = asset->content_type;
    rs->static_body = asset->data;
    rs->body_bytes = asset->size;
}
