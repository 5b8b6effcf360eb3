/* The field `normalizer` (see parts.h). */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizers/json/parts.h"
#include "model/tokenizers/unicode.h"

/* A copy of text[n] with a NUL behind it. */
static char *copy(lx_json_reader *r, const char *text, size_t n)
{
    char *out = malloc(n + 1);
    if (out == NULL) {
        lx_json_keep(r, lx_fail(r->err, LX_ERR_NO_MEMORY, NULL, "no memory for a normalizer"));
        return NULL;
    }
    memcpy(out, text, n);
    out[n] = '\0';
    return out;
}

/* The next step, NULL when there are too many. */
static lx_normalize_step *next_step(lx_json_reader *r, const lx_json_part *p, lx_normalizer *out)
{
    if (out->n_steps == LX_NORMALIZE_MAX_STEPS)
        lx_json_wrong(r, p, NULL, "is one step too many");
    return r->st == LX_OK ? &out->steps[out->n_steps++] : NULL;
}

void lx_json_replace(lx_json_reader *r, const lx_json_part *p, lx_normalizer *out)
{
    bool is_regex;
    size_t n_pattern, n_content;
    lx_json_keys(r, p, "type|pattern|content");
    const char *pattern = lx_json_pattern(r, p, &n_pattern, &is_regex);
    const char *content = lx_json_text(r, p, "content", &n_content);
    if (is_regex)
        lx_json_refuse(r, p, "pattern", "Regex");
    lx_normalize_step *s = next_step(r, p, out);
    if (s == NULL)
        return;
    *s = (lx_normalize_step){.kind = LX_NORMALIZE_REPLACE,
                             .pattern = copy(r, pattern, n_pattern),
                             .content = copy(r, content, n_content),
                             .n_pattern = n_pattern,
                             .n_content = n_content};
}

static void prepend(lx_json_reader *r, const lx_json_part *p, lx_normalizer *out)
{
    size_t n;
    lx_json_keys(r, p, "type|prepend");
    const char *text = lx_json_text(r, p, "prepend", &n);
    lx_normalize_step *s = next_step(r, p, out);
    if (s != NULL)
        *s = (lx_normalize_step){
            .kind = LX_NORMALIZE_PREPEND, .content = copy(r, text, n), .n_content = n};
}

static void one(lx_json_reader *r, const lx_json_part *p, lx_normalizer *out)
{
    static const lx_normalize_kind kinds[] = {
        LX_NORMALIZE_PREPEND, LX_NORMALIZE_REPLACE, LX_NORMALIZE_NFC,
        LX_NORMALIZE_NFD,     LX_NORMALIZE_NFKC,    LX_NORMALIZE_NFKD,
    };
    lx_normalize_kind kind = kinds[lx_json_word(r, p, "type", "Prepend|Replace|NFC|NFD|NFKC|NFKD")];
    if (r->st != LX_OK)
        return;
    if (kind == LX_NORMALIZE_PREPEND) {
        prepend(r, p, out);
    } else if (kind == LX_NORMALIZE_REPLACE) {
        lx_json_replace(r, p, out);
    } else {
        lx_json_keep(r, lx_unicode_check("normalizer", r->err));
        lx_json_keys(r, p, "type");
        lx_normalize_step *s = next_step(r, p, out);
        if (s != NULL)
            *s = (lx_normalize_step){.kind = kind};
    }
}

void lx_json_normalizer(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h)
{
    lx_json_part p = lx_json_below(r, root, "normalizer");
    const char *type = json_string_value(json_object_get(p.object, "type"));
    if (r->st != LX_OK || p.object == NULL)
        return;
    if (type == NULL || strcmp(type, "Sequence") != 0) {
        one(r, &p, &h->normalizer);
        return;
    }
    lx_json_keys(r, &p, "type|normalizers");
    size_t n = lx_json_count(r, &p, "normalizers", LX_NORMALIZE_MAX_STEPS);
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        lx_json_part entry = lx_json_entry(r, &p, "normalizers", i);
        one(r, &entry, &h->normalizer);
    }
}
