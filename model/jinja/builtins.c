/* Filters, tests and global functions: rows of tables below. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/jinja/builtins.h"

/* --- filters --- */

static value do_length(run *r, value self, const arguments *given)
{
    (void)given;
    return make_whole((int64_t)lx_jinja_length(r, self));
}

static value do_default(run *r, value self, const arguments *given)
{
    value other = lx_jinja_argument(r, given, 0, "default_value", lx_jinja_make_name(r, ""));
    bool or_false =
        lx_jinja_is_true(r, lx_jinja_argument(r, given, 1, "boolean", make_bool(false)));
    return self.kind == UNDEFINED || (or_false && !lx_jinja_is_true(r, self)) ? other : self;
}

static value do_string(run *r, value self, const arguments *given)
{
    (void)given;
    return lx_jinja_string(r, self);
}

static value do_safe(run *r, value self, const arguments *given)
{
    return do_string(r, self, given);
}

static value do_list(run *r, value self, const arguments *given)
{
    (void)given;
    const array *all = lx_jinja_items(r, self);
    value copy = lx_jinja_make_list(r, LIST, all->n);
    for (size_t i = 0; i < all->n; i++)
        lx_jinja_push(r, copy, all->items[i]);
    return copy;
}

static value do_first(run *r, value self, const arguments *given)
{
    (void)given;
    const array *all = lx_jinja_items(r, self);
    return all->n > 0 ? all->items[0] : lx_jinja_undefined(r, "first", 5);
}

static value do_last(run *r, value self, const arguments *given)
{
    (void)given;
    const array *all = lx_jinja_items(r, self);
    return all->n > 0 ? all->items[all->n - 1] : lx_jinja_undefined(r, "last", 4);
}

static value do_reverse(run *r, value self, const arguments *given)
{
    (void)given;
    const array *all = lx_jinja_items(r, self);
    if (self.kind == TEXT)
        refuse(r, "reverse of a str is not implemented");
    value back = lx_jinja_make_list(r, LIST, all->n);
    for (size_t i = all->n; i > 0; i--)
        lx_jinja_push(r, back, all->items[i - 1]);
    return back;
}

/* "a.b" of an item, as map, join, sort and selectattr take it. */
static value attribute_of(run *r, value v, value name)
{
    if (name.kind != TEXT)
        return lx_jinja_subscript(r, v, name);
    for (size_t at = 0; at <= name.text->n;) {
        const char *dot = memchr(name.text->bytes + at, '.', name.text->n - at);
        size_t end = dot != NULL ? (size_t)(dot - name.text->bytes) : name.text->n;
        v = lx_jinja_subscript(r, v, lx_jinja_slice_text(r, name.text, at, end));
        at = end + 1;
    }
    return v;
}

static value do_join(run *r, value self, const arguments *given)
{
    const span *by =
        lx_jinja_text_of(r, lx_jinja_argument(r, given, 0, "d", lx_jinja_make_name(r, "")));
    value attribute = lx_jinja_argument(r, given, 1, "attribute", (value){.kind = NONE});
    const array *all = lx_jinja_items(r, self);
    builder b = {0};
    for (size_t i = 0; i < all->n; i++) {
        value item =
            attribute.kind == NONE ? all->items[i] : attribute_of(r, all->items[i], attribute);
        const span *t = lx_jinja_text_of(r, item);
        if (i > 0)
            lx_jinja_write(r, &b, by->bytes, by->marks, by->n);
        lx_jinja_write(r, &b, t->bytes, t->marks, t->n);
    }
    return lx_jinja_built(r, &b);
}

static value do_tojson(run *r, value self, const arguments *given)
{
    static const span comma = {.bytes = ", ", .n = 2}, line_comma = {.bytes = ",", .n = 1};
    static const span colon = {.bytes = ": ", .n = 2};
    value none = {.kind = NONE};
    value ascii = lx_jinja_argument(r, given, 0, "ensure_ascii", make_bool(false));
    value indent = lx_jinja_argument(r, given, 1, "indent", none);
    value separators = lx_jinja_argument(r, given, 2, "separators", none);
    value sorted = lx_jinja_argument(r, given, 3, "sort_keys", make_bool(false));
    json_style style = {.ascii = lx_jinja_is_true(r, ascii),
                        .sorted = lx_jinja_is_true(r, sorted),
                        .indent = indent.kind == NONE ? -1 : lx_jinja_whole_of(r, indent, "indent"),
                        .colon = &colon};
    style.comma = style.indent < 0 ? &comma : &line_comma;
    if (separators.kind == LIST || separators.kind == TUPLE) {
        if (separators.list->n != 2)
            fail(r, "tojson takes two separators");
        style.comma = lx_jinja_text_of(r, separators.list->items[0]);
        style.colon = lx_jinja_text_of(r, separators.list->items[1]);
    }
    if (style.indent > 64)
        fail(r, "tojson indents by at most 64");
    builder b = {0};
    lx_jinja_write_json(r, &b, self, &style, 0);
    return lx_jinja_built(r, &b);
}

static value do_indent(run *r, value self, const arguments *given)
{
    const span *t = lx_jinja_text_of(r, self);
    value width = lx_jinja_argument(r, given, 0, "width", make_whole(4));
    bool first = lx_jinja_is_true(r, lx_jinja_argument(r, given, 1, "first", make_bool(false)));
    bool blank = lx_jinja_is_true(r, lx_jinja_argument(r, given, 2, "blank", make_bool(false)));
    int64_t n = width.kind == TEXT ? 1 : lx_jinja_whole_of(r, width, "width");
    const span *with = width.kind == TEXT ? width.text : lx_jinja_make_name(r, " ").text;
    builder b = {0};
    for (size_t at = 0, line = 0; at < t->n || (line == 0 && at == 0); line++) {
        const char *feed = memchr(t->bytes + at, '\n', t->n - at);
        size_t end = feed != NULL ? (size_t)(feed - t->bytes) : t->n;
        bool written = line == 0 ? first : end > at || blank;
        for (int64_t i = 0; written && i < n; i++)
            lx_jinja_write(r, &b, with->bytes, with->marks, with->n);
        end += feed != NULL;
        lx_jinja_write(r, &b, t->bytes + at, t->marks != NULL ? t->marks + at : NULL, end - at);
        at = end;
        if (t->n == 0)
            break;
    }
    return lx_jinja_built(r, &b);
}

static int compare_keys(run *r, value a, value b, bool exact)
{
    arguments none = {.n = 0};
    if (!exact && a.kind == TEXT && b.kind == TEXT)
        return lx_jinja_order(r, lx_jinja_do_lower(r, a, &none), lx_jinja_do_lower(r, b, &none));
    return lx_jinja_order(r, a, b);
}

/* The items by the key of each, equal ones in their order: merge sort, bounded by its steps. */
static void sort_items(run *r, value *items, value *keys, size_t n, bool exact, bool back)
{
    if (n < 2)
        return;
    size_t half = n / 2, a = 0, b = half, at = 0;
    value *sorted = lx_jinja_alloc(&r->arena, 2 * n * sizeof *sorted), *sorted_keys = sorted + n;
    sort_items(r, items, keys, half, exact, back);
    sort_items(r, items + half, keys + half, n - half, exact, back);
    for (; at < n; at++) {
        bool second = a == half;
        if (a < half && b < n) {
            int order = compare_keys(r, keys[a], keys[b], exact);
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
        lx_jinja_push(r, keys,
                      attribute.kind == NONE ? all.list->items[i]
                                             : attribute_of(r, all.list->items[i], attribute));
    sort_items(r, all.list->items, keys.list->items, all.list->n, exact, back);
    return all;
}

static value do_sort(run *r, value self, const arguments *given)
{
    bool back = lx_jinja_is_true(r, lx_jinja_argument(r, given, 0, "reverse", make_bool(false)));
    bool exact =
        lx_jinja_is_true(r, lx_jinja_argument(r, given, 1, "case_sensitive", make_bool(false)));
    value attribute = lx_jinja_argument(r, given, 2, "attribute", (value){.kind = NONE});
    return sort_by(r, do_list(r, self, &(arguments){.n = 0}), attribute, exact, back);
}

static value do_dictsort(run *r, value self, const arguments *given)
{
    bool exact =
        lx_jinja_is_true(r, lx_jinja_argument(r, given, 0, "case_sensitive", make_bool(false)));
    value by = lx_jinja_argument(r, given, 1, "by", lx_jinja_make_name(r, "key"));
    bool back = lx_jinja_is_true(r, lx_jinja_argument(r, given, 2, "reverse", make_bool(false)));
    if (self.kind != MAP)
        fail(r, "dictsort of a %s", lx_jinja_kind_name(self));
    return sort_by(r, lx_jinja_pairs_of(r, self.map), make_whole(lx_jinja_is_text(by, "value")),
                   exact, back);
}

static value do_unique(run *r, value self, const arguments *given)
{
    (void)given;
    const array *all = lx_jinja_items(r, self);
    value out = lx_jinja_make_list(r, LIST, 4);
    for (size_t i = 0; i < all->n; i++) {
        if (!lx_jinja_contains(r, out, all->items[i]))
            lx_jinja_push(r, out, all->items[i]);
    }
    return out;
}

static value do_int(run *r, value self, const arguments *given)
{
    value other = lx_jinja_argument(r, given, 0, "default", make_whole(0));
    if (self.kind == WHOLE || self.kind == BOOLEAN)
        return make_whole(lx_jinja_whole_of(r, self, "value"));
    if (self.kind == REAL && fabs(self.real) < 9e18)
        return make_whole((int64_t)self.real);
    if (self.kind != TEXT)
        return other;
    const span *t = lx_jinja_do_strip(r, self, &(arguments){.n = 0}).text;
    char copy[32], *end = copy;
    if (t->n == 0 || t->n > 18)
        return other;
    memcpy(copy, t->bytes, t->n);
    copy[t->n] = '\0';
    long long whole = strtoll(copy, &end, 10);
    return *end == '\0' ? make_whole(whole) : other;
}

static value do_abs(run *r, value self, const arguments *given)
{
    (void)given;
    if (self.kind == REAL)
        return (value){.kind = REAL, .real = fabs(self.real)};
    int64_t whole = lx_jinja_whole_of(r, self, "value");
    return make_whole(whole < 0 ? (int64_t) - (uint64_t)whole : whole);
}

static value extreme(run *r, value self, int sign)
{
    const array *all = lx_jinja_items(r, self);
    if (all->n == 0)
        return lx_jinja_undefined(r, "min and max of nothing", 22);
    value best = all->items[0];
    for (size_t i = 1; i < all->n; i++) {
        if (compare_keys(r, all->items[i], best, false) * sign > 0)
            best = all->items[i];
    }
    return best;
}

static value do_min(run *r, value self, const arguments *given)
{
    (void)given;
    return extreme(r, self, -1);
}

static value do_max(run *r, value self, const arguments *given)
{
    (void)given;
    return extreme(r, self, 1);
}

/* The items that map and its siblings go through: nothing where the value is false, as in jinja2.
 */
static const array *items_or_none(run *r, value self)
{
    return lx_jinja_items(r, lx_jinja_is_true(r, self) ? self : (value){.kind = UNDEFINED});
}

/* What map, select, reject and their siblings do with an item: a filter or a test with arguments.
 */
static arguments rest_of(const arguments *given, size_t first)
{
    arguments rest = *given;
    size_t n = first < given->n ? first : given->n;
    rest.values += n;
    rest.n -= n;
    return rest;
}

static value do_map(run *r, value self, const arguments *given)
{
    const array *all = items_or_none(r, self);
    value out = lx_jinja_make_list(r, LIST, all->n), none = {.kind = UNDEFINED};
    value attribute = lx_jinja_argument(r, given, SIZE_MAX, "attribute", none);
    value other = lx_jinja_argument(r, given, SIZE_MAX, "default", none);
    builtin filter = NULL;
    if (attribute.kind == UNDEFINED) {
        const span *name = lx_jinja_needed_text(r, given, 0, "filter");
        filter = lx_jinja_filter(name->bytes, name->n);
        if (filter == NULL)
            refuse(r, "the filter %.*s is not implemented", (int)name->n, name->bytes);
    }
    arguments rest = rest_of(given, 1);
    for (size_t i = 0; i < all->n; i++) {
        value item = filter != NULL ? filter(r, all->items[i], &rest)
                                    : attribute_of(r, all->items[i], attribute);
        lx_jinja_push(r, out, item.kind == UNDEFINED && other.kind != UNDEFINED ? other : item);
    }
    return out;
}

static value choose(run *r, value self, const arguments *given, bool attribute, bool kept)
{
    const array *all = items_or_none(r, self);
    value out = lx_jinja_make_list(r, LIST, 4);
    size_t at = attribute ? 1 : 0;
    builtin test = NULL;
    if (at < given->n) {
        const span *name = lx_jinja_needed_text(r, given, at, "test");
        test = lx_jinja_test(name->bytes, name->n);
        if (test == NULL)
            refuse(r, "the test %.*s is not implemented", (int)name->n, name->bytes);
    }
    arguments rest = rest_of(given, at + 1);
    for (size_t i = 0; i < all->n; i++) {
        value item = all->items[i];
        if (attribute)
            item = attribute_of(r, item, lx_jinja_needed(r, given, 0, "attribute"));
        if (test != NULL)
            item = test(r, item, &rest);
        if (lx_jinja_is_true(r, item) == kept)
            lx_jinja_push(r, out, all->items[i]);
    }
    return out;
}

static value do_select(run *r, value self, const arguments *given)
{
    return choose(r, self, given, false, true);
}

static value do_reject(run *r, value self, const arguments *given)
{
    return choose(r, self, given, false, false);
}

static value do_selectattr(run *r, value self, const arguments *given)
{
    return choose(r, self, given, true, true);
}

static value do_rejectattr(run *r, value self, const arguments *given)
{
    return choose(r, self, given, true, false);
}

/* --- tests --- */

static value is_kind(value self, unsigned kinds)
{
    return make_bool(((1U << self.kind) & kinds) != 0);
}

#define KIND_TEST(name, kinds)                                                                     \
    static value is_##name(run *r, value self, const arguments *given)                             \
    {                                                                                              \
        (void)r, (void)given;                                                                      \
        return is_kind(self, kinds);                                                               \
    }
KIND_TEST(defined, ~(1U << UNDEFINED))
KIND_TEST(undefined, 1U << UNDEFINED)
KIND_TEST(none, 1U << NONE)
KIND_TEST(string, 1U << TEXT)
KIND_TEST(mapping, 1U << MAP)
KIND_TEST(boolean, 1U << BOOLEAN)
KIND_TEST(integer, 1U << WHOLE)
KIND_TEST(float, 1U << REAL)
KIND_TEST(number, 1U << WHOLE | 1U << REAL | 1U << BOOLEAN)
KIND_TEST(iterable, 1U << UNDEFINED | 1U << TEXT | 1U << LIST | 1U << TUPLE | 1U << MAP)
KIND_TEST(sequence, 1U << UNDEFINED | 1U << TEXT | 1U << LIST | 1U << TUPLE | 1U << MAP)
KIND_TEST(callable, 1U << MACRO | 1U << METHOD | 1U << LOOP | 1U << UNDEFINED)

static value is_true(run *r, value self, const arguments *given)
{
    (void)r, (void)given;
    return make_bool(self.kind == BOOLEAN && self.truth);
}

static value is_false(run *r, value self, const arguments *given)
{
    (void)r, (void)given;
    return make_bool(self.kind == BOOLEAN && !self.truth);
}

static value is_equal(run *r, value self, const arguments *given)
{
    return make_bool(given->n > 0 && lx_jinja_equal(r, self, given->values[0]));
}

static value is_unequal(run *r, value self, const arguments *given)
{
    return make_bool(!is_equal(r, self, given).truth);
}

static value is_less(run *r, value self, const arguments *given)
{
    return make_bool(lx_jinja_order(r, self, lx_jinja_needed(r, given, 0, "other")) < 0);
}

static value is_more(run *r, value self, const arguments *given)
{
    return make_bool(lx_jinja_order(r, self, lx_jinja_needed(r, given, 0, "other")) > 0);
}

static value is_at_most(run *r, value self, const arguments *given)
{
    return make_bool(!is_more(r, self, given).truth);
}

static value is_at_least(run *r, value self, const arguments *given)
{
    return make_bool(!is_less(r, self, given).truth);
}

static value is_in(run *r, value self, const arguments *given)
{
    return make_bool(lx_jinja_contains(r, lx_jinja_needed(r, given, 0, "seq"), self));
}

static value is_odd(run *r, value self, const arguments *given)
{
    (void)given;
    return make_bool(lx_jinja_whole_of(r, self, "value") % 2 != 0);
}

static value is_even(run *r, value self, const arguments *given)
{
    return make_bool(!is_odd(r, self, given).truth);
}

static value is_divisible(run *r, value self, const arguments *given)
{
    int64_t by = lx_jinja_whole_of(r, lx_jinja_needed(r, given, 0, "num"), "num");
    if (by == 0)
        fail(r, "divisibleby 0");
    return make_bool(by == -1 || lx_jinja_whole_of(r, self, "value") % by == 0);
}

/* --- global functions --- */

static value do_range(run *r, value self, const arguments *given)
{
    (void)self;
    int64_t first = 0, step = 1, last;
    last = lx_jinja_whole_of(r, lx_jinja_needed(r, given, 0, "stop"), "stop");
    if (given->n > 1) {
        first = last;
        last = lx_jinja_whole_of(r, given->values[1], "stop");
    }
    if (given->n > 2)
        step = lx_jinja_whole_of(r, given->values[2], "step");
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

static value dictionary(run *r, const arguments *given, value_kind kind)
{
    value made = lx_jinja_make_map(r, kind);
    for (size_t i = 0; i < given->n; i++) {
        if (given->values[i].kind != MAP)
            refuse(r, "dict and namespace of a %s are not implemented",
                   lx_jinja_kind_name(given->values[i]));
        const table *from = given->values[i].map;
        for (size_t k = 0; k < from->n; k++)
            lx_jinja_put(r, made.map, from->entries[k].key, from->entries[k].value);
    }
    for (size_t k = 0; given->named != NULL && k < given->named->n; k++)
        lx_jinja_put(r, made.map, given->named->entries[k].key, given->named->entries[k].value);
    return made;
}

static value do_dict(run *r, value self, const arguments *given)
{
    (void)self;
    return dictionary(r, given, MAP);
}

static value do_namespace(run *r, value self, const arguments *given)
{
    (void)self;
    return dictionary(r, given, NAMESPACE);
}

static value do_raise(run *r, value self, const arguments *given)
{
    (void)self;
    const span *t = lx_jinja_text_of(r, lx_jinja_needed(r, given, 0, "message"));
    fail(r, "it refuses the chat: %.*s", (int)(t->n < 180 ? t->n : 180), t->bytes);
}

static value do_strftime(run *r, value self, const arguments *given)
{
    (void)self;
    const span *format = lx_jinja_needed_text(r, given, 0, "format");
    char copy[64], out[256];
    time_t now = (time_t)r->now;
    struct tm when;
    if (format->n == 0 || format->n >= sizeof copy || gmtime_r(&now, &when) == NULL)
        fail(r, "strftime_now takes a format of 1 to %zu bytes", sizeof copy - 1);
    memcpy(copy, format->bytes, format->n);
    copy[format->n] = '\0';
    size_t n = strftime(out, sizeof out, copy, &when);
    char *kept = lx_jinja_grow(&r->arena, out, n, n + 1, 1);
    return lx_jinja_make_text(r, kept, NULL, n);
}

/* --- the tables --- */

static const row filters[] = {{"length", do_length},
                              {"count", do_length},
                              {"default", do_default},
                              {"d", do_default},
                              {"string", do_string},
                              {"safe", do_safe},
                              {"trim", lx_jinja_do_strip},
                              {"upper", lx_jinja_do_upper},
                              {"lower", lx_jinja_do_lower},
                              {"capitalize", lx_jinja_do_capitalize},
                              {"title", lx_jinja_do_title_filter},
                              {"replace", lx_jinja_do_replace},
                              {"list", do_list},
                              {"first", do_first},
                              {"last", do_last},
                              {"reverse", do_reverse},
                              {"join", do_join},
                              {"tojson", do_tojson},
                              {"indent", do_indent},
                              {"items", lx_jinja_do_items},
                              {"dictsort", do_dictsort},
                              {"sort", do_sort},
                              {"unique", do_unique},
                              {"int", do_int},
                              {"abs", do_abs},
                              {"min", do_min},
                              {"max", do_max},
                              {"map", do_map},
                              {"select", do_select},
                              {"reject", do_reject},
                              {"selectattr", do_selectattr},
                              {"rejectattr", do_rejectattr}};

static const row tests[] = {{"defined", is_defined},
                            {"undefined", is_undefined},
                            {"none", is_none},
                            {"string", is_string},
                            {"mapping", is_mapping},
                            {"boolean", is_boolean},
                            {"integer", is_integer},
                            {"float", is_float},
                            {"number", is_number},
                            {"iterable", is_iterable},
                            {"sequence", is_sequence},
                            {"callable", is_callable},
                            {"true", is_true},
                            {"false", is_false},
                            {"eq", is_equal},
                            {"equalto", is_equal},
                            {"ne", is_unequal},
                            {"lt", is_less},
                            {"lessthan", is_less},
                            {"gt", is_more},
                            {"greaterthan", is_more},
                            {"le", is_at_most},
                            {"ge", is_at_least},
                            {"in", is_in},
                            {"odd", is_odd},
                            {"even", is_even},
                            {"divisibleby", is_divisible}};

static const row globals[] = {{"range", do_range},
                              {"dict", do_dict},
                              {"namespace", do_namespace},
                              {"raise_exception", do_raise},
                              {"strftime_now", do_strftime}};

builtin lx_jinja_filter(const char *name, size_t n)
{
    const row *found = lx_jinja_find_row(filters, COUNT(filters), name, n);
    return found != NULL ? found->call : NULL;
}

builtin lx_jinja_test(const char *name, size_t n)
{
    const row *found = lx_jinja_find_row(tests, COUNT(tests), name, n);
    return found != NULL ? found->call : NULL;
}

value lx_jinja_global(run *r, const span *name)
{
    return lx_jinja_bind_row(r, (value){.kind = NONE},
                             lx_jinja_find_row(globals, COUNT(globals), name->bytes, name->n),
                             name);
}
