/* The fields of requests that say what a poem is to be like (see fields.h). */
#include <stdlib.h>

#include "server/json/answers.h"
#include "server/json/fields.h"

lx_status lx_json_read_poem(const json_t *root, struct lx_poem_fields *out, lx_error *err)
{
    size_t bytes = 0;
    lx_status st = lx_json_copy_string(root, "form", &out->form, &bytes, err);
    if (st == LX_OK)
        st = lx_json_copy_string(root, "acrostic", &out->acrostic, &out->acrostic_bytes, err);
    return st == LX_OK ? lx_json_read_bool(root, "rhyme", &out->rhyme, err) : st;
}

void lx_poem_fields_fini(lx_poem_fields *p)
{
    free(p->form);
    free(p->acrostic);
    *p = (lx_poem_fields){0};
}
