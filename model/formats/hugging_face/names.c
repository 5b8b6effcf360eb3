/* See names.h. */
#include "model/formats/hugging_face/names.h"

#include <stdio.h>
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

void lx_hf_tensor_name(const struct lx_tensor_names *names, const char *own, char out[LX_HF_NAME])
{
    static const char layers[] = "layers.";
    const size_t n = sizeof layers - 1;
    if (names == NULL) {
        (void)snprintf(out, LX_HF_NAME, "%s", own);
    } else if (strncmp(own, layers, n) != 0) {
        translate(names->model, own, out, LX_HF_NAME);
    } else {
        size_t digits = strspn(own + n, "0123456789");
        int used = snprintf(out, LX_HF_NAME, "%s%.*s.", names->layers, (int)digits, own + n);
        char rest[LX_HF_NAME];
        translate(names->layer, own + n + digits + 1, rest, sizeof rest - (size_t)used);
        if (rest[0] == '/')
            (void)snprintf(out, LX_HF_NAME, "%s", rest + 1);
        else
            (void)snprintf(out + used, LX_HF_NAME - (size_t)used, "%s", rest);
    }
}
