/* In place of the pictures of links where LINNET_LINK_PICTURES is off. There is no painter, so the
   page names its own picture for every link. */
#include "common/features.h"
#include "server/routes/link.h"

static lx_status refuse(lx_status status, const char *param, lx_error *err)
{
    return lx_fail(err, status, param, LX_WITHOUT("pictures of links", "LINNET_LINK_PICTURES"));
}

lx_status lx_font_open(const char *path, lx_font **out, lx_error *err)
{
    (void)path;
    (void)out;
    return refuse(LX_ERR_INVALID, "font", err);
}

lx_status lx_painter_new(lx_font *font, lx_painter **out, lx_error *err)
{
    (void)font;
    (void)err;
    *out = NULL;
    return LX_OK;
}

void lx_painter_free(lx_painter *p)
{
    (void)p;
}

bool lx_painter_has_font(const lx_painter *p)
{
    (void)p;
    return false;
}

lx_status lx_link_start_picture(lx_api *api, const lx_request *rq, lx_response *rs,
                                int32_t *retry_after_s, lx_error *err)
{
    (void)api;
    (void)rq;
    (void)rs;
    (void)retry_after_s;
    return refuse(LX_ERR_NOT_FOUND, NULL, err);
}

lx_status lx_link_start_text(lx_api *api, const lx_request *rq, lx_response *rs,
                             int32_t *retry_after_s, lx_error *err)
{
    return lx_link_start_picture(api, rq, rs, retry_after_s, err);
}
