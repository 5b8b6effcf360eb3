/* Methods of texts, as Python's str has them. Three of them are filters, too. */
#include <string.h>

#include "model/characters.h"
#include "model/jinja/internal.h"
#include "model/utf8.h"

/* Whether the character at bytes[at] is in `among`. NULL: whether it is white space. */
static bool is_among(span t, size_t at, size_t end, const span *among)
{
    if (among == NULL)
        return lx_char_is_stripped(lx_utf8_next(t.bytes, end, &at));
    return memmem(among->bytes, among->n, t.bytes + at, end - at) != NULL;
}

static span strip(run *r, span t, const span *among, int sides)
{
    size_t first = 0, last = t.n;
    lx_jinja_charge(r, t.n);
    while ((sides & LEFT) != 0 && first < last) {
        size_t next = first + lx_jinja_offset(part_of(t, first, last), 1);
        if (!is_among(t, first, next, among))
            break;
        first = next;
    }
    while ((sides & RIGHT) != 0 && first < last) {
        size_t before = last - 1;
        while (before > first && ((unsigned char)t.bytes[before] & 0xc0) == 0x80)
            before--;
        if (!is_among(t, before, last, among))
            break;
        last = before;
    }
    return part_of(t, first, last);
}

value lx_jinja_do_strip(run *r, const call *c)
{
    const span *among = c->given[0].kind == TEXT ? &c->given[0].text : NULL;
    return make_text(strip(r, lx_jinja_string(r, c->self), among, c->row->which));
}

static bool is_between(char c, char first, char last)
{
    return c >= first && c <= last;
}

/* Letters of ASCII; others are refused, not left as they are. */
value lx_jinja_do_case(run *r, const call *c)
{
    span t = lx_jinja_string(r, c->self);
    int which = c->row->which;
    builder b = {0};
    lx_jinja_write(r, &b, t);
    for (size_t i = 0; i < t.n; i++) {
        char letter = t.bytes[i], before = i > 0 ? t.bytes[i - 1] : ' ';
        if ((unsigned char)letter >= 0x80)
            refuse(r, "upper and lower case of other letters than A to Z is not implemented");
        /* A letter after a letter is small in titles. The filter of this name goes by blanks and
           brackets. */
        bool inside = which == TITLE
                          ? is_between(before, 'a', 'z') || is_between(before, 'A', 'Z')
                          : strchr("-({[<", before) == NULL && !lx_char_is_stripped(before);
        bool upper = which == UPPER || (which == CAPITALIZE ? i == 0 : which != LOWER && !inside);
        if (upper ? is_between(letter, 'a', 'z') : is_between(letter, 'A', 'Z'))
            b.bytes[i] = (char)(letter ^ ('a' - 'A'));
    }
    return lx_jinja_built(&b);
}

/* The place of the first `part` from `at` on; the text's end: there is none. */
static size_t find_part(run *r, span t, size_t at, span part)
{
    const char *found = memmem(t.bytes + at, t.n - at, part.bytes, part.n);
    size_t place = found != NULL ? (size_t)(found - t.bytes) : t.n;
    lx_jinja_charge(r, place - at);
    return place;
}

value lx_jinja_do_replace(run *r, const call *c)
{
    span t = lx_jinja_string(r, c->self), old = lx_jinja_string(r, c->given[0]);
    span new = lx_jinja_string(r, c->given[1]);
    int64_t left = whole_or(c->given[2], -1);
    builder b = {0};
    if (old.n == 0)
        refuse(r, "replace of an empty str is not implemented");
    for (size_t at = 0; at < t.n;) {
        size_t end = left == 0 ? t.n : find_part(r, t, at, old);
        lx_jinja_write(r, &b, part_of(t, at, end));
        if (end < t.n)
            lx_jinja_write(r, &b, new);
        at = end + old.n;
        left -= left > 0;
    }
    return lx_jinja_built(&b);
}

/* split() without a separator: at white space, of which none is left. */
static value split_words(run *r, span t, int64_t most)
{
    value all = lx_jinja_make_list(r, LIST, 4);
    for (span rest = strip(r, t, NULL, LEFT); rest.n > 0; rest = strip(r, rest, NULL, LEFT)) {
        size_t end = 0, next = 0;
        while (end < rest.n && (int64_t)all.list->n != most) {
            next = end + lx_jinja_offset(part_of(rest, end, rest.n), 1);
            if (is_among(rest, end, next, NULL))
                break;
            end = next;
        }
        end = (int64_t)all.list->n == most ? rest.n : end;
        lx_jinja_push(r, all, make_text(part_of(rest, 0, end)));
        rest = part_of(rest, end, rest.n);
    }
    return all;
}

static span separator(run *r, const call *c)
{
    if (c->given[0].text.n == 0)
        fail(r, "%s by an empty str", c->row->names);
    return c->given[0].text;
}

static value do_split(run *r, const call *c)
{
    span t = c->self.text;
    int64_t left = whole_or(c->given[1], -1);
    if (c->given[0].kind != TEXT)
        return split_words(r, t, left);
    span by = separator(r, c);
    value all = lx_jinja_make_list(r, LIST, 4);
    for (size_t at = 0;; left -= left > 0) {
        const char *found = left == 0 ? NULL : memmem(t.bytes + at, t.n - at, by.bytes, by.n);
        size_t end = found != NULL ? (size_t)(found - t.bytes) : t.n;
        lx_jinja_charge(r, t.n - at);
        lx_jinja_push(r, all, make_text(part_of(t, at, end)));
        if (found == NULL)
            return all;
        at = end + by.n;
    }
}

/* The last separators first. */
static value do_rsplit(run *r, const call *c)
{
    span t = c->self.text, by = separator(r, c);
    int64_t left = whole_or(c->given[1], -1);
    value back = lx_jinja_make_list(r, LIST, 4);
    size_t end = t.n;
    for (size_t at = t.n; left != 0 && at >= by.n;) {
        lx_jinja_charge(r, 0);
        if (memcmp(t.bytes + at - by.n, by.bytes, by.n) != 0) {
            at--;
            continue;
        }
        lx_jinja_push(r, back, make_text(part_of(t, at, end)));
        end = at -= by.n;
        left--;
    }
    lx_jinja_push(r, back, make_text(part_of(t, 0, end)));
    return lx_jinja_reversed(r, LIST, back.list);
}

static value do_splitlines(run *r, const call *c)
{
    span t = c->self.text;
    value all = lx_jinja_make_list(r, LIST, 4);
    for (size_t at = 0, end = 0; at < t.n; at = ++end) {
        while (end < t.n && t.bytes[end] != '\n' && t.bytes[end] != '\r')
            end++;
        lx_jinja_push(r, all, make_text(part_of(t, at, end)));
        end += end + 1 < t.n && t.bytes[end] == '\r' && t.bytes[end + 1] == '\n';
    }
    return all;
}

/* Whether the text begins or ends with one of the argument's texts. */
static value do_has_end(run *r, const call *c)
{
    const value *with = &c->given[0];
    const array one = {.items = (value *)with, .n = 1},
                *all = with->kind == TUPLE ? with->list : &one;
    bool has = false;
    for (size_t i = 0; i < all->n && !has; i++) {
        if (all->items[i].kind != TEXT)
            fail(r, "startswith and endswith take a str");
        span part = all->items[i].text, t = c->self.text;
        lx_jinja_charge(r, part.n);
        has = part.n <= t.n &&
              memcmp(t.bytes + (c->row->which == LEFT ? 0 : t.n - part.n), part.bytes, part.n) == 0;
    }
    return make_bool(has);
}

static value do_find(run *r, const call *c)
{
    span t = c->self.text;
    lx_jinja_charge(r, t.n);
    if (!lx_jinja_contains(r, c->self, c->given[0]))
        return make_whole(-1);
    size_t place = c->given[0].text.n == 0 ? 0 : find_part(r, t, 0, c->given[0].text);
    return make_whole((int64_t)lx_jinja_length(r, make_text(part_of(t, 0, place))));
}

static value do_count(run *r, const call *c)
{
    span t = c->self.text, part = c->given[0].text;
    int64_t n = 0;
    if (part.n == 0)
        return make_whole((int64_t)lx_jinja_length(r, c->self) + 1);
    for (size_t at = 0; (at = find_part(r, t, at, part)) < t.n; at += part.n)
        n++;
    return make_whole(n);
}

static value do_join(run *r, const call *c)
{
    const array *all = lx_jinja_items(r, c->given[0]);
    builder b = {0};
    for (size_t i = 0; i < all->n; i++) {
        if (all->items[i].kind != TEXT)
            fail(r, "join takes texts, not a %s", lx_jinja_kind_name(all->items[i]));
        if (i > 0)
            lx_jinja_write(r, &b, c->self.text);
        lx_jinja_write(r, &b, all->items[i].text);
    }
    return lx_jinja_built(&b);
}

static value do_isdigit(run *r, const call *c)
{
    (void)r;
    size_t n = 0;
    while (n < c->self.text.n && is_between(c->self.text.bytes[n], '0', '9'))
        n++;
    return make_bool(n > 0 && n == c->self.text.n);
}

/* The argument that {} (the next one), {0} or {name} of a format stands for. */
static value find_argument(run *r, const call *c, span name, size_t *next)
{
    const value *found = NULL;
    size_t position = 0, digits = 0;
    for (const char *sign = ":!.["; *sign != '\0'; sign++) {
        if (memchr(name.bytes, *sign, name.n) != NULL)
            refuse(r, "formats other than {} and {name} are not implemented");
    }
    for (; digits < name.n && digits < 9 && is_between(name.bytes[digits], '0', '9'); digits++)
        position = 10 * position + (size_t)(name.bytes[digits] - '0');
    if (name.n == 0)
        position = (*next)++;
    if (digits == name.n)
        found = position < c->more.n ? &c->more.values[position] : NULL;
    else
        found = lx_jinja_find_named(r, &c->more, name);
    if (found == NULL)
        fail(r, "the argument %.*s of format is missing", (int)name.n, name.bytes);
    return *found;
}

/* str.format(), without conversions and formats. */
static value do_format(run *r, const call *c)
{
    span t = c->self.text;
    builder b = {0};
    size_t next = 0;
    for (size_t at = 0; at < t.n; at++) {
        char sign = t.bytes[at];
        bool brace = sign == '{' || sign == '}';
        if (!brace || (at + 1 < t.n && t.bytes[at + 1] == sign)) {
            lx_jinja_write(r, &b, part_of(t, at, at + 1));
            at += brace;
            continue;
        }
        const char *end = sign == '{' ? memchr(t.bytes + at, '}', t.n - at) : NULL;
        if (end == NULL)
            fail(r, "format has a single %c", sign);
        span name = part_of(t, at + 1, (size_t)(end - t.bytes));
        lx_jinja_write(r, &b, lx_jinja_string(r, find_argument(r, c, name, &next)));
        at += name.n + 1;
    }
    return lx_jinja_built(&b);
}

static const builtin methods[] = {{"strip", lx_jinja_do_strip, LEFT | RIGHT, ANY, "chars:S?"},
                                  {"lstrip", lx_jinja_do_strip, LEFT, ANY, "chars:S?"},
                                  {"rstrip", lx_jinja_do_strip, RIGHT, ANY, "chars:S?"},
                                  {"upper", lx_jinja_do_case, UPPER, ANY, ""},
                                  {"lower", lx_jinja_do_case, LOWER, ANY, ""},
                                  {"capitalize", lx_jinja_do_case, CAPITALIZE, ANY, ""},
                                  {"title", lx_jinja_do_case, TITLE, ANY, ""},
                                  {"replace", lx_jinja_do_replace, 0, ANY, "old new count:I?"},
                                  {"split", do_split, 0, ANY, "sep:S? maxsplit:i?"},
                                  {"rsplit", do_rsplit, 0, ANY, "sep:s maxsplit:i?"},
                                  {"splitlines", do_splitlines, 0, ANY, ""},
                                  {"startswith", do_has_end, LEFT, ANY, "prefix:p"},
                                  {"endswith", do_has_end, RIGHT, ANY, "suffix:p"},
                                  {"find", do_find, 0, ANY, "sub:s"},
                                  {"count", do_count, 0, ANY, "sub:s"},
                                  {"join", do_join, 0, ANY, "iterable"},
                                  {"isdigit", do_isdigit, 0, ANY, ""},
                                  {"format", do_format, 0, ANY, "*"}};

const builtin *lx_jinja_find_row(const builtin *rows, size_t count, span name)
{
    for (size_t i = 0; i < count; i++) {
        if (lx_jinja_place_of(name, rows[i].names) >= 0)
            return &rows[i];
    }
    return NULL;
}

const builtin *lx_jinja_text_method(span name)
{
    return lx_jinja_find_row(methods, COUNT(methods), name);
}
