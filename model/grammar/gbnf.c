/* llama.cpp's GBNF (see readers.h). */
#include <stdlib.h>
#include <string.h>

#include "model/grammar/readers.h"
#include "model/utf8.h"

enum { BUCKETS = 1 << 10, MOST_NAME = 64 };

typedef struct name {
    const char *text;
    size_t n;
    int32_t rule, chain;
    bool defined;
} name;

typedef struct reader {
    lx_ast *a;
    const char *text;
    size_t n, at;
    int32_t nested;
    name *names; /* [LX_AST_MOST_RULES] */
    int32_t n_names, buckets[BUCKETS];
} reader;

static int line_of(const reader *r)
{
    int line = 1;
    for (size_t i = 0; i < r->at; i++)
        line += r->text[i] == '\n';
    return line;
}

static int32_t fail(reader *r, const char *what)
{
    return lx_ast_fail(r->a, "line %d: %s", line_of(r), what);
}

static bool goes_on(const reader *r)
{
    return r->a->status == LX_OK && r->at < r->n;
}

static bool take(reader *r, char c)
{
    bool there = goes_on(r) && r->text[r->at] == c;
    r->at += there;
    return there;
}

static void skip_space(reader *r, bool lines)
{
    while (goes_on(r)) {
        char c = r->text[r->at];
        if (c == '#') {
            while (r->at < r->n && r->text[r->at] != '\n')
                r->at++;
        } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
            r->at++;
        } else {
            return;
        }
    }
}

/* The next line may go on with another alternative. */
static void skip_to_bar(reader *r)
{
    size_t at = r->at;
    skip_space(r, true);
    if (!goes_on(r) || r->text[r->at] != '|')
        r->at = at;
}

/* --- names --- */

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* The rule of the name that stands here; a new name gets a rule. */
static name *read_name(reader *r)
{
    const char *text = r->text + r->at;
    size_t n = 0;
    uint32_t hash = 5381;
    for (; r->at < r->n && is_name(r->text[r->at]); r->at++, n++)
        hash = hash * 33 + (unsigned char)text[n];
    if (n == 0 || n > MOST_NAME) {
        (void)fail(r, n == 0 ? "a rule's name is missing" : "a rule's name has more than 64 bytes");
        return NULL;
    }
    int32_t *chain = &r->buckets[hash % BUCKETS];
    for (int32_t i = *chain; i >= 0; i = r->names[i].chain) {
        if (r->names[i].n == n && memcmp(r->names[i].text, text, n) == 0)
            return &r->names[i];
    }
    bool root = n == 4 && memcmp(text, "root", n) == 0;
    int32_t rule = root ? 0 : lx_ast_rule(r->a);
    if (r->a->status != LX_OK || r->n_names == LX_AST_MOST_RULES)
        return NULL;
    r->names[r->n_names] = (name){text, n, rule, *chain, false};
    *chain = r->n_names;
    return &r->names[r->n_names++];
}

/* --- characters --- */

static int32_t read_hex(reader *r, int32_t digits)
{
    int32_t c = lx_ast_hex(r->text, r->n, &r->at, digits);
    return c == LX_HEX_MISSING    ? fail(r, "a hexadecimal digit is missing")
           : c > LX_MAX_CODEPOINT ? fail(r, "a character is above U+10FFFF")
                                  : c;
}

static int32_t read_char(reader *r)
{
    if (!take(r, '\\')) {
        int32_t c = lx_utf8_next(r->text, r->n, &r->at);
        return c >= 0 ? c : fail(r, "it is not valid UTF-8");
    }
    char c = r->at < r->n ? r->text[r->at++] : '\0';
    switch (c) {
    case 'x':
        return read_hex(r, 2);
    case 'u':
        return read_hex(r, 4);
    case 'U':
        return read_hex(r, 8);
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'n':
        return '\n';
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
        return c;
    default:
        return fail(r, "an escape is unknown");
    }
}

static int32_t read_literal(reader *r)
{
    char bytes[4];
    lx_ast_trees parts = {0};
    while (goes_on(r) && r->text[r->at] != '"') {
        int32_t c = read_char(r);
        lx_ast_collect(r->a, &parts, lx_ast_text(r->a, bytes, lx_utf8_put((uint32_t)c, bytes)));
    }
    if (!take(r, '"'))
        (void)fail(r, "a text has no closing quote");
    return lx_ast_take(r->a, LX_AST_CAT, &parts);
}

static int32_t read_set(reader *r)
{
    lx_charset s = {.n = 0};
    bool inverted = take(r, '^');
    while (goes_on(r) && r->text[r->at] != ']') {
        int32_t low = read_char(r), high = low;
        if (r->at + 1 < r->n && r->text[r->at] == '-' && r->text[r->at + 1] != ']') {
            r->at++;
            high = read_char(r);
        }
        if (high < low)
            return fail(r, "a range of characters ends before it begins");
        lx_charset_add(r->a, &s, low, high);
    }
    if (!take(r, ']'))
        return fail(r, "a set of characters has no closing bracket");
    if (inverted)
        lx_charset_invert(r->a, &s);
    return lx_ast_set(r->a, s.at, s.n);
}

/* --- rules --- */

static int32_t read_number(reader *r)
{
    int32_t n = 0;
    size_t begin = r->at;
    for (; r->at < r->n && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++)
        n = n > LX_AST_MOST_REPEATS ? n : n * 10 + (r->text[r->at] - '0');
    return r->at > begin ? n : fail(r, "a number of repeats is missing");
}

static int32_t read_bounds(reader *r, int32_t part)
{
    skip_space(r, true);
    int32_t least = r->at < r->n && r->text[r->at] == ',' ? 0 : read_number(r), most = least;
    skip_space(r, true);
    if (take(r, ',')) {
        skip_space(r, true);
        most = r->at < r->n && r->text[r->at] == '}' ? -1 : read_number(r);
        skip_space(r, true);
    }
    if (!take(r, '}'))
        return fail(r, "a number of repeats has no closing brace");
    if (most >= 0 && most < least)
        return fail(r, "the most repeats are fewer than the least");
    return lx_ast_repeat(r->a, part, least, most);
}

static int32_t read_repeats(reader *r, int32_t part)
{
    while (goes_on(r)) {
        skip_space(r, r->nested > 0);
        if (take(r, '*'))
            part = lx_ast_repeat(r->a, part, 0, -1);
        else if (take(r, '+'))
            part = lx_ast_repeat(r->a, part, 1, -1);
        else if (take(r, '?'))
            part = lx_ast_optional(r->a, part);
        else if (take(r, '{'))
            part = read_bounds(r, part);
        else
            break;
    }
    return part;
}

static int32_t read_alternatives(reader *r);

static int32_t read_group(reader *r)
{
    if (r->nested == LX_AST_MOST_NESTED)
        return fail(r, "more than 100 groups are nested");
    r->nested++;
    skip_space(r, true);
    int32_t tree = read_alternatives(r);
    r->nested--;
    return take(r, ')') ? tree : fail(r, "a group has no closing parenthesis");
}

static int32_t read_part(reader *r)
{
    if (take(r, '"'))
        return read_literal(r);
    if (take(r, '['))
        return read_set(r);
    if (take(r, '('))
        return read_group(r);
    if (take(r, '.')) {
        const lx_range all = {0, LX_MAX_CODEPOINT};
        return lx_ast_set(r->a, &all, 1);
    }
    const name *n = read_name(r);
    return n != NULL ? lx_ast_call(r->a, n->rule) : 0;
}

static int32_t read_sequence(reader *r)
{
    lx_ast_trees parts = {0};
    for (;;) {
        skip_space(r, r->nested > 0);
        char c = goes_on(r) ? r->text[r->at] : '\0';
        if (c != '"' && c != '[' && c != '(' && c != '.' && !is_name(c))
            break;
        int32_t part = read_part(r);
        lx_ast_collect(r->a, &parts, read_repeats(r, part));
    }
    return lx_ast_take(r->a, LX_AST_CAT, &parts);
}

static int32_t read_alternatives(reader *r)
{
    lx_ast_trees ways = {0};
    do {
        skip_space(r, true);
        lx_ast_collect(r->a, &ways, read_sequence(r));
        skip_to_bar(r);
    } while (take(r, '|'));
    return lx_ast_take(r->a, LX_AST_ALT, &ways);
}

static void read_rule(reader *r)
{
    static const char sign[] = "::=";
    name *n = read_name(r);
    skip_space(r, false);
    if (n == NULL || r->n - r->at < 3 || memcmp(r->text + r->at, sign, 3) != 0) {
        (void)fail(r, "a rule must be NAME ::= and its text");
        return;
    }
    r->at += 3;
    if (n->defined) {
        (void)lx_ast_fail(r->a, "rule %.*s is there twice", (int)n->n, n->text);
        return;
    }
    n->defined = true;
    int32_t rule = n->rule;
    skip_space(r, true);
    lx_ast_define(r->a, rule, read_alternatives(r));
    if (goes_on(r) && r->text[r->at] != '\n' && r->text[r->at] != '\r')
        (void)fail(r, "a character does not belong to a rule");
}

static void check_names(reader *r)
{
    bool root = false;
    for (int32_t i = 0; i < r->n_names; i++) {
        root |= r->names[i].rule == 0;
        if (!r->names[i].defined)
            (void)lx_ast_fail(r->a, "rule %.*s is missing", (int)r->names[i].n, r->names[i].text);
    }
    if (!root)
        (void)lx_ast_fail(r->a, "rule root is missing");
}

void lx_grammar_read_gbnf(lx_ast *a, const char *text, size_t bytes)
{
    reader r = {.a = a, .text = text, .n = bytes};
    memset(r.buckets, 0xff, sizeof r.buckets);
    r.names = calloc(LX_AST_MOST_RULES, sizeof *r.names);
    if (r.names == NULL) {
        a->status = lx_fail(a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
        return;
    }
    for (skip_space(&r, true); goes_on(&r); skip_space(&r, true))
        read_rule(&r);
    if (a->status == LX_OK)
        check_names(&r);
    free(r.names);
}
