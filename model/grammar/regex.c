/* Regular expressions (see readers.h). */
#include <stdlib.h>
#include <string.h>

#include "model/grammar/readers.h"
#include "model/utf8.h"

typedef struct reader {
    lx_ast *a;
    const char *text;
    size_t n, at;
    int32_t nested;
    lx_spell_set spell;
    bool search;
    int32_t fewest, farthest; /* every repeat is narrowed to these, where its own bounds allow it */
} reader;

static int32_t fail(reader *r, const char *what)
{
    return lx_ast_fail(r->a, "regular expression, byte %zu: %s", r->at + 1, what);
}

static bool goes_on(const reader *r)
{
    return r->a->status == LX_OK && r->at < r->n;
}

static char peek(const reader *r, size_t ahead)
{
    return r->at + ahead < r->n ? r->text[r->at + ahead] : '\0';
}

static bool take(reader *r, char c)
{
    bool there = goes_on(r) && r->text[r->at] == c;
    r->at += there;
    return there;
}

int32_t lx_spell_plain(lx_ast *a, const lx_charset *s)
{
    return lx_ast_set(a, s->at, s->n);
}

/* --- sets --- */

/* Characters that a class surely has, and characters that it has in at least one language. */
typedef struct class
{
    lx_charset sure, perhaps;
} class;

static void add_both(reader *r, class *c, int32_t low, int32_t high)
{
    lx_charset_add(r->a, &c->sure, low, high);
    lx_charset_add(r->a, &c->perhaps, low, high);
}

/* \d, \w or \s of ASCII. */
static void add_ascii_class(reader *r, lx_charset *s, char kind)
{
    if (kind == 'd' || kind == 'w')
        lx_charset_add(r->a, s, '0', '9');
    if (kind == 'w') {
        lx_charset_add(r->a, s, 'A', 'Z');
        lx_charset_add(r->a, s, '_', '_');
        lx_charset_add(r->a, s, 'a', 'z');
    }
    if (kind == 's') {
        lx_charset_add(r->a, s, '\t', '\r');
        lx_charset_add(r->a, s, ' ', ' ');
    }
}

/* Characters beyond ASCII that no Unicode version counts as digits (d), or as white space (s). */
static void add_beyond(reader *r, lx_charset *s, char kind)
{
    static const lx_range no_digits[] = {{0x80, 0x65f},      {0x1c60, 0xa61f},  {0xac00, 0xd7ff},
                                         {0xe000, 0xff0f},   {0xff1a, 0xffff},  {0x1f000, 0x1f0ff},
                                         {0x1f300, 0x1faff}, {0x20000, 0x3ffff}};
    static const lx_range spaces[] = {
        {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680}, {0x180e, 0x180e}, {0x2000, 0x200d},
        {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x2060}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    for (size_t i = 0; kind == 'd' && i < sizeof no_digits / sizeof *no_digits; i++)
        lx_charset_add(r->a, s, no_digits[i].low, no_digits[i].high);
    if (kind == 's')
        lx_charset_add(r->a, s, 0x80, LX_MAX_CODEPOINT);
    for (size_t i = 0; kind == 's' && i < sizeof spaces / sizeof *spaces; i++)
        lx_charset_cut(r->a, s, spaces[i].low, spaces[i].high);
}

/* \d, \w, \s and their opposites. */
static void add_class(reader *r, class *c, char kind)
{
    bool opposite = kind < 'a';
    char small = (char)(kind | 0x20);
    lx_charset ascii = {.n = 0}, sure = {.n = 0};
    add_ascii_class(r, &ascii, small);
    if (!opposite) {
        lx_charset_join(r->a, &c->sure, &ascii);
        add_beyond(r, &sure, small); /* surely not of the class */
        lx_charset_invert(r->a, &sure);
        lx_charset_cut(r->a, &sure, 0, 0x7f);
        lx_charset_join(r->a, &sure, &ascii);
        if (small == 's')
            lx_charset_add(r->a, &sure, 0x1c, 0x1f); /* white space of Python alone */
        lx_charset_join(r->a, &c->perhaps, &sure);
        return;
    }
    sure = ascii;
    lx_charset_invert(r->a, &sure);
    lx_charset_join(r->a, &c->perhaps, &sure);
    lx_charset_cut(r->a, &sure, 0x80, LX_MAX_CODEPOINT);
    if (small == 's')
        lx_charset_cut(r->a, &sure, 0x1c, 0x1f);
    add_beyond(r, &sure, small);
    lx_charset_join(r->a, &c->sure, &sure);
}

static bool is_class(char c)
{
    return c != '\0' && strchr("dDwWsS", c) != NULL;
}

static int32_t read_hex(reader *r, int32_t digits)
{
    int32_t c = lx_ast_hex(r->text, r->n, &r->at, digits);
    return c == LX_HEX_MISSING ? fail(r, "a hexadecimal digit is missing") : c;
}

/* After a backslash, a character and no class. */
static int32_t read_escape(reader *r)
{
    static const char names[] = "tnrfv0", values[] = "\t\n\r\f\v";
    char c = r->at < r->n ? r->text[r->at] : '\0';
    const char *known = c != '\0' ? strchr(names, c) : NULL;
    if (c == '0' && peek(r, 1) >= '0' && peek(r, 1) <= '9')
        return fail(r, "octal escapes are not supported");
    if (known != NULL) {
        r->at++;
        return values[known - names];
    }
    if (c == 'x' || c == 'u') {
        r->at++;
        return read_hex(r, c == 'x' ? 2 : 4);
    }
    if (c >= '1' && c <= '9')
        return fail(r, "references to groups are not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '\0')
        return fail(r, "this escape is not supported");
    return lx_utf8_next(r->text, r->n, &r->at);
}

static int32_t read_char(reader *r)
{
    if (take(r, '\\'))
        return read_escape(r);
    int32_t c = lx_utf8_next(r->text, r->n, &r->at);
    return c >= 0 ? c : fail(r, "it is not valid UTF-8");
}

static void read_member(reader *r, class *c)
{
    if (peek(r, 0) == '\\' && is_class(peek(r, 1))) {
        add_class(r, c, peek(r, 1));
        r->at += 2;
        return;
    }
    bool backspace = peek(r, 0) == '\\' && peek(r, 1) == 'b';
    r->at += backspace ? 2 : 0;
    int32_t low = backspace ? '\b' : read_char(r), high = low;
    if (peek(r, 0) == '-' && peek(r, 1) != ']' && peek(r, 1) != '\0') {
        r->at++;
        if (peek(r, 0) == '\\' && is_class(peek(r, 1)))
            (void)fail(r, "a range of characters ends with a class");
        high = read_char(r);
    }
    if (high < low)
        (void)fail(r, "a range of characters ends before it begins");
    else
        add_both(r, c, low, high);
}

static int32_t read_set(reader *r)
{
    class c = {.sure = {.n = 0}};
    bool inverted = take(r, '^');
    if (peek(r, 0) == ']')
        return fail(r, "a set of characters is empty; write \\] for a bracket");
    while (goes_on(r) && peek(r, 0) != ']')
        read_member(r, &c);
    if (!take(r, ']'))
        return fail(r, "a set of characters has no closing bracket");
    if (inverted)
        lx_charset_invert(r->a, &c.perhaps);
    return r->spell(r->a, inverted ? &c.perhaps : &c.sure);
}

static int32_t spell_char(reader *r, int32_t c)
{
    lx_charset s = {.at = {{c, c}}, .n = 1};
    return r->spell(r->a, &s);
}

/* Line ends of ECMAScript are left out as well. */
static int32_t any_but_line_ends(reader *r)
{
    lx_charset s = {.at = {{0, LX_MAX_CODEPOINT}}, .n = 1};
    lx_charset_cut(r->a, &s, '\n', '\n');
    lx_charset_cut(r->a, &s, '\r', '\r');
    lx_charset_cut(r->a, &s, 0x2028, 0x2029);
    return r->spell(r->a, &s);
}

/* --- parts --- */

static int32_t read_alternatives(reader *r);

/* A group's name and its closing bracket. */
static bool read_name(reader *r)
{
    size_t begin = r->at;
    for (; goes_on(r) && peek(r, 0) != '>'; r->at++) {
        unsigned char c = (unsigned char)peek(r, 0), small = c | 0x20;
        bool digit = c >= '0' && c <= '9' && r->at > begin;
        if (!digit && c != '_' && c < 0x80 && (small < 'a' || small > 'z'))
            return false;
    }
    return r->at > begin && take(r, '>');
}

static int32_t read_group(reader *r)
{
    if (take(r, '?')) {
        bool named = take(r, 'P');
        if (take(r, '<') && peek(r, 0) != '=' && peek(r, 0) != '!') {
            if (!read_name(r))
                return fail(r, "the name of a group has letters, digits and _, and ends with >");
        } else if (named || !take(r, ':')) {
            return fail(r, "groups that look around, name others or set flags are not supported");
        }
    }
    if (r->nested == LX_AST_MOST_NESTED)
        return fail(r, "more than 100 groups are nested");
    r->nested++;
    int32_t tree = read_alternatives(r);
    r->nested--;
    return take(r, ')') ? tree : fail(r, "a group has no closing parenthesis");
}

/* The bounds of {m}, {m,}, {,n}, {,} or {m,n}; false: the brace is a character of the text. */
static bool read_bounds(reader *r, int32_t *least, int32_t *most)
{
    size_t at = r->at + 1;
    int32_t bounds[2] = {-1, -1}, n = 0;
    for (; at < r->n && r->text[at] != '}'; at++) {
        char c = r->text[at];
        if (c == ',' && n == 0)
            n = 1;
        else if (c >= '0' && c <= '9')
            bounds[n] = bounds[n] > LX_AST_MOST_REPEATS
                            ? bounds[n]
                            : (bounds[n] < 0 ? 0 : bounds[n]) * 10 + (c - '0');
        else
            return false;
    }
    if (at == r->n || (n == 0 && bounds[0] < 0))
        return false;
    r->at = at + 1;
    *least = bounds[0] < 0 ? 0 : bounds[0];
    *most = n == 0 ? *least : bounds[1];
    if (*most >= 0 && *most < *least)
        (void)fail(r, "the most repeats are fewer than the least");
    return true;
}

/* Whether a repetition stands here. The text goes on where it stands. */
static bool at_repeat(const reader *r)
{
    reader ahead = *r;
    int32_t least = 0, most = 0;
    char c = peek(r, 0);
    return c == '*' || c == '+' || c == '?' || (c == '{' && read_bounds(&ahead, &least, &most));
}

static int32_t read_part(reader *r)
{
    char c = peek(r, 0);
    if (take(r, '('))
        return read_group(r);
    if (take(r, '['))
        return read_set(r);
    if (take(r, '.'))
        return any_but_line_ends(r);
    if (c == '\\' && is_class(peek(r, 1))) {
        class k = {.sure = {.n = 0}};
        add_class(r, &k, peek(r, 1));
        r->at += 2;
        return r->spell(r->a, &k.sure);
    }
    if (at_repeat(r))
        return fail(r, "nothing stands before a repetition; a backslash makes it a text");
    if (c == '^' || c == '$')
        return fail(r, "^ and $ are supported at the ends of the expression only");
    return spell_char(r, read_char(r));
}

/* Narrows the bounds of a repeat. */
static void narrow(int32_t fewest, int32_t farthest, int32_t *least, int32_t *most)
{
    if (*least < fewest)
        *least = *most >= 0 && *most < fewest ? *most : fewest;
    if (*most < 0 || *most > farthest)
        *most = farthest == INT32_MAX ? *most : farthest > *least ? farthest : *least;
}

static int32_t repeat(reader *r, int32_t part, int32_t least, int32_t most)
{
    narrow(r->fewest, r->farthest, &least, &most);
    return lx_ast_repeat(r->a, part, least, most);
}

static int32_t read_repeats(reader *r, int32_t part)
{
    int32_t least = 0, most = -1;
    if (take(r, '+'))
        least = 1;
    else if (take(r, '?'))
        most = 1;
    else if (!take(r, '*') && !(peek(r, 0) == '{' && read_bounds(r, &least, &most)))
        return part;
    (void)take(r, '?'); /* a lazy repeat matches the same texts */
    if (at_repeat(r))
        return fail(r, "a repetition stands after a repetition");
    return repeat(r, part, least, most);
}

/* All texts. */
static int32_t anything(reader *r)
{
    const lx_charset s = {.at = {{0, LX_MAX_CODEPOINT}}, .n = 1};
    return repeat(r, r->spell(r->a, &s), 0, -1);
}

static int32_t read_sequence(reader *r)
{
    lx_ast_trees parts = {0};
    bool outermost = r->nested == 0, begins = outermost && take(r, '^'), ends = false;
    if (outermost && !begins && r->search)
        lx_ast_collect(r->a, &parts, anything(r));
    while (goes_on(r) && !ends && peek(r, 0) != '|' && peek(r, 0) != ')') {
        bool last = r->at + 1 == r->n || peek(r, 1) == '|';
        ends = outermost && last && take(r, '$');
        if (!ends)
            lx_ast_collect(r->a, &parts, read_repeats(r, read_part(r)));
    }
    if (outermost && !ends && r->search)
        lx_ast_collect(r->a, &parts, anything(r));
    return lx_ast_take(r->a, LX_AST_CAT, &parts);
}

static int32_t read_alternatives(reader *r)
{
    lx_ast_trees ways = {0};
    do
        lx_ast_collect(r->a, &ways, read_sequence(r));
    while (take(r, '|'));
    return lx_ast_take(r->a, LX_AST_ALT, &ways);
}

static int32_t read_whole(reader *r)
{
    int32_t tree = read_alternatives(r);
    return goes_on(r) ? fail(r, "a parenthesis closes no group") : tree;
}

/* --- lengths --- */

enum { FAR = 1 << 30 }; /* characters, and more */

typedef struct lengths {
    int64_t least, most;
} lengths;

static int64_t bounded(int64_t n)
{
    return n < FAR ? n : FAR;
}

/* Characters of a tree of sets whose repeats are narrowed. */
static lengths measure(const lx_ast *a, int32_t tree, int32_t fewest, int32_t farthest)
{
    const lx_ast_tree *t = (const lx_ast_tree *)a->trees.data + tree;
    if (t->kind == LX_AST_SET)
        return (lengths){1, 1};
    if (t->kind == LX_AST_REPEAT) {
        int32_t least = t->least, most = t->most;
        lengths one = measure(a, t->first, fewest, farthest);
        narrow(fewest, farthest, &least, &most);
        return (lengths){bounded(one.least * least), bounded(one.most * (most < 0 ? FAR : most))};
    }
    lengths all = {t->kind == LX_AST_ALT ? FAR : 0, 0};
    for (int32_t i = 0; i < t->n && t->kind != LX_AST_EMPTY; i++) {
        int32_t part = ((const int32_t *)a->lists.data)[t->first + i];
        lengths one = measure(a, part, fewest, farthest);
        if (t->kind == LX_AST_CAT) {
            all = (lengths){bounded(all.least + one.least), bounded(all.most + one.most)};
        } else {
            all.least = one.least < all.least ? one.least : all.least;
            all.most = one.most > all.most ? one.most : all.most;
        }
    }
    return all;
}

/* The fewest repeats with which all texts have `least` characters, and the most repeats with which
   none has more than `most`. */
static void find_bounds(reader *r, int32_t tree, const lx_regex_use *use)
{
    const int32_t end = LX_AST_MOST_REPEATS;
    int32_t low = 0, high = end;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        bool enough = measure(r->a, tree, middle, INT32_MAX).least >= use->least;
        *(enough ? &high : &low) = enough ? middle : middle + 1;
    }
    r->fewest = low;
    bool fits = measure(r->a, tree, low, INT32_MAX).least >= use->least;
    for (high = end; use->most >= 0 && low < high;) {
        int32_t middle = (low + high + 1) / 2;
        bool many = measure(r->a, tree, r->fewest, middle).most > use->most;
        *(many ? &high : &low) = many ? middle - 1 : middle;
    }
    r->farthest = use->most >= 0 ? low : INT32_MAX;
    if (!fits || (use->most >= 0 && measure(r->a, tree, r->fewest, low).most > use->most))
        (void)lx_ast_fail(r->a, "the texts of a pattern or format cannot be kept between minLength "
                                "and maxLength");
}

int32_t lx_grammar_read_regex(lx_ast *a, const char *text, size_t bytes, const lx_regex_use *use)
{
    reader r = {.a = a, .text = text, .n = bytes, .search = use->search, .farthest = INT32_MAX};
    if (use->least > 0 || use->most >= 0) {
        reader plain = r; /* an escape of a JSON string is one character */
        plain.spell = lx_spell_plain;
        int32_t tree = read_whole(&plain);
        if (a->status == LX_OK)
            find_bounds(&r, tree, use);
    }
    r.spell = use->spell;
    return a->status == LX_OK ? read_whole(&r) : 0;
}
