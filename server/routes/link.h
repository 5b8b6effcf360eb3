/*
 * GET /link.png: the answer that a link of the page stands for, computed anew and drawn in the size
 * that other sites show with a link. The query is the link's own, so the bytes follow from it and
 * nothing is kept.
 */
#ifndef LINNET_SERVER_ROUTES_LINK_H
#define LINNET_SERVER_ROUTES_LINK_H

#include "server/api/api.h"
#include "server/api/generation.h"
#include "server/routes/page.h"
#include "server/routes/painter.h"

/* A field of the query, "" when absent. */
const char *lx_link_field(const lx_request *rq, const char *name);

/* n, temperature and seed by the form's own reader, with its limits and defaults; a link without
   its seed is refused. */
lx_status lx_link_numbers(const lx_api *api, const lx_request *rq, bool image, lx_form *form,
                          lx_error *err) LX_MUST_USE;

/* A whole number below `most`, -1 where the field is absent. */
lx_status lx_link_index(const lx_request *rq, const char *name, int32_t most, int32_t *out,
                        lx_error *err) LX_MUST_USE;

/* Whether the link is a couplet's (it has a line) or a poem's. */
bool lx_link_is_text(const lx_request *rq);

/* These begin an answer as lx_completion_start does: pictures (link_picture.c), or a couplet or a
   poem (link_text.c). */
lx_status lx_link_start_picture(lx_api *api, const lx_request *rq, lx_response *rs,
                                int32_t *retry_after_s, lx_error *err) LX_MUST_USE;
lx_status lx_link_start_text(lx_api *api, const lx_request *rq, lx_response *rs,
                             int32_t *retry_after_s, lx_error *err) LX_MUST_USE;

/* For their `finish`: `w` has ended with st and *err. Hands the answer over to the painting, whose
   draw and context are set, or answers with the error (link_picture.c). */
void lx_link_paint(const lx_work *w, lx_painting *painting, lx_status st, const lx_error *err,
                   lx_response *rs);

#endif
