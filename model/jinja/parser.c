/* The text of a template to nodes, with jinja2's own order of operators. */
#include <stdlib.h>
#include <string.h>

#include "model/jinja/internal.h"
#include "model/utf8.h"

typedef struct parser {
    arena *arena;
    lexer lexer;
    token now; /* the token at hand */
    int depth;
} parser;

static node *parse_expression(parser *p);
static node *parse_until(parser *p, const char *const *ends);

#define wrong(p, ...) lx_jinja_fail((p)->arena, LX_ERR_FORMAT, __VA_ARGS__)

static void advance(parser *p)
{
    p->now = lx_jinja_next(&p->lexer);
    p->arena->line = p->now.line;
}

static bool at_sign(const parser *p, const char *sign)
{
    return p->now.kind == T_SIGN && lx_jinja_is_word(&p->now.text, sign);
}

static bool at_name(const parser *p, const char *name)
{
    return p->now.kind == T_NAME && lx_jinja_is_word(&p->now.text, name);
}

static bool take_sign(parser *p, const char *sign)
{
    bool there = at_sign(p, sign);
    if (there)
        advance(p);
    return there;
}

static bool take_name(parser *p, const char *name)
{
    bool there = at_name(p, name);
    if (there)
        advance(p);
    return there;
}

static void expect_sign(parser *p, const char *sign)
{
    if (!take_sign(p, sign))
        wrong(p, "%s is missing", sign);
}

static void expect(parser *p, token_kind kind, const char *name)
{
    if (p->now.kind != kind)
        wrong(p, "%s is missing", name);
    advance(p);
}

static span expect_name(parser *p, const char *name)
{
    span t = p->now.text;
    expect(p, T_NAME, name);
    return t;
}

static void enter(parser *p)
{
    if (++p->depth > LX_JINJA_MAX_DEPTH)
        lx_jinja_fail(p->arena, LX_ERR_TOO_LARGE, "over %d levels of nesting", LX_JINJA_MAX_DEPTH);
}

static node *make(parser *p, node_kind kind)
{
    node *n = lx_jinja_alloc(p->arena, sizeof *n);
    n->kind = kind;
    n->line = p->now.line;
    return n;
}

/* The child, which becomes part of the parent. */
static node *hold(parser *p, node *parent, node *child)
{
    if (child != NULL && child->height >= parent->height)
        parent->height = child->height + 1;
    if (parent->height > LX_JINJA_MAX_DEPTH)
        lx_jinja_fail(p->arena, LX_ERR_TOO_LARGE, "over %d levels of nesting", LX_JINJA_MAX_DEPTH);
    return child;
}

static node *make_of(parser *p, node_kind kind, node *a, node *b)
{
    node *n = make(p, kind);
    n->a = hold(p, n, a);
    n->b = hold(p, n, b);
    return n;
}

static void add(parser *p, node *parent, node *child)
{
    hold(p, parent, child);
    if (parent->last != NULL)
        parent->last->next = child;
    else
        parent->list = child;
    parent->last = child;
}

/* --- expressions --- */

/* The arguments of a call, after its bracket. */
static void parse_arguments(parser *p, node *call)
{
    while (!take_sign(p, ")")) {
        if (at_sign(p, "*") || at_sign(p, "**"))
            lx_jinja_fail(p->arena, LX_ERR_UNSUPPORTED, "arguments by * are not implemented");
        node *given = parse_expression(p);
        if (given->kind == N_NAME && take_sign(p, "=")) {
            node *named = make_of(p, N_NAMED, parse_expression(p), NULL);
            named->text = given->text;
            given = named;
        }
        add(p, call, given);
        if (!at_sign(p, ")"))
            expect_sign(p, ",");
    }
}

static node *parse_list(parser *p)
{
    node *list = make(p, N_LIST);
    while (!take_sign(p, "]")) {
        add(p, list, parse_expression(p));
        if (!at_sign(p, "]"))
            expect_sign(p, ",");
    }
    return list;
}

static node *parse_map(parser *p)
{
    node *map = make(p, N_MAP);
    while (!take_sign(p, "}")) {
        add(p, map, parse_expression(p));
        expect_sign(p, ":");
        add(p, map, parse_expression(p));
        if (!at_sign(p, "}"))
            expect_sign(p, ",");
    }
    return map;
}

/* After "(": an expression, or a tuple where a comma is. */
static node *parse_brackets(parser *p)
{
    node *tuple = make(p, N_TUPLE);
    if (take_sign(p, ")"))
        return tuple;
    add(p, tuple, parse_expression(p));
    if (take_sign(p, ")"))
        return tuple->list;
    while (!take_sign(p, ")")) {
        expect_sign(p, ",");
        if (!at_sign(p, ")"))
            add(p, tuple, parse_expression(p));
    }
    return tuple;
}

static node *parse_literal(parser *p)
{
    node *n = make(p, N_CONSTANT);
    token t = p->now;
    if (t.kind == T_WHOLE)
        n->constant = (value){.kind = WHOLE, .whole = t.whole};
    else
        n->constant = (value){.kind = REAL, .real = t.real};
    advance(p);
    return n;
}

/* Texts next to each other are one. */
static node *parse_text(parser *p)
{
    node *n = make(p, N_TEXT);
    while (p->now.kind == T_TEXT) {
        size_t bytes = n->text.n + p->now.text.n;
        char *joined = lx_jinja_grow(p->arena, n->text.bytes, n->text.n, bytes + 1, 1);
        if (p->now.text.n > 0)
            memcpy(joined + n->text.n, p->now.text.bytes, p->now.text.n);
        n->text = (span){.bytes = joined, .n = bytes};
        advance(p);
    }
    return n;
}

static node *parse_name(parser *p)
{
    static const struct {
        const char *name;
        value value;
    } constants[] = {{"true", {.kind = BOOLEAN, .truth = true}},
                     {"True", {.kind = BOOLEAN, .truth = true}},
                     {"false", {.kind = BOOLEAN}},
                     {"False", {.kind = BOOLEAN}},
                     {"none", {.kind = NONE}},
                     {"None", {.kind = NONE}}};
    node *n = make(p, N_NAME);
    n->text = expect_name(p, "a name");
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (!lx_jinja_is_word(&n->text, constants[i].name))
            continue;
        n->kind = N_CONSTANT;
        n->constant = constants[i].value;
    }
    return n;
}

static node *parse_primary(parser *p)
{
    switch (p->now.kind) {
    case T_NAME:
        return parse_name(p);
    case T_TEXT:
        return parse_text(p);
    case T_WHOLE:
    case T_REAL:
        return parse_literal(p);
    default:
        if (take_sign(p, "("))
            return parse_brackets(p);
        if (take_sign(p, "["))
            return parse_list(p);
        if (take_sign(p, "{"))
            return parse_map(p);
        wrong(p, "an expression is missing");
    }
}

/* After "[": a key or a slice. */
static node *parse_subscript(parser *p, node *of)
{
    node *parts[3] = {NULL, NULL, NULL};
    int n = 0;
    for (;;) {
        if (!at_sign(p, ":") && !at_sign(p, "]"))
            parts[n] = parse_expression(p);
        if (take_sign(p, "]"))
            break;
        expect_sign(p, ":");
        if (++n == 3)
            wrong(p, "a slice has over three parts");
        if (take_sign(p, "]"))
            break;
    }
    if (n == 0) {
        if (parts[0] == NULL)
            wrong(p, "[] has nothing in it");
        return make_of(p, N_SUBSCRIPT, of, parts[0]);
    }
    node *slice = make_of(p, N_SLICE, of, parts[0]);
    slice->c = hold(p, slice, parts[1]);
    slice->d = hold(p, slice, parts[2]);
    return slice;
}

static node *parse_dot(parser *p, node *of)
{
    node *n = make_of(p, N_ATTRIBUTE, of, NULL);
    if (p->now.kind == T_WHOLE) {
        n->kind = N_SUBSCRIPT;
        n->b = hold(p, n, parse_literal(p));
    } else
        n->text = expect_name(p, "the name after .");
    return n;
}

static node *parse_call(parser *p, node *of)
{
    node *call = make_of(p, N_CALL, of, NULL);
    parse_arguments(p, call);
    return call;
}

static node *parse_postfix(parser *p, node *n)
{
    for (;;) {
        if (take_sign(p, "."))
            n = parse_dot(p, n);
        else if (take_sign(p, "["))
            n = parse_subscript(p, n);
        else if (take_sign(p, "("))
            n = parse_call(p, n);
        else
            return n;
    }
}

static node *parse_filter(parser *p, node *of)
{
    node *n = make_of(p, N_FILTER, of, NULL);
    n->text = expect_name(p, "the name of a filter");
    n->call = lx_jinja_filter(n->text.bytes, n->text.n);
    if (n->call == NULL)
        lx_jinja_fail(p->arena, LX_ERR_UNSUPPORTED, "the filter %.*s is not implemented",
                      (int)n->text.n, n->text.bytes);
    if (take_sign(p, "("))
        parse_arguments(p, n);
    return n;
}

/* Whether an argument follows a test without brackets: "is divisibleby 3". */
static bool has_argument(const parser *p)
{
    if (p->now.kind == T_NAME)
        return !at_name(p, "else") && !at_name(p, "or") && !at_name(p, "and") &&
               !at_name(p, "is") && !at_name(p, "if") && !at_name(p, "in") && !at_name(p, "not");
    return p->now.kind == T_TEXT || p->now.kind == T_WHOLE || p->now.kind == T_REAL ||
           at_sign(p, "[") || at_sign(p, "{");
}

static node *parse_test(parser *p, node *of)
{
    bool negated = take_name(p, "not");
    node *n = make_of(p, N_TEST, of, NULL);
    n->text = expect_name(p, "the name of a test");
    n->call = lx_jinja_test(n->text.bytes, n->text.n);
    if (n->call == NULL)
        lx_jinja_fail(p->arena, LX_ERR_UNSUPPORTED, "the test %.*s is not implemented",
                      (int)n->text.n, n->text.bytes);
    if (take_sign(p, "("))
        parse_arguments(p, n);
    else if (has_argument(p))
        add(p, n, parse_postfix(p, parse_primary(p)));
    return negated ? make_of(p, N_NOT, n, NULL) : n;
}

static node *parse_unary(parser *p, bool filters)
{
    enter(p);
    node *n;
    if (take_sign(p, "-"))
        n = make_of(p, N_NEGATE, parse_unary(p, false), NULL);
    else if (take_sign(p, "+"))
        n = make_of(p, N_PLUS, parse_unary(p, false), NULL);
    else
        n = parse_primary(p);
    n = parse_postfix(p, n);
    while (filters) {
        if (take_sign(p, "|"))
            n = parse_filter(p, n);
        else if (take_name(p, "is"))
            n = parse_test(p, n);
        else if (take_sign(p, "("))
            n = parse_call(p, n);
        else
            break;
    }
    p->depth--;
    return n;
}

/* Binary operators by their level, the loosest first. */
static const struct level {
    const char *sign;
    operation op;
    int level;
} operators[] = {{"+", OP_ADD, 0},       {"-", OP_SUBTRACT, 0}, {"~", OP_JOIN, 1},
                 {"*", OP_MULTIPLY, 2},  {"/", OP_DIVIDE, 2},   {"//", OP_FLOOR, 2},
                 {"%", OP_REMAINDER, 2}, {"**", OP_POWER, 3}};
enum { LEVELS = 4 };

static node *parse_level(parser *p, int level)
{
    if (level == LEVELS)
        return parse_unary(p, true);
    node *n = parse_level(p, level + 1);
    for (size_t i = 0; i < sizeof operators / sizeof *operators;) {
        if (operators[i].level != level || !take_sign(p, operators[i].sign)) {
            i++;
            continue;
        }
        node *more = make_of(p, N_BINARY, n, parse_level(p, level + 1));
        more->op = operators[i].op;
        n = more;
        i = 0;
    }
    return n;
}

static bool take_comparison(parser *p, operation *op)
{
    static const struct {
        const char *sign;
        operation op;
    } signs[] = {{"==", OP_EQUAL},      {"!=", OP_UNEQUAL}, {"<=", OP_LESS_EQUAL},
                 {">=", OP_MORE_EQUAL}, {"<", OP_LESS},     {">", OP_MORE}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (take_sign(p, signs[i].sign)) {
            *op = signs[i].op;
            return true;
        }
    }
    *op = OP_IN;
    if (take_name(p, "in"))
        return true;
    lexer before = p->lexer;
    token now = p->now;
    *op = OP_NOT_IN;
    if (take_name(p, "not") && take_name(p, "in"))
        return true;
    p->lexer = before;
    p->now = now;
    return false;
}

static node *parse_comparison(parser *p)
{
    node *n = parse_level(p, 0), *all = NULL;
    operation op;
    while (take_comparison(p, &op)) {
        if (all == NULL)
            all = make_of(p, N_COMPARE, n, NULL);
        node *operand = make_of(p, N_OPERAND, parse_level(p, 0), NULL);
        operand->op = op;
        add(p, all, operand);
    }
    return all != NULL ? all : n;
}

static node *parse_not(parser *p)
{
    enter(p);
    node *n = take_name(p, "not") ? make_of(p, N_NOT, parse_not(p), NULL) : parse_comparison(p);
    p->depth--;
    return n;
}

static node *parse_and(parser *p)
{
    node *n = parse_not(p);
    while (take_name(p, "and"))
        n = make_of(p, N_AND, n, parse_not(p));
    return n;
}

static node *parse_or(parser *p)
{
    node *n = parse_and(p);
    while (take_name(p, "or"))
        n = make_of(p, N_OR, n, parse_and(p));
    return n;
}

static node *parse_expression(parser *p)
{
    enter(p);
    node *n = parse_or(p);
    while (take_name(p, "if")) {
        node *choice = make_of(p, N_IF_ELSE, parse_or(p), n);
        choice->c = hold(p, choice, take_name(p, "else") ? parse_expression(p) : NULL);
        n = choice;
    }
    p->depth--;
    return n;
}

/* An expression, or several with commas: a tuple. */
static node *parse_tuple(parser *p, bool condition)
{
    node *first = condition ? parse_expression(p) : parse_or(p);
    if (!at_sign(p, ","))
        return first;
    node *tuple = make(p, N_TUPLE);
    add(p, tuple, first);
    while (take_sign(p, ",")) {
        if (p->now.kind != T_BLOCK_END && p->now.kind != T_OUTPUT_END && !at_sign(p, "="))
            add(p, tuple, condition ? parse_expression(p) : parse_or(p));
    }
    return tuple;
}

/* What a loop or `set` gives values to: names, "a, b", or the attribute of a namespace. */
static node *parse_target(parser *p, bool attribute)
{
    bool brackets = take_sign(p, "(");
    node *tuple = make(p, N_TUPLE), *first = NULL;
    do {
        if (first != NULL && p->now.kind != T_NAME)
            break; /* "a, = ..." */
        node *name = make(p, N_NAME);
        name->text = expect_name(p, "a name");
        if (attribute && first == NULL && take_sign(p, "."))
            return parse_dot(p, name);
        first = first != NULL ? first : name;
        add(p, tuple, name);
    } while (take_sign(p, ","));
    if (brackets)
        expect_sign(p, ")");
    return first->next == NULL ? first : tuple;
}

/* --- statements --- */

static void end_block(parser *p)
{
    expect(p, T_BLOCK_END, "%}");
}

static node *parse_if(parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    node *n = make_of(p, N_IF, parse_tuple(p, true), NULL);
    end_block(p);
    n->b = hold(p, n, parse_until(p, ends));
    enter(p);
    if (take_name(p, "elif"))
        n->c = hold(p, n, parse_if(p));
    else if (take_name(p, "else")) {
        end_block(p);
        n->c = hold(p, n, parse_until(p, ends + 2));
        advance(p);
    } else
        advance(p);
    p->depth--;
    return n;
}

static node *parse_for(parser *p)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    node *n = make_of(p, N_FOR, parse_target(p, false), NULL);
    if (!take_name(p, "in"))
        wrong(p, "in is missing");
    n->b = hold(p, n, parse_tuple(p, false));
    n->c = hold(p, n, take_name(p, "if") ? parse_expression(p) : NULL);
    n->recursive = take_name(p, "recursive");
    end_block(p);
    n->d = hold(p, n, parse_until(p, ends));
    if (take_name(p, "else")) {
        end_block(p);
        n->e = hold(p, n, parse_until(p, ends + 1));
    }
    advance(p);
    return n;
}

/* "|a|b" after a block's name: filters of what the block writes. */
static node *parse_body_filters(parser *p, bool first_named)
{
    node *n = make(p, N_BODY_VALUE);
    if (first_named)
        n = parse_filter(p, n);
    while (take_sign(p, "|"))
        n = parse_filter(p, n);
    return n;
}

static node *parse_set(parser *p)
{
    static const char *const ends[] = {"endset", NULL};
    node *n = make_of(p, N_SET, parse_target(p, true), NULL);
    if (take_sign(p, "=")) {
        n->b = hold(p, n, parse_tuple(p, true));
        return n;
    }
    n->b = hold(p, n, parse_body_filters(p, false));
    end_block(p);
    n->d = hold(p, n, parse_until(p, ends));
    advance(p);
    return n;
}

/* The parameters of a macro, after their bracket. */
static void parse_parameters(parser *p, node *macro)
{
    while (!take_sign(p, ")")) {
        node *parameter = make(p, N_NAMED);
        parameter->text = expect_name(p, "the name of a parameter");
        parameter->a = hold(p, parameter, take_sign(p, "=") ? parse_expression(p) : NULL);
        add(p, macro, parameter);
        if (!at_sign(p, ")"))
            expect_sign(p, ",");
    }
}

static node *parse_macro(parser *p)
{
    static const char *const ends[] = {"endmacro", NULL};
    node *n = make(p, N_MACRO);
    n->text = expect_name(p, "the name of a macro");
    expect_sign(p, "(");
    parse_parameters(p, n);
    end_block(p);
    n->d = hold(p, n, parse_until(p, ends));
    advance(p);
    return n;
}

static node *parse_call_block(parser *p)
{
    static const char *const ends[] = {"endcall", NULL};
    node *n = make(p, N_CALL_BLOCK), *caller = make(p, N_MACRO);
    caller->text = (span){.bytes = "caller", .n = 6};
    if (take_sign(p, "("))
        parse_parameters(p, caller);
    n->a = hold(p, n, parse_unary(p, true));
    if (n->a->kind != N_CALL)
        wrong(p, "call needs the call of a macro");
    end_block(p);
    caller->d = hold(p, caller, parse_until(p, ends));
    n->b = hold(p, n, caller);
    advance(p);
    return n;
}

static node *parse_filter_block(parser *p)
{
    static const char *const ends[] = {"endfilter", NULL};
    node *n = make(p, N_FILTER_BLOCK);
    n->b = hold(p, n, parse_body_filters(p, true));
    end_block(p);
    n->d = hold(p, n, parse_until(p, ends));
    advance(p);
    return n;
}

static node *parse_with(parser *p)
{
    static const char *const ends[] = {"endwith", NULL};
    node *n = make(p, N_WITH);
    while (p->now.kind != T_BLOCK_END) {
        node *set = make_of(p, N_SET, parse_target(p, false), NULL);
        expect_sign(p, "=");
        set->b = hold(p, set, parse_expression(p));
        add(p, n, set);
        if (p->now.kind != T_BLOCK_END)
            expect_sign(p, ",");
    }
    end_block(p);
    n->d = hold(p, n, parse_until(p, ends));
    advance(p);
    return n;
}

/* transformers' mark around what an assistant said: its body is rendered as it is. */
static node *parse_generation(parser *p)
{
    static const char *const ends[] = {"endgeneration", NULL};
    end_block(p);
    node *n = parse_until(p, ends);
    advance(p);
    return n;
}

static node *parse_statement(parser *p)
{
    static const struct {
        const char *name;
        node *(*parse)(parser *p); /* NULL: a node of the kind, without more */
        node_kind kind;
    } statements[] = {{"if", parse_if, N_BODY},           {"for", parse_for, N_BODY},
                      {"set", parse_set, N_BODY},         {"macro", parse_macro, N_BODY},
                      {"call", parse_call_block, N_BODY}, {"filter", parse_filter_block, N_BODY},
                      {"with", parse_with, N_BODY},       {"generation", parse_generation, N_BODY},
                      {"break", NULL, N_BREAK},           {"continue", NULL, N_CONTINUE}};
    span name = expect_name(p, "the name of a statement");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!lx_jinja_is_word(&name, statements[i].name))
            continue;
        node *n =
            statements[i].parse != NULL ? statements[i].parse(p) : make(p, statements[i].kind);
        end_block(p);
        return n;
    }
    lx_jinja_fail(p->arena, LX_ERR_UNSUPPORTED, "the statement %.*s is not implemented",
                  (int)name.n, name.bytes);
}

static bool is_end(const parser *p, const char *const *ends)
{
    while (*ends != NULL && !at_name(p, *ends))
        ends++;
    return *ends != NULL;
}

/* The body up to a block that begins with one of the words, which is the token at hand then. No
   words: up to the end of the text. */
static node *parse_until(parser *p, const char *const *ends)
{
    node *body = make(p, N_BODY);
    enter(p);
    while (p->now.kind != T_END) {
        if (p->now.kind == T_DATA) {
            node *data = make(p, N_DATA);
            data->text = p->now.text;
            add(p, body, data);
            advance(p);
        } else if (p->now.kind == T_OUTPUT_BEGIN) {
            advance(p);
            add(p, body, make_of(p, N_OUTPUT, parse_tuple(p, true), NULL));
            expect(p, T_OUTPUT_END, "}}");
        } else {
            advance(p);
            if (is_end(p, ends)) {
                p->depth--;
                return body;
            }
            add(p, body, parse_statement(p));
        }
    }
    if (*ends != NULL)
        wrong(p, "%s is missing at the end of the text", ends[0]);
    p->depth--;
    return body;
}

/* The template's text with line feeds as line ends, and without one at its end. */
static span normalize(arena *a, const char *bytes, size_t n)
{
    char *out = lx_jinja_alloc(a, n + 1);
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\r' && i + 1 < n && bytes[i + 1] == '\n')
            continue;
        out[length++] = bytes[i] == '\r' ? '\n' : bytes[i];
    }
    length -= length > 0 && out[length - 1] == '\n';
    return (span){.bytes = out, .n = length};
}

static void parse_template(lx_jinja *t, const char *bytes, size_t n)
{
    static const char *const no_end[] = {NULL};
    t->arena.line = 1;
    for (size_t at = 0; at < n;) {
        if (lx_utf8_next(bytes, n, &at) < 0)
            lx_jinja_fail(&t->arena, LX_ERR_FORMAT, "byte %zu is no UTF-8", at);
    }
    span whole = normalize(&t->arena, bytes, n);
    parser p = {.arena = &t->arena,
                .lexer = {.arena = &t->arena,
                          .bytes = whole.bytes,
                          .n = whole.n,
                          .line = 1,
                          .line_starts = true}};
    advance(&p);
    t->body = parse_until(&p, no_end);
}

lx_status lx_jinja_parse(const char *text, size_t n, lx_jinja **out, lx_error *err)
{
    if (n > LX_JINJA_MAX_TEMPLATE)
        return lx_fail(err, LX_ERR_TOO_LARGE, NULL, "chat template: %zu bytes, at most %d", n,
                       LX_JINJA_MAX_TEMPLATE);
    lx_jinja *t = calloc(1, sizeof *t);
    if (t == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "chat template: no memory");
    t->arena.max = LX_JINJA_MAX_NODES;
    if (setjmp(t->arena.failed) != 0) {
        lx_status st = t->arena.err.status;
        if (err != NULL)
            *err = t->arena.err;
        lx_jinja_free(t);
        return st;
    }
    parse_template(t, text, n);
    *out = t;
    return LX_OK;
}

void lx_jinja_free(lx_jinja *t)
{
    if (t != NULL)
        lx_jinja_free_arena(&t->arena);
    free(t);
}
