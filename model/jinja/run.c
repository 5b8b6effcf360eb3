/* Nodes to text: one function a kind of node, and scopes of variables as jinja2 has them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/jinja/internal.h"

/* A scope: a rendering, a turn of a loop, a macro's call, `with`. Its variables end with it. */
typedef struct frame {
    struct frame *parent;
    array *names; /* a map */
} frame;

typedef struct macro {
    const node *node;
    frame *scope;
} macro;

static value evaluate(run *r, const node *n);
static void execute(run *r, const node *n);

static void enter(run *r, const node *n)
{
    r->arena.line = n->line;
    lx_jinja_charge(r, 0);
    lx_jinja_enter(r);
}

/* --- variables --- */

static frame *open_frame(run *r, frame *parent)
{
    frame *f = lx_jinja_alloc(&r->arena, sizeof *f);
    *f = (frame){.parent = parent, .names = lx_jinja_alloc(&r->arena, sizeof *f->names)};
    return f;
}

static void set_name(run *r, span name, value v)
{
    lx_jinja_put(r, r->frame->names, make_text(name), v);
}

static value find_variable(run *r, span name)
{
    for (const frame *f = r->frame; f != NULL; f = f->parent) {
        const value *there = lx_jinja_find(r, f->names, make_text(name));
        if (there != NULL)
            return *there;
    }
    return lx_jinja_global(r, name);
}

/* Gives a value to a name, to the names of a tuple, or to an attribute of a namespace. */
static void assign(run *r, const node *target, value v)
{
    if (target->kind == N_NAME) {
        set_name(r, target->text, v);
        return;
    }
    if (target->kind == N_ATTRIBUTE) {
        value space = evaluate(r, target->a);
        if (space.kind != NAMESPACE)
            fail(r, "%.*s is not a namespace, whose attributes alone can be set",
                 (int)target->a->text.n, target->a->text.bytes);
        lx_jinja_put(r, space.list, make_text(target->text), v);
        return;
    }
    const array *items = lx_jinja_items(r, v);
    size_t i = 0;
    for (const node *name = target->list; name != NULL; name = name->next, i++) {
        if (i == items->n)
            fail(r, "%zu values are too few for the names", items->n);
        set_name(r, name->text, items->items[i]);
    }
    if (i < items->n)
        fail(r, "%zu values are too many for the names", items->n);
}

/* --- slices --- */

/* A bound of a slice, as Python clips it. */
static int64_t clip(run *r, const node *n, int64_t length, int64_t missing, bool back)
{
    value v = n != NULL ? evaluate(r, n) : (value){.kind = NONE};
    if (v.kind == NONE)
        return missing;
    if (v.kind != WHOLE)
        fail(r, "a slice is from and to an int, not a %s", lx_jinja_kind_name(v));
    int64_t at = v.whole < 0 ? v.whole + length : v.whole;
    int64_t least = back ? -1 : 0, most = back ? length - 1 : length;
    return at < least ? least : at > most ? most : at;
}

static value slice(run *r, const node *n)
{
    value v = lx_jinja_defined(r, evaluate(r, n->a)), step = make_whole(1);
    if (n->d != NULL)
        step = evaluate(r, n->d);
    if (!is_a(v, SET(LIST) | SET(TUPLE) | SET(TEXT)))
        fail(r, "a %s has no slices", lx_jinja_kind_name(v));
    if (step.kind != WHOLE || step.whole == 0)
        fail(r, "the step of a slice is an int other than 0");
    int64_t length = (int64_t)lx_jinja_length(r, v);
    bool back = step.whole < 0;
    int64_t first = clip(r, n->b, length, back ? length - 1 : 0, back);
    int64_t last = clip(r, n->c, length, back ? -1 : length, back);
    if (v.kind == TEXT && step.whole == 1) {
        size_t from = lx_jinja_offset(v.text, (size_t)first);
        size_t to = last > first ? lx_jinja_offset(v.text, (size_t)last) : from;
        lx_jinja_charge(r, to);
        return make_text(part_of(v.text, from, to));
    }
    value out = lx_jinja_make_list(r, v.kind == TUPLE ? TUPLE : LIST, 4);
    builder b = {0};
    const array *items = lx_jinja_items(r, v);
    for (int64_t i = first; back ? i > last : i < last;) {
        if (v.kind == TEXT)
            lx_jinja_write(r, &b, items->items[i].text);
        else
            lx_jinja_push(r, out, items->items[i]);
        if (__builtin_add_overflow(i, step.whole, &i))
            break;
    }
    return v.kind == TEXT ? lx_jinja_built(&b) : out;
}

/* --- operators --- */

static double calculate_reals(operation op, double a, double b)
{
    double rest = op == OP_REMAINDER ? fmod(a, b) : 0;
    switch (op) {
    case OP_ADD:
        return a + b;
    case OP_SUBTRACT:
        return a - b;
    case OP_MULTIPLY:
        return a * b;
    case OP_DIVIDE:
        return a / b;
    case OP_FLOOR:
        return floor(a / b);
    case OP_REMAINDER:
        return rest + (rest != 0 && (rest < 0) != (b < 0) ? b : 0);
    default:
        return pow(a, b);
    }
}

static int64_t calculate_wholes(run *r, operation op, int64_t a, int64_t b)
{
    int64_t out = 1, rest = 0;
    bool over = false;
    switch (op) {
    case OP_ADD:
        over = __builtin_add_overflow(a, b, &out);
        break;
    case OP_SUBTRACT:
        over = __builtin_sub_overflow(a, b, &out);
        break;
    case OP_MULTIPLY:
        over = __builtin_mul_overflow(a, b, &out);
        break;
    case OP_FLOOR:
    case OP_REMAINDER:
        over = a == INT64_MIN && b == -1;
        rest = over ? 0 : a % b;
        bool down = rest != 0 && (rest < 0) != (b < 0);
        out = over ? 0 : op == OP_FLOOR ? a / b - down : rest + (down ? b : 0);
        break;
    default: /* a power */
        over = b < 0 || b > 64;
        for (int64_t i = 0; i < b && !over; i++)
            over = __builtin_mul_overflow(out, a, &out);
    }
    if (over)
        fail(r, "a number is too large");
    return out;
}

static value calculate_numbers(run *r, operation op, value a, value b)
{
    bool divides = op == OP_DIVIDE || op == OP_FLOOR || op == OP_REMAINDER;
    if (divides && lx_jinja_real_of(b) == 0)
        fail(r, "a division by 0");
    if (a.kind == REAL || b.kind == REAL || op == OP_DIVIDE)
        return make_real(calculate_reals(op, lx_jinja_real_of(a), lx_jinja_real_of(b)));
    return make_whole(calculate_wholes(r, op, a.whole, b.whole));
}

/* The sum of texts. A safe text escapes the text that is added to it. */
static value add_texts(run *r, value a, value b)
{
    bool safe = a.safe || b.safe;
    if (safe) {
        a = lx_jinja_escape(r, a);
        b = lx_jinja_escape(r, b);
    }
    value sum = lx_jinja_add(r, a.text, b.text);
    sum.safe = safe;
    return sum;
}

static value calculate(run *r, operation op, value a, value b)
{
    if (op == OP_JOIN) {
        span first = lx_jinja_string(r, a);
        return lx_jinja_add(r, first, lx_jinja_string(r, b));
    }
    lx_jinja_defined(r, a);
    lx_jinja_defined(r, b);
    if (is_a(a, NUMBERS) && is_a(b, NUMBERS))
        return calculate_numbers(r, op, a, b);
    if (op == OP_ADD && a.kind == TEXT && b.kind == TEXT)
        return add_texts(r, a, b);
    if (op == OP_ADD && a.kind == b.kind && is_a(a, SET(LIST) | SET(TUPLE))) {
        value all = lx_jinja_make_list(r, a.kind, a.list->n + b.list->n);
        for (size_t i = 0; i < a.list->n + b.list->n; i++)
            lx_jinja_push(r, all, i < a.list->n ? a.list->items[i] : b.list->items[i - a.list->n]);
        return all;
    }
    if (op == OP_MULTIPLY && a.kind == TEXT && b.kind == WHOLE) {
        builder out = {0};
        for (int64_t i = 0; i < b.whole; i++)
            lx_jinja_write(r, &out, a.text);
        return lx_jinja_built(&out);
    }
    if (op == OP_REMAINDER && a.kind == TEXT)
        refuse(r, "formats by %% are not implemented");
    fail(r, "no such operation on a %s and a %s", lx_jinja_kind_name(a), lx_jinja_kind_name(b));
}

static value evaluate_binary(run *r, const node *n)
{
    value a = evaluate(r, n->a);
    if (n->op != OP_AND && n->op != OP_OR)
        return calculate(r, n->op, a, evaluate(r, n->b));
    return lx_jinja_is_true(a) == (n->op == OP_AND) ? evaluate(r, n->b) : a;
}

static value compare(run *r, const node *n)
{
    value left = evaluate(r, n->a);
    for (const node *operand = n->list; operand != NULL; operand = operand->next) {
        value right = evaluate(r, operand->a);
        if (!lx_jinja_compares(r, operand->op, left, right))
            return make_bool(false);
        left = right;
    }
    return make_bool(true);
}

/* --- calls --- */

static arguments evaluate_arguments(run *r, const node *first)
{
    value all = lx_jinja_make_list(r, LIST, 4), named = {.list = NULL};
    for (const node *n = first; n != NULL; n = n->next) {
        if (n->kind != N_NAMED) {
            lx_jinja_push(r, all, evaluate(r, n));
            continue;
        }
        if (named.list == NULL)
            named = lx_jinja_make_list(r, MAP, 4);
        lx_jinja_put(r, named.list, make_text(n->text), evaluate(r, n->a));
    }
    return (arguments){.values = all.list->items, .n = all.list->n, .named = named.list};
}

/* The text of a body, or of a loop's further turn, as a value. */
static value captured(run *r, const node *body, frame *scope)
{
    builder b = {0}, *out = r->out;
    frame *before = r->frame;
    r->out = &b;
    r->frame = scope;
    execute(r, body);
    r->out = out;
    r->frame = before;
    return lx_jinja_built(&b);
}

static value call_macro(run *r, const macro *m, const arguments *given)
{
    frame *before = r->frame;
    size_t i = 0, named = 0;
    way_out leaving = r->leaving;
    r->frame = open_frame(r, m->scope);
    for (const node *p = m->node->list; p != NULL; p = p->next, i++) {
        const value *by_name = lx_jinja_find_named(r, given, p->text);
        value v = make_undefined(p->text);
        if (i < given->n)
            v = given->values[i];
        else if (by_name != NULL)
            v = *by_name;
        else if (p->a != NULL)
            v = evaluate(r, p->a);
        named += by_name != NULL;
        set_name(r, p->text, v);
    }
    const value *caller = lx_jinja_find_named(r, given, make_span("caller"));
    if (caller != NULL)
        set_name(r, make_span("caller"), *caller);
    named += caller != NULL;
    if (given->n > i || (given->named != NULL && given->named->n / 2 > named))
        fail(r, "%.*s has no such parameter", (int)m->node->text.n, m->node->text.bytes);
    value out = captured(r, m->node->d, r->frame);
    r->frame = before;
    r->leaving = leaving;
    return out;
}

static void run_loop(run *r, const node *n, value over, frame *scope, int depth);

/* loop(...) in a recursive loop: its body again, over other items. */
static value call_loop(run *r, const loop *l, const arguments *given)
{
    if (!l->node->recursive || given->n != 1)
        fail(r, "loop is called in a recursive loop only, with one value");
    builder b = {0}, *out = r->out;
    r->out = &b;
    run_loop(r, l->node, given->values[0], l->scope, l->depth + 1);
    r->out = out;
    return lx_jinja_built(&b);
}

static value call_value(run *r, value callee, const arguments *given)
{
    if (callee.kind == METHOD)
        return lx_jinja_invoke(r, callee.bound->row, callee.bound->self, given);
    if (callee.kind == MACRO)
        return call_macro(r, callee.macro, given);
    if (callee.kind == LOOP)
        return call_loop(r, callee.loop, given);
    lx_jinja_defined(r, callee);
    fail(r, "a %s cannot be called", lx_jinja_kind_name(callee));
}

/* --- expressions --- */

static value make_items(run *r, const node *n)
{
    value all = lx_jinja_make_list(r,
                                   n->kind == N_MAP     ? MAP
                                   : n->kind == N_TUPLE ? TUPLE
                                                        : LIST,
                                   4);
    for (const node *item = n->list; item != NULL; item = item->next) {
        value v = evaluate(r, item);
        if (n->kind != N_MAP)
            lx_jinja_push(r, all, v);
        else {
            item = item->next;
            lx_jinja_put(r, all.list, v, evaluate(r, item));
        }
    }
    return all;
}

/* A call, a filter or a test. */
static value evaluate_call(run *r, const node *n)
{
    value v = evaluate(r, n->a);
    arguments given = evaluate_arguments(r, n->list);
    r->arena.line = n->line;
    return n->kind == N_CALL ? call_value(r, v, &given) : lx_jinja_invoke(r, n->row, v, &given);
}

static value make_macro(run *r, const node *n)
{
    macro *m = lx_jinja_alloc(&r->arena, sizeof *m);
    *m = (macro){.node = n, .scope = r->frame};
    return (value){.kind = MACRO, .macro = m};
}

static value choose(run *r, const node *n)
{
    if (lx_jinja_is_true(evaluate(r, n->a)))
        return evaluate(r, n->b);
    return n->c != NULL ? evaluate(r, n->c) : make_undefined(make_span("the other value"));
}

static value evaluate_here(run *r, const node *n)
{
    value a;
    switch (n->kind) {
    case N_NAME:
        return find_variable(r, n->text);
    case N_LIST:
    case N_TUPLE:
    case N_MAP:
        return make_items(r, n);
    case N_ATTRIBUTE:
        return lx_jinja_attribute(r, evaluate(r, n->a), make_text(n->text));
    case N_SUBSCRIPT:
        a = evaluate(r, n->a);
        return lx_jinja_subscript(r, a, evaluate(r, n->b));
    case N_SLICE:
        return slice(r, n);
    case N_CALL:
    case N_APPLY:
        return evaluate_call(r, n);
    case N_NOT:
        return make_bool(!lx_jinja_is_true(evaluate(r, n->a)));
    case N_CAPTURE:
        return captured(r, n->d, open_frame(r, r->frame));
    case N_MACRO:
        return make_macro(r, n);
    case N_IF_ELSE:
        return choose(r, n);
    case N_BINARY:
        return evaluate_binary(r, n);
    case N_COMPARE:
        return compare(r, n);
    default: /* a constant */
        return n->constant;
    }
}

static value evaluate(run *r, const node *n)
{
    enter(r, n);
    value v = evaluate_here(r, n);
    r->depth--;
    return v;
}

/* --- statements --- */

static void write_value(run *r, value v)
{
    span t = lx_jinja_string(r, v);
    if (r->max_bytes - (r->out->n < r->max_bytes ? r->out->n : r->max_bytes) < t.n)
        lx_jinja_fail(&r->arena, LX_ERR_TOO_LARGE, "over %zu bytes of text", r->max_bytes);
    lx_jinja_write(r, r->out, t);
}

/* Opens the scope of a loop's turn. */
static void begin_turn(run *r, const node *n, frame *scope, value item)
{
    r->frame = open_frame(r, scope);
    assign(r, n->a, item);
}

static void run_loop(run *r, const node *n, value over, frame *scope, int depth)
{
    frame *before = r->frame;
    const array *items = lx_jinja_items(r, over);
    if (n->c != NULL) {
        value kept = lx_jinja_make_list(r, LIST, 4);
        for (size_t i = 0; i < items->n; i++) {
            begin_turn(r, n, scope, items->items[i]);
            if (lx_jinja_is_true(evaluate(r, n->c)))
                lx_jinja_push(r, kept, items->items[i]);
        }
        items = kept.list;
    }
    loop *l = lx_jinja_alloc(&r->arena, sizeof *l);
    *l = (loop){.node = n, .items = items, .scope = scope, .depth = depth};
    for (l->at = 0; l->at < items->n && r->leaving != BREAKS; l->at++) {
        begin_turn(r, n, scope, items->items[l->at]);
        set_name(r, make_span("loop"), (value){.kind = LOOP, .loop = l});
        r->leaving = STAYS;
        execute(r, n->d);
    }
    r->leaving = STAYS;
    if (items->n == 0 && n->e != NULL) {
        r->frame = open_frame(r, scope);
        execute(r, n->e);
    }
    r->frame = before;
}

static void execute_with(run *r, const node *n)
{
    frame *before = r->frame, *inner = open_frame(r, before);
    for (const node *set = n->list; set != NULL; set = set->next) {
        value v = evaluate(r, set->b);
        r->frame = inner;
        assign(r, set->a, v);
        r->frame = before;
    }
    r->frame = inner;
    execute(r, n->d);
    r->frame = before;
}

static void execute_here(run *r, const node *n)
{
    switch (n->kind) {
    case N_BODY:
        for (const node *child = n->list; child != NULL && r->leaving == STAYS; child = child->next)
            execute(r, child);
        break;
    case N_OUTPUT:
        write_value(r, evaluate(r, n->a));
        break;
    case N_IF:
        if (lx_jinja_is_true(evaluate(r, n->a)))
            execute(r, n->b);
        else if (n->c != NULL)
            execute(r, n->c);
        break;
    case N_FOR:
        run_loop(r, n, evaluate(r, n->b), r->frame, 0);
        break;
    case N_SET:
        assign(r, n->a, evaluate(r, n->b));
        break;
    case N_WITH:
        execute_with(r, n);
        break;
    default:
        r->leaving = n->kind == N_BREAK ? BREAKS : CONTINUES;
    }
}

static void execute(run *r, const node *n)
{
    enter(r, n);
    execute_here(r, n);
    r->depth--;
}

/* --- one rendering --- */

/* The text and its marks, in memory of the caller's. */
static void hand_over(run *r, const builder *b, lx_jinja_text *out)
{
    out->n = b->n;
    out->bytes = calloc(1, b->n + 1);
    out->marks = calloc(1, b->n + 1);
    if (out->bytes == NULL || out->marks == NULL) {
        free(out->bytes);
        free(out->marks);
        lx_jinja_fail(&r->arena, LX_ERR_NO_MEMORY, "no memory");
    }
    if (b->n > 0)
        memcpy(out->bytes, b->bytes, b->n);
    if (b->marks != NULL)
        memcpy(out->marks, b->marks, b->n);
}

static void free_run(run *r)
{
    lx_jinja_free_arena(&r->arena);
    json_decref(r->parsed);
}

lx_status lx_jinja_render(const lx_jinja *t, const json_t *own, const json_t *client, int64_t now,
                          size_t max_bytes, lx_jinja_text *out, lx_error *err)
{
    run r = {.now = now, .max_bytes = max_bytes, .arena = {.max = LX_JINJA_MAX_VALUES, .line = 1}};
    const json_t *const variables[] = {client, own};
    if (max_bytes < (LX_JINJA_MAX_VALUES - LX_JINJA_LEAST_VALUES) / LX_JINJA_VALUES_PER_BYTE)
        r.arena.max = LX_JINJA_LEAST_VALUES + LX_JINJA_VALUES_PER_BYTE * max_bytes;
    builder b = {0};
    lx_jinja_text made;
    if (setjmp(r.arena.failed) != 0) {
        if (err != NULL)
            *err = r.arena.err;
        free_run(&r);
        return r.arena.err.status;
    }
    r.out = &b;
    r.frame = open_frame(&r, NULL);
    for (int i = 0; i < 2; i++) {
        value all = lx_jinja_make_list(&r, MAP, 0);
        if (variables[i] != NULL)
            all = lx_jinja_from_json(&r, variables[i], i == 0);
        if (all.kind == MAP)
            lx_jinja_put_all(&r, r.frame->names, all.list);
    }
    r.frame = open_frame(&r, r.frame);
    execute(&r, t->body);
    hand_over(&r, &b, &made);
    free_run(&r);
    *out = made;
    return LX_OK;
}
