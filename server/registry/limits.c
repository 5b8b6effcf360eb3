#include "server/registry/limits.h"

#include <stdlib.h>
#include <string.h>

static int32_t place_of(const lx_model_limits *l, const char *model)
{
    int32_t i = l->n - 1;
    while (i >= 0 && strcmp(l->list[i].model, model) != 0)
        i--;
    return i;
}

/* entry[0 .. n) is "NAME=NUMBER". */
static lx_status add_entry(lx_model_limits *l, const char *entry, size_t n, int32_t most,
                           lx_error *err)
{
    const char *equals = memchr(entry, '=', n);
    size_t name = equals != NULL ? (size_t)(equals - entry) : 0;
    char *end = NULL;
    long long value = equals != NULL ? strtoll(equals + 1, &end, 10) : 0;
    if (name == 0 || name >= LX_LIMIT_NAME || equals[1] < '0' || equals[1] > '9' ||
        end != entry + n || value < 1 || value > most)
        return lx_fail(err, LX_ERR_INVALID, l->flag,
                       "--%s: \"%.*s\" is not MODEL=NUMBER with a number from 1 to %d", l->flag,
                       (int)(n < LX_LIMIT_NAME ? n : LX_LIMIT_NAME), entry, most);
    if (l->n == LX_MAX_MODELS)
        return lx_fail(err, LX_ERR_INVALID, l->flag, "--%s has more than %d entries", l->flag,
                       LX_MAX_MODELS);
    char *model = l->list[l->n].model;
    memcpy(model, entry, name);
    model[name] = '\0';
    if (place_of(l, model) >= 0)
        return lx_fail(err, LX_ERR_INVALID, l->flag, "--%s names model %s twice", l->flag, model);
    l->list[l->n++].value = (int32_t)value;
    return LX_OK;
}

lx_status lx_model_limits_read(const char *text, const char *flag, int32_t most,
                               lx_model_limits *out, lx_error *err)
{
    static const char between[] = ", ";
    lx_status st = LX_OK;
    *out = (lx_model_limits){.flag = flag};
    for (const char *at = text != NULL ? text : ""; st == LX_OK;) {
        at += strspn(at, between);
        size_t n = strcspn(at, between);
        if (n == 0)
            break;
        st = add_entry(out, at, n, most, err);
        at += n;
    }
    return st;
}

int32_t lx_model_limit_of(const lx_model_limits *l, const char *model, int32_t otherwise)
{
    int32_t i = place_of(l, model);
    return i >= 0 ? l->list[i].value : otherwise;
}
