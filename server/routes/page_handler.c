/* The page on a first visit, and its files. Its forms: form.c. */
#include <string.h>

#include "server/api/api.h"
#include "server/routes/assets.h"
#include "server/routes/page.h"

enum { MAX_PAGE = 32 << 20 }; /* the images of an answer are in it */

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

void lx_handle_page(lx_api *api, const lx_request *rq, lx_response *rs)
{
    (void)api;
    (void)rq;
    lx_page_respond(rs, 200, &(lx_page){0});
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
