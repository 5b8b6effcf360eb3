/* Texts under construction, and values as text, as Python writes them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/jinja/internal.h"
#include "model/utf8.h"

void lx_jinja_write(run *r, builder *b, span t)
{
    lx_jinja_charge(r, t.n);
    if (t.n == 0)
        return;
    if (b->n + t.n > b->room) {
        b->room = b->n + t.n > 2 * b->room ? b->n + t.n + 64 : 2 * b->room;
        b->bytes = lx_jinja_grow(&r->arena, b->bytes, b->n, b->room, 1);
        if (b->marks != NULL)
            b->marks = lx_jinja_grow(&r->arena, b->marks, b->n, b->room, 1);
    }
    if (t.marks != NULL) {
        if (b->marks == NULL)
            b->marks = lx_jinja_alloc(&r->arena, b->room);
        memcpy(b->marks + b->n, t.marks, t.n);
    }
    memcpy(b->bytes + b->n, t.bytes, t.n);
    b->n += t.n; /* marks that were never written are 0 */
}

void lx_jinja_puts(run *r, builder *b, const char *bytes)
{
    lx_jinja_write(r, b, make_span(bytes));
}

value lx_jinja_built(const builder *b)
{
    return make_text((span){b->bytes != NULL ? b->bytes : "", b->marks, b->n});
}

/* The shortest digits that give the number back, as Python writes them. */
static void print_real(run *r, builder *b, double real)
{
    char digits[40];
    int precision = 1;
    do
        snprintf(digits, sizeof digits, "%.*e", precision - 1, real);
    while (strtod(digits, NULL) != real && precision++ < 17);
    long exponent = strtol(strchr(digits, 'e') + 1, NULL, 10);
    int after = precision - 1 - (int)exponent;
    /* Python's exponent has two digits at least, as C's has, and its digits have no zeros at the
       end. */
    if (exponent >= -4 && exponent < 16)
        snprintf(digits, sizeof digits, "%.*f", after > 0 ? after : 1, real);
    lx_jinja_puts(r, b, digits);
}

/* The escape of a character in quotes. 0: the character stands for itself. */
static int escape(const style *s, int32_t code, char quote, char out[16])
{
    static const char letters[] = "btnvfr"; /* of 8 to 13 */
    bool control = code >= 0 && code < ' ';
    bool has_letter = s->json ? code >= 8 && code <= 13 && code != 11
                              : code == '\t' || code == '\n' || code == '\r';
    if (code == '\\' || code == quote)
        return snprintf(out, 16, "\\%c", (char)code);
    if (has_letter)
        return snprintf(out, 16, "\\%c", letters[code - 8]);
    if (!s->json)
        return control || code == 127 ? snprintf(out, 16, "\\x%02x", (unsigned)code) : 0;
    if (s->ascii && code >= 0x10000)
        return snprintf(out, 16, "\\u%04x\\u%04x", 0xd7c0U + ((unsigned)code >> 10),
                        0xdc00U + ((unsigned)code & 0x3ff));
    return control || (s->ascii && code > 126) ? snprintf(out, 16, "\\u%04x", (unsigned)code) : 0;
}

static void print_text(run *r, builder *b, span t, const style *s)
{
    bool apostrophes = memchr(t.bytes, '\'', t.n) != NULL && memchr(t.bytes, '"', t.n) == NULL;
    const char *quote = s->json || apostrophes ? "\"" : "'";
    lx_jinja_puts(r, b, quote);
    for (size_t at = 0, end = 0; at < t.n; at = end) {
        char escaped[16], marks[16];
        int32_t code = lx_utf8_next(t.bytes, t.n, &end);
        end = code < 0 ? at + 1 : end;
        int n = escape(s, code, quote[0], escaped);
        span whole = part_of(t, at, end);
        if (n > 0 && t.marks != NULL)
            whole.marks = memset(marks, t.marks[at], sizeof marks);
        lx_jinja_write(r, b, n > 0 ? (span){escaped, whole.marks, (size_t)n} : whole);
    }
    lx_jinja_puts(r, b, quote);
}

static void print_line(run *r, builder *b, const style *s, int level)
{
    if (s->indent < 0)
        return;
    lx_jinja_puts(r, b, "\n");
    for (int64_t i = 0; i < s->indent * level; i++)
        lx_jinja_puts(r, b, " ");
}

/* The key after `before`, in the order of keys; NULL: of all. */
static const value *next_key(run *r, const array *map, const value *before)
{
    const value *next = NULL;
    for (size_t i = 0; i < map->n; i += 2) {
        const value *key = &map->items[i];
        if ((before == NULL || lx_jinja_order(r, *key, *before) > 0) &&
            (next == NULL || lx_jinja_order(r, *key, *next) < 0))
            next = key;
    }
    return next;
}

static void print_items(run *r, builder *b, value v, const style *s, int level)
{
    bool tuple = v.kind == TUPLE && !s->json, map = v.kind == MAP;
    const array *all = v.list;
    const value *item = NULL;
    lx_jinja_puts(r, b, map ? "{" : tuple ? "(" : "[");
    for (size_t i = 0; i < all->n; i += map ? 2 : 1) {
        item = map && s->sorted ? next_key(r, all, item) : &all->items[i];
        if (i > 0)
            lx_jinja_write(r, b, s->comma);
        print_line(r, b, s, level + 1);
        bool quoted = map && s->json && item->kind != TEXT; /* JSON's keys are texts */
        lx_jinja_puts(r, b, quoted ? "\"" : "");
        lx_jinja_print(r, b, *item, s, level + 1);
        lx_jinja_puts(r, b, quoted ? "\"" : "");
        if (!map)
            continue;
        lx_jinja_write(r, b, s->colon);
        lx_jinja_print(r, b, item[1], s, level + 1);
    }
    if (all->n > 0)
        print_line(r, b, s, level);
    lx_jinja_puts(r, b, map ? "}" : !tuple ? "]" : all->n == 1 ? ",)" : ")");
}

void lx_jinja_print(run *r, builder *b, value v, const style *s, int level)
{
    static const char *const words[2][6] = {
        {"None", "False", "True", "nan", "inf", "-inf"},
        {"null", "false", "true", "NaN", "Infinity", "-Infinity"}};
    char digits[32];
    lx_jinja_enter(r);
    if (v.kind == NONE)
        lx_jinja_puts(r, b, words[s->json][0]);
    else if (v.kind == BOOLEAN)
        lx_jinja_puts(r, b, words[s->json][v.whole != 0 ? 2 : 1]);
    else if (v.kind == WHOLE) {
        snprintf(digits, sizeof digits, "%lld", (long long)v.whole);
        lx_jinja_puts(r, b, digits);
    } else if (v.kind == REAL && isfinite(v.real))
        print_real(r, b, v.real);
    else if (v.kind == REAL)
        lx_jinja_puts(r, b, words[s->json][isnan(v.real) ? 3 : v.real > 0 ? 4 : 5]);
    else if (v.kind == TEXT)
        print_text(r, b, v.text, s);
    else if (is_a(v, SET(LIST) | SET(TUPLE) | SET(MAP)))
        print_items(r, b, v, s, level);
    else if (s->json)
        fail(r, "a %s cannot be written as JSON", lx_jinja_kind_name(v));
    else if (v.kind != UNDEFINED)
        refuse(r, "a %s cannot be written", lx_jinja_kind_name(v));
    r->depth--;
}

span lx_jinja_string(run *r, value v)
{
    static const style repr = {
        .indent = -1, .comma = {.bytes = ", ", .n = 2}, .colon = {.bytes = ": ", .n = 2}};
    if (v.kind == TEXT)
        return v.text;
    builder b = {0};
    lx_jinja_print(r, &b, v, &repr, 0);
    return lx_jinja_built(&b).text;
}

value lx_jinja_escape(run *r, value v)
{
    static const char signs[] = "&<>'\"";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    span t = lx_jinja_string(r, v);
    builder b = {0};
    for (size_t at = 0; !v.safe && at < t.n; at++) {
        const char *sign = t.bytes[at] != '\0' ? strchr(signs, t.bytes[at]) : NULL;
        char marks[8];
        span part = sign != NULL ? make_span(names[sign - signs]) : part_of(t, at, at + 1);
        if (sign != NULL && t.marks != NULL)
            part.marks = memset(marks, t.marks[at], sizeof marks);
        lx_jinja_write(r, &b, part);
    }
    value out = v.safe ? v : lx_jinja_built(&b);
    out.safe = true;
    return out;
}

value lx_jinja_add(run *r, span a, span b)
{
    builder out = {0};
    lx_jinja_write(r, &out, a);
    lx_jinja_write(r, &out, b);
    return lx_jinja_built(&out);
}
