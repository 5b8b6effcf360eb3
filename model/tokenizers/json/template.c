/*
 * The field `post_processor` (see parts.h): what stands before and behind every text. ByteLevel
 * only moves offsets, which are not read here.
 */
#include <string.h>

#include "model/tokenizers/json/parts.h"

enum { MAX_PARTS = 2 * LX_TEMPLATE_MAX + 1 };

/* The ids of a special token of the template, to the end of `to`. */
static void special(lx_json_reader *r, const lx_json_part *p, const lx_json_part *piece,
                    int32_t n_ids, lx_template *to)
{
    size_t n;
    lx_json_part all = lx_json_below(r, p, "special_tokens");
    lx_json_part named = lx_json_below(r, piece, "SpecialToken");
    const char *name = lx_json_text(r, &named, "id", &n);
    lx_json_part token = lx_json_below(r, &all, name);
    size_t n_entries = lx_json_count(r, &token, "ids", LX_TEMPLATE_MAX);
    json_t *ids = json_object_get(token.object, "ids");
    for (size_t i = 0; i < n_entries && r->st == LX_OK; i++) {
        json_t *id = json_array_get(ids, i);
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || value >= n_ids || to->n == LX_TEMPLATE_MAX)
            lx_json_wrong(r, p, "special_tokens", "has an id that is not in the vocabulary");
        else
            to->ids[to->n++] = (int32_t)value;
    }
}

static void template(lx_json_reader *r, const lx_json_part *p, lx_hugging_face *h)
{
    bool behind = false;
    lx_json_keys(r, p, "type|single|pair|special_tokens");
    if (h->before.n + h->behind.n > 0)
        lx_json_refuse(r, p, NULL, "a second template");
    size_t n = lx_json_count(r, p, "single", MAX_PARTS);
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        lx_json_part piece = lx_json_entry(r, p, "single", i);
        if (json_object_get(piece.object, "SpecialToken") != NULL) {
            special(r, p, &piece, h->base.pieces.n, behind ? &h->behind : &h->before);
            continue;
        }
        lx_json_part text = lx_json_below(r, &piece, "Sequence");
        if (text.object == NULL || behind)
            lx_json_wrong(r, p, "single", "must hold the text A once, and special tokens");
        else
            (void)lx_json_word(r, &text, "id", "A");
        behind = true;
    }
    if (!behind)
        lx_json_wrong(r, p, "single", "must hold the text A once, and special tokens");
}

static void one(lx_json_reader *r, const lx_json_part *p, lx_hugging_face *h)
{
    int which = lx_json_word(r, p, "type", "ByteLevel|TemplateProcessing");
    if (r->st == LX_OK && which == 1)
        template(r, p, h);
}

void lx_json_template(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h)
{
    lx_json_part p = lx_json_below(r, root, "post_processor");
    const char *type = json_string_value(json_object_get(p.object, "type"));
    if (r->st != LX_OK || p.object == NULL)
        return;
    if (type == NULL || strcmp(type, "Sequence") != 0) {
        one(r, &p, h);
        return;
    }
    lx_json_keys(r, &p, "type|processors");
    size_t n = lx_json_count(r, &p, "processors", LX_TEMPLATE_MAX);
    for (size_t i = 0; i < n && r->st == LX_OK; i++) {
        lx_json_part entry = lx_json_entry(r, &p, "processors", i);
        one(r, &entry, h);
    }
}
