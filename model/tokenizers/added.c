/* Added tokens in a text (see added.h). Words and white space are Unicode's (unicode.h). */
#include "model/tokenizers/added.h"

#include <stdlib.h>
#include <string.h>

#include "model/tokenizers/unicode.h"
#include "model/utf8.h"

void lx_added_fini(lx_added *a)
{
    lx_trie_fini(&a->trie);
    free(a->tokens);
    *a = (lx_added){0};
}

/* The character that ends at text[at], at > 0, and where it begins. */
static uint32_t before(const char *text, size_t at, size_t *start)
{
    *start = at - 1;
    while (*start > 0 && (text[*start] & 0xc0) == 0x80)
        (*start)--;
    size_t pos = *start;
    return (uint32_t)lx_utf8_next(text, at, &pos);
}

static bool touches_word(const lx_added_walk *w, size_t start, size_t end)
{
    size_t at = end;
    if (start > 0 && lx_unicode_is_word(before(w->text, start, &at)))
        return true;
    at = end;
    return end < w->n && lx_unicode_is_word((uint32_t)lx_utf8_next(w->text, w->n, &at));
}

static size_t spaces_before(const lx_added_walk *w, size_t start)
{
    size_t at;
    while (start > w->done && lx_unicode_is_space(before(w->text, start, &at)))
        start = at;
    return start;
}

static size_t spaces_behind(const lx_added_walk *w, size_t end)
{
    for (size_t at = end; at < w->n; end = at)
        if (!lx_unicode_is_space((uint32_t)lx_utf8_next(w->text, w->n, &at)))
            break;
    return end;
}

/* A match that counts: with its white space. One that begins in the white space which the token
   before it took still counts, as in the library, but with `lstrip` it begins after that. */
static bool accept(const lx_added *a, const lx_added_walk *w, int32_t place, size_t start,
                   size_t end, lx_added_span *out)
{
    const lx_added_token *t = &a->tokens[place];
    bool marked = w->marks != NULL && memchr(w->marks + start, 1, end - start) != NULL;
    if (t->special && (w->plain_specials || marked))
        return false;
    if (t->single_word && touches_word(w, start, end))
        return false;
    *out = (lx_added_span){t->id, start, t->rstrip ? spaces_behind(w, end) : end};
    if (t->lstrip)
        out->start = start < w->done ? w->done : spaces_before(w, start);
    return out->start < out->end;
}

/* Text up to `start`, if there is any, comes before the token. */
static bool give(lx_added_walk *w, lx_added_span token, lx_added_span *out)
{
    size_t text_from = w->done;
    w->done = token.end;
    if (text_from >= token.start) {
        *out = token;
        return true;
    }
    *out = (lx_added_span){-1, text_from, token.start};
    w->later = token;
    w->has_later = true;
    return true;
}

bool lx_added_next(const lx_added *a, lx_added_walk *w, lx_added_span *out)
{
    if (w->has_later) {
        w->has_later = false;
        *out = w->later;
        return true;
    }
    while (a->n > 0 && w->at < w->n) {
        lx_added_span token;
        size_t start = w->at, length = 0;
        int32_t place = lx_trie_longest(&a->trie, w->text + start, w->n - start, &length);
        w->at += place >= 0 ? length : 1;
        if (place >= 0 && accept(a, w, place, start, start + length, &token))
            return give(w, token, out);
    }
    if (w->done == w->n)
        return false;
    *out = (lx_added_span){-1, w->done, w->n};
    w->done = w->n;
    return true;
}
