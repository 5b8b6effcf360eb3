/* Normalizers (see normalizer.h). A text that no normal form can change is passed on as it is. */
#include "model/tokenizers/normalizer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model/tokenizers/unicode.h"

void lx_normalizer_fini(lx_normalizer *n)
{
    for (int i = 0; i < n->n_steps; i++) {
        free(n->steps[i].pattern);
        free(n->steps[i].content);
    }
    n->n_steps = 0;
}

void lx_replace_all(const char *text, size_t n, const lx_normalize_step *s, lx_buffer *out)
{
    const char *end = text + n;
    for (const char *at = text; at < end;) {
        const char *hit = memmem(at, (size_t)(end - at), s->pattern, s->n_pattern);
        lx_buffer_append(out, at, (size_t)((hit != NULL ? hit : end) - at));
        if (hit == NULL)
            break;
        lx_buffer_append(out, s->content, s->n_content);
        at = hit + s->n_pattern;
    }
}

/* Whether the form leaves every character alone, whatever its neighbours: below U+0300 for NFC,
 * ASCII for all other forms. */
static bool is_plain(const char *text, size_t n, lx_normalize_kind kind)
{
    unsigned char first = kind == LX_NORMALIZE_NFC ? 0xcc : 0x80;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= first)
            return false;
    return true;
}

static void run_step(const lx_normalize_step *s, const char *text, size_t n, lx_buffer *out)
{
    if (s->kind == LX_NORMALIZE_REPLACE) {
        lx_replace_all(text, n, s, out);
    } else if (s->kind == LX_NORMALIZE_PREPEND) {
        lx_buffer_append(out, s->content, s->n_content);
        lx_buffer_append(out, text, n);
    } else {
        lx_unicode_normalize((lx_unicode_form)(s->kind - LX_NORMALIZE_NFC), text, n, out);
    }
}

lx_status lx_normalize(const lx_normalizer *nz, const char *text, size_t n, lx_buffer buffers[2],
                       const char **out, size_t *n_out, lx_error *err)
{
    int which = 0;
    for (int i = 0; i < nz->n_steps && n > 0; i++) {
        const lx_normalize_step *s = &nz->steps[i];
        if (s->kind >= LX_NORMALIZE_NFC && is_plain(text, n, s->kind))
            continue;
        lx_buffer *b = &buffers[which];
        which = !which;
        b->length = 0;
        lx_buffer_append(b, "", 0);
        run_step(s, text, n, b);
        if (b->status != LX_OK)
            return lx_fail(err, b->status, NULL, "the normalized text: %s",
                           lx_status_text(b->status));
        text = b->data;
        n = b->length;
    }
    *out = text;
    *n_out = n;
    return LX_OK;
}
