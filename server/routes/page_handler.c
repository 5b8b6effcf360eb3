/* The page on a first visit, and its files. Its forms: form.c. */
#include <stdio.h>
#include <string.h>

#include "server/api/api.h"
#include "server/routes/assets.h"
#include "server/routes/link.h"
#include "server/routes/page.h"
#include "server/routes/painter.h"

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

void lx_page_respond(lx_response *rs, int status, const lx_page *page)
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
static const char *const poem_fields[] = {"tab",   "kind",     "title", "form",        "rhyme",
                                          "begin", "acrostic", "seed",  "temperature", NULL};

/* The fields of a link that has a picture of its own, NULL for any other. */
static const char *const *fields_of(const lx_api *api, const lx_request *rq)
{
    if (rq->argument(rq->query, "seed") == NULL || api->painter == NULL)
        return NULL;
    if (!lx_link_is_text(rq))
        return strcmp(lx_link_field(rq, "tab"), "images") == 0 ? image_fields : NULL;
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

/* What other sites call the link: its line, or its poem's title. */
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

/* A link's query says what other sites show with it; the page's script reads the same fields. */
void lx_handle_page(lx_api *api, const lx_request *rq, lx_response *rs)
{
    char title[LX_FORM_TEXT_BYTES], site[MAX_SITE];
    lx_buffer card;
    lx_buffer_init(&card, MAX_CARD);
    lx_page page = {.site = name_site(rq, site, sizeof site),
                    .card = name_card(api, rq, &card),
                    .title = name_title(rq, title, sizeof title)};
    lx_page_respond(rs, 200, &page);
    lx_buffer_fini(&card);
}

/* --- files --- */

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
