/* Memory, and values: how they are made, compared and counted, as in Python. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/jinja/internal.h"
#include "model/utf8.h"

/* --- memory: blocks that are freed together --- */

enum { BLOCK = 16 << 10, ALIGNMENT = 16 };

typedef struct arena_block {
    struct arena_block *next;
    size_t used, room;
    _Alignas(ALIGNMENT) char bytes[];
} arena_block;

void *lx_jinja_alloc(arena *a, size_t bytes)
{
    if (bytes > a->max - a->used)
        lx_jinja_fail(a, LX_ERR_TOO_LARGE, "over %zu bytes of values", a->max);
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    arena_block *b = a->blocks;
    if (b == NULL || bytes > b->room - b->used) {
        size_t room = bytes > BLOCK ? bytes : BLOCK;
        b = calloc(1, sizeof *b + room);
        if (b == NULL)
            lx_jinja_fail(a, LX_ERR_NO_MEMORY, "no memory");
        b->room = room;
        b->next = a->blocks;
        a->blocks = b;
    }
    void *memory = b->bytes + b->used;
    b->used += bytes;
    a->used = a->max - a->used < bytes ? a->max : a->used + bytes;
    return memory;
}

void *lx_jinja_grow(arena *a, const void *old, size_t n, size_t more, size_t size)
{
    void *memory = lx_jinja_alloc(a, more * size);
    if (n > 0)
        memcpy(memory, old, n * size);
    return memory;
}

void lx_jinja_free_arena(arena *a)
{
    while (a->blocks != NULL) {
        arena_block *next = a->blocks->next;
        free(a->blocks);
        a->blocks = next;
    }
}

/* A message is one line of UTF-8, whatever words of the template or of a client are in it. Other
   bytes and a character that the message's length has cut become question marks. */
static void clean(char *line)
{
    size_t n = strlen(line);
    for (size_t at = 0; at < n;) {
        size_t first = at;
        int32_t c = lx_utf8_next(line, n, &at);
        if (c < ' ' || c == 127) {
            line[first] = '?';
            at = first + 1;
        }
    }
}

void lx_jinja_fail(arena *a, lx_status status, const char *fmt, ...)
{
    enum { PREFIX = 40 };
    char line[sizeof a->err.text - PREFIX];
    va_list given;
    va_start(given, fmt);
    vsnprintf(line, sizeof line, fmt, given);
    va_end(given);
    clean(line);
    lx_error_set(&a->err, status, NULL, "chat template, line %d: %s", a->line, line);
    longjmp(a->failed, 1);
}

/* --- bounds --- */

void lx_jinja_charge(run *r, size_t amount)
{
    enum { BYTES_PER_STEP = 64 };
    r->steps += 1 + amount / BYTES_PER_STEP;
    if (r->steps > LX_JINJA_MAX_STEPS)
        lx_jinja_fail(&r->arena, LX_ERR_TOO_LARGE, "over %d steps", LX_JINJA_MAX_STEPS);
}

void lx_jinja_enter(run *r)
{
    enum { MOST = 2 * LX_JINJA_MAX_DEPTH };
    if (++r->depth > MOST)
        lx_jinja_fail(&r->arena, LX_ERR_TOO_LARGE, "over %d levels of nesting", MOST);
}

/* --- making --- */

value lx_jinja_make_list(run *r, value_kind kind, size_t room)
{
    value v = {.kind = kind, .list = lx_jinja_alloc(&r->arena, sizeof(array))};
    v.list->items = lx_jinja_alloc(&r->arena, room * sizeof(value));
    v.list->room = room;
    return v;
}

void lx_jinja_push(run *r, value v, value item)
{
    array *l = v.list;
    lx_jinja_charge(r, 0);
    if (l->n == l->room) {
        l->room = 2 * l->room + 8;
        l->items = lx_jinja_grow(&r->arena, l->items, l->n, l->room, sizeof(value));
    }
    l->items[l->n++] = item;
}

value lx_jinja_reversed(run *r, value_kind kind, const array *items)
{
    value back = lx_jinja_make_list(r, kind, items->n);
    for (size_t i = items->n; i > 0; i--)
        lx_jinja_push(r, back, items->items[i - 1]);
    return back;
}

value *lx_jinja_find(run *r, const array *map, value key)
{
    for (size_t i = 0; i < map->n; i += 2) {
        lx_jinja_charge(r, 0);
        if (lx_jinja_equal(r, map->items[i], key))
            return &map->items[i + 1];
    }
    return NULL;
}

const value *lx_jinja_find_named(run *r, const arguments *given, span name)
{
    return given->named != NULL ? lx_jinja_find(r, given->named, make_text(name)) : NULL;
}

void lx_jinja_put(run *r, array *map, value key, value item)
{
    value *there = lx_jinja_find(r, map, key), v = {.kind = MAP, .list = map};
    if (there != NULL) {
        *there = item;
        return;
    }
    lx_jinja_push(r, v, key);
    lx_jinja_push(r, v, item);
}

void lx_jinja_put_all(run *r, array *map, const array *from)
{
    for (size_t i = 0; from != NULL && i < from->n; i += 2)
        lx_jinja_put(r, map, from->items[i], from->items[i + 1]);
}

static value text_from_json(run *r, const char *bytes, size_t n, bool client)
{
    span t = {.bytes = lx_jinja_grow(&r->arena, bytes, n, n + 1, 1), .n = n};
    if (client)
        t.marks = memset(lx_jinja_alloc(&r->arena, n + 1), 1, n);
    lx_jinja_charge(r, n);
    return make_text(t);
}

/* The names of roles come from a list of the server's, though they stand in a client's objects: a
   template may make a special token from one, <|user|>. */
static bool is_role(const char *key, const json_t *item)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    const char *text = strcmp(key, "role") == 0 ? json_string_value(item) : NULL;
    for (size_t i = 0; text != NULL && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(text, roles[i]) == 0 && json_string_length(item) == strlen(roles[i]))
            return true;
    return false;
}

value lx_jinja_from_json(run *r, const json_t *json, bool client)
{
    value v = {.kind = NONE};
    const char *key;
    json_t *item;
    lx_jinja_enter(r);
    if (json_is_object(json)) {
        v = lx_jinja_make_list(r, MAP, 2 * json_object_size(json));
        json_object_foreach((json_t *)json, key, item)
        {
            lx_jinja_push(r, v, text_from_json(r, key, strlen(key), client));
            lx_jinja_push(r, v, lx_jinja_from_json(r, item, client && !is_role(key, item)));
        }
    } else if (json_is_array(json)) {
        v = lx_jinja_make_list(r, LIST, json_array_size(json));
        for (size_t i = 0; i < json_array_size(json); i++)
            lx_jinja_push(r, v, lx_jinja_from_json(r, json_array_get(json, i), client));
    } else if (json_is_string(json))
        v = text_from_json(r, json_string_value(json), json_string_length(json), client);
    else if (json_is_integer(json))
        v = make_whole(json_integer_value(json));
    else if (json_is_real(json))
        v = make_real(json_real_value(json));
    else if (json_is_boolean(json))
        v = make_bool(json_is_true(json));
    r->depth--;
    return v;
}

/* --- asking --- */

const char *lx_jinja_kind_name(value v)
{
    static const char *const names[] = {
        [UNDEFINED] = "undefined", [NONE] = "None", [BOOLEAN] = "bool",        [WHOLE] = "int",
        [REAL] = "float",          [TEXT] = "str",  [LIST] = "list",           [TUPLE] = "tuple",
        [GENERATOR] = "generator", [MAP] = "dict",  [NAMESPACE] = "namespace", [MACRO] = "macro",
        [METHOD] = "function",     [LOOP] = "loop"};
    return names[v.kind];
}

bool lx_jinja_is_word(span t, const char *word)
{
    return t.n == strlen(word) && memcmp(t.bytes, word, t.n) == 0;
}

int lx_jinja_place_of(span word, const char *words)
{
    for (int place = 0; *words != '\0'; place++) {
        size_t n = strcspn(words, " ");
        if (word.n == n && memcmp(word.bytes, words, n) == 0)
            return place;
        words += n + (words[n] == ' ');
    }
    return -1;
}

value lx_jinja_defined(run *r, value v)
{
    if (v.kind == UNDEFINED)
        fail(r, "%.*s is undefined", (int)v.text.n, v.text.bytes);
    return v;
}

bool lx_jinja_is_true(value v)
{
    if (is_a(v, INTS))
        return v.whole != 0;
    if (v.kind == REAL)
        return v.real != 0;
    if (v.kind == TEXT)
        return v.text.n > 0;
    if (is_a(v, SET(LIST) | SET(TUPLE) | SET(MAP)))
        return v.list->n > 0;
    return v.kind != UNDEFINED && v.kind != NONE;
}

static bool are_numbers(value a, value b)
{
    return is_a(a, NUMBERS) && is_a(b, NUMBERS);
}

double lx_jinja_real_of(value number)
{
    return number.kind == REAL ? number.real : (double)number.whole;
}

static int order_numbers(value a, value b)
{
    if (a.kind != REAL && b.kind != REAL)
        return (a.whole > b.whole) - (a.whole < b.whole);
    double x = lx_jinja_real_of(a), y = lx_jinja_real_of(b);
    return (x > y) - (x < y);
}

static int order_texts(run *r, span a, span b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    lx_jinja_charge(r, n);
    int order = n > 0 ? memcmp(a.bytes, b.bytes, n) : 0;
    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

static bool equal_lists(run *r, const array *a, const array *b)
{
    bool equal = a->n == b->n;
    for (size_t i = 0; equal && i < a->n; i++)
        equal = lx_jinja_equal(r, a->items[i], b->items[i]);
    return equal;
}

static bool equal_maps(run *r, const array *a, const array *b)
{
    bool equal = a->n == b->n;
    for (size_t i = 0; equal && i < a->n; i += 2) {
        const value *other = lx_jinja_find(r, b, a->items[i]);
        equal = other != NULL && lx_jinja_equal(r, a->items[i + 1], *other);
    }
    return equal;
}

bool lx_jinja_equal(run *r, value a, value b)
{
    if (are_numbers(a, b))
        return order_numbers(a, b) == 0 && !isnan(lx_jinja_real_of(a)) &&
               !isnan(lx_jinja_real_of(b));
    if (a.kind != b.kind)
        return false;
    if (is_a(a, SET(UNDEFINED) | SET(NONE)))
        return true;
    bool equal = a.list == b.list; /* one object */
    lx_jinja_enter(r);
    lx_jinja_charge(r, 0);
    if (a.kind == TEXT)
        equal = a.text.n == b.text.n && order_texts(r, a.text, b.text) == 0;
    else if (is_a(a, SET(LIST) | SET(TUPLE)))
        equal = equal_lists(r, a.list, b.list);
    else if (a.kind == MAP)
        equal = equal_maps(r, a.list, b.list);
    r->depth--;
    return equal;
}

int lx_jinja_order(run *r, value a, value b)
{
    if (are_numbers(a, b))
        return order_numbers(a, b);
    if (a.kind == TEXT && b.kind == TEXT)
        return order_texts(r, a.text, b.text);
    if (!is_a(a, SET(LIST) | SET(TUPLE)) || a.kind != b.kind)
        fail(r, "a %s and a %s have no order", lx_jinja_kind_name(a), lx_jinja_kind_name(b));
    lx_jinja_enter(r);
    int order = 0;
    for (size_t i = 0; order == 0 && i < a.list->n && i < b.list->n; i++) {
        if (!lx_jinja_equal(r, a.list->items[i], b.list->items[i]))
            order = lx_jinja_order(r, a.list->items[i], b.list->items[i]);
    }
    r->depth--;
    return order != 0 ? order : (a.list->n > b.list->n) - (a.list->n < b.list->n);
}

bool lx_jinja_contains(run *r, value whole, value part)
{
    if (whole.kind == TEXT && part.kind == TEXT) {
        lx_jinja_charge(r, whole.text.n);
        return part.text.n == 0 ||
               memmem(whole.text.bytes, whole.text.n, part.text.bytes, part.text.n) != NULL;
    }
    if (whole.kind == MAP)
        return lx_jinja_find(r, whole.list, part) != NULL;
    if (!is_a(whole, SET(UNDEFINED) | SET(LIST) | SET(TUPLE) | SET(GENERATOR)))
        fail(r, "a %s is never in a %s", lx_jinja_kind_name(part), lx_jinja_kind_name(whole));
    const array *items = lx_jinja_items(r, whole);
    for (size_t i = 0; i < items->n; i++) {
        if (lx_jinja_equal(r, items->items[i], part))
            return true;
    }
    return false;
}

bool lx_jinja_compares(run *r, operation op, value a, value b)
{
    if (op == OP_EQUAL || op == OP_UNEQUAL)
        return lx_jinja_equal(r, a, b) == (op == OP_EQUAL);
    if (op == OP_IN || op == OP_NOT_IN)
        return lx_jinja_contains(r, b, a) == (op == OP_IN);
    int order = lx_jinja_order(r, lx_jinja_defined(r, a), lx_jinja_defined(r, b));
    return op == OP_LESS         ? order < 0
           : op == OP_LESS_EQUAL ? order <= 0
           : op == OP_MORE       ? order > 0
                                 : order >= 0;
}

size_t lx_jinja_length(run *r, value v)
{
    size_t characters = 0;
    if (v.kind == UNDEFINED)
        return 0;
    if (is_a(v, SET(LIST) | SET(TUPLE) | SET(MAP)))
        return v.kind == MAP ? v.list->n / 2 : v.list->n;
    if (v.kind != TEXT)
        fail(r, "a %s has no length", lx_jinja_kind_name(v));
    lx_jinja_charge(r, v.text.n);
    for (size_t i = 0; i < v.text.n; i++)
        characters += ((unsigned char)v.text.bytes[i] & 0xc0) != 0x80;
    return characters;
}

size_t lx_jinja_offset(span t, size_t characters)
{
    size_t at = 0;
    for (; at < t.n && characters > 0; characters--) {
        do
            at++;
        while (at < t.n && ((unsigned char)t.bytes[at] & 0xc0) == 0x80);
    }
    return at;
}

const array *lx_jinja_items(run *r, value v)
{
    if (is_a(v, SET(LIST) | SET(TUPLE)))
        return v.list;
    if (!is_a(v, SET(GENERATOR) | SET(TEXT) | SET(MAP) | SET(UNDEFINED)))
        fail(r, "a %s has no items to go through", lx_jinja_kind_name(v));
    value all = lx_jinja_make_list(r, LIST, 0);
    if (v.kind == GENERATOR) {
        *all.list = *v.list;
        *v.list = (array){.n = 0};
    }
    for (size_t i = 0; v.kind == MAP && i < v.list->n; i += 2)
        lx_jinja_push(r, all, v.list->items[i]);
    for (size_t at = 0, end = 0; v.kind == TEXT && at < v.text.n; at = end) {
        end = at + lx_jinja_offset(part_of(v.text, at, v.text.n), 1);
        lx_jinja_push(r, all, make_text(part_of(v.text, at, end)));
    }
    return all.list;
}
