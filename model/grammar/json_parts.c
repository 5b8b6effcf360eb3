/* Parts of JSON texts (see json_parts.h). */
#include "model/grammar/json_parts.h"

#include <stdio.h>
#include <string.h>

static const lx_ast_kind CAT = LX_AST_CAT, ALT = LX_AST_ALT;
enum {
    MOST_INDENT = 20,
    BLOCK = 128, /* characters of a string that share a rule */
};

#define LIST(a, kind, ...)                                                                         \
    lx_ast_list(a, kind, (const int32_t[]){__VA_ARGS__},                                           \
                (int32_t)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))

static int32_t chars(lx_ast *a, int32_t low, int32_t high)
{
    const lx_range r = {low, high};
    return lx_ast_set(a, &r, 1);
}

static int32_t digits(lx_ast *a, int32_t least, int32_t most)
{
    return lx_ast_repeat(a, chars(a, '0', '9'), least, most);
}

/* --- strings --- */

static int32_t unicode_escape(lx_ast *a)
{
    const lx_range hex[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    const lx_range no_d[] = {{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}};
    const lx_range d[] = {{'D', 'D'}, {'d', 'd'}};
    int32_t any = lx_ast_set(a, hex, 3);
    int32_t begin = LIST(a, ALT, LIST(a, CAT, lx_ast_set(a, no_d, 5), any),
                         LIST(a, CAT, lx_ast_set(a, d, 2), chars(a, '0', '7')));
    return LIST(a, CAT, lx_ast_word(a, "\\u"), begin, any, any);
}

static int32_t any_char(lx_ast *a)
{
    lx_charset plain = {.at = {{' ', LX_MAX_CODEPOINT}}, .n = 1}, escaped = {.n = 0};
    lx_charset_cut(a, &plain, '"', '"');
    lx_charset_cut(a, &plain, '\\', '\\');
    for (const char *c = "\"\\/bfnrt"; *c != '\0'; c++)
        lx_charset_add(a, &escaped, *c, *c);
    return LIST(a, ALT, lx_ast_set(a, plain.at, plain.n),
                LIST(a, CAT, lx_ast_word(a, "\\"), lx_ast_set(a, escaped.at, escaped.n)),
                unicode_escape(a));
}

static int32_t spell_control(lx_ast *a, int32_t c)
{
    static const char names[] = "\b\t\n\f\r", letters[] = "btnfr";
    const char *short_one = c != 0 ? strchr(names, c) : NULL;
    char text[8];
    if (short_one != NULL)
        (void)snprintf(text, sizeof text, "\\%c", letters[short_one - names]);
    else
        (void)snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    return lx_ast_word(a, text);
}

int32_t lx_json_spell(lx_ast *a, const lx_charset *s)
{
    lx_charset plain = *s;
    lx_ast_trees ways = {0};
    lx_charset_cut(a, &plain, 0, ' ' - 1);
    lx_charset_cut(a, &plain, '"', '"');
    lx_charset_cut(a, &plain, '\\', '\\');
    lx_ast_collect(a, &ways, lx_ast_set(a, plain.at, plain.n));
    for (int32_t c = 0; c < ' '; c++) {
        if (lx_charset_has(s, c))
            lx_ast_collect(a, &ways, spell_control(a, c));
    }
    if (lx_charset_has(s, '"'))
        lx_ast_collect(a, &ways, lx_ast_word(a, "\\\""));
    if (lx_charset_has(s, '\\'))
        lx_ast_collect(a, &ways, lx_ast_word(a, "\\\\"));
    return lx_ast_take(a, ALT, &ways);
}

int32_t lx_json_quoted(lx_ast *a, int32_t inside)
{
    int32_t quote = lx_ast_word(a, "\"");
    return LIST(a, CAT, quote, inside, quote);
}

/* Exactly n characters: whole blocks first. */
static int32_t blocks(lx_ast *a, int32_t block, int32_t one, int32_t n)
{
    return LIST(a, CAT, lx_ast_repeat(a, block, n / BLOCK, n / BLOCK),
                lx_ast_repeat(a, one, n % BLOCK, n % BLOCK));
}

int32_t lx_json_string_of(lx_ast *a, int32_t least, int32_t most)
{
    int32_t one = any_char(a), more = most - least;
    if (least <= BLOCK && most <= BLOCK)
        return lx_json_quoted(a, lx_ast_repeat(a, one, least, most));
    /* A rule of many characters takes one copy of them, however often it is called. */
    int32_t rule = lx_ast_rule(a);
    lx_ast_define(a, rule, lx_ast_repeat(a, one, BLOCK, BLOCK));
    int32_t block = lx_ast_call(a, rule), rest = 0;
    if (most < 0)
        rest = lx_ast_repeat(a, one, 0, -1);
    else if (more / BLOCK > 0)
        rest = LIST(a, ALT,
                    LIST(a, CAT, lx_ast_repeat(a, block, 0, more / BLOCK - 1),
                         lx_ast_repeat(a, one, 0, BLOCK - 1)),
                    LIST(a, CAT, lx_ast_repeat(a, block, more / BLOCK, more / BLOCK),
                         lx_ast_repeat(a, one, 0, more % BLOCK)));
    else
        rest = lx_ast_repeat(a, one, 0, more);
    return lx_json_quoted(a, LIST(a, CAT, blocks(a, block, one, least), rest));
}

/* --- any JSON --- */

/* Whether the rule is made by this call; otherwise it is there already, or an error. */
static bool is_new(lx_ast *a, int32_t *rule)
{
    if (*rule != 0 || a->status != LX_OK)
        return false;
    *rule = lx_ast_rule(a);
    return *rule != 0;
}

int32_t lx_json_space(lx_ast *a, lx_json_rules *r)
{
    if (is_new(a, &r->space)) {
        const lx_range blanks[] = {{'\t', '\t'}, {' ', ' '}};
        int32_t indent = lx_ast_repeat(a, lx_ast_set(a, blanks, 2), 0, MOST_INDENT);
        int32_t line = LIST(a, CAT, lx_ast_word(a, "\n"), indent);
        lx_ast_define(a, r->space, LIST(a, ALT, 0, lx_ast_word(a, " "), line));
    }
    return lx_ast_call(a, r->space);
}

int32_t lx_json_string(lx_ast *a, lx_json_rules *r)
{
    if (is_new(a, &r->string))
        lx_ast_define(a, r->string, lx_json_string_of(a, 0, -1));
    return lx_ast_call(a, r->string);
}

static int32_t any_whole(lx_ast *a)
{
    int32_t more = LIST(a, CAT, chars(a, '1', '9'), digits(a, 0, LX_JSON_MOST_DIGITS - 1));
    return LIST(a, CAT, lx_ast_optional(a, lx_ast_word(a, "-")),
                LIST(a, ALT, lx_ast_word(a, "0"), more));
}

int32_t lx_json_number(lx_ast *a, lx_json_rules *r)
{
    if (is_new(a, &r->number)) {
        const lx_range e[] = {{'E', 'E'}, {'e', 'e'}}, sign[] = {{'+', '+'}, {'-', '-'}};
        int32_t fraction = LIST(a, CAT, lx_ast_word(a, "."), digits(a, 1, LX_JSON_MOST_DIGITS));
        int32_t power = LIST(a, CAT, lx_ast_set(a, e, 2),
                             lx_ast_optional(a, lx_ast_set(a, sign, 2)), digits(a, 1, 2));
        lx_ast_define(
            a, r->number,
            LIST(a, CAT, any_whole(a), lx_ast_optional(a, fraction), lx_ast_optional(a, power)));
    }
    return lx_ast_call(a, r->number);
}

int32_t lx_json_boolean(lx_ast *a, const lx_json_rules *r)
{
    return LIST(a, ALT, lx_ast_word(a, r->python ? "True" : "true"),
                lx_ast_word(a, r->python ? "False" : "false"));
}

int32_t lx_json_null(lx_ast *a, const lx_json_rules *r)
{
    return lx_ast_word(a, r->python ? "None" : "null");
}

int32_t lx_json_next(lx_ast *a, lx_json_rules *r, int32_t tree)
{
    return LIST(a, CAT, lx_ast_word(a, ","), lx_json_space(a, r), tree);
}

int32_t lx_json_items(lx_ast *a, lx_json_rules *r, int32_t item, int32_t least, int32_t most)
{
    int32_t more = lx_ast_repeat(a, lx_json_next(a, r, item), least > 0 ? least - 1 : 0,
                                 most < 0 ? -1 : most - 1);
    int32_t some = LIST(a, CAT, item, more, lx_json_space(a, r));
    return least > 0 ? some : lx_ast_optional(a, some);
}

int32_t lx_json_any_array(lx_ast *a, lx_json_rules *r)
{
    if (is_new(a, &r->array))
        lx_ast_define(a, r->array,
                      LIST(a, CAT, lx_ast_word(a, "["), lx_json_space(a, r),
                           lx_json_items(a, r, lx_json_any_value(a, r), 0, -1),
                           lx_ast_word(a, "]")));
    return lx_ast_call(a, r->array);
}

int32_t lx_json_any_object(lx_ast *a, lx_json_rules *r)
{
    if (is_new(a, &r->object)) {
        int32_t member = LIST(a, CAT, lx_json_string(a, r), lx_ast_word(a, ":"),
                              lx_json_space(a, r), lx_json_any_value(a, r));
        lx_ast_define(a, r->object,
                      LIST(a, CAT, lx_ast_word(a, "{"), lx_json_space(a, r),
                           lx_json_items(a, r, member, 0, -1), lx_ast_word(a, "}")));
    }
    return lx_ast_call(a, r->object);
}

int32_t lx_json_any_value(lx_ast *a, lx_json_rules *r)
{
    if (is_new(a, &r->value)) {
        int32_t rule = r->value;
        lx_ast_define(a, rule,
                      LIST(a, ALT, lx_json_any_object(a, r), lx_json_any_array(a, r),
                           lx_json_string(a, r), lx_json_number(a, r), lx_json_boolean(a, r),
                           lx_json_null(a, r)));
    }
    return lx_ast_call(a, r->value);
}
