/* Compiled normalization rules of SentencePiece (see charsmap.h). */
#include "model/tokenizers/charsmap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model/tokenizers/unicode.h"
#include "model/utf8.h"

enum { HEAD = 4, UNIT = 4, MAX_CLUSTER = 5 };

struct lx_charsmap {
    uint8_t *bytes; /* owned */
    const uint8_t *units, *texts;
    size_t n_units, n_texts;
};

static uint32_t u32_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

lx_status lx_charsmap_new(uint8_t *bytes, size_t n, lx_charsmap **out, lx_error *err)
{
    size_t size = n >= HEAD ? u32_at(bytes) : 0;
    bool ok = size >= UNIT && size % UNIT == 0 && size <= n - HEAD;
    lx_charsmap *m = ok ? calloc(1, sizeof *m) : NULL;
    if (m == NULL) {
        free(bytes);
        return ok ? lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a table of characters")
                  : lx_fail(err, LX_ERR_FORMAT, NULL,
                            "precompiled_charsmap is not a table of characters");
    }
    *m = (lx_charsmap){.bytes = bytes,
                       .units = bytes + HEAD,
                       .n_units = size / UNIT,
                       .texts = bytes + HEAD + size,
                       .n_texts = n - HEAD - size};
    *out = m;
    return LX_OK;
}

void lx_charsmap_free(lx_charsmap *m)
{
    if (m != NULL)
        free(m->bytes);
    free(m);
}

/* Units of darts-clone: the offset to the children, the label with the bit of a leaf. */
static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

static uint32_t label_of(uint32_t unit)
{
    return unit & (1u << 31 | 0xff);
}

static bool has_leaf(uint32_t unit)
{
    return (unit >> 8 & 1) != 0;
}

/* The text at a place of the table; NULL where it is out of bounds or not UTF-8. */
static const char *text_at(const lx_charsmap *m, size_t place, size_t *n)
{
    if (place >= m->n_texts)
        return NULL;
    const char *text = (const char *)m->texts + place;
    *n = strnlen(text, m->n_texts - place);
    for (size_t at = 0; at < *n;)
        if (lx_utf8_next(text, *n, &at) < 0)
            return NULL;
    return text;
}

/* The replacement of the shortest beginning of text[n] that has one, NULL for none. */
static const char *find(const lx_charsmap *m, const char *text, size_t n, size_t *n_found)
{
    size_t node = offset_of(u32_at(m->units));
    for (size_t i = 0; i < n && text[i] != '\0'; i++) {
        node ^= (unsigned char)text[i];
        uint32_t unit = node < m->n_units ? u32_at(m->units + UNIT * node) : 0;
        if (label_of(unit) != (unsigned char)text[i])
            return NULL;
        node ^= offset_of(unit);
        if (has_leaf(unit))
            return node < m->n_units
                       ? text_at(m, u32_at(m->units + UNIT * node) & 0x7fffffff, n_found)
                       : NULL;
    }
    return NULL;
}

void lx_charsmap_replace(const lx_charsmap *m, const char *text, size_t n, lx_buffer *out)
{
    for (size_t at = 0, end; at < n && out->status == LX_OK; at = end) {
        size_t n_found = 0;
        end = lx_unicode_cluster_end(text, n, at);
        const char *found = end - at <= MAX_CLUSTER ? find(m, text + at, end - at, &n_found) : NULL;
        if (found != NULL)
            lx_buffer_append(out, found, n_found);
        for (size_t from = at, to = at; found == NULL && from < end; from = to) {
            (void)lx_utf8_next(text, end, &to);
            const char *own = find(m, text + from, to - from, &n_found);
            lx_buffer_append(out, own != NULL ? own : text + from,
                             own != NULL ? n_found : to - from);
        }
    }
}
