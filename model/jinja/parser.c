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
static node *parse_until(parser *p, const char *ends);

#define wrong(p, ...) lx_jinja_fail((p)->arena, LX_ERR_FORMAT, __VA_ARGS__)
#define missing(p, ...) lx_jinja_fail((p)->arena, LX_ERR_UNSUPPORTED, __VA_ARGS__)

static void advance(parser *p)
{
    p->now = lx_jinja_next(&p->lexer);
    p->arena->line = p->now.line;
}

/* Whether a name or a sign is at hand. */
static bool is_at(const parser *p, const char *word)
{
    return (p->now.kind == T_SIGN || p->now.kind == T_NAME) && lx_jinja_is_word(p->now.text, word);
}

static bool take(parser *p, const char *word)
{
    bool there = is_at(p, word);
    if (there)
        advance(p);
    return there;
}

static void expect(parser *p, const char *word)
{
    if (!take(p, word))
        wrong(p, "%s is missing", word);
}

static span expect_name(parser *p, const char *name)
{
    span t = p->now.text;
    if (p->now.kind != T_NAME)
        wrong(p, "%s is missing", name);
    advance(p);
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

static node *make_of(parser *p, node_kind kind, node *a, node *b)
{
    node *n = make(p, kind);
    n->a = a;
    n->b = b;
    return n;
}

static void add(node *parent, node *child)
{
    if (parent->last != NULL)
        parent->last->next = child;
    else
        parent->list = child;
    parent->last = child;
}

/* --- expressions --- */

/* The items of a parent up to `end`, with commas between them. */
static node *parse_items(parser *p, node *parent, const char *end,
                         void (*parse)(parser *p, node *parent))
{
    while (!take(p, end)) {
        parse(p, parent);
        if (!is_at(p, end))
            expect(p, ",");
    }
    return parent;
}

static void parse_item(parser *p, node *list)
{
    add(list, parse_expression(p));
}

static void parse_entry(parser *p, node *map)
{
    parse_item(p, map);
    expect(p, ":");
    parse_item(p, map);
}

static node *make_named(parser *p, span name, node *a)
{
    node *n = make_of(p, N_NAMED, a, NULL);
    n->text = name;
    return n;
}

static void parse_argument(parser *p, node *of)
{
    if (is_at(p, "*") || is_at(p, "**"))
        missing(p, "arguments by * are not implemented");
    node *given = parse_expression(p);
    bool named = given->kind == N_NAME && take(p, "=");
    add(of, named ? make_named(p, given->text, parse_expression(p)) : given);
}

/* After "(": an expression, or a tuple where a comma is. */
static node *parse_brackets(parser *p)
{
    node *tuple = make(p, N_TUPLE);
    if (take(p, ")"))
        return tuple;
    parse_item(p, tuple);
    if (take(p, ")"))
        return tuple->list;
    expect(p, ",");
    return parse_items(p, tuple, ")", parse_item);
}

static node *parse_constant(parser *p, value constant)
{
    node *n = make(p, N_CONSTANT);
    n->constant = constant;
    advance(p);
    return n;
}

/* Texts next to each other are one. */
static node *parse_text(parser *p)
{
    node *n = parse_constant(p, make_text(p->now.text));
    for (; p->now.kind == T_TEXT; advance(p)) {
        span *t = &n->constant.text, more = p->now.text;
        char *joined = lx_jinja_grow(p->arena, t->bytes, t->n, t->n + more.n + 1, 1);
        memcpy(joined + t->n, more.bytes, more.n);
        *t = (span){.bytes = joined, .n = t->n + more.n};
    }
    return n;
}

static node *parse_name(parser *p)
{
    int place = lx_jinja_place_of(p->now.text, "none None false False true True");
    if (place >= 0)
        return parse_constant(p, place < 2 ? (value){.kind = NONE} : make_bool(place > 3));
    node *n = make(p, N_NAME);
    n->text = expect_name(p, "a name");
    return n;
}

static node *parse_primary(parser *p)
{
    if (p->now.kind == T_NAME)
        return parse_name(p);
    if (p->now.kind == T_TEXT)
        return parse_text(p);
    if (p->now.kind == T_NUMBER)
        return parse_constant(p, p->now.number);
    if (take(p, "("))
        return parse_brackets(p);
    if (take(p, "["))
        return parse_items(p, make(p, N_LIST), "]", parse_item);
    if (take(p, "{"))
        return parse_items(p, make(p, N_MAP), "}", parse_entry);
    wrong(p, "an expression is missing");
}

/* After "[": a key or a slice. */
static node *parse_subscript(parser *p, node *of)
{
    node *parts[3] = {NULL, NULL, NULL};
    int n = 0;
    for (;;) {
        if (!is_at(p, ":") && !is_at(p, "]"))
            parts[n] = parse_expression(p);
        if (take(p, "]"))
            break;
        expect(p, ":");
        if (++n == 3)
            wrong(p, "a slice has over three parts");
    }
    if (n == 0 && parts[0] == NULL)
        wrong(p, "[] has nothing in it");
    node *part = make_of(p, n == 0 ? N_SUBSCRIPT : N_SLICE, of, parts[0]);
    part->c = parts[1];
    part->d = parts[2];
    return part;
}

static node *parse_dot(parser *p, node *of)
{
    if (p->now.kind == T_NUMBER && p->now.number.kind == WHOLE)
        return make_of(p, N_SUBSCRIPT, of, parse_constant(p, p->now.number));
    node *n = make_of(p, N_ATTRIBUTE, of, NULL);
    n->text = expect_name(p, "the name after .");
    return n;
}

static node *parse_postfix(parser *p, node *n)
{
    for (int depth = p->depth;; enter(p)) {
        if (take(p, "."))
            n = parse_dot(p, n);
        else if (take(p, "["))
            n = parse_subscript(p, n);
        else if (take(p, "("))
            n = parse_items(p, make_of(p, N_CALL, n, NULL), ")", parse_argument);
        else {
            p->depth = depth;
            return n;
        }
    }
}

/* A filter or a test, by its name, and the value that it is applied to. */
static node *parse_application(parser *p, node *of, const char *kind,
                               const builtin *(*find)(span name))
{
    node *n = make_of(p, N_APPLY, of, NULL);
    if (p->now.kind != T_NAME)
        wrong(p, "the name of a %s is missing", kind);
    n->row = find(p->now.text);
    if (n->row == NULL)
        missing(p, "the %s %.*s is not implemented", kind, (int)p->now.text.n, p->now.text.bytes);
    advance(p);
    return take(p, "(") ? parse_items(p, n, ")", parse_argument) : n;
}

static node *parse_filter(parser *p, node *of)
{
    return parse_application(p, of, "filter", lx_jinja_filter);
}

static bool is_one_of(const parser *p, const char *words)
{
    return p->now.kind == T_NAME && lx_jinja_place_of(p->now.text, words) >= 0;
}

static node *parse_test(parser *p, node *of)
{
    bool negated = take(p, "not");
    node *n = parse_application(p, of, "test", lx_jinja_test);
    bool name = p->now.kind == T_NAME && !is_one_of(p, "else or and is if in not");
    bool literal =
        p->now.kind == T_TEXT || p->now.kind == T_NUMBER || is_at(p, "[") || is_at(p, "{");
    if (n->list == NULL && (name || literal))
        add(n, parse_postfix(p, parse_primary(p))); /* "is divisibleby 3" */
    return negated ? make_of(p, N_NOT, n, NULL) : n;
}

static node *parse_unary(parser *p, bool filters)
{
    int depth = p->depth;
    enter(p);
    node *n;
    if (is_at(p, "-") || is_at(p, "+")) {
        node *sign = parse_constant(p, make_whole(is_at(p, "-") ? -1 : 1));
        n = make_of(p, N_BINARY, sign, parse_unary(p, false));
        n->op = OP_MULTIPLY;
    } else
        n = parse_primary(p);
    n = parse_postfix(p, n);
    for (; filters; enter(p)) {
        if (take(p, "|"))
            n = parse_filter(p, n);
        else if (take(p, "is"))
            n = parse_test(p, n);
        else if (take(p, "("))
            n = parse_items(p, make_of(p, N_CALL, n, NULL), ")", parse_argument);
        else
            break;
    }
    p->depth = depth;
    return n;
}

typedef struct operator
{
    const char *sign;
    operation op;
    int level; /* the loosest operators have 0 */
}
operator;
enum { NOT = 2, COMPARISON = 3, TIGHTEST = 8 };

static const operator operators[] = {{"or", OP_OR, 0},
                                     {"and", OP_AND, 1},
                                     {"==", OP_EQUAL, COMPARISON},
                                     {"!=", OP_UNEQUAL, COMPARISON},
                                     {"<=", OP_LESS_EQUAL, COMPARISON},
                                     {">=", OP_MORE_EQUAL, COMPARISON},
                                     {"<", OP_LESS, COMPARISON},
                                     {">", OP_MORE, COMPARISON},
                                     {"in", OP_IN, COMPARISON},
                                     {"+", OP_ADD, 4},
                                     {"-", OP_SUBTRACT, 4},
                                     {"~", OP_JOIN, 5},
                                     {"*", OP_MULTIPLY, 6},
                                     {"/", OP_DIVIDE, 6},
                                     {"//", OP_FLOOR, 6},
                                     {"%", OP_REMAINDER, 6},
                                     {"**", OP_POWER, 7}};

static bool take_operator(parser *p, int level, operation *op)
{
    for (size_t i = 0; i < COUNT(operators); i++) {
        if (operators[i].level == level && take(p, operators[i].sign)) {
            *op = operators[i].op;
            return true;
        }
    }
    const parser before = *p;
    *op = OP_NOT_IN;
    if (level == COMPARISON && take(p, "not") && take(p, "in"))
        return true;
    *p = before;
    return false;
}

static node *parse_level(parser *p, int level)
{
    if (level == TIGHTEST)
        return parse_unary(p, true);
    int depth = p->depth;
    node *n = NULL, *all = NULL;
    operation op;
    if (level == NOT && take(p, "not")) {
        enter(p);
        n = make_of(p, N_NOT, parse_level(p, NOT), NULL);
    } else
        n = parse_level(p, level + 1);
    while (take_operator(p, level, &op)) {
        enter(p);
        if (all == NULL || level != COMPARISON)
            n = all = make_of(p, level == COMPARISON ? N_COMPARE : N_BINARY, n, NULL);
        node *right = parse_level(p, level + 1);
        if (level == COMPARISON)
            add(all, right = make_of(p, N_OPERAND, right, NULL));
        else
            n->b = right;
        (level == COMPARISON ? right : n)->op = op;
    }
    p->depth = depth;
    return n;
}

static node *parse_or(parser *p)
{
    return parse_level(p, 0);
}

static node *parse_expression(parser *p)
{
    int depth = p->depth;
    enter(p);
    node *n = parse_or(p);
    while (take(p, "if")) {
        enter(p);
        n = make_of(p, N_IF_ELSE, parse_or(p), n);
        n->c = take(p, "else") ? parse_expression(p) : NULL;
    }
    p->depth = depth;
    return n;
}

/* An expression, or several with commas: a tuple. */
static node *parse_tuple(parser *p, node *(*parse)(parser *p))
{
    node *first = parse(p);
    if (!is_at(p, ","))
        return first;
    node *tuple = make(p, N_TUPLE);
    add(tuple, first);
    while (take(p, ",")) {
        if (!is_at(p, "%}") && !is_at(p, "}}") && !is_at(p, "="))
            add(tuple, parse(p));
    }
    return tuple;
}

/* The names that a loop or `set` gives values to: "a", "a, b", or the attribute of a namespace. */
static node *parse_target(parser *p, bool attribute)
{
    bool brackets = take(p, "(");
    node *tuple = make(p, N_TUPLE), *first = NULL;
    do {
        if (first != NULL && p->now.kind != T_NAME)
            break; /* "a, = ..." */
        node *name = make(p, N_NAME);
        name->text = expect_name(p, "a name");
        if (attribute && first == NULL && take(p, "."))
            return parse_dot(p, name);
        first = first != NULL ? first : name;
        add(tuple, name);
    } while (take(p, ","));
    if (brackets)
        expect(p, ")");
    return first->next == NULL ? first : tuple;
}

/* --- statements --- */

/* The rest of a block, and its body up to a block that begins with one of the words. */
static node *parse_body(parser *p, const char *ends)
{
    expect(p, "%}");
    return parse_until(p, ends);
}

/* A body with one end, which is taken. */
static node *parse_whole_body(parser *p, const char *end)
{
    node *body = parse_body(p, end);
    advance(p);
    return body;
}

static void parse_if(parser *p, node *n)
{
    n->a = parse_tuple(p, parse_expression);
    n->b = parse_body(p, "elif else endif");
    enter(p);
    if (take(p, "elif")) {
        n->c = make(p, N_IF);
        parse_if(p, n->c);
    } else if (take(p, "else"))
        n->c = parse_whole_body(p, "endif");
    else
        advance(p);
    p->depth--;
}

static void parse_for(parser *p, node *n)
{
    n->a = parse_target(p, false);
    expect(p, "in");
    n->b = parse_tuple(p, parse_or);
    n->c = take(p, "if") ? parse_expression(p) : NULL;
    n->recursive = take(p, "recursive");
    n->d = parse_body(p, "else endfor");
    if (take(p, "else"))
        n->e = parse_body(p, "endfor");
    advance(p);
}

/* "|a|b", and the body whose text the filters are for. */
static node *parse_filtered(parser *p, bool first_named, const char *end)
{
    node *text = make(p, N_CAPTURE), *n = text;
    if (first_named)
        n = parse_filter(p, n);
    while (take(p, "|"))
        n = parse_filter(p, n);
    text->d = parse_whole_body(p, end);
    return n;
}

static void parse_set(parser *p, node *n)
{
    n->a = parse_target(p, true);
    n->b = take(p, "=") ? parse_tuple(p, parse_expression) : parse_filtered(p, false, "endset");
}

static void parse_parameter(parser *p, node *macro)
{
    span name = expect_name(p, "the name of a parameter");
    add(macro, make_named(p, name, take(p, "=") ? parse_expression(p) : NULL));
}

static void parse_macro(parser *p, node *n)
{
    n->a = make(p, N_NAME);
    n->b = make(p, N_MACRO);
    n->a->text = n->b->text = expect_name(p, "the name of a macro");
    expect(p, "(");
    parse_items(p, n->b, ")", parse_parameter);
    n->b->d = parse_whole_body(p, "endmacro");
}

/* The body becomes the argument `caller` of the call. */
static void parse_call_block(parser *p, node *n)
{
    node *caller = make(p, N_MACRO);
    caller->text = make_span("caller");
    if (take(p, "("))
        parse_items(p, caller, ")", parse_parameter);
    n->a = parse_unary(p, true);
    if (n->a->kind != N_CALL)
        wrong(p, "call needs the call of a macro");
    caller->d = parse_whole_body(p, "endcall");
    add(n->a, make_named(p, caller->text, caller));
}

static void parse_filter_block(parser *p, node *n)
{
    n->a = parse_filtered(p, true, "endfilter");
}

static void parse_with(parser *p, node *n)
{
    while (!is_at(p, "%}")) {
        node *set = make_of(p, N_SET, parse_target(p, false), NULL);
        expect(p, "=");
        set->b = parse_expression(p);
        add(n, set);
        if (!is_at(p, "%}"))
            expect(p, ",");
    }
    n->d = parse_whole_body(p, "endwith");
}

/* transformers' mark around an assistant's text: the body is rendered without a change. */
static void parse_generation(parser *p, node *n)
{
    *n = *parse_whole_body(p, "endgeneration");
}

static void parse_nothing(parser *p, node *n)
{
    (void)p, (void)n;
}

static node *parse_statement(parser *p)
{
    static const struct {
        const char *name;
        node_kind kind;
        void (*parse)(parser *p, node *n);
    } rows[] = {{"if", N_IF, parse_if},
                {"for", N_FOR, parse_for},
                {"set", N_SET, parse_set},
                {"macro", N_SET, parse_macro},
                {"call", N_OUTPUT, parse_call_block},
                {"filter", N_OUTPUT, parse_filter_block},
                {"with", N_WITH, parse_with},
                {"generation", N_BODY, parse_generation},
                {"break", N_BREAK, parse_nothing},
                {"continue", N_CONTINUE, parse_nothing}};
    span name = expect_name(p, "the name of a statement");
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (!lx_jinja_is_word(name, rows[i].name))
            continue;
        node *n = make(p, rows[i].kind);
        rows[i].parse(p, n);
        expect(p, "%}");
        return n;
    }
    missing(p, "the statement %.*s is not implemented", (int)name.n, name.bytes);
}

/* The body up to a block that begins with one of the words, which is the token at hand then. No
   words: up to the end of the text. */
static node *parse_until(parser *p, const char *ends)
{
    node *body = make(p, N_BODY);
    enter(p);
    while (p->now.kind != T_END) {
        if (p->now.kind == T_DATA) {
            add(body, make_of(p, N_OUTPUT, make(p, N_CONSTANT), NULL));
            body->last->a->constant = make_text(p->now.text);
            advance(p);
        } else if (take(p, "{{")) {
            add(body, make_of(p, N_OUTPUT, parse_tuple(p, parse_expression), NULL));
            expect(p, "}}");
        } else {
            expect(p, "{%");
            if (is_one_of(p, ends)) {
                p->depth--;
                return body;
            }
            add(body, parse_statement(p));
        }
    }
    if (ends[0] != '\0')
        wrong(p, "%.*s is missing at the end of the text", (int)strcspn(ends, " "), ends);
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
    t->arena.line = 1;
    for (size_t at = 0; at < n;) {
        if (lx_utf8_next(bytes, n, &at) < 0)
            lx_jinja_fail(&t->arena, LX_ERR_FORMAT, "byte %zu is no UTF-8", at);
    }
    span whole = normalize(&t->arena, bytes, n);
    parser p = {.arena = &t->arena, .lexer = {.arena = &t->arena, .line = 1, .line_starts = true}};
    p.lexer.bytes = whole.bytes;
    p.lexer.n = whole.n;
    advance(&p);
    t->body = parse_until(&p, "");
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
