/* See chat_marks.h. */
#include "model/chat_marks.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "model/jinja/chat.h"
#include "model/tokenizers/tokenizer.h"

enum { MOST_TEXT = 1 << 20, MOST_TOKENS = 1 << 16 };

typedef struct search {
    const lx_tokenizer *tokenizer;
    lx_chat_marks *out;
    bool full;
} search;

/* A mark that is a special token needs no other guard. */
static void add(search *s, const char *text, size_t n)
{
    char name[LX_MARK_BYTES];
    if (n == 0 || n >= sizeof name)
        return;
    memcpy(name, text, n);
    name[n] = '\0';
    int32_t id = lx_tokenizer_find(s->tokenizer, name);
    if (id >= 0 && lx_tokenizer_is_special(s->tokenizer, id))
        return;
    for (int32_t i = 0; i < s->out->n; i++)
        if (strcmp(s->out->mark[i].text, name) == 0)
            return;
    s->full = s->full || s->out->n == LX_MAX_MARKS;
    if (s->full)
        return;
    lx_chat_mark *mark = &s->out->mark[s->out->n++];
    memcpy(mark->text, name, n + 1);
    mark->ends = id < 0;
}

/* --- <|name|> --- */

/* DeepSeek's marks have bars of full width. */
static const struct {
    const char *open, *close;
} bars[] = {{"<|", "|>"}, {"<\uff5c", "\uff5c>"}};

/* The bytes of the mark that text[n] begins with; 0: none. */
static size_t measure_mark(const char *text, size_t n)
{
    for (size_t k = 0; k < sizeof bars / sizeof *bars; k++) {
        size_t open = strlen(bars[k].open), close = strlen(bars[k].close);
        if (n <= open || memcmp(text, bars[k].open, open) != 0)
            continue;
        for (size_t i = open; i + close <= n && i + close < LX_MARK_BYTES; i++) {
            if (i > open && memcmp(text + i, bars[k].close, close) == 0)
                return i + close;
            if (isspace((unsigned char)text[i]) || strchr("'\"{}", text[i]) != NULL)
                break;
        }
    }
    return 0;
}

static void add_marks(search *s, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add(s, text + i, measure_mark(text + i, n - i));
}

static bool has_mark(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (measure_mark(text + i, n - i) > 0)
            return true;
    return false;
}

/* --- labels: lines that name a role --- */

static lx_status has_special(const search *s, const char *text, size_t n, bool *has, lx_error *err)
{
    lx_token_list list;
    lx_error why = {0};
    lx_token_list_init(&list, MOST_TOKENS);
    lx_status st = lx_tokenizer_encode(s->tokenizer, text, n, 0, &list, &why);
    for (size_t i = 0; st == LX_OK && i < list.n; i++)
        *has = *has || lx_tokenizer_is_special(s->tokenizer, list.ids[i]);
    lx_token_list_fini(&list);
    return st == LX_ERR_NO_MEMORY ? lx_fail(err, st, NULL, "%s", why.text) : LX_OK;
}

static size_t count_feeds(const char *text, size_t n)
{
    size_t feeds = 0;
    while (feeds < n && text[feeds] == '\n')
        feeds++;
    return feeds;
}

static bool has_letter(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isalpha((unsigned char)text[i]))
            return true;
    return false;
}

static size_t strip_end(const char *text, size_t n)
{
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    return n;
}

/* The template's text[n] after a message: "\n\nUser: " or " [/INST] ". */
static lx_status add_label(search *s, const char *text, size_t n, lx_error *err)
{
    bool special = false;
    lx_status st = has_special(s, text, n, &special, err);
    n = strip_end(text, n);
    if (st != LX_OK || special || has_mark(text, n) || !has_letter(text, n))
        return st;
    size_t blanks = strspn(text, " ");
    if (text[0] == '\n' || (blanks < n && strchr("[<#", text[blanks]) != NULL))
        add(s, text + (text[0] == '\n' ? 0 : blanks), n - (text[0] == '\n' ? 0 : blanks));
    return LX_OK;
}

/* The label before the first message, in front of which other messages have `feeds` line feeds. */
static lx_status add_first_label(search *s, const char *text, size_t n, size_t feeds, lx_error *err)
{
    char label[LX_MARK_BYTES];
    n = strip_end(text, n);
    size_t start = n;
    while (start > 0 && text[start - 1] != '\n')
        start--;
    if (feeds == 0 || feeds + n - start >= sizeof label)
        return LX_OK;
    memset(label, '\n', feeds);
    memcpy(label + feeds, text + start, n - start);
    label[feeds + n - start] = '\0';
    return add_label(s, label, feeds + n - start, err);
}

/* In the text of a chat: what stands before each message, and after the last. */
static lx_status add_labels(search *s, const lx_jinja_text *t, lx_error *err)
{
    lx_status st = LX_OK;
    size_t first = 0, feeds = 0;
    while (first < t->n && t->marks[first] == 0)
        first++;
    for (size_t at = first; st == LX_OK && at < t->n;) {
        while (at < t->n && t->marks[at] == 1)
            at++;
        size_t start = at;
        while (at < t->n && t->marks[at] == 0)
            at++;
        feeds = feeds > 0 ? feeds : count_feeds(t->bytes + start, at - start);
        st = add_label(s, t->bytes + start, at - start, err);
    }
    return st == LX_OK ? add_first_label(s, t->bytes, first, feeds, err) : st;
}

/* --- a template --- */

/* A chat with one message of each role; a template may refuse it. */
static lx_status search_chat(search *s, const lx_jinja *t, lx_jinja_chat *chat, lx_error *err)
{
    lx_error why = {0};
    lx_jinja_text text;
    lx_status st = lx_jinja_render_chat(t, chat, 0, MOST_TEXT, &text, &why);
    if (st != LX_OK)
        return st == LX_ERR_NO_MEMORY ? lx_fail(err, st, NULL, "%s", why.text) : LX_OK;
    add_marks(s, text.bytes, text.n);
    st = add_labels(s, &text, err);
    free(text.bytes);
    free(text.marks);
    return st;
}

lx_status lx_chat_find_marks(const lx_jinja *t, const char *text, const char *begin,
                             const char *end, const lx_tokenizer *tokenizer, lx_chat_marks *out,
                             lx_error *err)
{
    static const lx_jinja_message messages[] = {{.role = "system", .text = "0", .bytes = 1},
                                                {.role = "user", .text = "1", .bytes = 1},
                                                {.role = "assistant", .text = "2", .bytes = 1},
                                                {.role = "user", .text = "3", .bytes = 1}};
    search s = {.tokenizer = tokenizer, .out = out};
    add_marks(&s, text, strlen(text));
    lx_status st = LX_OK;
    for (int32_t skipped = 0; st == LX_OK && skipped < 2; skipped++) { /* without the system, too */
        lx_jinja_chat chat = {.messages = messages + skipped,
                              .n = 4 - skipped,
                              .begin = begin,
                              .end = end,
                              .answers = true};
        st = search_chat(&s, t, &chat, err);
    }
    if (st != LX_OK || !s.full)
        return st;
    return lx_fail(err, LX_ERR_UNSUPPORTED, NULL,
                   "more than %d of its marks are no special tokens of the model", LX_MAX_MARKS);
}
