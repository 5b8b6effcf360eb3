/* See names.h. */
#include "model/formats/hugging_face/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rest of a name after `part`; NULL where it does not begin with that. */
static const char *after(const char *name, const char *part)
{
    size_t n = strlen(part);
    return strncmp(name, part, n) == 0 && (name[n] == '.' || name[n] == '\0') ? name + n : NULL;
}

/* The rest of a name after `part`, in which a * stands for *number. */
static const char *after_numbered(const char *name, const char *part, int32_t *number)
{
    size_t n = strcspn(part, "*");
    char *end = NULL;
    if (part[n] == '\0')
        return after(name, part);
    if (strncmp(name, part, n) != 0 || name[n] < '0' || name[n] > '9')
        return NULL;
    *number = (int32_t)strtol(name + n, &end, 10);
    return after(end, part + n + 1);
}

static bool translate(const lx_tensor_name *names, const char *own, char *out, size_t size)
{
    int32_t number = 0;
    for (; names->own != NULL; names++) {
        const char *rest = after_numbered(own, names->own, &number), *theirs = names->theirs;
        if (rest == NULL)
            continue;
        int n = (int)strcspn(theirs, "*");
        if (theirs[n] == '*')
            (void)snprintf(out, size, "%.*s%d%s%s", n, theirs, number, theirs + n + 1, rest);
        else
            (void)snprintf(out, size, "%s%s", theirs, rest);
        return true;
    }
    return false;
}

static void name_of_frame(const lx_config *c, const char *own, char out[LX_HF_NAME])
{
    const struct lx_tensor_names *n = c->names;
    const lx_tensor_name frame[] = {{"embed.token", n->embed},
                                    {"input_norm", n->input_norm},
                                    {"final_norm", n->final_norm},
                                    {"head", c->tied_head      ? n->embed
                                             : n->head != NULL ? n->head
                                                               : "lm_head"},
                                    {NULL, NULL}};
    if (!translate(frame, own, out, LX_HF_NAME))
        (void)snprintf(out, LX_HF_NAME, "%s", own);
}

static void name_of_layer(const lx_config *c, const char *own, char out[LX_HF_NAME])
{
    char *end = NULL, rest[LX_HF_NAME];
    int32_t layer = (int32_t)strtol(own, &end, 10);
    const char *mixer = lx_config_mixer(c, layer)->mixer->name;
    bool found = false;
    int used = snprintf(out, LX_HF_NAME, "%s%d.", c->names->layers, layer);
    size_t size = sizeof rest - (size_t)used;
    for (int i = 0; i < LX_LAYER_TABLES && c->names->tables[i].names != NULL && !found; i++) {
        const char *only = c->names->tables[i].mixer;
        found = (only == NULL || strcmp(only, mixer) == 0) &&
                translate(c->names->tables[i].names, end + 1, rest, size);
    }
    if (!found)
        (void)snprintf(rest, size, "%s", end + 1);
    if (rest[0] == '/')
        (void)snprintf(out, LX_HF_NAME, "%s", rest + 1);
    else
        (void)snprintf(out + used, LX_HF_NAME - (size_t)used, "%s", rest);
}

void lx_hf_tensor_name(const lx_config *c, const char *own, char out[LX_HF_NAME])
{
    static const char layers[] = "layers.";
    if (c->names == NULL)
        (void)snprintf(out, LX_HF_NAME, "%s", own);
    else if (strncmp(own, layers, sizeof layers - 1) == 0)
        name_of_layer(c, own + sizeof layers - 1, out);
    else
        name_of_frame(c, own, out);
}

const char *lx_hf_stored_head(const lx_config *c)
{
    return c->names != NULL && c->names->head == NULL ? "lm_head.weight" : NULL;
}

/* Whether a tensor belongs to a layer after the last one. */
static bool is_of_further_layer(const lx_config *c, const char *theirs)
{
    size_t n = strlen(c->names->layers);
    if (strncmp(theirs, c->names->layers, n) != 0)
        return false;
    long layer = strtol(theirs + n, NULL, 10);
    return layer >= c->n_layers && layer - c->n_layers < c->n_further_layers;
}

bool lx_hf_is_unused(const lx_config *c, const char *theirs)
{
    if (c->names != NULL && is_of_further_layer(c, theirs))
        return true;
    const char *const *begin = c->names != NULL ? c->names->unused : NULL;
    while (begin != NULL && *begin != NULL && strncmp(theirs, *begin, strlen(*begin)) != 0)
        begin++;
    return begin != NULL && *begin != NULL;
}
