/* The fields of a link's query (see link.h). */
#include "server/routes/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *lx_link_field(const lx_request *rq, const char *name)
{
    const char *text = rq->argument(rq->query, name);
    return text != NULL ? text : "";
}

lx_status lx_link_numbers(const lx_api *api, const lx_request *rq, bool image, lx_form *form,
                          lx_error *err)
{
    static const char *const names[] = {"n", "temperature", "seed"};
    char body[4 * LX_FORM_NUMBER_BYTES];
    size_t used = (size_t)snprintf(body, sizeof body, "task=%s", image ? "image" : "couplet");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = lx_link_field(rq, names[i]);
        if (strlen(text) >= 32 || strspn(text, "0123456789.") != strlen(text))
            return lx_fail(err, LX_ERR_INVALID, names[i], "%s must be a number", names[i]);
        used += (size_t)snprintf(body + used, sizeof body - used, "&%s=%s", names[i], text);
    }
    lx_form_limits limits = {.n = api->max_n, .images = api->max_images};
    lx_status st = lx_form_read(body, used, &limits, form, err);
    if (st == LX_OK && !form->has_seed)
        st = lx_fail(err, LX_ERR_INVALID, "seed", "the link has no seed, which its picture needs");
    return st;
}

lx_status lx_link_index(const lx_request *rq, const char *name, int32_t most, int32_t *out,
                        lx_error *err)
{
    const char *text = lx_link_field(rq, name);
    size_t n = strlen(text);
    *out = n > 0 ? (int32_t)strtol(n < 6 ? text : "", NULL, 10) : -1;
    if (n == 0 || (n < 6 && strspn(text, "0123456789") == n && *out < most))
        return LX_OK;
    return lx_fail(err, LX_ERR_INVALID, name, "%s must be a whole number below %d", name, most);
}

bool lx_link_is_text(const lx_request *rq)
{
    return rq->argument(rq->query, "line") != NULL ||
           strcmp(lx_link_field(rq, "tab"), "poems") == 0;
}
