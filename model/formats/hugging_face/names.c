/* See names.h. */
#include "model/formats/hugging_face/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What stands behind `part` in a name that begins with it; NULL where it does not. */
static const char *behind(const char *name, const char *part)
{
    size_t n = strlen(part);
    return strncmp(name, part, n) == 0 && (name[n] == '.' || name[n] == '\0') ? name + n : NULL;
}

static void translate(const lx_tensor_name *names, const char *own, char *out, size_t size)
{
    for (const lx_tensor_name *name = names; name->own != NULL; name++) {
        const char *rest = behind(own, name->own);
        if (rest != NULL) {
            (void)snprintf(out, size, "%s%s", name->theirs, rest);
            return;
        }
    }
    (void)snprintf(out, size, "%s", own);
}

/* The names of a layer's tensors. */
static const lx_tensor_name *of_layer(const lx_config *c, int32_t layer)
{
    const struct lx_tensor_names *names = c->names;
    bool softmax = lx_config_mixer(c, layer)->mixer == lx_mixer_find("grouped_query");
    return softmax && names->softmax != NULL ? names->softmax : names->layer;
}

void lx_hf_tensor_name(const lx_config *c, const char *own, char out[LX_HF_NAME])
{
    static const char layers[] = "layers.";
    const size_t n = sizeof layers - 1;
    if (c->names == NULL) {
        (void)snprintf(out, LX_HF_NAME, "%s", own);
    } else if (strncmp(own, layers, n) != 0) {
        translate(c->names->model, own, out, LX_HF_NAME);
    } else {
        size_t digits = strspn(own + n, "0123456789");
        int32_t layer = (int32_t)strtol(own + n, NULL, 10);
        int used = snprintf(out, LX_HF_NAME, "%s%d.", c->names->layers, layer);
        char rest[LX_HF_NAME];
        translate(of_layer(c, layer), own + n + digits + 1, rest, sizeof rest - (size_t)used);
        if (rest[0] == '/')
            (void)snprintf(out, LX_HF_NAME, "%s", rest + 1);
        else
            (void)snprintf(out + used, LX_HF_NAME - (size_t)used, "%s", rest);
    }
}

const char *lx_hf_stored_head(const lx_config *c)
{
    return c->names != NULL ? "lm_head.weight" : NULL;
}

bool lx_hf_is_unused(const lx_config *c, const char *theirs)
{
    const char *const *begin = c->names != NULL ? c->names->unused : NULL;
    while (begin != NULL && *begin != NULL && strncmp(theirs, *begin, strlen(*begin)) != 0)
        begin++;
    return begin != NULL && *begin != NULL;
}
