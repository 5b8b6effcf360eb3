/*
 * Pre-tokenizers (see splitter.h). Every stage hands its pieces to the next one as they are found,
 * so a text needs no list of pieces. A stage that rewrites its pieces has a buffer for one.
 */
#include "model/tokenizers/splitter.h"

#include <string.h>

#include "model/tokenizers/letters.h"
#include "model/utf8.h"

typedef struct piece {
    size_t start, end;
} piece;

/* One stage at work on one piece of the stage before. */
typedef struct cutting {
    lx_split_run *run;
    const lx_split_stage *stage;
    const char *text;
    bool at_start; /* text begins the whole text */
    int next;      /* the stage that gets the pieces */
    piece pending; /* may still grow */
    bool has_pending, last_matched;
} cutting;

static lx_status run_stage(lx_split_run *run, int at, const char *text, size_t n, bool at_start);

void lx_splitter_fini(lx_splitter *s)
{
    for (int i = 0; i < s->n_stages; i++)
        lx_regex_free(s->stages[i].regex);
    s->n_stages = 0;
}

static lx_status give(cutting *c, piece p)
{
    if (p.start == p.end)
        return LX_OK;
    return run_stage(c->run, c->next, c->text + p.start, p.end - p.start,
                     c->at_start && p.start == 0);
}

static lx_status flush(cutting *c)
{
    bool had = c->has_pending;
    c->has_pending = false;
    return had ? give(c, c->pending) : LX_OK;
}

/* `p` follows: it makes the pending piece longer or begins the next one. */
static lx_status follow(cutting *c, piece p, bool joins)
{
    lx_status st = LX_OK;
    if (c->has_pending && joins) {
        c->pending.end = p.end;
        return LX_OK;
    }
    st = flush(c);
    c->pending = p;
    c->has_pending = true;
    return st;
}

/* The next stretch of the text, a match or what lies between two. */
static lx_status take(cutting *c, piece p, bool matched)
{
    bool last = c->last_matched;
    if (p.start == p.end)
        return LX_OK;
    matched = matched != c->stage->invert;
    c->last_matched = matched;
    switch (c->stage->behavior) {
    case LX_SPLIT_REMOVED:
        return matched ? LX_OK : give(c, p);
    case LX_SPLIT_ISOLATED:
        return give(c, p);
    case LX_SPLIT_MERGED_WITH_PREVIOUS:
        return follow(c, p, matched && !last);
    case LX_SPLIT_MERGED_WITH_NEXT:
        return follow(c, p, !matched && last);
    case LX_SPLIT_CONTIGUOUS:
        return follow(c, p, matched == last);
    }
    return LX_ERR_INTERNAL;
}

static lx_status cut(cutting *c, size_t n)
{
    lx_status st = LX_OK;
    for (size_t at = 0; st == LX_OK && at < n;) {
        size_t start, end;
        st = lx_regex_find(c->stage->regex, c->run->regex_run, c->text, n, at, &start, &end,
                           c->run->err);
        if (st == LX_OK)
            st = take(c, (piece){at, start}, false);
        if (st == LX_OK)
            st = take(c, (piece){start, end}, true);
        at = end;
    }
    return st == LX_OK ? flush(c) : st;
}

static lx_status take_buffer(const lx_split_run *run, const lx_buffer *b, const char **text,
                             size_t *n)
{
    if (b->status != LX_OK)
        return lx_fail(run->err, b->status, NULL, "a piece of the text: %s",
                       lx_status_text(b->status));
    *text = b->data;
    *n = b->length;
    return LX_OK;
}

/* The piece's bytes as letters, in the stage's buffer. */
static lx_status write_letters(lx_split_run *run, int at, const char **text, size_t *n)
{
    lx_buffer *b = &run->texts[at];
    b->length = 0;
    for (size_t i = 0; i < *n; i++) {
        char letter[4];
        lx_buffer_append(b, letter, lx_utf8_put(lx_byte_letter((unsigned char)(*text)[i]), letter));
    }
    return take_buffer(run, b, text, n);
}

/* The piece with its blanks replaced and its mark put before, in the stage's buffer. */
static lx_status rewrite(lx_split_run *run, int at, const char **text, size_t *n, bool at_start)
{
    const lx_split_stage *s = &run->splitter->stages[at];
    size_t n_mark = strlen(s->mark);
    bool begins = *n >= n_mark && memcmp(*text, s->mark, n_mark) == 0;
    begins = begins || (s->replaces_blanks && *n > 0 && **text == ' ');
    bool prepend = s->prepend == LX_PREPEND_ALWAYS || (s->prepend == LX_PREPEND_FIRST && at_start);
    lx_buffer *b = &run->texts[at];
    b->length = 0;
    if (prepend && !begins)
        lx_buffer_append(b, s->mark, n_mark);
    const char *end = *text + *n;
    for (const char *from = *text; from < end;) {
        const char *blank = s->replaces_blanks ? memchr(from, ' ', (size_t)(end - from)) : NULL;
        lx_buffer_append(b, from, (size_t)((blank != NULL ? blank : end) - from));
        if (blank != NULL)
            lx_buffer_append(b, s->mark, n_mark);
        from = blank != NULL ? blank + 1 : end;
    }
    return take_buffer(run, b, text, n);
}

static lx_status run_stage(lx_split_run *run, int at, const char *text, size_t n, bool at_start)
{
    if (at == run->splitter->n_stages)
        return run->piece(run->to, text, n, run->err);
    const lx_split_stage *s = &run->splitter->stages[at];
    lx_status st = LX_OK;
    if (s->writes_letters)
        st = write_letters(run, at, &text, &n);
    else if (s->mark[0] != '\0')
        st = rewrite(run, at, &text, &n, at_start);
    if (st != LX_OK)
        return st;
    if (s->regex == NULL)
        return run_stage(run, at + 1, text, n, at_start);
    cutting c = {.run = run, .stage = s, .text = text, .at_start = at_start, .next = at + 1};
    return cut(&c, n);
}

lx_status lx_split(lx_split_run *run, const char *text, size_t n, bool at_start)
{
    return n == 0 ? LX_OK : run_stage(run, 0, text, n, at_start);
}
