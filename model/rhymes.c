#include "model/rhymes.h"

#include <stdbool.h>
#include <stdlib.h>

#include "model/utf8.h"

typedef struct rhyme {
    uint32_t codepoint;
    int32_t group;
} rhyme;

struct lx_rhymes {
    int32_t n_groups, n_tokens;
    int8_t *groups; /* [n_tokens] */
    size_t n;
    rhyme rhymes[]; /* [n], ascending */
};

static int compare(const void *a, const void *b)
{
    uint32_t x = ((const rhyme *)a)->codepoint, y = ((const rhyme *)b)->codepoint;
    return (x > y) - (x < y);
}

/* A line is a group, also the last one without its line end; an empty line is none. */
static lx_status read_groups(const char *bytes, size_t n, const char *label, lx_rhymes *r,
                             lx_error *err)
{
    bool inside = false;
    for (size_t at = 0; at < n;) {
        int32_t c = lx_utf8_next(bytes, n, &at);
        if (c == '\n') {
            inside = false;
            continue;
        }
        if (c <= ' ')
            return lx_fail(err, LX_ERR_FORMAT, NULL,
                           "%s, line %d: it is not a line of characters in UTF-8", label,
                           r->n_groups + !inside);
        r->n_groups += !inside;
        inside = true;
        if (r->n_groups > LX_MAX_RHYME_GROUPS)
            return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: more than %d groups", label,
                           LX_MAX_RHYME_GROUPS);
        r->rhymes[r->n++] = (rhyme){(uint32_t)c, r->n_groups - 1};
    }
    return LX_OK;
}

static lx_status check_once(const lx_rhymes *r, const char *label, lx_error *err)
{
    for (size_t i = 1; i < r->n; i++) {
        if (r->rhymes[i - 1].codepoint == r->rhymes[i].codepoint)
            return lx_fail(err, LX_ERR_FORMAT, NULL, "%s: U+%04X is there twice", label,
                           r->rhymes[i].codepoint);
    }
    return LX_OK;
}

static int8_t group_of(const lx_rhymes *r, const lx_tokenizer *t, int32_t token)
{
    size_t n = 0, at = 0;
    const char *text = lx_tokenizer_token(t, token, &n);
    if (text == NULL || n == 0 || lx_tokenizer_is_special(t, token))
        return -1;
    int32_t c = lx_utf8_next(text, n, &at);
    if (c < 0 || at != n)
        return -1;
    rhyme key = {(uint32_t)c, 0};
    const rhyme *found = bsearch(&key, r->rhymes, r->n, sizeof *r->rhymes, compare);
    return found != NULL ? (int8_t)found->group : -1;
}

/* Once for all: each mask of a poem's sampler asks of every token. */
static lx_status find_tokens(lx_rhymes *r, const lx_tokenizer *t, lx_error *err)
{
    int32_t n = lx_tokenizer_size(t);
    r->groups = malloc((size_t)n + 1);
    if (r->groups == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a table of rhymes");
    for (int32_t token = 0; token < n; token++)
        r->groups[token] = group_of(r, t, token);
    r->n_tokens = n;
    return LX_OK;
}

lx_status lx_rhymes_read(const char *bytes, size_t n, const char *label, const lx_tokenizer *t,
                         lx_rhymes **out, lx_error *err)
{
    lx_rhymes *r = calloc(1, sizeof *r + n * sizeof *r->rhymes); /* a byte is a character at most */
    if (r == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a table of rhymes");
    lx_status st = read_groups(bytes, n, label, r, err);
    if (st == LX_OK) {
        qsort(r->rhymes, r->n, sizeof *r->rhymes, compare);
        st = check_once(r, label, err);
    }
    if (st == LX_OK)
        st = find_tokens(r, t, err);
    if (st != LX_OK) {
        lx_rhymes_free(r);
        return st;
    }
    *out = r;
    return LX_OK;
}

/* A letter per character: A to N the groups of level tones, a to n those of oblique tones, a dot
   for no known reading. */
enum { FIRST = 0x4e00, PER_ROW = 128, MODERN_GROUPS = 14 };
static const char finals[][PER_ROW + 1] = {
#include "model/finals.def"
};

lx_status lx_rhymes_modern(const lx_tokenizer *t, lx_rhymes **out, lx_error *err)
{
    enum { N = sizeof finals / sizeof *finals * PER_ROW };
    lx_rhymes *r = calloc(1, sizeof *r + N * sizeof *r->rhymes);
    if (r == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a table of rhymes");
    for (uint32_t i = 0; i < N; i++) {
        char c = finals[i / PER_ROW][i % PER_ROW];
        int32_t group = c >= 'a' ? c - 'a' + MODERN_GROUPS : c - 'A';
        if (c != '.')
            r->rhymes[r->n++] = (rhyme){FIRST + i, group};
    }
    r->n_groups = 2 * MODERN_GROUPS;
    lx_status st = find_tokens(r, t, err);
    if (st != LX_OK)
        lx_rhymes_free(r);
    else
        *out = r;
    return st;
}

void lx_rhymes_free(lx_rhymes *r)
{
    if (r != NULL)
        free(r->groups);
    free(r);
}

int32_t lx_rhymes_groups(const lx_rhymes *r)
{
    return r != NULL ? r->n_groups : 0;
}

int32_t lx_rhymes_group(const lx_rhymes *r, int32_t token)
{
    return r != NULL && token >= 0 && token < r->n_tokens ? r->groups[token] : -1;
}
