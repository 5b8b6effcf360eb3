/* Nodes to text: one function a kind of node, and scopes of variables as jinja2 has them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/jinja/internal.h"

/* A scope: a rendering, a turn of a loop, a macro's call, `with`. What is set in it is gone after
 * it. */
typedef struct frame {
    struct frame *parent;
    table names;
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
    if (++r->depth > 2 * LX_JINJA_MAX_DEPTH)
        lx_jinja_fail(&r->arena, LX_ERR_TOO_LARGE, "over %d levels of nesting",
                      2 * LX_JINJA_MAX_DEPTH);
}

/* --- variables --- */

static frame *open_frame(run *r, frame *parent)
{
    frame *f = lx_jinja_alloc(&r->arena, sizeof *f);
    f->parent = parent;
    return f;
}

static void set_name(run *r, frame *f, const span *name, value v)
{
    lx_jinja_put(r, &f->names, (value){.kind = TEXT, .text = name}, v);
}

static value find_variable(run *r, const span *name)
{
    for (const frame *f = r->frame; f != NULL; f = f->parent) {
        const value *there = lx_jinja_find(r, &f->names, (value){.kind = TEXT, .text = name});
        if (there != NULL)
            return *there;
    }
    return lx_jinja_global(r, name);
}

/* Gives a value to a name, to the names of a tuple, or to an attribute of a namespace. */
static void assign(run *r, const node *target, value v)
{
    if (target->kind == N_NAME) {
        set_name(r, r->frame, &target->text, v);
        return;
    }
    if (target->kind == N_ATTRIBUTE) {
        value space = evaluate(r, target->a);
        if (space.kind != NAMESPACE)
            fail(r, "%.*s is not a namespace, whose attributes alone can be set",
                 (int)target->a->text.n, target->a->text.bytes);
        lx_jinja_put(r, space.map, (value){.kind = TEXT, .text = &target->text}, v);
        return;
    }
    const array *items = lx_jinja_items(r, v);
    size_t i = 0;
    for (const node *name = target->list; name != NULL; name = name->next, i++) {
        if (i == items->n)
            fail(r, "%zu values are too few for the names", items->n);
        set_name(r, r->frame, &name->text, items->items[i]);
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
    value v = lx_jinja_defined(r, evaluate(r, n->a)), step = {.kind = WHOLE, .whole = 1};
    if (n->d != NULL)
        step = evaluate(r, n->d);
    if (v.kind != LIST && v.kind != TUPLE && v.kind != TEXT)
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
        return lx_jinja_slice_text(r, v.text, from, to);
    }
    value out = lx_jinja_make_list(r, v.kind == TUPLE ? TUPLE : LIST, 4);
    const array *items = lx_jinja_items(r, v);
    for (int64_t i = first; back ? i > last : i < last;) {
        lx_jinja_push(r, out, items->items[i]);
        if (__builtin_add_overflow(i, step.whole, &i))
            break;
    }
    if (v.kind != TEXT)
        return out;
    builder b = {0};
    for (size_t i = 0; i < out.list->n; i++)
        lx_jinja_write(r, &b, out.list->items[i].text->bytes, out.list->items[i].text->marks,
                       out.list->items[i].text->n);
    return lx_jinja_built(r, &b);
}

/* --- operators --- */

static bool is_number(value v)
{
    return v.kind == BOOLEAN || v.kind == WHOLE || v.kind == REAL;
}

static double real_of(value v)
{
    return v.kind == REAL ? v.real : v.kind == WHOLE ? (double)v.whole : v.truth;
}

static value calculate_reals(run *r, operation op, double a, double b)
{
    double out = 0;
    if ((op == OP_DIVIDE || op == OP_FLOOR || op == OP_REMAINDER) && b == 0)
        fail(r, "a division by 0");
    switch (op) {
    case OP_ADD:
        out = a + b;
        break;
    case OP_SUBTRACT:
        out = a - b;
        break;
    case OP_MULTIPLY:
        out = a * b;
        break;
    case OP_DIVIDE:
        out = a / b;
        break;
    case OP_FLOOR:
        out = floor(a / b);
        break;
    case OP_REMAINDER:
        out = fmod(a, b);
        out += out != 0 && (out < 0) != (b < 0) ? b : 0;
        break;
    default:
        out = pow(a, b);
    }
    return (value){.kind = REAL, .real = out};
}

static value calculate_wholes(run *r, operation op, int64_t a, int64_t b)
{
    int64_t out = 0;
    bool over = false;
    if ((op == OP_FLOOR || op == OP_REMAINDER) && b == 0)
        fail(r, "a division by 0");
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
    case OP_REMAINDER: {
        over = a == INT64_MIN && b == -1;
        int64_t rest = over ? 0 : a % b;
        bool down = rest != 0 && (rest < 0) != (b < 0);
        out = over ? 0 : op == OP_FLOOR ? a / b - down : rest + (down ? b : 0);
        break;
    }
    default: /* a power */
        out = 1;
        over = b < 0 || b > 64;
        for (int64_t i = 0; i < b && !over; i++)
            over = __builtin_mul_overflow(out, a, &out);
    }
    if (over)
        fail(r, "a number is too large");
    return make_whole(out);
}

static value joined(run *r, value a, value b)
{
    builder out = {0};
    value parts[] = {lx_jinja_string(r, a), lx_jinja_string(r, b)};
    for (int i = 0; i < 2; i++)
        lx_jinja_write(r, &out, parts[i].text->bytes, parts[i].text->marks, parts[i].text->n);
    return lx_jinja_built(r, &out);
}

static value repeated(run *r, value v, int64_t times)
{
    builder out = {0};
    for (int64_t i = 0; i < times; i++)
        lx_jinja_write(r, &out, v.text->bytes, v.text->marks, v.text->n);
    return lx_jinja_built(r, &out);
}

static value calculate(run *r, operation op, value a, value b)
{
    if (op == OP_JOIN)
        return joined(r, a, b);
    lx_jinja_defined(r, a);
    lx_jinja_defined(r, b);
    if (is_number(a) && is_number(b)) {
        if (a.kind == REAL || b.kind == REAL || op == OP_DIVIDE)
            return calculate_reals(r, op, real_of(a), real_of(b));
        return calculate_wholes(r, op, a.kind == WHOLE ? a.whole : a.truth,
                                b.kind == WHOLE ? b.whole : b.truth);
    }
    if (op == OP_ADD && a.kind == TEXT && b.kind == TEXT)
        return joined(r, a, b);
    if (op == OP_ADD && a.kind == b.kind && (a.kind == LIST || a.kind == TUPLE)) {
        value all = lx_jinja_make_list(r, a.kind, a.list->n + b.list->n);
        for (size_t i = 0; i < a.list->n + b.list->n; i++)
            lx_jinja_push(r, all, i < a.list->n ? a.list->items[i] : b.list->items[i - a.list->n]);
        return all;
    }
    if (op == OP_MULTIPLY && a.kind == TEXT && b.kind == WHOLE)
        return repeated(r, a, b.whole);
    if (op == OP_REMAINDER && a.kind == TEXT)
        refuse(r, "formats by %% are not implemented");
    fail(r, "no such operation on a %s and a %s", lx_jinja_kind_name(a), lx_jinja_kind_name(b));
}

static bool compares(run *r, operation op, value a, value b)
{
    switch (op) {
    case OP_EQUAL:
        return lx_jinja_equal(r, a, b);
    case OP_UNEQUAL:
        return !lx_jinja_equal(r, a, b);
    case OP_IN:
        return lx_jinja_contains(r, b, a);
    case OP_NOT_IN:
        return !lx_jinja_contains(r, b, a);
    default:
        break;
    }
    lx_jinja_defined(r, a);
    lx_jinja_defined(r, b);
    int order = lx_jinja_order(r, a, b);
    return op == OP_LESS         ? order < 0
           : op == OP_LESS_EQUAL ? order <= 0
           : op == OP_MORE       ? order > 0
                                 : order >= 0;
}

static value compare(run *r, const node *n)
{
    value left = evaluate(r, n->a);
    for (const node *operand = n->list; operand != NULL; operand = operand->next) {
        value right = evaluate(r, operand->a);
        if (!compares(r, operand->op, left, right))
            return make_bool(false);
        left = right;
    }
    return make_bool(true);
}

static value negate(run *r, value v)
{
    if (v.kind == REAL)
        return (value){.kind = REAL, .real = -v.real};
    if (!is_number(v))
        fail(r, "- of a %s", lx_jinja_kind_name(v));
    return calculate_wholes(r, OP_SUBTRACT, 0, v.kind == WHOLE ? v.whole : v.truth);
}

/* --- calls --- */

static arguments evaluate_arguments(run *r, const node *first)
{
    value all = lx_jinja_make_list(r, LIST, 4);
    table *named = NULL;
    for (const node *n = first; n != NULL; n = n->next) {
        if (n->kind != N_NAMED) {
            lx_jinja_push(r, all, evaluate(r, n));
            continue;
        }
        if (named == NULL)
            named = lx_jinja_make_map(r, MAP).map;
        lx_jinja_put(r, named, (value){.kind = TEXT, .text = &n->text}, evaluate(r, n->a));
    }
    return (arguments){.values = all.list->items, .n = all.list->n, .named = named};
}

/* What a body writes, as a value. */
static value captured(run *r, const node *body, frame *scope)
{
    builder b = {0}, *out = r->out;
    frame *before = r->frame;
    r->out = &b;
    r->frame = scope;
    execute(r, body);
    r->out = out;
    r->frame = before;
    return lx_jinja_built(r, &b);
}

static value call_macro(run *r, const macro *m, const arguments *given)
{
    frame *f = open_frame(r, m->scope), *before = r->frame;
    size_t i = 0, named = 0;
    int leaving = r->leaving;
    r->frame = f;
    for (const node *p = m->node->list; p != NULL; p = p->next, i++) {
        const value *by_name =
            given->named != NULL
                ? lx_jinja_find(r, given->named, (value){.kind = TEXT, .text = &p->text})
                : NULL;
        value v = lx_jinja_undefined(r, p->text.bytes, p->text.n);
        if (i < given->n)
            v = given->values[i];
        else if (by_name != NULL)
            v = *by_name;
        else if (p->a != NULL)
            v = evaluate(r, p->a);
        named += by_name != NULL;
        set_name(r, f, &p->text, v);
    }
    static const span caller_name = {.bytes = "caller", .n = 6};
    const value *caller =
        given->named != NULL ? lx_jinja_find_name(r, given->named, "caller") : NULL;
    if (caller != NULL) {
        set_name(r, f, &caller_name, *caller);
        named++;
    }
    if (given->n > i || (given->named != NULL && given->named->n > named))
        fail(r, "%.*s has no such parameter", (int)m->node->text.n, m->node->text.bytes);
    value out = captured(r, m->node->d, f);
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
    return lx_jinja_built(r, &b);
}

value lx_jinja_call(run *r, value callee, const arguments *given)
{
    if (callee.kind == METHOD)
        return callee.bound->call(r, callee.bound->self, given);
    if (callee.kind == MACRO)
        return call_macro(r, callee.macro, given);
    if (callee.kind == LOOP)
        return call_loop(r, callee.loop, given);
    lx_jinja_defined(r, callee);
    fail(r, "a %s cannot be called", lx_jinja_kind_name(callee));
}

/* --- expressions --- */

static value make_sequence(run *r, const node *n)
{
    value all = lx_jinja_make_list(r, n->kind == N_TUPLE ? TUPLE : LIST, 4);
    for (const node *item = n->list; item != NULL; item = item->next)
        lx_jinja_push(r, all, evaluate(r, item));
    return all;
}

static value make_map(run *r, const node *n)
{
    value all = lx_jinja_make_map(r, MAP);
    for (const node *key = n->list; key != NULL; key = key->next->next)
        lx_jinja_put(r, all.map, evaluate(r, key), evaluate(r, key->next));
    return all;
}

static value apply(run *r, const node *n)
{
    value v = evaluate(r, n->a);
    arguments given = evaluate_arguments(r, n->list);
    r->arena.line = n->line;
    return n->call(r, v, &given);
}

static value evaluate_call(run *r, const node *n)
{
    value callee = evaluate(r, n->a);
    arguments given = evaluate_arguments(r, n->list);
    r->arena.line = n->line;
    return lx_jinja_call(r, callee, &given);
}

static value choose(run *r, const node *n)
{
    if (lx_jinja_is_true(r, evaluate(r, n->a)))
        return evaluate(r, n->b);
    return n->c != NULL ? evaluate(r, n->c) : lx_jinja_undefined(r, "the other value", 15);
}

static value evaluate_here(run *r, const node *n)
{
    value a;
    switch (n->kind) {
    case N_CONSTANT:
        return n->constant;
    case N_TEXT:
        return (value){.kind = TEXT, .text = &n->text};
    case N_NAME:
        return find_variable(r, &n->text);
    case N_LIST:
    case N_TUPLE:
        return make_sequence(r, n);
    case N_MAP:
        return make_map(r, n);
    case N_ATTRIBUTE:
        return lx_jinja_attribute(r, evaluate(r, n->a), (value){.kind = TEXT, .text = &n->text});
    case N_SUBSCRIPT:
        a = evaluate(r, n->a);
        return lx_jinja_subscript(r, a, evaluate(r, n->b));
    case N_SLICE:
        return slice(r, n);
    case N_CALL:
        return evaluate_call(r, n);
    case N_FILTER:
    case N_TEST:
        return apply(r, n);
    case N_NOT:
        return make_bool(!lx_jinja_is_true(r, evaluate(r, n->a)));
    case N_NEGATE:
        return negate(r, lx_jinja_defined(r, evaluate(r, n->a)));
    case N_PLUS:
        return lx_jinja_defined(r, evaluate(r, n->a));
    case N_AND:
        a = evaluate(r, n->a);
        return lx_jinja_is_true(r, a) ? evaluate(r, n->b) : a;
    case N_OR:
        a = evaluate(r, n->a);
        return lx_jinja_is_true(r, a) ? a : evaluate(r, n->b);
    case N_IF_ELSE:
        return choose(r, n);
    case N_BINARY:
        a = evaluate(r, n->a);
        return calculate(r, n->op, a, evaluate(r, n->b));
    case N_COMPARE:
        return compare(r, n);
    default: /* N_BODY_VALUE: the text that the filters of a block are for */
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
    value t = lx_jinja_string(r, v);
    if (r->max_bytes - (r->out->n < r->max_bytes ? r->out->n : r->max_bytes) < t.text->n)
        lx_jinja_fail(&r->arena, LX_ERR_TOO_LARGE, "over %zu bytes of text", r->max_bytes);
    lx_jinja_write(r, r->out, t.text->bytes, t.text->marks, t.text->n);
}

static void run_loop(run *r, const node *n, value over, frame *scope, int depth)
{
    frame *before = r->frame;
    const array *items = lx_jinja_items(r, over);
    if (n->c != NULL) {
        value kept = lx_jinja_make_list(r, LIST, 4);
        for (size_t i = 0; i < items->n; i++) {
            r->frame = open_frame(r, scope);
            assign(r, n->a, items->items[i]);
            if (lx_jinja_is_true(r, evaluate(r, n->c)))
                lx_jinja_push(r, kept, items->items[i]);
        }
        items = kept.list;
    }
    static const span loop_name = {.bytes = "loop", .n = 4};
    loop *l = lx_jinja_alloc(&r->arena, sizeof *l);
    *l = (loop){.node = n, .items = items, .scope = scope, .depth = depth};
    for (l->at = 0; l->at < items->n && r->leaving != 1; l->at++) {
        r->frame = open_frame(r, scope);
        set_name(r, r->frame, &loop_name, (value){.kind = LOOP, .loop = l});
        assign(r, n->a, items->items[l->at]);
        r->leaving = 0;
        execute(r, n->d);
    }
    r->leaving = 0;
    if (items->n == 0 && n->e != NULL) {
        r->frame = open_frame(r, scope);
        execute(r, n->e);
    }
    r->frame = before;
}

/* A block's text through its filters: `filters` ends in N_BODY_VALUE. */
static value filtered(run *r, const node *filters, value v)
{
    if (filters->kind == N_BODY_VALUE)
        return v;
    enter(r, filters);
    value inner = filtered(r, filters->a, v);
    arguments given = evaluate_arguments(r, filters->list);
    r->depth--;
    return filters->call(r, inner, &given);
}

static void execute_set(run *r, const node *n)
{
    value v = n->d == NULL ? evaluate(r, n->b)
                           : filtered(r, n->b, captured(r, n->d, open_frame(r, r->frame)));
    assign(r, n->a, v);
}

static value make_macro(run *r, const node *n)
{
    macro *m = lx_jinja_alloc(&r->arena, sizeof *m);
    *m = (macro){.node = n, .scope = r->frame};
    return (value){.kind = MACRO, .macro = m};
}

static void call_block(run *r, const node *n)
{
    value callee = evaluate(r, n->a->a);
    arguments given = evaluate_arguments(r, n->a->list);
    table *named = lx_jinja_make_map(r, MAP).map;
    for (size_t i = 0; given.named != NULL && i < given.named->n; i++)
        lx_jinja_put(r, named, given.named->entries[i].key, given.named->entries[i].value);
    lx_jinja_put(r, named, lx_jinja_make_name(r, "caller"), make_macro(r, n->b));
    given.named = named;
    write_value(r, lx_jinja_call(r, callee, &given));
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

static void execute_body(run *r, const node *n)
{
    for (const node *child = n->list; child != NULL && r->leaving == 0; child = child->next)
        execute(r, child);
}

static void execute_here(run *r, const node *n)
{
    switch (n->kind) {
    case N_BODY:
        execute_body(r, n);
        break;
    case N_DATA:
        write_value(r, (value){.kind = TEXT, .text = &n->text});
        break;
    case N_OUTPUT:
        write_value(r, evaluate(r, n->a));
        break;
    case N_IF:
        if (lx_jinja_is_true(r, evaluate(r, n->a)))
            execute(r, n->b);
        else if (n->c != NULL)
            execute(r, n->c);
        break;
    case N_FOR:
        run_loop(r, n, evaluate(r, n->b), r->frame, 0);
        break;
    case N_SET:
        execute_set(r, n);
        break;
    case N_MACRO:
        set_name(r, r->frame, &n->text, make_macro(r, n));
        break;
    case N_CALL_BLOCK:
        call_block(r, n);
        break;
    case N_FILTER_BLOCK:
        write_value(r, filtered(r, n->b, captured(r, n->d, open_frame(r, r->frame))));
        break;
    case N_WITH:
        execute_with(r, n);
        break;
    default: /* break, continue */
        r->leaving = n->kind == N_BREAK ? 1 : 2;
    }
}

static void execute(run *r, const node *n)
{
    enter(r, n);
    execute_here(r, n);
    r->depth--;
}

/* --- one rendering --- */

static void set_variables(run *r, const json_t *json, bool client)
{
    value all = json != NULL ? lx_jinja_from_json(r, json, client) : lx_jinja_make_map(r, MAP);
    for (size_t i = 0; all.kind == MAP && i < all.map->n; i++)
        lx_jinja_put(r, &r->frame->names, all.map->entries[i].key, all.map->entries[i].value);
}

/* The text and its marks, in memory of the caller's. */
static void hand_over(run *r, const builder *b, lx_jinja_text *out)
{
    out->n = b->n;
    out->bytes = malloc(b->n + 1);
    out->marks = calloc(1, b->n + 1);
    if (out->bytes == NULL || out->marks == NULL) {
        free(out->bytes);
        free(out->marks);
        lx_jinja_fail(&r->arena, LX_ERR_NO_MEMORY, "no memory");
    }
    if (b->n > 0)
        memcpy(out->bytes, b->bytes, b->n);
    out->bytes[b->n] = '\0';
    if (b->marks != NULL)
        memcpy(out->marks, b->marks, b->n);
}

lx_status lx_jinja_render(const lx_jinja *t, const json_t *own, const json_t *client, int64_t now,
                          size_t max_bytes, lx_jinja_text *out, lx_error *err)
{
    run r = {.now = now, .max_bytes = max_bytes, .arena = {.max = LX_JINJA_MAX_VALUES, .line = 1}};
    if (max_bytes < (LX_JINJA_MAX_VALUES - LX_JINJA_LEAST_VALUES) / LX_JINJA_VALUES_PER_BYTE)
        r.arena.max = LX_JINJA_LEAST_VALUES + LX_JINJA_VALUES_PER_BYTE * max_bytes;
    builder b = {0};
    lx_jinja_text made;
    if (setjmp(r.arena.failed) != 0) {
        if (err != NULL)
            *err = r.arena.err;
        lx_jinja_free_arena(&r.arena);
        return r.arena.err.status;
    }
    r.out = &b;
    r.frame = open_frame(&r, NULL);
    set_variables(&r, client, true);
    set_variables(&r, own, false);
    r.frame = open_frame(&r, r.frame);
    execute(&r, t->body);
    hand_over(&r, &b, &made);
    lx_jinja_free_arena(&r.arena);
    *out = made;
    return LX_OK;
}
