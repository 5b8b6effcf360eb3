/* The fields of requests that say what a poem is to be like (see fields.h). */
#include <stdlib.h>
#include <string.h>

#include "server/json/answers.h"
#include "server/json/fields.h"

/* A copy of a text; *out is NULL when it is absent. */
static lx_status keep_string(const json_t *root, const char *name, char **out, size_t *bytes,
                             lx_error *err)
{
    const char *text = NULL;
    lx_status st = lx_json_read_string(root, name, false, &text, bytes, err);
    if (st != LX_OK || text == NULL)
        return st;
    *out = malloc(*bytes + 1);
    if (*out == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for %s", name);
    memcpy(*out, text, *bytes + 1);
    return LX_OK;
}

lx_status lx_json_read_poem(const json_t *root, struct lx_poem_fields *out, lx_error *err)
{
    size_t bytes = 0;
    lx_status st = keep_string(root, "form", &out->form, &bytes, err);
    return st == LX_OK ? keep_string(root, "acrostic", &out->acrostic, &out->acrostic_bytes, err)
                       : st;
}

void lx_poem_fields_fini(lx_poem_fields *p)
{
    free(p->form);
    free(p->acrostic);
    *p = (lx_poem_fields){0};
}
