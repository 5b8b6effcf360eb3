/* Values: how they are made, compared, counted and written, as in Python. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/jinja/internal.h"
#include "model/utf8.h"

enum { BYTES_PER_STEP = 64 };

void lx_jinja_charge(run *r, size_t amount)
{
    r->steps += 1 + amount / BYTES_PER_STEP;
    if (r->steps > LX_JINJA_MAX_STEPS)
        lx_jinja_fail(&r->arena, LX_ERR_TOO_LARGE, "over %d steps", LX_JINJA_MAX_STEPS);
}

/* --- making --- */

value lx_jinja_make_text(run *r, const char *bytes, const char *marks, size_t n)
{
    span *t = lx_jinja_alloc(&r->arena, sizeof *t);
    *t = (span){.bytes = bytes, .marks = marks, .n = n};
    return (value){.kind = TEXT, .text = t};
}

value lx_jinja_make_name(run *r, const char *name)
{
    return lx_jinja_make_text(r, name, NULL, strlen(name));
}

value lx_jinja_slice_text(run *r, const span *t, size_t first, size_t last)
{
    return lx_jinja_make_text(r, t->bytes + first, t->marks != NULL ? t->marks + first : NULL,
                              last - first);
}

value lx_jinja_undefined(run *r, const char *name, size_t n)
{
    value v = lx_jinja_make_text(r, name, NULL, n);
    v.kind = UNDEFINED;
    return v;
}

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

value lx_jinja_make_map(run *r, value_kind kind)
{
    return (value){.kind = kind, .map = lx_jinja_alloc(&r->arena, sizeof(table))};
}

value *lx_jinja_find(run *r, const table *m, value key)
{
    for (size_t i = 0; i < m->n; i++) {
        lx_jinja_charge(r, 0);
        if (lx_jinja_equal(r, m->entries[i].key, key))
            return &m->entries[i].value;
    }
    return NULL;
}

value *lx_jinja_find_name(run *r, const table *m, const char *name)
{
    span t = {.bytes = name, .n = strlen(name)};
    return lx_jinja_find(r, m, (value){.kind = TEXT, .text = &t});
}

void lx_jinja_put(run *r, table *m, value key, value item)
{
    value *there = lx_jinja_find(r, m, key);
    if (there != NULL) {
        *there = item;
        return;
    }
    if (m->n == m->room) {
        m->room = 2 * m->room + 4;
        m->entries = lx_jinja_grow(&r->arena, m->entries, m->n, m->room, sizeof(entry));
    }
    m->entries[m->n++] = (entry){.key = key, .value = item};
}

static value text_from_json(run *r, const char *bytes, size_t n, bool client)
{
    char *copy = lx_jinja_grow(&r->arena, bytes, n, n + 1, 1), *marks = NULL;
    if (client) {
        marks = lx_jinja_alloc(&r->arena, n + 1);
        memset(marks, 1, n);
    }
    lx_jinja_charge(r, n);
    return lx_jinja_make_text(r, copy, marks, n);
}

static void enter(run *r)
{
    if (++r->depth > LX_JINJA_MAX_DEPTH)
        lx_jinja_fail(&r->arena, LX_ERR_TOO_LARGE, "over %d levels of nesting", LX_JINJA_MAX_DEPTH);
}

static value list_from_json(run *r, const json_t *json, bool client)
{
    value v = lx_jinja_make_list(r, LIST, json_array_size(json));
    for (size_t i = 0; i < json_array_size(json); i++)
        lx_jinja_push(r, v, lx_jinja_from_json(r, json_array_get(json, i), client));
    return v;
}

/* The names of roles come from a list of the server's, though they stand in a client's objects: a
   template may make a special token of one, <|user|>. */
static bool is_role(const char *key, const json_t *item)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    const char *text = strcmp(key, "role") == 0 ? json_string_value(item) : NULL;
    for (size_t i = 0; text != NULL && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(text, roles[i]) == 0 && json_string_length(item) == strlen(roles[i]))
            return true;
    return false;
}

/* Keys of a JSON object differ, so none is looked for. */
static value map_from_json(run *r, const json_t *json, bool client)
{
    value v = lx_jinja_make_map(r, MAP);
    const char *key;
    json_t *item;
    v.map->room = json_object_size(json);
    v.map->entries = lx_jinja_alloc(&r->arena, v.map->room * sizeof(entry));
    json_object_foreach((json_t *)json, key, item) v.map->entries[v.map->n++] =
        (entry){.key = text_from_json(r, key, strlen(key), client),
                .value = lx_jinja_from_json(r, item, client && !is_role(key, item))};
    return v;
}

value lx_jinja_from_json(run *r, const json_t *json, bool client)
{
    value v = {.kind = NONE};
    enter(r);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        v = map_from_json(r, json, client);
        break;
    case JSON_ARRAY:
        v = list_from_json(r, json, client);
        break;
    case JSON_STRING:
        v = text_from_json(r, json_string_value(json), json_string_length(json), client);
        break;
    case JSON_INTEGER:
        v = make_whole(json_integer_value(json));
        break;
    case JSON_REAL:
        v = (value){.kind = REAL, .real = json_real_value(json)};
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        v = make_bool(json_is_true(json));
        break;
    case JSON_NULL:
        break;
    }
    r->depth--;
    return v;
}

/* --- building texts --- */

static void make_room(run *r, builder *b, size_t n)
{
    if (n <= b->room)
        return;
    b->room = n > 2 * b->room ? n + 64 : 2 * b->room;
    b->bytes = lx_jinja_grow(&r->arena, b->bytes, b->n, b->room, 1);
    if (b->marks != NULL)
        b->marks = lx_jinja_grow(&r->arena, b->marks, b->n, b->room, 1);
}

void lx_jinja_write(run *r, builder *b, const char *bytes, const char *marks, size_t n)
{
    lx_jinja_charge(r, n);
    if (n == 0)
        return;
    make_room(r, b, b->n + n);
    if (marks != NULL && b->marks == NULL)
        b->marks = lx_jinja_alloc(&r->arena, b->room);
    memcpy(b->bytes + b->n, bytes, n);
    if (marks != NULL)
        memcpy(b->marks + b->n, marks, n);
    else if (b->marks != NULL)
        memset(b->marks + b->n, 0, n);
    b->n += n;
}

void lx_jinja_puts(run *r, builder *b, const char *bytes)
{
    lx_jinja_write(r, b, bytes, NULL, strlen(bytes));
}

value lx_jinja_built(run *r, const builder *b)
{
    return lx_jinja_make_text(r, b->bytes != NULL ? b->bytes : "", b->marks, b->n);
}

/* --- asking --- */

const char *lx_jinja_kind_name(value v)
{
    static const char *const names[] = {"undefined", "None",     "bool",  "int",  "float",
                                        "str",       "list",     "tuple", "dict", "namespace",
                                        "macro",     "function", "loop"};
    return names[v.kind];
}

bool lx_jinja_is_word(const span *t, const char *word)
{
    return t->n == strlen(word) && memcmp(t->bytes, word, t->n) == 0;
}

bool lx_jinja_is_text(value v, const char *bytes)
{
    return v.kind == TEXT && lx_jinja_is_word(v.text, bytes);
}

bool lx_jinja_is_true(run *r, value v)
{
    (void)r;
    switch (v.kind) {
    case UNDEFINED:
    case NONE:
        return false;
    case BOOLEAN:
        return v.truth;
    case WHOLE:
        return v.whole != 0;
    case REAL:
        return v.real != 0;
    case TEXT:
        return v.text->n > 0;
    case LIST:
    case TUPLE:
        return v.list->n > 0;
    case MAP:
        return v.map->n > 0;
    default:
        return true;
    }
}

static bool is_number(value v)
{
    return v.kind == BOOLEAN || v.kind == WHOLE || v.kind == REAL;
}

static double number_of(value v)
{
    return v.kind == REAL ? v.real : v.kind == WHOLE ? (double)v.whole : v.truth;
}

static int order_numbers(value a, value b)
{
    if (a.kind != REAL && b.kind != REAL) {
        int64_t x = a.kind == WHOLE ? a.whole : a.truth, y = b.kind == WHOLE ? b.whole : b.truth;
        return (x > y) - (x < y);
    }
    double x = number_of(a), y = number_of(b);
    return (x > y) - (x < y);
}

static int order_texts(run *r, const span *a, const span *b)
{
    size_t n = a->n < b->n ? a->n : b->n;
    lx_jinja_charge(r, n);
    int order = n > 0 ? memcmp(a->bytes, b->bytes, n) : 0;
    return order != 0 ? order : (a->n > b->n) - (a->n < b->n);
}

static bool equal_lists(run *r, const array *a, const array *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        if (!lx_jinja_equal(r, a->items[i], b->items[i]))
            return false;
    }
    return true;
}

static bool equal_maps(run *r, const table *a, const table *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const value *other = lx_jinja_find(r, b, a->entries[i].key);
        if (other == NULL || !lx_jinja_equal(r, a->entries[i].value, *other))
            return false;
    }
    return true;
}

bool lx_jinja_equal(run *r, value a, value b)
{
    if (is_number(a) && is_number(b))
        return order_numbers(a, b) == 0 && !isnan(number_of(a)) && !isnan(number_of(b));
    if (a.kind != b.kind)
        return false;
    bool equal = false;
    enter(r);
    lx_jinja_charge(r, 0);
    switch (a.kind) {
    case UNDEFINED:
    case NONE:
        equal = true;
        break;
    case TEXT:
        equal = a.text->n == b.text->n && order_texts(r, a.text, b.text) == 0;
        break;
    case LIST:
    case TUPLE:
        equal = equal_lists(r, a.list, b.list);
        break;
    case MAP:
        equal = equal_maps(r, a.map, b.map);
        break;
    default:
        equal = a.map == b.map; /* the same object */
    }
    r->depth--;
    return equal;
}

int lx_jinja_order(run *r, value a, value b)
{
    if (is_number(a) && is_number(b))
        return order_numbers(a, b);
    if (a.kind == TEXT && b.kind == TEXT)
        return order_texts(r, a.text, b.text);
    bool lists = (a.kind == LIST || a.kind == TUPLE) && a.kind == b.kind;
    if (!lists)
        fail(r, "a %s and a %s have no order", lx_jinja_kind_name(a), lx_jinja_kind_name(b));
    enter(r);
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
        lx_jinja_charge(r, whole.text->n);
        return part.text->n == 0 ||
               memmem(whole.text->bytes, whole.text->n, part.text->bytes, part.text->n) != NULL;
    }
    if (whole.kind == MAP)
        return lx_jinja_find(r, whole.map, part) != NULL;
    if (whole.kind == UNDEFINED)
        return false;
    if (whole.kind != LIST && whole.kind != TUPLE)
        fail(r, "a %s is never in a %s", lx_jinja_kind_name(part), lx_jinja_kind_name(whole));
    for (size_t i = 0; i < whole.list->n; i++) {
        if (lx_jinja_equal(r, whole.list->items[i], part))
            return true;
    }
    return false;
}

size_t lx_jinja_length(run *r, value v)
{
    switch (v.kind) {
    case UNDEFINED:
        return 0;
    case TEXT: {
        size_t characters = 0;
        lx_jinja_charge(r, v.text->n);
        for (size_t i = 0; i < v.text->n; i++)
            characters += ((unsigned char)v.text->bytes[i] & 0xc0) != 0x80;
        return characters;
    }
    case LIST:
    case TUPLE:
        return v.list->n;
    case MAP:
        return v.map->n;
    default:
        fail(r, "a %s has no length", lx_jinja_kind_name(v));
    }
}

size_t lx_jinja_offset(const span *t, size_t characters)
{
    size_t at = 0;
    while (at < t->n && characters > 0) {
        do
            at++;
        while (at < t->n && ((unsigned char)t->bytes[at] & 0xc0) == 0x80);
        characters--;
    }
    return at;
}

static const array *characters_of(run *r, const span *t)
{
    value all = lx_jinja_make_list(r, LIST, 0);
    for (size_t at = 0; at < t->n;) {
        size_t first = at;
        if (lx_utf8_next(t->bytes, t->n, &at) < 0)
            at = first + 1;
        lx_jinja_push(r, all, lx_jinja_slice_text(r, t, first, at));
    }
    return all.list;
}

const array *lx_jinja_items(run *r, value v)
{
    value all;
    switch (v.kind) {
    case LIST:
    case TUPLE:
        return v.list;
    case TEXT:
        return characters_of(r, v.text);
    case MAP:
        all = lx_jinja_make_list(r, LIST, v.map->n);
        for (size_t i = 0; i < v.map->n; i++)
            lx_jinja_push(r, all, v.map->entries[i].key);
        return all.list;
    case UNDEFINED:
        return lx_jinja_make_list(r, LIST, 0).list;
    default:
        fail(r, "a %s has no items to go through", lx_jinja_kind_name(v));
    }
}

/* --- writing --- */

/* The shortest digits that give the number back, as Python writes them. */
static void write_real(run *r, builder *b, double real)
{
    char digits[40];
    if (!isfinite(real)) {
        lx_jinja_puts(r, b, isnan(real) ? "nan" : real > 0 ? "inf" : "-inf");
        return;
    }
    int precision = 1;
    do
        snprintf(digits, sizeof digits, "%.*e", precision - 1, real);
    while (strtod(digits, NULL) != real && precision++ < 17);
    long exponent = strtol(strchr(digits, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) {
        /* Python's exponent has two digits at least, as C's has, and its digits no zeros at the
         * end. */
        lx_jinja_puts(r, b, digits);
        return;
    }
    int after = precision - 1 - (int)exponent;
    snprintf(digits, sizeof digits, "%.*f", after > 0 ? after : 1, real);
    lx_jinja_puts(r, b, digits);
}

static void repr_text(run *r, builder *b, const span *t)
{
    bool apostrophe = memchr(t->bytes, '\'', t->n) != NULL,
         quote = memchr(t->bytes, '"', t->n) != NULL;
    const char *around = apostrophe && !quote ? "\"" : "'";
    lx_jinja_puts(r, b, around);
    for (size_t i = 0; i < t->n; i++) {
        char c = t->bytes[i], escaped[8];
        size_t n = 1;
        if (c == '\\' || c == around[0])
            n = (size_t)snprintf(escaped, sizeof escaped, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            n = (size_t)snprintf(escaped, sizeof escaped, "\\%c",
                                 c == '\n'   ? 'n'
                                 : c == '\r' ? 'r'
                                             : 't');
        else if ((unsigned char)c < ' ' || c == 127)
            n = (size_t)snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned)c);
        else
            escaped[0] = c;
        char mark = t->marks != NULL ? t->marks[i] : 0;
        char marks[8];
        memset(marks, mark, sizeof marks);
        lx_jinja_write(r, b, escaped, t->marks != NULL ? marks : NULL, n);
    }
    lx_jinja_puts(r, b, around);
}

static void repr_list(run *r, builder *b, value v)
{
    lx_jinja_puts(r, b, v.kind == TUPLE ? "(" : "[");
    for (size_t i = 0; i < v.list->n; i++) {
        lx_jinja_puts(r, b, i > 0 ? ", " : "");
        lx_jinja_repr(r, b, v.list->items[i]);
    }
    lx_jinja_puts(r, b, v.kind == LIST ? "]" : v.list->n == 1 ? ",)" : ")");
}

static void repr_map(run *r, builder *b, const table *m)
{
    lx_jinja_puts(r, b, "{");
    for (size_t i = 0; i < m->n; i++) {
        lx_jinja_puts(r, b, i > 0 ? ", " : "");
        lx_jinja_repr(r, b, m->entries[i].key);
        lx_jinja_puts(r, b, ": ");
        lx_jinja_repr(r, b, m->entries[i].value);
    }
    lx_jinja_puts(r, b, "}");
}

void lx_jinja_repr(run *r, builder *b, value v)
{
    char digits[32];
    enter(r);
    switch (v.kind) {
    case UNDEFINED:
        break;
    case NONE:
        lx_jinja_puts(r, b, "None");
        break;
    case BOOLEAN:
        lx_jinja_puts(r, b, v.truth ? "True" : "False");
        break;
    case WHOLE:
        snprintf(digits, sizeof digits, "%lld", (long long)v.whole);
        lx_jinja_puts(r, b, digits);
        break;
    case REAL:
        write_real(r, b, v.real);
        break;
    case TEXT:
        repr_text(r, b, v.text);
        break;
    case LIST:
    case TUPLE:
        repr_list(r, b, v);
        break;
    case MAP:
        repr_map(r, b, v.map);
        break;
    default:
        refuse(r, "a %s cannot be written", lx_jinja_kind_name(v));
    }
    r->depth--;
}

value lx_jinja_string(run *r, value v)
{
    if (v.kind == TEXT)
        return v;
    builder b = {0};
    lx_jinja_repr(r, &b, v);
    return lx_jinja_built(r, &b);
}

/* --- JSON, as Python's json.dumps writes it --- */

static void write_codepoint(run *r, builder *b, uint32_t code, const char *marks)
{
    char escaped[16];
    int n = code < 0x10000 ? snprintf(escaped, sizeof escaped, "\\u%04x", code)
                           : snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x",
                                      0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
    lx_jinja_write(r, b, escaped, marks, (size_t)n);
}

static void json_text(run *r, builder *b, const span *t, bool ascii)
{
    static const char letters[] = "btnvfr"; /* of 8 to 13 */
    char marks[16];
    lx_jinja_puts(r, b, "\"");
    for (size_t at = 0; at < t->n;) {
        size_t first = at;
        int32_t code = lx_utf8_next(t->bytes, t->n, &at);
        at = code < 0 ? first + 1 : at;
        memset(marks, t->marks != NULL ? t->marks[first] : 0, sizeof marks);
        const char *m = t->marks != NULL ? marks : NULL;
        char pair[2] = {'\\', (char)code};
        if (code == '"' || code == '\\')
            lx_jinja_write(r, b, pair, m, 2);
        else if (code >= 8 && code <= 13 && code != 11) {
            pair[1] = letters[code - 8];
            lx_jinja_write(r, b, pair, m, 2);
        } else if ((code >= 0 && code < ' ') || (ascii && code > 126))
            write_codepoint(r, b, (uint32_t)code, m);
        else
            lx_jinja_write(r, b, t->bytes + first, m, at - first);
    }
    lx_jinja_puts(r, b, "\"");
}

static void json_line(run *r, builder *b, const json_style *style, int level)
{
    if (style->indent < 0)
        return;
    lx_jinja_puts(r, b, "\n");
    for (int64_t i = 0; i < style->indent * level; i++)
        lx_jinja_puts(r, b, " ");
}

static void json_between(run *r, builder *b, const json_style *style, int level, bool first)
{
    if (!first)
        lx_jinja_write(r, b, style->comma->bytes, style->comma->marks, style->comma->n);
    json_line(r, b, style, level);
}

static void json_list(run *r, builder *b, const array *l, const json_style *style, int level)
{
    lx_jinja_puts(r, b, "[");
    for (size_t i = 0; i < l->n; i++) {
        json_between(r, b, style, level + 1, i == 0);
        lx_jinja_write_json(r, b, l->items[i], style, level + 1);
    }
    if (l->n > 0)
        json_line(r, b, style, level);
    lx_jinja_puts(r, b, "]");
}

static const entry *next_key(run *r, const table *m, const entry *before)
{
    const entry *next = NULL;
    for (size_t i = 0; i < m->n; i++) {
        const entry *e = &m->entries[i];
        if ((before == NULL || lx_jinja_order(r, e->key, before->key) > 0) &&
            (next == NULL || lx_jinja_order(r, e->key, next->key) < 0))
            next = e;
    }
    return next;
}

static void json_map(run *r, builder *b, const table *m, const json_style *style, int level)
{
    const entry *e = NULL;
    lx_jinja_puts(r, b, "{");
    for (size_t i = 0; i < m->n; i++) {
        e = style->sorted ? next_key(r, m, e) : &m->entries[i];
        json_between(r, b, style, level + 1, i == 0);
        if (e->key.kind == TEXT)
            json_text(r, b, e->key.text, style->ascii);
        else {
            lx_jinja_puts(r, b, "\"");
            lx_jinja_write_json(r, b, e->key, style, level + 1);
            lx_jinja_puts(r, b, "\"");
        }
        lx_jinja_write(r, b, style->colon->bytes, style->colon->marks, style->colon->n);
        lx_jinja_write_json(r, b, e->value, style, level + 1);
    }
    if (m->n > 0)
        json_line(r, b, style, level);
    lx_jinja_puts(r, b, "}");
}

void lx_jinja_write_json(run *r, builder *b, value v, const json_style *style, int level)
{
    enter(r);
    switch (v.kind) {
    case NONE:
        lx_jinja_puts(r, b, "null");
        break;
    case BOOLEAN:
        lx_jinja_puts(r, b, v.truth ? "true" : "false");
        break;
    case WHOLE:
    case REAL:
        if (v.kind == REAL && !isfinite(v.real))
            lx_jinja_puts(r, b, isnan(v.real) ? "NaN" : v.real > 0 ? "Infinity" : "-Infinity");
        else
            lx_jinja_repr(r, b, v);
        break;
    case TEXT:
        json_text(r, b, v.text, style->ascii);
        break;
    case LIST:
    case TUPLE:
        json_list(r, b, v.list, style, level);
        break;
    case MAP:
        json_map(r, b, v.map, style, level);
        break;
    default:
        fail(r, "a %s cannot be written as JSON", lx_jinja_kind_name(v));
    }
    r->depth--;
}
