/* Parts of JSON texts (see json_parts.h). */
#include "model/grammar/json_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const lx_ast_kind CAT = LX_AST_CAT, ALT = LX_AST_ALT;
enum { MOST_INDENT = 20 };

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

int32_t lx_json_string_of(lx_ast *a, int32_t least, int32_t most)
{
    return lx_json_quoted(a, lx_ast_repeat(a, any_char(a), least, most));
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

/* --- numbers within bounds --- */

static bool all_are(const char *text, size_t n, char c)
{
    return strspn(text, (const char[]){c, '\0'}) >= n;
}

/* Numbers of n digits from `low` to `high`, which have n digits each. */
static int32_t same_length(lx_ast *a, const char *low, const char *high, size_t n)
{
    static const char zeros[] = "0000000000000000000", nines[] = "9999999999999999999";
    if (n == 0)
        return 0;
    if (all_are(low, n, '0') && all_are(high, n, '9'))
        return digits(a, (int32_t)n, (int32_t)n);
    if (low[0] == high[0])
        return LIST(a, CAT, chars(a, low[0], low[0]), same_length(a, low + 1, high + 1, n - 1));
    lx_ast_trees ways = {0};
    lx_ast_collect(a, &ways,
                   LIST(a, CAT, chars(a, low[0], low[0]), same_length(a, low + 1, nines, n - 1)));
    if (high[0] - low[0] > 1)
        lx_ast_collect(a, &ways,
                       LIST(a, CAT, chars(a, low[0] + 1, high[0] - 1),
                            digits(a, (int32_t)n - 1, (int32_t)n - 1)));
    lx_ast_collect(
        a, &ways, LIST(a, CAT, chars(a, high[0], high[0]), same_length(a, zeros, high + 1, n - 1)));
    return lx_ast_take(a, ALT, &ways);
}

/* Whole numbers low .. high, 0 <= low; none where high < low. */
static int32_t between(lx_ast *a, int64_t low, int64_t high)
{
    lx_ast_trees ways = {0};
    int64_t power = 10; /* above all numbers of so many digits as are looked at */
    for (size_t n = 1; low <= high; n++, power *= 10) {
        if (low >= power)
            continue;
        int64_t last = high < power ? high : power - 1;
        char from[24], to[24];
        (void)snprintf(from, sizeof from, "%" PRId64, low);
        (void)snprintf(to, sizeof to, "%" PRId64, last);
        lx_ast_collect(a, &ways, same_length(a, from, to, n));
        low = power;
    }
    return lx_ast_take(a, ALT, &ways);
}

static int64_t farthest(void)
{
    int64_t x = 1;
    for (int32_t i = 0; i < LX_JSON_MOST_DIGITS; i++)
        x *= 10;
    return x - 1;
}

int32_t lx_json_whole(lx_ast *a, const lx_json_bounds *b)
{
    int64_t low = b->has_low ? b->low + b->above_low : -farthest();
    int64_t high = b->has_high ? b->high - b->below_high : farthest();
    int32_t positive = between(a, low > 0 ? low : 0, high);
    int32_t negative = between(a, high < 0 ? -high : 1, -low);
    return LIST(a, ALT, positive, LIST(a, CAT, lx_ast_word(a, "-"), negative));
}

static int32_t n_digits(int64_t x)
{
    int32_t n = 1;
    for (; x >= 10; x /= 10)
        n++;
    return n;
}

/* Numbers without a sign from low to high. Decimals of at most 15 digits keep their order when they
   are read as doubles, so the bounds are exact. */
static int32_t sizes(lx_ast *a, int64_t low, bool above, int64_t high, bool below)
{
    int32_t most = LX_JSON_MOST_DIGITS - n_digits(high);
    lx_ast_trees ways = {0};
    int32_t dot = lx_ast_word(a, ".");
    int32_t fraction = lx_ast_optional(a, LIST(a, CAT, dot, digits(a, 1, most)));
    lx_ast_collect(a, &ways, LIST(a, CAT, between(a, low + above, high - 1), fraction));
    if (above && low < high)
        lx_ast_collect(
            a, &ways,
            LIST(a, CAT, between(a, low, low), dot, digits(a, 0, most - 1), chars(a, '1', '9')));
    if (!below && (low < high || (low == high && !above))) {
        int32_t zeros = lx_ast_repeat(a, chars(a, '0', '0'), 1, most);
        lx_ast_collect(
            a, &ways,
            LIST(a, CAT, between(a, high, high), lx_ast_optional(a, LIST(a, CAT, dot, zeros))));
    }
    return lx_ast_take(a, ALT, &ways);
}

int32_t lx_json_real(lx_ast *a, const lx_json_bounds *b)
{
    int64_t far = 999999999;
    while (far / 10 < (b->low < 0 ? -b->low : b->low) ||
           far / 10 < (b->high < 0 ? -b->high : b->high))
        far = far * 10 + 9;
    int64_t low = b->has_low ? b->low : -far, high = b->has_high ? b->high : far;
    lx_ast_trees ways = {0};
    if (high >= 0)
        lx_ast_collect(a, &ways,
                       sizes(a, low > 0 ? low : 0, low >= 0 && b->above_low, high, b->below_high));
    if (low < 0)
        lx_ast_collect(
            a, &ways,
            LIST(a, CAT, lx_ast_word(a, "-"),
                 sizes(a, high < 0 ? -high : 0, high <= 0 && b->below_high, -low, b->above_low)));
    return lx_ast_take(a, ALT, &ways);
}
