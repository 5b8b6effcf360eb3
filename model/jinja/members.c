/* Attributes, subscripts and methods of values. */
#include <string.h>

#include "model/jinja/builtins.h"

/* --- dictionaries and lists --- */

static value do_get(run *r, value self, const arguments *given)
{
    const value *there = lx_jinja_find(r, self.map, lx_jinja_needed(r, given, 0, "key"));
    return there != NULL ? *there
                         : lx_jinja_argument(r, given, 1, "default", (value){.kind = NONE});
}

value lx_jinja_pairs_of(run *r, const table *m)
{
    value all = lx_jinja_make_list(r, LIST, m->n);
    for (size_t i = 0; i < m->n; i++) {
        value pair = lx_jinja_make_list(r, TUPLE, 2);
        lx_jinja_push(r, pair, m->entries[i].key);
        lx_jinja_push(r, pair, m->entries[i].value);
        lx_jinja_push(r, all, pair);
    }
    return all;
}

value lx_jinja_do_items(run *r, value self, const arguments *given)
{
    (void)given;
    if (self.kind == UNDEFINED)
        return lx_jinja_make_list(r, LIST, 0);
    if (self.kind != MAP)
        fail(r, "a %s has no items", lx_jinja_kind_name(self));
    return lx_jinja_pairs_of(r, self.map);
}

static value do_keys(run *r, value self, const arguments *given)
{
    (void)given;
    return (value){.kind = LIST, .list = (array *)lx_jinja_items(r, self)};
}

static value do_values(run *r, value self, const arguments *given)
{
    (void)given;
    value all = lx_jinja_make_list(r, LIST, self.map->n);
    for (size_t i = 0; i < self.map->n; i++)
        lx_jinja_push(r, all, self.map->entries[i].value);
    return all;
}

static value do_index(run *r, value self, const arguments *given)
{
    value part = lx_jinja_needed(r, given, 0, "value");
    for (size_t i = 0; i < self.list->n; i++) {
        if (lx_jinja_equal(r, self.list->items[i], part))
            return make_whole((int64_t)i);
    }
    fail(r, "index: the value is not in the list");
}

/* Python's sandbox refuses what changes a list or a dictionary of its caller. */
static value do_refuse_change(run *r, value self, const arguments *given)
{
    (void)given;
    refuse(r, "a change of a %s is not allowed", lx_jinja_kind_name(self));
}

static const row map_methods[] = {{"get", do_get},
                                  {"items", lx_jinja_do_items},
                                  {"keys", do_keys},
                                  {"values", do_values},
                                  {"pop", do_refuse_change},
                                  {"update", do_refuse_change},
                                  {"setdefault", do_refuse_change},
                                  {"clear", do_refuse_change}};

static const row list_methods[] = {{"index", do_index},           {"append", do_refuse_change},
                                   {"extend", do_refuse_change},  {"insert", do_refuse_change},
                                   {"pop", do_refuse_change},     {"remove", do_refuse_change},
                                   {"reverse", do_refuse_change}, {"sort", do_refuse_change}};

/* --- methods --- */

static value bind(run *r, value self, builtin call)
{
    bound *b = lx_jinja_alloc(&r->arena, sizeof *b);
    *b = (bound){.self = self, .call = call};
    return (value){.kind = METHOD, .bound = b};
}

value lx_jinja_bind_row(run *r, value self, const row *found, const span *name)
{
    return found != NULL ? bind(r, self, found->call) : lx_jinja_undefined(r, name->bytes, name->n);
}

value lx_jinja_method(run *r, value self, const span *name)
{
    const row *found = NULL;
    if (self.kind == TEXT)
        found = lx_jinja_text_method(name->bytes, name->n);
    else if (self.kind == MAP)
        found = lx_jinja_find_row(map_methods, COUNT(map_methods), name->bytes, name->n);
    else if (self.kind == LIST)
        found = lx_jinja_find_row(list_methods, COUNT(list_methods), name->bytes, name->n);
    return lx_jinja_bind_row(r, self, found, name);
}

/* --- attributes and subscripts --- */

value lx_jinja_defined(run *r, value v)
{
    if (v.kind == UNDEFINED)
        fail(r, "%.*s is undefined", (int)v.text->n, v.text->bytes);
    return v;
}

static value cycle(run *r, value self, const arguments *given)
{
    if (given->n == 0)
        fail(r, "loop.cycle without values");
    return given->values[self.loop->at % given->n];
}

static value changed(run *r, value self, const arguments *given)
{
    value all = lx_jinja_make_list(r, TUPLE, given->n);
    for (size_t i = 0; i < given->n; i++)
        lx_jinja_push(r, all, given->values[i]);
    bool same = self.loop->changed.kind == TUPLE && lx_jinja_equal(r, self.loop->changed, all);
    self.loop->changed = all;
    return make_bool(!same);
}

static value loop_attribute(run *r, value v, const span *name)
{
    const loop *l = v.loop;
    size_t n = l->items->n;
    if (lx_jinja_is_word(name, "index"))
        return make_whole((int64_t)l->at + 1);
    if (lx_jinja_is_word(name, "index0"))
        return make_whole((int64_t)l->at);
    if (lx_jinja_is_word(name, "revindex"))
        return make_whole((int64_t)(n - l->at));
    if (lx_jinja_is_word(name, "revindex0"))
        return make_whole((int64_t)(n - l->at) - 1);
    if (lx_jinja_is_word(name, "first"))
        return make_bool(l->at == 0);
    if (lx_jinja_is_word(name, "last"))
        return make_bool(l->at + 1 == n);
    if (lx_jinja_is_word(name, "length"))
        return make_whole((int64_t)n);
    if (lx_jinja_is_word(name, "depth") || lx_jinja_is_word(name, "depth0"))
        return make_whole(l->depth + (lx_jinja_is_word(name, "depth") ? 1 : 0));
    if (lx_jinja_is_word(name, "previtem") && l->at > 0)
        return l->items->items[l->at - 1];
    if (lx_jinja_is_word(name, "nextitem") && l->at + 1 < n)
        return l->items->items[l->at + 1];
    if (!lx_jinja_is_word(name, "cycle") && !lx_jinja_is_word(name, "changed"))
        return lx_jinja_undefined(r, name->bytes, name->n);
    return bind(r, v, lx_jinja_is_word(name, "cycle") ? cycle : changed);
}

/* The item at a position, from the end where it is below 0. */
static value item_at(run *r, value v, int64_t at)
{
    int64_t n = (int64_t)lx_jinja_length(r, v);
    at += at < 0 ? n : 0;
    if (at < 0 || at >= n)
        return lx_jinja_undefined(r, "the item", 8);
    if (v.kind != TEXT)
        return v.list->items[at];
    size_t first = lx_jinja_offset(v.text, (size_t)at);
    value rest = lx_jinja_slice_text(r, v.text, first, v.text->n);
    return lx_jinja_slice_text(r, rest.text, 0, lx_jinja_offset(rest.text, 1));
}

static value find_item(run *r, value v, value key)
{
    if (v.kind == MAP || v.kind == NAMESPACE) {
        const value *there = lx_jinja_find(r, v.map, key);
        if (there != NULL)
            return *there;
    } else if (v.kind == LOOP && key.kind == TEXT)
        return loop_attribute(r, v, key.text);
    else if ((v.kind == LIST || v.kind == TUPLE || v.kind == TEXT) &&
             (key.kind == WHOLE || key.kind == BOOLEAN))
        return item_at(r, v, key.kind == WHOLE ? key.whole : key.truth);
    return key.kind == TEXT ? lx_jinja_undefined(r, key.text->bytes, key.text->n)
                            : lx_jinja_undefined(r, "the item", 8);
}

value lx_jinja_subscript(run *r, value v, value key)
{
    value found = find_item(r, lx_jinja_defined(r, v), key);
    return found.kind == UNDEFINED && key.kind == TEXT ? lx_jinja_method(r, v, key.text) : found;
}

value lx_jinja_attribute(run *r, value v, value name)
{
    value found = lx_jinja_method(r, lx_jinja_defined(r, v), name.text);
    return found.kind == UNDEFINED ? find_item(r, v, name) : found;
}
