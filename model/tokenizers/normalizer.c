/* Normalizers (see normalizer.h). A text that no normal form can change is passed on as it is. */
#include "model/tokenizers/normalizer.h"

#include <stdlib.h>
#include <string.h>

#include "model/tokenizers/unicode.h"
#include "model/utf8.h"

void lx_normalizer_fini(lx_normalizer *n)
{
    for (int i = 0; i < n->n_steps; i++) {
        free(n->steps[i].pattern);
        free(n->steps[i].content);
        lx_regex_free(n->steps[i].regex);
        lx_charsmap_free(n->steps[i].charsmap);
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

static void strip(bool left, bool right, const char *text, size_t n, lx_buffer *out)
{
    size_t start = 0, end = 0;
    for (size_t at = 0, from = 0; at < n; from = at) {
        bool space = lx_unicode_is_space((uint32_t)lx_utf8_next(text, n, &at));
        if (space && left && start == from)
            start = at;
        if (!space || !right)
            end = at;
    }
    if (end > start)
        lx_buffer_append(out, text + start, end - start);
}

static void change_characters(const lx_normalize_step *s, const char *text, size_t n,
                              lx_buffer *out)
{
    for (size_t at = 0; at < n;) {
        char bytes[4];
        uint32_t c = (uint32_t)lx_utf8_next(text, n, &at), lower[2] = {c};
        int count = 1;
        if (s->kind == LX_NORMALIZE_LOWERCASE)
            count = lx_unicode_lower(c, lower);
        else if (lx_unicode_is_mark(c))
            count = 0;
        for (int i = 0; i < count; i++)
            lx_buffer_append(out, bytes, lx_utf8_put(lower[i], bytes));
    }
}

/* Every match by the content. */
static lx_status replace_matches(const lx_normalize_step *s, const char *text, size_t n,
                                 lx_regex_run *run, lx_buffer *out, lx_error *err)
{
    lx_status st = LX_OK;
    for (size_t at = 0; st == LX_OK && at < n;) {
        size_t start, end;
        st = lx_regex_find(s->regex, run, text, n, at, &start, &end, err);
        lx_buffer_append(out, text + at, start - at);
        if (start < n)
            lx_buffer_append(out, s->content, s->n_content);
        at = end;
    }
    return st;
}

static lx_status run_step(const lx_normalize_step *s, const char *text, size_t n,
                          const lx_normalize_run *run, lx_buffer *out, lx_error *err)
{
    switch (s->kind) {
    case LX_NORMALIZE_REPLACE:
        if (s->regex != NULL)
            return replace_matches(s, text, n, run->regex, out, err);
        lx_replace_all(text, n, s, out);
        break;
    case LX_NORMALIZE_PREPEND:
        lx_buffer_append(out, s->content, run->begins_inside ? 0 : s->n_content);
        lx_buffer_append(out, text, n);
        break;
    case LX_NORMALIZE_STRIP:
        strip(s->left && !run->begins_inside, s->right && !run->ends_inside, text, n, out);
        break;
    case LX_NORMALIZE_STRIP_ACCENTS:
    case LX_NORMALIZE_LOWERCASE:
        change_characters(s, text, n, out);
        break;
    case LX_NORMALIZE_CHARSMAP:
        lx_charsmap_replace(s->charsmap, text, n, out);
        break;
    default:
        lx_unicode_normalize((lx_unicode_form)(s->kind - LX_NORMALIZE_NFC), text, n, out);
    }
    return LX_OK;
}

void lx_normalize_run_init(lx_normalize_run *run, size_t max)
{
    *run = (lx_normalize_run){.regex = NULL};
    for (int i = 0; i < 2; i++)
        lx_buffer_init(&run->buffers[i], max);
}

void lx_normalize_run_fini(lx_normalize_run *run)
{
    for (int i = 0; i < 2; i++)
        lx_buffer_fini(&run->buffers[i]);
}

lx_status lx_normalize(const lx_normalizer *nz, const char *text, size_t n, lx_normalize_run *run,
                       const char **out, size_t *n_out, lx_error *err)
{
    int which = 0;
    for (int i = 0; i < nz->n_steps && n > 0; i++) {
        const lx_normalize_step *s = &nz->steps[i];
        if (s->kind >= LX_NORMALIZE_NFC && is_plain(text, n, s->kind))
            continue;
        lx_buffer *b = &run->buffers[which];
        which = !which;
        b->length = 0;
        lx_buffer_append(b, "", 0);
        lx_status st = run_step(s, text, n, run, b, err);
        if (st != LX_OK)
            return st;
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
