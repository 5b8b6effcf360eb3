/* Filters, tests, global functions, and the attributes of values: rows of tables. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/formats/json_memory.h"
#include "model/jinja/internal.h"

/* --- calls --- */

/* A kind of arguments by its letter in a row's parameters. */
static unsigned kinds_of(char letter)
{
    static const char letters[] = "siSIwp";
    static const unsigned kinds[] = {SET(TEXT),
                                     INTS,
                                     SET(TEXT) | SET(NONE),
                                     INTS | SET(NONE),
                                     INTS | SET(TEXT),
                                     SET(TEXT) | SET(TUPLE)};
    return kinds[strchr(letters, letter) - letters];
}

value lx_jinja_invoke(run *r, const builtin *row, value self, const arguments *given)
{
    call c = {.row = row, .self = self, .more = *given};
    size_t n = 0, named = 0, all_named = given->named != NULL ? given->named->n / 2 : 0;
    const char *p = row->parameters;
    const int letters = (int)strcspn(row->names, " ");
    if (!is_a(self, row->takes))
        fail(r, "%.*s of a %s", letters, row->names, lx_jinja_kind_name(self));
    for (; *p != '\0' && *p != '*'; n++) {
        const span name = {.bytes = p, .n = strcspn(p, ":? ")};
        const value *v = n < given->n ? &given->values[n] : NULL;
        if (v == NULL && (v = lx_jinja_find_named(r, given, name)) != NULL)
            named++;
        p += name.n;
        unsigned kinds = *p == ':' ? kinds_of(p[1]) : ANY;
        p += *p == ':' ? 2 : 0;
        if (v == NULL && *p != '?')
            fail(r, "the argument %.*s of %.*s is missing", (int)name.n, name.bytes, letters,
                 row->names);
        if (v != NULL && !is_a(*v, kinds))
            fail(r, "the argument %.*s of %.*s is a %s", (int)name.n, name.bytes, letters,
                 row->names, lx_jinja_kind_name(*v));
        if (v != NULL)
            c.given[n] = *v;
        p += strspn(p, "? ");
    }
    if (*p != '*' && (given->n > n || all_named > named))
        fail(r, "%.*s has no such argument", letters, row->names);
    if (given->n > 0) {
        n = n < given->n ? n : given->n;
        c.more.values += n;
        c.more.n -= n;
    }
    return row->run(r, &c);
}

/* An undefined argument, unlike a missing one, has a name. */
static bool is_given(value v)
{
    return v.kind != UNDEFINED || v.text.bytes != NULL;
}

/* --- filters --- */

static value do_length(run *r, const call *c)
{
    return make_whole((int64_t)lx_jinja_length(r, c->self));
}

static value do_default(run *r, const call *c)
{
    (void)r;
    bool replaced =
        c->self.kind == UNDEFINED || (lx_jinja_is_true(c->given[1]) && !lx_jinja_is_true(c->self));
    if (!replaced)
        return c->self;
    return is_given(c->given[0]) ? c->given[0] : make_text(make_span(""));
}

/* string and safe. */
static value do_string(run *r, const call *c)
{
    value v = make_text(lx_jinja_string(r, c->self));
    v.safe = c->row->which != 0;
    return v;
}

static value do_escape(run *r, const call *c)
{
    return lx_jinja_escape(r, c->self);
}

static value do_list(run *r, const call *c)
{
    const array *all = lx_jinja_items(r, c->self);
    value copy = lx_jinja_make_list(r, LIST, all->n);
    for (size_t i = 0; i < all->n; i++)
        lx_jinja_push(r, copy, all->items[i]);
    return copy;
}

static value do_reverse(run *r, const call *c)
{
    if (c->self.kind == TEXT)
        refuse(r, "reverse of a str is not implemented");
    return lx_jinja_reversed(r, GENERATOR, lx_jinja_items(r, c->self));
}

/* The first or the last item. */
static value do_end(run *r, const call *c)
{
    const array *all = lx_jinja_items(r, c->self);
    if (all->n == 0)
        return make_undefined(make_span("the item"));
    return all->items[c->row->which == LEFT ? 0 : all->n - 1];
}

/* "a.b" of an item, as map, join, sort and selectattr take it. */
static value attribute_of(run *r, value v, value name)
{
    if (name.kind != TEXT)
        return lx_jinja_subscript(r, v, name);
    for (size_t at = 0; at <= name.text.n;) {
        const char *dot = memchr(name.text.bytes + at, '.', name.text.n - at);
        size_t end = dot != NULL ? (size_t)(dot - name.text.bytes) : name.text.n;
        v = lx_jinja_subscript(r, v, make_text(part_of(name.text, at, end)));
        at = end + 1;
    }
    return v;
}

/* The attribute where one is named, else the item. */
static value attribute_or_item(run *r, value item, value attribute)
{
    return is_a(attribute, SET(UNDEFINED) | SET(NONE)) ? item : attribute_of(r, item, attribute);
}

static value do_join(run *r, const call *c)
{
    span by = lx_jinja_string(r, c->given[0]);
    const array *all = lx_jinja_items(r, c->self);
    builder b = {0};
    for (size_t i = 0; i < all->n; i++) {
        if (i > 0)
            lx_jinja_write(r, &b, by);
        lx_jinja_write(r, &b, lx_jinja_string(r, attribute_or_item(r, all->items[i], c->given[1])));
    }
    return lx_jinja_built(&b);
}

static value do_tojson(run *r, const call *c)
{
    int64_t indent = whole_or(c->given[1], -1);
    style s = {.json = true,
               .ascii = lx_jinja_is_true(c->given[0]),
               .sorted = lx_jinja_is_true(c->given[3]),
               .indent = indent,
               .comma = make_span(indent < 0 ? ", " : ","),
               .colon = make_span(": ")};
    if (is_a(c->given[2], SET(LIST) | SET(TUPLE))) {
        const array *separators = c->given[2].list;
        if (separators->n != 2)
            fail(r, "tojson takes two separators");
        s.comma = lx_jinja_string(r, separators->items[0]);
        s.colon = lx_jinja_string(r, separators->items[1]);
    }
    if (s.indent > 64)
        fail(r, "tojson indents by at most 64");
    builder b = {0};
    lx_jinja_print(r, &b, c->self, &s, 0);
    return lx_jinja_built(&b);
}

/* All texts of the value are a client's if a byte of the JSON is. */
static value do_fromjson(run *r, const call *c)
{
    enum { MOST = 1 << 20 }; /* bytes: jansson's values take many times as much */
    span t = c->self.text;
    json_error_t why;
    if (t.n > MOST)
        lx_jinja_fail(&r->arena, LX_ERR_TOO_LARGE, "over %d bytes of JSON", MOST);
    json_decref(r->parsed);
    lx_jinja_charge(r, t.n);
    r->parsed = lx_json_load(t.bytes, t.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    if (r->parsed == NULL && json_error_code(&why) == json_error_out_of_memory)
        lx_jinja_fail(&r->arena, LX_ERR_NO_MEMORY, "no memory");
    if (r->parsed == NULL)
        fail(r, "from_json: %s", why.text);
    return lx_jinja_from_json(r, r->parsed, t.marks != NULL && memchr(t.marks, 1, t.n) != NULL);
}

static value do_indent(run *r, const call *c)
{
    span t = lx_jinja_string(r, c->self), with = make_span(" ");
    bool first = lx_jinja_is_true(c->given[1]), blank = lx_jinja_is_true(c->given[2]);
    int64_t n = c->given[0].kind == TEXT ? 1 : whole_or(c->given[0], 4);
    builder b = {0};
    if (c->given[0].kind == TEXT)
        with = c->given[0].text;
    size_t at = 0, line = 0;
    do {
        const char *feed = memchr(t.bytes + at, '\n', t.n - at);
        size_t end = feed != NULL ? (size_t)(feed - t.bytes) : t.n;
        bool indented = line++ == 0 ? first : end > at || blank;
        for (int64_t i = 0; indented && i < n; i++)
            lx_jinja_write(r, &b, with);
        end += feed != NULL;
        lx_jinja_write(r, &b, part_of(t, at, end));
        at = end;
    } while (at < t.n);
    return lx_jinja_built(&b);
}

/* A key of sort: texts without their case, unless they are compared exactly. */
static value key_of(run *r, value item, value attribute, bool exact)
{
    static const builtin lower = {"lower", lx_jinja_do_case, LOWER, ANY, ""};
    value key = attribute_or_item(r, item, attribute);
    if (exact || key.kind != TEXT)
        return key;
    return lx_jinja_invoke(r, &lower, key, &(arguments){.n = 0});
}

/* The items by the key of each, equal ones in their order: merge sort, bounded by its steps. */
static void sort_items(run *r, value *items, value *keys, size_t n, bool back)
{
    if (n < 2)
        return;
    size_t half = n / 2, a = 0, b = half;
    value *sorted = lx_jinja_alloc(&r->arena, 2 * n * sizeof *sorted), *sorted_keys = sorted + n;
    sort_items(r, items, keys, half, back);
    sort_items(r, items + half, keys + half, n - half, back);
    for (size_t at = 0; at < n; at++) {
        bool second = a == half;
        if (a < half && b < n) {
            int order = lx_jinja_order(r, keys[a], keys[b]);
            second = back ? order < 0 : order > 0;
        }
        lx_jinja_charge(r, 0);
        size_t from = second ? b++ : a++;
        sorted[at] = items[from];
        sorted_keys[at] = keys[from];
    }
    memcpy(items, sorted, n * sizeof *items);
    memcpy(keys, sorted_keys, n * sizeof *keys);
}

static value sort_by(run *r, value all, value attribute, bool exact, bool back)
{
    value keys = lx_jinja_make_list(r, LIST, all.list->n);
    for (size_t i = 0; i < all.list->n; i++)
        lx_jinja_push(r, keys, key_of(r, all.list->items[i], attribute, exact));
    sort_items(r, all.list->items, keys.list->items, all.list->n, back);
    return all;
}

static value do_sort(run *r, const call *c)
{
    return sort_by(r, do_list(r, c), c->given[2], lx_jinja_is_true(c->given[1]),
                   lx_jinja_is_true(c->given[0]));
}

/* A list of (key, value). */
static value pairs_of(run *r, value_kind kind, const array *map)
{
    value all = lx_jinja_make_list(r, kind, map->n / 2);
    for (size_t i = 0; i < map->n; i += 2) {
        value pair = lx_jinja_make_list(r, TUPLE, 2);
        lx_jinja_push(r, pair, map->items[i]);
        lx_jinja_push(r, pair, map->items[i + 1]);
        lx_jinja_push(r, all, pair);
    }
    return all;
}

static value do_dictsort(run *r, const call *c)
{
    bool by_value = c->given[1].kind == TEXT && lx_jinja_is_word(c->given[1].text, "value");
    return sort_by(r, pairs_of(r, LIST, c->self.list), make_whole(by_value),
                   lx_jinja_is_true(c->given[0]), lx_jinja_is_true(c->given[2]));
}

/* The method of dictionaries and the filter, whose result can be read once. */
static value do_items(run *r, const call *c)
{
    if (c->self.kind == UNDEFINED)
        return lx_jinja_make_list(r, GENERATOR, 0);
    return pairs_of(r, (value_kind)c->row->which, c->self.list);
}

static value do_unique(run *r, const call *c)
{
    const array *all = lx_jinja_items(r, c->self);
    value out = lx_jinja_make_list(r, GENERATOR, 4), seen = lx_jinja_make_list(r, LIST, 4);
    for (size_t i = 0; i < all->n; i++) {
        value key = attribute_or_item(r, all->items[i], c->given[1]);
        bool exact = key.kind != TEXT || lx_jinja_is_true(c->given[0]);
        for (size_t k = 0; !exact && k < key.text.n; k++)
            exact = (unsigned char)key.text.bytes[k] >= 0x80; /* letters whose case is not known */
        key = exact ? key : key_of(r, key, (value){.kind = NONE}, false);
        if (lx_jinja_contains(r, seen, key))
            continue;
        lx_jinja_push(r, seen, key);
        lx_jinja_push(r, out, all->items[i]);
    }
    return out;
}

static value do_int(run *r, const call *c)
{
    value v = c->self, other = is_given(c->given[0]) ? c->given[0] : make_whole(0);
    static const builtin strip = {"strip", lx_jinja_do_strip, LEFT | RIGHT, ANY, ""};
    char copy[32], *end = copy;
    if (is_a(v, INTS))
        return make_whole(v.whole);
    if (v.kind == REAL && fabs(v.real) < 9e18)
        return make_whole((int64_t)v.real);
    if (v.kind != TEXT)
        return other;
    span t = lx_jinja_invoke(r, &strip, v, &(arguments){.n = 0}).text;
    if (t.n == 0 || t.n > 18)
        return other;
    memcpy(copy, t.bytes, t.n);
    copy[t.n] = '\0';
    long long whole = strtoll(copy, &end, 10);
    return *end == '\0' ? make_whole(whole) : other;
}

static value do_abs(run *r, const call *c)
{
    (void)r;
    int64_t whole = c->self.whole;
    if (c->self.kind == REAL)
        return make_real(fabs(c->self.real));
    return make_whole(whole < 0 ? (int64_t) - (uint64_t)whole : whole);
}

/* The least or the greatest item; the first of equal ones. */
static value do_extreme(run *r, const call *c)
{
    const array *all = lx_jinja_items(r, c->self);
    bool exact = lx_jinja_is_true(c->given[0]);
    if (all->n == 0)
        return make_undefined(make_span("min and max of nothing"));
    value best = all->items[0], best_key = key_of(r, best, c->given[1], exact);
    for (size_t i = 1; i < all->n; i++) {
        value key = key_of(r, all->items[i], c->given[1], exact);
        if (!lx_jinja_compares(r, (operation)c->row->which, key, best_key))
            continue;
        best = all->items[i];
        best_key = key;
    }
    return best;
}

/* The items that map and its siblings go through: none where the value is false, as in jinja2. */
static const array *items_or_none(run *r, value v)
{
    return lx_jinja_items(r, lx_jinja_is_true(v) ? v : (value){.kind = UNDEFINED});
}

static value do_map(run *r, const call *c)
{
    const array *all = items_or_none(r, c->self);
    value out = lx_jinja_make_list(r, GENERATOR, all->n), attribute = {.kind = UNDEFINED};
    value other = attribute, name = c->given[0];
    const builtin *filter = NULL;
    if (name.kind == TEXT) {
        filter = lx_jinja_filter(name.text);
        if (filter == NULL)
            refuse(r, "the filter %.*s is not implemented", (int)name.text.n, name.text.bytes);
    } else {
        const value *by = lx_jinja_find_named(r, &c->more, make_span("attribute"));
        const value *missing = lx_jinja_find_named(r, &c->more, make_span("default"));
        if (by == NULL)
            fail(r, "the argument filter of map is missing");
        attribute = *by;
        other = missing != NULL ? *missing : other;
    }
    for (size_t i = 0; i < all->n; i++) {
        value item = filter != NULL ? lx_jinja_invoke(r, filter, all->items[i], &c->more)
                                    : attribute_of(r, all->items[i], attribute);
        lx_jinja_push(r, out, item.kind == UNDEFINED && is_given(other) ? other : item);
    }
    return out;
}

/* select and reject, which test the items, selectattr and rejectattr, which test an attribute. */
enum { REJECTS = 1, BY_ATTRIBUTE = 2 };
static value do_select(run *r, const call *c)
{
    const array *all = items_or_none(r, c->self);
    bool by_attribute = (c->row->which & BY_ATTRIBUTE) != 0;
    value out = lx_jinja_make_list(r, GENERATOR, 4), name = c->given[by_attribute ? 1 : 0];
    const builtin *test = name.kind == TEXT ? lx_jinja_test(name.text) : NULL;
    if (name.kind == TEXT && test == NULL)
        refuse(r, "the test %.*s is not implemented", (int)name.text.n, name.text.bytes);
    for (size_t i = 0; i < all->n; i++) {
        value item = all->items[i];
        if (by_attribute)
            item = attribute_of(r, item, c->given[0]);
        if (test != NULL)
            item = lx_jinja_invoke(r, test, item, &c->more);
        if (lx_jinja_is_true(item) != ((c->row->which & REJECTS) != 0))
            lx_jinja_push(r, out, all->items[i]);
    }
    return out;
}

static const builtin filters[] = {
    {"length count", do_length, 0, ANY, ""},
    {"default d", do_default, 0, ANY, "default_value? boolean?"},
    {"string", do_string, 0, ANY, ""},
    {"safe", do_string, 1, ANY, ""},
    {"escape e", do_escape, 0, ANY, ""},
    {"trim", lx_jinja_do_strip, LEFT | RIGHT, ANY, "chars:S?"},
    {"upper", lx_jinja_do_case, UPPER, ANY, ""},
    {"lower", lx_jinja_do_case, LOWER, ANY, ""},
    {"capitalize", lx_jinja_do_case, CAPITALIZE, ANY, ""},
    {"title", lx_jinja_do_case, TITLE_WORDS, ANY, ""},
    {"replace", lx_jinja_do_replace, 0, ANY, "old new count:I?"},
    {"list", do_list, 0, ANY, ""},
    {"first", do_end, LEFT, ANY, ""},
    {"last", do_end, RIGHT, ANY, ""},
    {"reverse", do_reverse, 0, ANY, ""},
    {"join", do_join, 0, ANY, "d? attribute?"},
    {"tojson", do_tojson, 0, ANY, "ensure_ascii? indent:I? separators? sort_keys?"},
    {"from_json fromjson", do_fromjson, 0, SET(TEXT), ""},
    {"indent", do_indent, 0, ANY, "width:w? first? blank?"},
    {"items", do_items, GENERATOR, SET(MAP) | SET(UNDEFINED), ""},
    {"dictsort", do_dictsort, 0, SET(MAP), "case_sensitive? by? reverse?"},
    {"sort", do_sort, 0, ANY, "reverse? case_sensitive? attribute?"},
    {"unique", do_unique, 0, ANY, "case_sensitive? attribute?"},
    {"int", do_int, 0, ANY, "default?"},
    {"abs", do_abs, 0, NUMBERS, ""},
    {"min", do_extreme, OP_LESS, ANY, "case_sensitive? attribute?"},
    {"max", do_extreme, OP_MORE, ANY, "case_sensitive? attribute?"},
    {"map", do_map, 0, ANY, "filter:s? *"},
    {"select", do_select, 0, ANY, "test:s? *"},
    {"reject", do_select, REJECTS, ANY, "test:s? *"},
    {"selectattr", do_select, BY_ATTRIBUTE, ANY, "attribute test:s? *"},
    {"rejectattr", do_select, BY_ATTRIBUTE | REJECTS, ANY, "attribute test:s? *"}};

/* --- tests --- */

static value is_of_kind(run *r, const call *c)
{
    (void)r;
    return make_bool(is_a(c->self, (unsigned)c->row->which));
}

static value is_truth(run *r, const call *c)
{
    (void)r;
    return make_bool(c->self.kind == BOOLEAN && c->self.whole == c->row->which);
}

static value is_compared(run *r, const call *c)
{
    return make_bool(lx_jinja_compares(r, (operation)c->row->which, c->self, c->given[0]));
}

static value is_divisible(run *r, const call *c)
{
    int64_t by = whole_or(c->given[0], 2);
    if (by == 0)
        fail(r, "divisibleby 0");
    return make_bool((by == -1 || c->self.whole % by == 0) == (c->row->which == 0));
}

#define ITEMS (SET(TEXT) | SET(LIST) | SET(TUPLE) | SET(MAP) | SET(UNDEFINED))
static const builtin tests[] = {
    {"defined", is_of_kind, ANY & ~SET(UNDEFINED), ANY, ""},
    {"undefined", is_of_kind, SET(UNDEFINED), ANY, ""},
    {"none", is_of_kind, SET(NONE), ANY, ""},
    {"string", is_of_kind, SET(TEXT), ANY, ""},
    {"mapping", is_of_kind, SET(MAP), ANY, ""},
    {"boolean", is_of_kind, SET(BOOLEAN), ANY, ""},
    {"integer", is_of_kind, SET(WHOLE), ANY, ""},
    {"float", is_of_kind, SET(REAL), ANY, ""},
    {"number", is_of_kind, NUMBERS, ANY, ""},
    {"iterable", is_of_kind, ITEMS | SET(GENERATOR), ANY, ""},
    {"sequence", is_of_kind, ITEMS, ANY, ""},
    {"callable", is_of_kind, SET(MACRO) | SET(METHOD) | SET(LOOP) | SET(UNDEFINED), ANY, ""},
    {"true", is_truth, 1, ANY, ""},
    {"false", is_truth, 0, ANY, ""},
    {"eq equalto", is_compared, OP_EQUAL, ANY, "other"},
    {"ne", is_compared, OP_UNEQUAL, ANY, "other"},
    {"lt lessthan", is_compared, OP_LESS, ANY, "other"},
    {"gt greaterthan", is_compared, OP_MORE, ANY, "other"},
    {"le", is_compared, OP_LESS_EQUAL, ANY, "other"},
    {"ge", is_compared, OP_MORE_EQUAL, ANY, "other"},
    {"in", is_compared, OP_IN, ANY, "other"},
    {"odd", is_divisible, 1, INTS, ""},
    {"even", is_divisible, 0, INTS, ""},
    {"divisibleby", is_divisible, 0, INTS, "num:i"}};

const builtin *lx_jinja_filter(span name)
{
    return lx_jinja_find_row(filters, COUNT(filters), name);
}

const builtin *lx_jinja_test(span name)
{
    return lx_jinja_find_row(tests, COUNT(tests), name);
}

/* --- global functions --- */

static value do_range(run *r, const call *c)
{
    bool one = !is_given(c->given[1]);
    int64_t first = one ? 0 : c->given[0].whole, last = c->given[one ? 0 : 1].whole;
    int64_t step = whole_or(c->given[2], 1);
    if (step == 0)
        fail(r, "range with a step of 0");
    value all = lx_jinja_make_list(r, LIST, 4);
    for (int64_t i = first; step > 0 ? i < last : i > last;) {
        lx_jinja_push(r, all, make_whole(i));
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return all;
}

/* dict and namespace. */
static value do_dict(run *r, const call *c)
{
    value made = lx_jinja_make_list(r, (value_kind)c->row->which, 4);
    for (size_t i = 0; i < c->more.n; i++) {
        if (c->more.values[i].kind != MAP)
            refuse(r, "dict and namespace of a %s are not implemented",
                   lx_jinja_kind_name(c->more.values[i]));
        lx_jinja_put_all(r, made.list, c->more.values[i].list);
    }
    lx_jinja_put_all(r, made.list, c->more.named);
    return made;
}

static value do_raise(run *r, const call *c)
{
    span t = lx_jinja_string(r, c->given[0]);
    fail(r, "it refuses the chat: %.*s", (int)(t.n < 180 ? t.n : 180), t.bytes);
}

static value do_strftime(run *r, const call *c)
{
    span format = c->given[0].text;
    char copy[64], out[256];
    time_t now = (time_t)r->now;
    struct tm when;
    if (format.n == 0 || format.n >= sizeof copy || gmtime_r(&now, &when) == NULL)
        fail(r, "strftime_now takes a format of 1 to %zu bytes", sizeof copy - 1);
    memcpy(copy, format.bytes, format.n);
    copy[format.n] = '\0';
    size_t n = strftime(out, sizeof out, copy, &when);
    return make_text((span){.bytes = lx_jinja_grow(&r->arena, out, n, n + 1, 1), .n = n});
}

static const builtin globals[] = {{"range", do_range, 0, ANY, "start:i stop:i? step:i?"},
                                  {"dict", do_dict, MAP, ANY, "*"},
                                  {"namespace", do_dict, NAMESPACE, ANY, "*"},
                                  {"raise_exception", do_raise, 0, ANY, "message"},
                                  {"strftime_now", do_strftime, 0, ANY, "format:s"}};

/* --- methods --- */

static value do_get(run *r, const call *c)
{
    const value *there = lx_jinja_find(r, c->self.list, c->given[0]);
    if (there != NULL)
        return *there;
    return is_given(c->given[1]) ? c->given[1] : (value){.kind = NONE};
}

/* The keys or the values of a dictionary. */
static value do_halves(run *r, const call *c)
{
    const array *map = c->self.list;
    value all = lx_jinja_make_list(r, LIST, map->n / 2);
    for (size_t i = (size_t)c->row->which; i < map->n; i += 2)
        lx_jinja_push(r, all, map->items[i]);
    return all;
}

static value do_index(run *r, const call *c)
{
    const array *list = c->self.list;
    for (size_t i = 0; i < list->n; i++) {
        if (lx_jinja_equal(r, list->items[i], c->given[0]))
            return make_whole((int64_t)i);
    }
    fail(r, "index: the value is not in the list");
}

/* Python's sandbox refuses the methods that change a list or a dictionary of its caller. */
static value do_refuse_change(run *r, const call *c)
{
    refuse(r, "a change of a %s is not allowed", lx_jinja_kind_name(c->self));
}

static value do_cycle(run *r, const call *c)
{
    if (c->more.n == 0)
        fail(r, "loop.cycle without values");
    return c->more.values[c->self.loop->at % c->more.n];
}

static value do_changed(run *r, const call *c)
{
    loop *l = c->self.loop;
    value all = lx_jinja_make_list(r, TUPLE, c->more.n);
    for (size_t i = 0; i < c->more.n; i++)
        lx_jinja_push(r, all, c->more.values[i]);
    bool same = l->changed.kind == TUPLE && lx_jinja_equal(r, l->changed, all);
    l->changed = all;
    return make_bool(!same);
}

static const builtin map_methods[] = {{"get", do_get, 0, ANY, "key default?"},
                                      {"items", do_items, LIST, ANY, ""},
                                      {"keys", do_halves, 0, ANY, ""},
                                      {"values", do_halves, 1, ANY, ""},
                                      {"pop", do_refuse_change, 0, ANY, "*"},
                                      {"update", do_refuse_change, 0, ANY, "*"},
                                      {"setdefault", do_refuse_change, 0, ANY, "*"},
                                      {"clear", do_refuse_change, 0, ANY, "*"}};
static const builtin list_methods[] = {
    {"index", do_index, 0, ANY, "value"},
    {"append", do_refuse_change, 0, ANY, "*"},
    {"append extend insert pop remove reverse sort", do_refuse_change, 0, ANY, "*"}};
static const builtin loop_methods[] = {{"cycle", do_cycle, 0, ANY, "*"},
                                       {"changed", do_changed, 0, ANY, "*"}};

/* The row as a method of the value; undefined where there is no row. */
static value bind(run *r, value self, const builtin *row, span name)
{
    if (row == NULL)
        return make_undefined(name);
    bound *b = lx_jinja_alloc(&r->arena, sizeof *b);
    *b = (bound){.self = self, .row = row};
    return (value){.kind = METHOD, .bound = b};
}

value lx_jinja_global(run *r, span name)
{
    return bind(r, (value){.kind = NONE}, lx_jinja_find_row(globals, COUNT(globals), name), name);
}

static value method(run *r, value self, span name)
{
    const builtin *row = NULL;
    if (self.kind == TEXT)
        row = lx_jinja_text_method(name);
    else if (self.kind == MAP)
        row = lx_jinja_find_row(map_methods, COUNT(map_methods), name);
    else if (self.kind == LIST)
        row = lx_jinja_find_row(list_methods, COUNT(list_methods), name);
    else if (self.kind == LOOP)
        row = lx_jinja_find_row(loop_methods, COUNT(loop_methods), name);
    return bind(r, self, row, name);
}

/* --- attributes and subscripts --- */

static value loop_attribute(const loop *l, span name)
{
    int64_t n = (int64_t)l->items->n, at = (int64_t)l->at;
    const struct {
        const char *name;
        value value;
    } attributes[] = {{"index", make_whole(at + 1)},    {"index0", make_whole(at)},
                      {"revindex", make_whole(n - at)}, {"revindex0", make_whole(n - at - 1)},
                      {"first", make_bool(at == 0)},    {"last", make_bool(at + 1 == n)},
                      {"length", make_whole(n)},        {"depth", make_whole(l->depth + 1)},
                      {"depth0", make_whole(l->depth)}};
    for (size_t i = 0; i < COUNT(attributes); i++) {
        if (lx_jinja_is_word(name, attributes[i].name))
            return attributes[i].value;
    }
    if (lx_jinja_is_word(name, "previtem") && at > 0)
        return l->items->items[at - 1];
    if (lx_jinja_is_word(name, "nextitem") && at + 1 < n)
        return l->items->items[at + 1];
    return make_undefined(name);
}

/* The item at a position, from the end where it is below 0. */
static value item_at(run *r, value v, int64_t at)
{
    int64_t n = (int64_t)lx_jinja_length(r, v);
    at += at < 0 ? n : 0;
    if (at < 0 || at >= n)
        return make_undefined(make_span("the item"));
    if (v.kind != TEXT)
        return v.list->items[at];
    size_t first = lx_jinja_offset(v.text, (size_t)at);
    size_t bytes = lx_jinja_offset(part_of(v.text, first, v.text.n), 1);
    return make_text(part_of(v.text, first, first + bytes));
}

static value find_item(run *r, value v, value key)
{
    const value *there = NULL;
    if (is_a(v, SET(MAP) | SET(NAMESPACE)))
        there = lx_jinja_find(r, v.list, key);
    else if (v.kind == LOOP && key.kind == TEXT)
        return loop_attribute(v.loop, key.text);
    else if (is_a(v, SET(LIST) | SET(TUPLE) | SET(TEXT)) && is_a(key, INTS))
        return item_at(r, v, key.whole);
    if (there != NULL)
        return *there;
    return make_undefined(key.kind == TEXT ? key.text : make_span("the item"));
}

value lx_jinja_subscript(run *r, value v, value key)
{
    value found = find_item(r, lx_jinja_defined(r, v), key);
    return found.kind == UNDEFINED && key.kind == TEXT ? method(r, v, key.text) : found;
}

value lx_jinja_attribute(run *r, value v, value name)
{
    value found = method(r, lx_jinja_defined(r, v), name.text);
    return found.kind == UNDEFINED ? find_item(r, v, name) : found;
}
