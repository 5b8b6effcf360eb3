/*
 * The field `decoder` (see parts.h). A token's text does not depend on its neighbours, so it is
 * made here, once per token. Only the cut at a text's start happens later.
 */
#include <string.h>

#include "common/hex.h"
#include "model/tokenizers/json/parts.h"
#include "model/tokenizers/letters.h"
#include "model/utf8.h"

/* The decoder's changes of a token, in this order. */
typedef struct decoder {
    bool byte_level, byte_fallback, fuse, metaspace;
    lx_normalizer replaces;
    lx_normalize_run run;
} decoder;

/* --- reading --- */

static void metaspace(lx_json_reader *r, const lx_json_part *p, decoder *d, lx_hugging_face *h)
{
    lx_json_keys(r, p, "type|replacement|prepend_scheme|split|add_prefix_space|str_rep");
    lx_json_character(r, p, "replacement", h->mark);
    bool never = !lx_json_bool(r, p, "add_prefix_space", true);
    if (json_object_get(p->object, "prepend_scheme") != NULL)
        never = lx_json_word(r, p, "prepend_scheme", "always|first|never") == 2;
    h->first_without_marks = !never;
    d->metaspace = true;
}

static void strip(lx_json_reader *r, const lx_json_part *p, const decoder *d, lx_hugging_face *h)
{
    char content[5];
    lx_json_keys(r, p, "type|content|start|stop");
    lx_json_character(r, p, "content", content);
    h->base.strip = (int)lx_json_int(r, p, "start", 0, 1024);
    if (lx_json_int(r, p, "stop", 0, 1024) != 0)
        lx_json_refuse(r, p, "stop", "more than 0");
    if (strcmp(content, " ") != 0)
        lx_json_refuse(r, p, "content", content);
    if (!d->fuse)
        lx_json_refuse(r, p, NULL, "Strip before Fuse");
}

static void replace(lx_json_reader *r, const lx_json_part *p, decoder *d)
{
    lx_json_replace(r, p, &d->replaces);
    if (d->replaces.has_regex)
        lx_json_refuse(r, p, "pattern", "Regex");
}

static void one(lx_json_reader *r, const lx_json_part *p, decoder *d, lx_hugging_face *h)
{
    int which = lx_json_word(r, p, "type", "ByteLevel|Replace|ByteFallback|Fuse|Strip|Metaspace");
    bool done = d->byte_level || d->metaspace || h->base.strip > 0;
    if (done || (d->fuse && which != 4))
        lx_json_refuse(r, p, NULL, "a step at this place");
    if (r->st != LX_OK)
        return;
    if (which == 0)
        d->byte_level = true;
    else if (which == 1)
        replace(r, p, d);
    else if (which == 2)
        d->byte_fallback = true;
    else if (which == 3)
        d->fuse = true;
    else if (which == 4)
        strip(r, p, d, h);
    else
        metaspace(r, p, d, h);
}

static void read(lx_json_reader *r, const lx_json_part *root, decoder *d, lx_hugging_face *h)
{
    lx_json_part p = lx_json_below(r, root, "decoder");
    const char *type = json_string_value(json_object_get(p.object, "type"));
    if (p.object == NULL)
        lx_json_wrong(r, root, "decoder", "is missing");
    if (r->st != LX_OK)
        return;
    if (type == NULL || strcmp(type, "Sequence") != 0) {
        one(r, &p, d, h);
    } else {
        lx_json_keys(r, &p, "type|decoders");
        size_t n = lx_json_count(r, &p, "decoders", LX_NORMALIZE_MAX_STEPS);
        for (size_t i = 0; i < n && r->st == LX_OK; i++) {
            lx_json_part entry = lx_json_entry(r, &p, "decoders", i);
            one(r, &entry, d, h);
        }
    }
    bool of_bytes = h->base.family == &lx_byte_level_family;
    bool mixed = d->byte_level && (d->replaces.n_steps > 0 || d->byte_fallback || d->fuse);
    if (mixed || d->byte_level != of_bytes || (d->metaspace && d->replaces.n_steps > 0))
        lx_json_refuse(r, &p, NULL, "this mixture of steps");
}

/* --- tokens --- */

/* Letters to bytes; a text with another character stays as it is. */
static void from_letters(const char *text, size_t n, lx_buffer *out)
{
    for (size_t at = 0; at < n;) {
        int32_t c = lx_utf8_next(text, n, &at);
        int byte = c >= 0 ? lx_letter_byte((uint32_t)c) : -1;
        char one_byte = (char)byte;
        if (byte < 0) {
            out->length = 0;
            lx_buffer_append(out, text, n);
            return;
        }
        lx_buffer_append(out, &one_byte, 1);
    }
}

/* The byte of "<0xNN>", -1 for another text. */
static int byte_of(const char *text, size_t n)
{
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    int high = lx_hex_digit(text[3]), low = lx_hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* A buffer for the bytes of a token, as an empty text. */
static lx_buffer *start(decoder *d)
{
    lx_buffer *b = &d->run.buffers[0];
    b->length = 0;
    lx_buffer_append(b, "", 0);
    return b;
}

/* The buffer's bytes become those of token `id`. */
static void store(lx_json_reader *r, const decoder *d, int32_t id, lx_texts *to)
{
    const lx_buffer *b = &d->run.buffers[0];
    if (b->status != LX_OK)
        lx_json_keep(r, lx_fail(r->err, LX_ERR_NO_MEMORY, NULL, "no memory for a token"));
    else
        lx_json_keep(r, lx_texts_set(to, id, b->data, b->length, r->err));
}

/* Every mark by a blank, or left out. */
static void set_marked(lx_json_reader *r, const char *mark, const char *blank, const char *text,
                       size_t n, int32_t id, decoder *d, lx_texts *to)
{
    char pattern[5], content[2];
    memcpy(pattern, mark, sizeof pattern);
    memcpy(content, blank, strlen(blank) + 1);
    lx_normalize_step s = {.pattern = pattern,
                           .content = content,
                           .n_pattern = strlen(mark),
                           .n_content = strlen(blank)};
    lx_replace_all(text, n, &s, start(d));
    store(r, d, id, to);
}

static void set_piece(lx_json_reader *r, const char *text, size_t n, int32_t id, decoder *d,
                      lx_hugging_face *h)
{
    if (d->metaspace) {
        set_marked(r, h->mark, " ", text, n, id, d, &h->base.pieces);
        if (h->first_without_marks && r->st == LX_OK)
            set_marked(r, h->mark, "", text, n, id, d, &h->first_pieces);
        return;
    }
    if (d->byte_level) {
        from_letters(text, n, start(d));
        store(r, d, id, &h->base.pieces);
        return;
    }
    lx_json_keep(r, lx_normalize(&d->replaces, text, n, &d->run, &text, &n, r->err));
    int byte = r->st == LX_OK && d->byte_fallback ? byte_of(text, n) : -1;
    char one_byte = (char)byte;
    if (r->st == LX_OK)
        lx_json_keep(r, lx_texts_set(&h->base.pieces, id, byte >= 0 ? &one_byte : text,
                                     byte >= 0 ? 1 : n, r->err));
}

void lx_json_decoder(lx_json_reader *r, const lx_json_part *root, lx_hugging_face *h)
{
    decoder d = {.byte_level = false};
    lx_normalize_run_init(&d.run, 64 * (size_t)LX_TOKENIZER_MAX_TOKEN);
    read(r, root, &d, h);
    if (r->st == LX_OK)
        lx_json_keep(r, lx_texts_init(&h->first_pieces, h->names.n, r->err));
    for (int32_t id = 0; id < h->names.n && r->st == LX_OK; id++) {
        size_t n;
        const char *text = lx_texts_get(&h->added_texts, id, &n);
        if (text == NULL)
            text = lx_texts_get(&h->names, id, &n);
        if (text != NULL)
            set_piece(r, text, n, id, &d, h);
    }
    lx_normalizer_fini(&d.replaces);
    lx_normalize_run_fini(&d.run);
}
