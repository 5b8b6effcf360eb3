/* The page on a first visit, and its files. Its forms: form.c. */
#include <stdio.h>
#include <string.h>

#include "server/api/api.h"
#include "server/routes/assets.h"
#include "server/routes/page.h"

enum { MAX_PAGE = 32 << 20 }; /* the images of an answer are in it */
enum { MAX_CARD = 8192 };     /* a link's fields, its drawing among them */

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

/* The address of /link.png for a link of the images' tab; "" for any other, and for one whose
   fields are no plain text. */
static void name_card(const lx_request *rq, char *out, size_t size)
{
    static const char *const names[] = {"n", "temperature", "seed", "class", "rows", "ink"};
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *tab = rq->argument(rq->query, "tab");
    out[0] = '\0';
    if (tab == NULL || strcmp(tab, "images") != 0 || rq->argument(rq->query, "seed") == NULL)
        return;
    size_t used = (size_t)snprintf(out, size, "/link.png");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = rq->argument(rq->query, names[i]);
        if (text == NULL)
            continue;
        size_t room = size - used, need = strlen(text) + strlen(names[i]) + 2;
        if (strspn(text, plain) != strlen(text) || need >= room) {
            out[0] = '\0';
            return;
        }
        used += (size_t)snprintf(out + used, room, "%c%s=%s", i == 0 ? '?' : '&', names[i], text);
    }
}

/* A link's query says what other sites show with it; the page's script reads the same fields. */
void lx_handle_page(lx_api *api, const lx_request *rq, lx_response *rs)
{
    (void)api;
    char card[MAX_CARD], title[LX_FORM_TEXT_BYTES];
    name_card(rq, card, sizeof card);
    const char *line = rq->argument(rq->query, "line");
    bool has_line = line != NULL && line[0] != '\0' && strlen(line) + 32 < sizeof title;
    if (has_line)
        (void)snprintf(title, sizeof title, "%s · Linnet", line);
    lx_page_respond(
        rs, 200,
        &(lx_page){.card = card[0] != '\0' ? card : NULL, .title = has_line ? title : NULL});
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
