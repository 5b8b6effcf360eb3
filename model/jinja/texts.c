/* Methods and filters of texts, as Python's str has them; and the rows and arguments of all
 * built-in functions. */
#include <stdlib.h>
#include <string.h>

#include "model/characters.h"
#include "model/jinja/builtins.h"
#include "model/utf8.h"

/* --- rows and arguments --- */

const row *lx_jinja_find_row(const row *rows, size_t count, const char *name, size_t n)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0)
            return &rows[i];
    }
    return NULL;
}

/* The argument at a position or by its name; `missing` where it is not given. */
value lx_jinja_argument(run *r, const arguments *given, size_t at, const char *name, value missing)
{
    if (at < given->n)
        return given->values[at];
    const value *named = given->named != NULL ? lx_jinja_find_name(r, given->named, name) : NULL;
    return named != NULL ? *named : missing;
}

value lx_jinja_needed(run *r, const arguments *given, size_t at, const char *name)
{
    value v = lx_jinja_argument(r, given, at, name, (value){.kind = UNDEFINED});
    if (v.kind == UNDEFINED)
        fail(r, "the argument %s is missing", name);
    return v;
}

const span *lx_jinja_needed_text(run *r, const arguments *given, size_t at, const char *name)
{
    value v = lx_jinja_needed(r, given, at, name);
    if (v.kind != TEXT)
        fail(r, "the argument %s is a %s, not a str", name, lx_jinja_kind_name(v));
    return v.text;
}

int64_t lx_jinja_whole_of(run *r, value v, const char *name)
{
    if (v.kind != WHOLE && v.kind != BOOLEAN)
        fail(r, "the argument %s is a %s, not an int", name, lx_jinja_kind_name(v));
    return v.kind == WHOLE ? v.whole : v.truth;
}

const span *lx_jinja_text_of(run *r, value v)
{
    if (v.kind != TEXT)
        v = lx_jinja_string(r, v);
    return v.text;
}

/* --- texts --- */

/* Whether the character at bytes[at] is among `among`; NULL: whether it is white space. */
static bool is_among(const span *t, size_t at, size_t end, const span *among)
{
    size_t next = at;
    if (among == NULL)
        return lx_char_is_stripped(lx_utf8_next(t->bytes, end, &next));
    return memmem(among->bytes, among->n, t->bytes + at, end - at) != NULL;
}

static value strip(run *r, const span *t, const span *among, bool left, bool right)
{
    size_t first = 0, last = t->n;
    lx_jinja_charge(r, t->n);
    while (left && first < last) {
        size_t next = first + 1;
        while (next < last && ((unsigned char)t->bytes[next] & 0xc0) == 0x80)
            next++;
        if (!is_among(t, first, next, among))
            break;
        first = next;
    }
    while (right && first < last) {
        size_t before = last - 1;
        while (before > first && ((unsigned char)t->bytes[before] & 0xc0) == 0x80)
            before--;
        if (!is_among(t, before, last, among))
            break;
        last = before;
    }
    return lx_jinja_slice_text(r, t, first, last);
}

static value strip_of(run *r, value self, const arguments *given, bool left, bool right)
{
    value among = lx_jinja_argument(r, given, 0, "chars", (value){.kind = NONE});
    if (among.kind != NONE && among.kind != TEXT)
        fail(r, "strip takes a str");
    return strip(r, lx_jinja_text_of(r, self), among.kind == TEXT ? among.text : NULL, left, right);
}

value lx_jinja_do_strip(run *r, value self, const arguments *given)
{
    return strip_of(r, self, given, true, true);
}

static value do_lstrip(run *r, value self, const arguments *given)
{
    return strip_of(r, self, given, true, false);
}

static value do_rstrip(run *r, value self, const arguments *given)
{
    return strip_of(r, self, given, false, true);
}

/* Letters of ASCII; others are refused, not left as they are. */
static value change_case(run *r, const span *t, int (*change)(const span *t, size_t at, int letter))
{
    builder b = {0};
    lx_jinja_write(r, &b, t->bytes, t->marks, t->n);
    for (size_t i = 0; i < t->n; i++) {
        if ((unsigned char)t->bytes[i] >= 0x80)
            refuse(r, "upper and lower case of other letters than A to Z is not implemented");
        b.bytes[i] = (char)change(t, i, t->bytes[i]);
    }
    return lx_jinja_built(r, &b);
}

static bool is_upper(int c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_lower(int c)
{
    return c >= 'a' && c <= 'z';
}

static int upper(const span *t, size_t at, int c)
{
    (void)t, (void)at;
    return is_lower(c) ? c - 32 : c;
}

static int lower(const span *t, size_t at, int c)
{
    (void)t, (void)at;
    return is_upper(c) ? c + 32 : c;
}

static int capital(const span *t, size_t at, int c)
{
    return at == 0 ? upper(t, at, c) : lower(t, at, c);
}

/* str.title(): letters after letters are small. Jinja's filter goes by blanks and brackets. */
static int title(const span *t, size_t at, int c)
{
    bool inside = at > 0 && (is_upper(t->bytes[at - 1]) || is_lower(t->bytes[at - 1]));
    return inside ? lower(t, at, c) : upper(t, at, c);
}

static int title_word(const span *t, size_t at, int c)
{
    bool inside = at > 0 && strchr("-({[<", t->bytes[at - 1]) == NULL &&
                  !lx_char_is_stripped(t->bytes[at - 1]);
    return inside ? lower(t, at, c) : upper(t, at, c);
}

value lx_jinja_do_upper(run *r, value self, const arguments *given)
{
    (void)given;
    return change_case(r, lx_jinja_text_of(r, self), upper);
}

value lx_jinja_do_lower(run *r, value self, const arguments *given)
{
    (void)given;
    return change_case(r, lx_jinja_text_of(r, self), lower);
}

value lx_jinja_do_capitalize(run *r, value self, const arguments *given)
{
    (void)given;
    return change_case(r, lx_jinja_text_of(r, self), capital);
}

static value do_title(run *r, value self, const arguments *given)
{
    (void)given;
    return change_case(r, lx_jinja_text_of(r, self), title);
}

value lx_jinja_do_title_filter(run *r, value self, const arguments *given)
{
    (void)given;
    return change_case(r, lx_jinja_text_of(r, self), title_word);
}

value lx_jinja_do_replace(run *r, value self, const arguments *given)
{
    const span *t = lx_jinja_text_of(r, self);
    const span *old = lx_jinja_text_of(r, lx_jinja_needed(r, given, 0, "old")),
               *new = lx_jinja_text_of(r, lx_jinja_needed(r, given, 1, "new"));
    value count = lx_jinja_argument(r, given, 2, "count", (value){.kind = NONE});
    int64_t left = count.kind == NONE ? -1 : lx_jinja_whole_of(r, count, "count");
    builder b = {0};
    if (old->n == 0)
        refuse(r, "replace of an empty str is not implemented");
    for (size_t at = 0; at < t->n;) {
        const char *found = left == 0 ? NULL : memmem(t->bytes + at, t->n - at, old->bytes, old->n);
        size_t end = found != NULL ? (size_t)(found - t->bytes) : t->n;
        lx_jinja_write(r, &b, t->bytes + at, t->marks != NULL ? t->marks + at : NULL, end - at);
        if (found != NULL)
            lx_jinja_write(r, &b, new->bytes, new->marks, new->n);
        at = end + (found != NULL ? old->n : 0);
        left -= left > 0;
    }
    return lx_jinja_built(r, &b);
}

/* split() without a separator: at white space, of which none is left. */
static value split_words(run *r, const span *t, int64_t most)
{
    value all = lx_jinja_make_list(r, LIST, 4);
    size_t at = 0;
    for (;;) {
        value rest = lx_jinja_slice_text(r, t, at, t->n);
        rest = strip(r, rest.text, NULL, true, false);
        if (rest.text->n == 0)
            return all;
        at = t->n - rest.text->n;
        if (most >= 0 && (int64_t)all.list->n == most) {
            lx_jinja_push(r, all, rest);
            return all;
        }
        size_t first = at, before = at;
        while (at < t->n) {
            before = at;
            int32_t c = lx_utf8_next(t->bytes, t->n, &at);
            at += c < 0; /* a malformed byte is part of its word */
            if (lx_char_is_stripped(c))
                break;
            before = at;
        }
        lx_jinja_push(r, all, lx_jinja_slice_text(r, t, first, before));
    }
}

static value do_split(run *r, value self, const arguments *given)
{
    value by = lx_jinja_argument(r, given, 0, "sep", (value){.kind = NONE});
    value most = lx_jinja_argument(r, given, 1, "maxsplit", make_whole(-1));
    const span *t = self.text;
    int64_t left = lx_jinja_whole_of(r, most, "maxsplit");
    if (by.kind == NONE)
        return split_words(r, t, left);
    const span *sep = lx_jinja_text_of(r, by);
    value all = lx_jinja_make_list(r, LIST, 4);
    if (sep->n == 0)
        fail(r, "split by an empty str");
    for (size_t at = 0;;) {
        lx_jinja_charge(r, t->n - at);
        const char *found = left == 0 ? NULL : memmem(t->bytes + at, t->n - at, sep->bytes, sep->n);
        size_t end = found != NULL ? (size_t)(found - t->bytes) : t->n;
        lx_jinja_push(r, all, lx_jinja_slice_text(r, t, at, end));
        if (found == NULL)
            return all;
        at = end + sep->n;
        left -= left > 0;
    }
}

/* The last separators first. */
static value do_rsplit(run *r, value self, const arguments *given)
{
    const span *t = self.text, *sep = lx_jinja_needed_text(r, given, 0, "sep");
    int64_t left = lx_jinja_whole_of(r, lx_jinja_argument(r, given, 1, "maxsplit", make_whole(-1)),
                                     "maxsplit");
    value back = lx_jinja_make_list(r, LIST, 4), all;
    size_t end = t->n;
    if (sep->n == 0)
        fail(r, "rsplit by an empty str");
    for (size_t at = t->n; left != 0 && at >= sep->n;) {
        lx_jinja_charge(r, 0);
        if (memcmp(t->bytes + at - sep->n, sep->bytes, sep->n) != 0) {
            at--;
            continue;
        }
        lx_jinja_push(r, back, lx_jinja_slice_text(r, t, at, end));
        end = at -= sep->n;
        left--;
    }
    lx_jinja_push(r, back, lx_jinja_slice_text(r, t, 0, end));
    all = lx_jinja_make_list(r, LIST, back.list->n);
    for (size_t i = back.list->n; i > 0; i--)
        lx_jinja_push(r, all, back.list->items[i - 1]);
    return all;
}

static value do_splitlines(run *r, value self, const arguments *given)
{
    (void)given;
    const span *t = self.text;
    value all = lx_jinja_make_list(r, LIST, 4);
    for (size_t at = 0; at < t->n;) {
        size_t end = at;
        while (end < t->n && t->bytes[end] != '\n' && t->bytes[end] != '\r')
            end++;
        lx_jinja_push(r, all, lx_jinja_slice_text(r, t, at, end));
        at = end + 1 + (end + 1 < t->n && t->bytes[end] == '\r' && t->bytes[end + 1] == '\n');
    }
    return all;
}

/* Whether the text begins or ends with one of the argument's texts. */
static value has_end(run *r, value self, const arguments *given, bool start)
{
    value with = lx_jinja_needed(r, given, 0, "prefix");
    value one = lx_jinja_make_list(r, TUPLE, 1);
    lx_jinja_push(r, one, with);
    const array *all = with.kind == TUPLE ? with.list : one.list;
    for (size_t i = 0; i < all->n; i++) {
        if (all->items[i].kind != TEXT)
            fail(r, "startswith and endswith take a str");
        const span *part = all->items[i].text, *t = self.text;
        lx_jinja_charge(r, part->n);
        if (part->n <= t->n &&
            memcmp(t->bytes + (start ? 0 : t->n - part->n), part->bytes, part->n) == 0)
            return make_bool(true);
    }
    return make_bool(false);
}

static value do_startswith(run *r, value self, const arguments *given)
{
    return has_end(r, self, given, true);
}

static value do_endswith(run *r, value self, const arguments *given)
{
    return has_end(r, self, given, false);
}

static value do_find(run *r, value self, const arguments *given)
{
    const span *t = self.text, *part = lx_jinja_needed_text(r, given, 0, "sub");
    lx_jinja_charge(r, t->n);
    const char *found = part->n == 0 ? t->bytes : memmem(t->bytes, t->n, part->bytes, part->n);
    if (found == NULL)
        return make_whole(-1);
    value before = lx_jinja_slice_text(r, t, 0, (size_t)(found - t->bytes));
    return make_whole((int64_t)lx_jinja_length(r, before));
}

static value do_count(run *r, value self, const arguments *given)
{
    const span *part = lx_jinja_needed_text(r, given, 0, "sub");
    if (part->n == 0)
        return make_whole((int64_t)lx_jinja_length(r, self) + 1);
    value sep = {.kind = TEXT, .text = part};
    value parts = do_split(r, self, &(arguments){.values = &sep, .n = 1});
    return make_whole((int64_t)parts.list->n - 1);
}

static value do_join_method(run *r, value self, const arguments *given)
{
    const array *all = lx_jinja_items(r, lx_jinja_needed(r, given, 0, "iterable"));
    builder b = {0};
    for (size_t i = 0; i < all->n; i++) {
        if (all->items[i].kind != TEXT)
            fail(r, "join takes texts, not a %s", lx_jinja_kind_name(all->items[i]));
        if (i > 0)
            lx_jinja_write(r, &b, self.text->bytes, self.text->marks, self.text->n);
        lx_jinja_write(r, &b, all->items[i].text->bytes, all->items[i].text->marks,
                       all->items[i].text->n);
    }
    return lx_jinja_built(r, &b);
}

static bool all_are(const span *t, bool (*is)(int c))
{
    size_t n = 0;
    while (n < t->n && is(t->bytes[n]))
        n++;
    return n > 0 && n == t->n;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static value do_isdigit(run *r, value self, const arguments *given)
{
    (void)r, (void)given;
    return make_bool(all_are(self.text, is_digit));
}

/* str.format() with {}, {0} and {name}: without conversions and formats. */
static value do_format(run *r, value self, const arguments *given)
{
    const span *t = self.text;
    builder b = {0};
    size_t next = 0;
    for (size_t at = 0; at < t->n; at++) {
        char c = t->bytes[at];
        bool twice = at + 1 < t->n && t->bytes[at + 1] == c;
        if ((c != '{' && c != '}') || twice) {
            lx_jinja_write(r, &b, t->bytes + at, t->marks != NULL ? t->marks + at : NULL, 1);
            at += twice && (c == '{' || c == '}');
            continue;
        }
        const char *end = c == '{' ? memchr(t->bytes + at, '}', t->n - at) : NULL;
        if (end == NULL)
            fail(r, "format has a single %c", c);
        size_t n = (size_t)(end - t->bytes) - at - 1;
        const char *name = t->bytes + at + 1;
        char copy[64];
        if (memchr(name, ':', n) != NULL || memchr(name, '!', n) != NULL ||
            memchr(name, '.', n) != NULL || memchr(name, '[', n) != NULL || n >= sizeof copy)
            refuse(r, "formats other than {} and {name} are not implemented");
        memcpy(copy, name, n);
        copy[n] = '\0';
        size_t position = n == 0              ? next++
                          : is_digit(copy[0]) ? (size_t)strtoul(copy, NULL, 10)
                                              : SIZE_MAX;
        const span *part = lx_jinja_text_of(r, lx_jinja_needed(r, given, position, copy));
        lx_jinja_write(r, &b, part->bytes, part->marks, part->n);
        at += n + 1;
    }
    return lx_jinja_built(r, &b);
}

static const row text_methods[] = {
    {"strip", lx_jinja_do_strip},  {"lstrip", do_lstrip},
    {"rstrip", do_rstrip},         {"upper", lx_jinja_do_upper},
    {"lower", lx_jinja_do_lower},  {"capitalize", lx_jinja_do_capitalize},
    {"title", do_title},           {"replace", lx_jinja_do_replace},
    {"split", do_split},           {"rsplit", do_rsplit},
    {"splitlines", do_splitlines}, {"startswith", do_startswith},
    {"endswith", do_endswith},     {"find", do_find},
    {"count", do_count},           {"join", do_join_method},
    {"isdigit", do_isdigit},       {"format", do_format}};

const row *lx_jinja_text_method(const char *name, size_t n)
{
    return lx_jinja_find_row(text_methods, COUNT(text_methods), name, n);
}
