/* Values of metadata for the readers of its parts (see reader.h). */
#include <stdio.h>
#include <string.h>

#include "model/formats/gguf/reader.h"

enum { MAX_KEY = 256 };

void lx_gguf_wrong(lx_gguf_reader *r, const char *key, const char *what)
{
    char quoted[MAX_KEY];
    if (r->st == LX_OK)
        r->st = lx_fail(r->err, LX_ERR_FORMAT, NULL, "%s: %s.%s %s", r->f->label, r->arch,
                        lx_file_quote(key, quoted, sizeof quoted), what);
}

/* The value under a key of the architecture, which is marked as used; NULL: there is none. */
static lx_gguf_value *look(lx_gguf_reader *r, const char *key)
{
    char full[MAX_KEY];
    (void)snprintf(full, sizeof full, "%s.%s", r->arch, key);
    lx_gguf_value *v = r->st == LX_OK ? lx_gguf_find(r->f, full) : NULL;
    if (v != NULL)
        v->used = true;
    return v;
}

bool lx_gguf_is_number(const lx_gguf_value *v)
{
    return !v->is_array && v->kind != LX_GGUF_TEXT && v->kind != LX_GGUF_BOOL;
}

double lx_gguf_real(lx_gguf_reader *r, const char *key, double min, double max, double fallback)
{
    char what[96];
    const lx_gguf_value *v = look(r, key);
    double x = v != NULL && lx_gguf_is_number(v) ? lx_gguf_number_at(r->f, v, 0) : fallback;
    if (v == NULL && !(fallback >= min && fallback <= max)) {
        lx_gguf_wrong(r, key, "is missing");
    } else if (v != NULL && (!lx_gguf_is_number(v) || !(x >= min && x <= max))) {
        (void)snprintf(what, sizeof what, "must be a number from %g to %g", min, max);
        lx_gguf_wrong(r, key, what);
    }
    return r->st == LX_OK ? x : 0;
}

int32_t lx_gguf_int(lx_gguf_reader *r, const char *key, int32_t min, int32_t max, int64_t fallback)
{
    char what[96];
    const lx_gguf_value *v = look(r, key);
    bool whole =
        v != NULL && lx_gguf_is_number(v) && v->kind != LX_GGUF_F32 && v->kind != LX_GGUF_F64;
    double x = whole ? lx_gguf_number_at(r->f, v, 0) : (double)fallback;
    if (v == NULL && fallback == LX_GGUF_NEEDED) {
        lx_gguf_wrong(r, key, "is missing");
    } else if (v != NULL && (!whole || !(x >= min && x <= max))) {
        (void)snprintf(what, sizeof what, "must be a whole number from %d to %d", min, max);
        lx_gguf_wrong(r, key, what);
    }
    return r->st == LX_OK ? (int32_t)x : 0;
}

lx_status lx_gguf_text(const lx_gguf *f, const char *key, char **out, lx_error *err)
{
    const lx_gguf_value *v = lx_gguf_find(f, key);
    size_t n = 0;
    *out = NULL;
    if (v == NULL)
        return LX_OK;
    uint64_t at = v->at;
    const char *text = v->kind == LX_GGUF_TEXT && !v->is_array ? lx_gguf_text_at(f, &at, &n) : NULL;
    if (text == NULL || memchr(text, '\0', n) != NULL)
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: %s must be a text without a NUL", f->label,
                       key);
    *out = strndup(text, n);
    return *out != NULL ? LX_OK : lx_fail(err, LX_ERR_NO_MEMORY, NULL, "%s: no memory", f->label);
}

lx_status lx_gguf_token(const lx_gguf *f, const char *key, int32_t *out, lx_error *err)
{
    const lx_gguf_value *v = lx_gguf_find(f, key);
    double x = v != NULL && lx_gguf_is_number(v) ? lx_gguf_number_at(f, v, 0) : -1;
    *out = -1;
    if (v == NULL)
        return LX_OK;
    if (!(x >= 0 && x < LX_MAX_IDS && x == (double)(int32_t)x))
        return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: %s must be a token's number", f->label, key);
    *out = (int32_t)x;
    return LX_OK;
}
