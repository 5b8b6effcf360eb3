/* The tree of a grammar (see ast.h). */
#include "model/grammar/ast.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hex.h"
#include "common/visible.h"

void lx_ast_init(lx_ast *a, const char *field, lx_error *err)
{
    *a = (lx_ast){.field = field, .err = err};
    (void)lx_ast_list(a, LX_AST_EMPTY, NULL, 0);
    (void)lx_ast_rule(a);
}

void lx_ast_fini(lx_ast *a)
{
    lx_ast_array *arrays[] = {&a->trees, &a->ranges, &a->lists, &a->texts, &a->rules};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]->data);
    *a = (lx_ast){0};
}

/* Names of a source may have any characters, and be cut within one. */
static void escape(const char *text, char *out, size_t room)
{
    size_t n = 0;
    while (*text != '\0' && n + LX_VISIBLE_BYTES < room) {
        lx_character c = lx_character_at(text);
        size_t bytes = c.bytes > 0 ? c.bytes : 1;
        if (c.visible)
            memcpy(out + n, text, bytes);
        n += c.visible ? bytes : lx_visible_escape(c, out + n);
        text += bytes;
    }
    out[n] = '\0';
}

int32_t lx_ast_fail(lx_ast *a, const char *format, ...)
{
    if (a->status != LX_OK)
        return 0;
    char text[160], visible[200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    escape(text, visible, sizeof visible);
    a->status = lx_fail(a->err, LX_ERR_INVALID, a->field, "%s: %s", a->field, visible);
    return 0;
}

static void fail_memory(lx_ast *a)
{
    if (a->status == LX_OK)
        a->status = lx_fail(a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
}

/* Room for n more elements; returns the place of the first, NULL after an error. */
static void *reserve(lx_ast *a, lx_ast_array *array, int32_t n, size_t size)
{
    if (a->status != LX_OK)
        return NULL;
    if (n > LX_AST_MOST - array->n) {
        (void)lx_ast_fail(a, "the grammar is too large: it has more than %d parts", LX_AST_MOST);
        return NULL;
    }
    int32_t room = array->room > 0 ? array->room : 64;
    while (room < array->n + n)
        room *= 2;
    if (room > array->room) {
        void *data = realloc(array->data, (size_t)room * size);
        if (data == NULL) {
            fail_memory(a);
            return NULL;
        }
        array->data = data;
        array->room = room;
    }
    array->n += n;
    return (char *)array->data + (size_t)(array->n - n) * size;
}

static int32_t add_tree(lx_ast *a, lx_ast_tree tree)
{
    lx_ast_tree *t = reserve(a, &a->trees, 1, sizeof tree);
    if (t == NULL)
        return 0;
    *t = tree;
    return a->trees.n - 1;
}

int32_t lx_ast_set(lx_ast *a, const lx_range *ranges, int32_t n)
{
    if (n == 0)
        return lx_ast_list(a, LX_AST_ALT, NULL, 0);
    lx_range *r = reserve(a, &a->ranges, n, sizeof *r);
    if (r == NULL)
        return 0;
    memcpy(r, ranges, (size_t)n * sizeof *r);
    return add_tree(a, (lx_ast_tree){LX_AST_SET, a->ranges.n - n, n, 0, 0});
}

int32_t lx_ast_text(lx_ast *a, const char *text, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (bytes > LX_AST_MOST)
        return lx_ast_fail(a, "a text of the grammar has more than %d bytes", LX_AST_MOST);
    char *t = reserve(a, &a->texts, (int32_t)bytes, 1);
    if (t == NULL)
        return 0;
    memcpy(t, text, bytes);
    return add_tree(a,
                    (lx_ast_tree){LX_AST_TEXT, a->texts.n - (int32_t)bytes, (int32_t)bytes, 0, 0});
}

int32_t lx_ast_word(lx_ast *a, const char *text)
{
    return lx_ast_text(a, text, strlen(text));
}

int32_t lx_ast_list(lx_ast *a, lx_ast_kind kind, const int32_t *trees, int32_t n)
{
    if (n == 1)
        return trees[0];
    if (n == 0)
        return kind == LX_AST_ALT ? add_tree(a, (lx_ast_tree){.kind = kind})
               : a->trees.n == 0  ? add_tree(a, (lx_ast_tree){.kind = LX_AST_EMPTY})
                                  : 0;
    int32_t *list = reserve(a, &a->lists, n, sizeof *list);
    if (list == NULL)
        return 0;
    memcpy(list, trees, (size_t)n * sizeof *list);
    return add_tree(a, (lx_ast_tree){kind, a->lists.n - n, n, 0, 0});
}

int32_t lx_ast_pair(lx_ast *a, lx_ast_kind kind, int32_t one, int32_t other)
{
    const int32_t both[] = {one, other};
    return lx_ast_list(a, kind, both, 2);
}

int32_t lx_ast_repeat(lx_ast *a, int32_t tree, int32_t least, int32_t most)
{
    if (least > LX_AST_MOST_REPEATS || most > LX_AST_MOST_REPEATS)
        return lx_ast_fail(a, "a part repeats %d times, at most %d are allowed",
                           least > most ? least : most, LX_AST_MOST_REPEATS);
    if (most == 0)
        return 0;
    return least == 1 && most == 1
               ? tree
               : add_tree(a, (lx_ast_tree){LX_AST_REPEAT, tree, 1, least, most});
}

int32_t lx_ast_optional(lx_ast *a, int32_t tree)
{
    return lx_ast_repeat(a, tree, 0, 1);
}

int32_t lx_ast_call(lx_ast *a, int32_t rule)
{
    return add_tree(a, (lx_ast_tree){LX_AST_CALL, rule, 1, 0, 0});
}

int32_t lx_ast_rule(lx_ast *a)
{
    if (a->rules.n >= LX_AST_MOST_RULES)
        return lx_ast_fail(a, "the grammar has more than %d rules", LX_AST_MOST_RULES);
    int32_t *rule = reserve(a, &a->rules, 1, sizeof *rule);
    if (rule == NULL)
        return 0;
    *rule = 0;
    return a->rules.n - 1;
}

void lx_ast_define(lx_ast *a, int32_t rule, int32_t tree)
{
    if (a->status == LX_OK)
        ((int32_t *)a->rules.data)[rule] = tree;
}

void lx_ast_collect(lx_ast *a, lx_ast_trees *list, int32_t tree)
{
    if (a->status != LX_OK)
        return;
    if (list->n == list->room) {
        int32_t room = list->room > 0 ? 2 * list->room : 8;
        int32_t *at = realloc(list->at, (size_t)room * sizeof *at);
        if (at == NULL) {
            fail_memory(a);
            return;
        }
        list->at = at;
        list->room = room;
    }
    list->at[list->n++] = tree;
}

int32_t lx_ast_take(lx_ast *a, lx_ast_kind kind, lx_ast_trees *list)
{
    int32_t tree = a->status == LX_OK ? lx_ast_list(a, kind, list->at, list->n) : 0;
    free(list->at);
    *list = (lx_ast_trees){0};
    return tree;
}

/* --- sets of characters --- */

void lx_charset_add(lx_ast *a, lx_charset *s, int32_t low, int32_t high)
{
    int32_t i = 0, n = 0;
    lx_range kept[sizeof s->at / sizeof *s->at];
    for (; i < s->n && s->at[i].high < low - 1; i++)
        kept[n++] = s->at[i];
    for (; i < s->n && s->at[i].low <= high + 1; i++) {
        low = s->at[i].low < low ? s->at[i].low : low;
        high = s->at[i].high > high ? s->at[i].high : high;
    }
    if (n + 1 + (s->n - i) > (int32_t)(sizeof s->at / sizeof *s->at)) {
        (void)lx_ast_fail(a, "a set of characters has more than %zu ranges",
                          sizeof s->at / sizeof *s->at);
        return;
    }
    kept[n++] = (lx_range){low, high};
    for (; i < s->n; i++)
        kept[n++] = s->at[i];
    memcpy(s->at, kept, (size_t)n * sizeof *kept);
    s->n = n;
}

void lx_charset_join(lx_ast *a, lx_charset *s, const lx_charset *other)
{
    for (int32_t i = 0; i < other->n; i++)
        lx_charset_add(a, s, other->at[i].low, other->at[i].high);
}

void lx_charset_invert(lx_ast *a, lx_charset *s)
{
    lx_charset all = {.at = {{0, LX_MAX_CODEPOINT}}, .n = 1};
    for (int32_t i = 0; i < s->n; i++)
        lx_charset_cut(a, &all, s->at[i].low, s->at[i].high);
    *s = all;
}

void lx_charset_cut(lx_ast *a, lx_charset *s, int32_t low, int32_t high)
{
    lx_charset left = {.n = 0};
    for (int32_t i = 0; i < s->n; i++) {
        lx_range r = s->at[i];
        if (r.low < low)
            lx_charset_add(a, &left, r.low, r.high < low ? r.high : low - 1);
        if (r.high > high)
            lx_charset_add(a, &left, r.low > high ? r.low : high + 1, r.high);
    }
    *s = left;
}

bool lx_charset_has(const lx_charset *s, int32_t c)
{
    for (int32_t i = 0; i < s->n; i++) {
        if (s->at[i].low <= c && c <= s->at[i].high)
            return true;
    }
    return false;
}

int32_t lx_ast_hex(const char *text, size_t n, size_t *at, int32_t digits)
{
    uint32_t c = 0;
    for (int32_t i = 0; i < digits; i++) {
        int digit = *at < n ? lx_hex_digit(text[(*at)++]) : -1;
        if (digit < 0)
            return LX_HEX_MISSING;
        c = c << 4 | (uint32_t)digit;
    }
    return c <= INT32_MAX ? (int32_t)c : INT32_MAX;
}
