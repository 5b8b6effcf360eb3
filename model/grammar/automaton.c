/*
 * Trees to automata (see automaton.h).
 *
 * Nodes are made from the end of a rule to its begin, so that each knows the next node. A rule
 * without loops is copied to the place of its call. Masks are found per rule, so a mask is known
 * sooner when tokens cross few rules.
 */
#include "model/grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_INLINE = 24, MOST_INLINE_DEPTH = 16, MOST_ROUNDS = 200, NEVER = 1 << 20 };

/* Of a rule: how many trees a copy of it would have; NEVER: it loops, calls itself, or is large. */
typedef enum size_state { UNKNOWN = -1, BUSY = -2 } size_state;

typedef struct maker {
    lx_ast *a;
    lx_automaton *out;
    int32_t room, reach, inlined; /* `inlined`: how deep copies of rules nest now */
    int32_t *entry;               /* [rules] first node, -1: not made yet */
    int32_t *size;                /* [rules] */
    int32_t *begins, n_made;      /* [n_made] the first nodes of the rules, as they were made */
    bool *empty;                  /* [n_nodes] the end of the rule is there without a byte */
} maker;

static const lx_ast_tree *tree_at(const maker *k, int32_t tree)
{
    return (const lx_ast_tree *)k->a->trees.data + tree;
}

static const int32_t *list_of(const maker *k, const lx_ast_tree *t)
{
    return (const int32_t *)k->a->lists.data + t->first;
}

static int32_t rule_tree(const maker *k, int32_t rule)
{
    return ((const int32_t *)k->a->rules.data)[rule];
}

static int32_t add_node(maker *k, lx_node node)
{
    lx_automaton *m = k->out;
    if (k->a->status != LX_OK)
        return 0;
    if (m->n_nodes == LX_AUTOMATON_MOST_NODES)
        return lx_ast_fail(k->a, "the grammar is too large: it has more than %d states",
                           LX_AUTOMATON_MOST_NODES);
    if (m->n_nodes == k->room) {
        int32_t room = k->room > 0 ? 2 * k->room : 256;
        lx_node *nodes = realloc(m->nodes, (size_t)room * sizeof *nodes);
        m->nodes = nodes != NULL ? nodes : m->nodes;
        int32_t *alike = realloc(m->alike, (size_t)room * sizeof *alike);
        m->alike = alike != NULL ? alike : m->alike;
        if (nodes == NULL || alike == NULL) {
            k->a->status = lx_fail(k->a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
            return 0;
        }
        k->room = room;
    }
    m->nodes[m->n_nodes] = node;
    m->alike[m->n_nodes] = m->n_nodes;
    return m->n_nodes++;
}

static int32_t add_branch(maker *k, int32_t one, int32_t other)
{
    return add_node(k, (lx_node){LX_NODE_BRANCH, 0, 0, one, other});
}

/* --- characters as bytes --- */

/* A set of characters that is being made. */
typedef struct set {
    int32_t begin;    /* its first node */
    int32_t next;     /* after the character */
    int32_t branches; /* its alternatives so far, -1: none */
} set;

/* A node of the set that reads the byte and continues there; equal ones are shared. */
static int32_t byte_node(maker *k, const set *s, uint8_t low, uint8_t high, int32_t next)
{
    for (int32_t i = s->begin; i < k->out->n_nodes; i++) {
        const lx_node *n = &k->out->nodes[i];
        if (n->kind == LX_NODE_BYTE && n->low == low && n->high == high && n->next == next)
            return i;
    }
    return add_node(k, (lx_node){LX_NODE_BYTE, low, high, next, 0});
}

static int32_t encode(int32_t c, uint8_t *bytes)
{
    int32_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int32_t i = n - 1; i > 0; i--, c >>= 6)
        bytes[i] = (uint8_t)(0x80 | (c & 0x3f));
    bytes[0] = (uint8_t)(lead[n] | c);
    return n;
}

/* Characters of equal length whose bytes are any of the ranges between those of low and high. */
static void add_sequence(maker *k, set *s, int32_t low, int32_t high)
{
    uint8_t from[4] = {0}, to[4] = {0}; /* of equal length */
    int32_t n = encode(low, from), at = s->next;
    (void)encode(high, to);
    for (int32_t i = n - 1; i >= 0; i--)
        at = byte_node(k, s, from[i], to[i], at);
    s->branches = s->branches < 0 ? at : add_branch(k, at, s->branches);
}

/* Cuts the range where bytes after the first one would not have all values between. */
static void add_range(maker *k, set *s, int32_t low, int32_t high)
{
    static const int32_t last[] = {0x7f, 0x7ff, 0xffff};
    for (int32_t i = 0; i < 3; i++) {
        if (low <= last[i] && high > last[i]) {
            add_range(k, s, low, last[i]);
            add_range(k, s, last[i] + 1, high);
            return;
        }
    }
    for (int32_t i = 1; i < 4 && high >= 0x80; i++) {
        int32_t mask = (1 << (6 * i)) - 1;
        if ((low & ~mask) == (high & ~mask))
            break;
        if ((low & mask) != 0) {
            add_range(k, s, low, low | mask);
            add_range(k, s, (low | mask) + 1, high);
            return;
        }
        if ((high & mask) != mask) {
            add_range(k, s, low, (high & ~mask) - 1);
            add_range(k, s, high & ~mask, high);
            return;
        }
    }
    add_sequence(k, s, low, high);
}

/* No character of the set is a half of a pair of UTF-16. */
static int32_t make_set(maker *k, const lx_ast_tree *t, int32_t next)
{
    enum { FIRST_HALF = 0xd800, LAST_HALF = 0xdfff };
    set s = {k->out->n_nodes, next, -1};
    for (int32_t i = 0; i < t->n && k->a->status == LX_OK; i++) {
        lx_range r = ((const lx_range *)k->a->ranges.data)[t->first + i];
        if (r.low < FIRST_HALF && r.high >= FIRST_HALF)
            add_range(k, &s, r.low, FIRST_HALF - 1);
        else if (r.high < FIRST_HALF || r.low > LAST_HALF)
            add_range(k, &s, r.low, r.high);
        if (r.low <= LAST_HALF && r.high > LAST_HALF)
            add_range(k, &s, LAST_HALF + 1, r.high);
    }
    if (s.branches < 0) /* no text: a branch that leads nowhere */
        return add_branch(k, k->out->n_nodes, k->out->n_nodes);
    return s.branches;
}

/* --- trees as nodes --- */

static int32_t make(maker *k, int32_t tree, int32_t next);

/* Copies of a part before `at`. From each an optional part may go to `exit`, -1: none may. */
static int32_t make_copies(maker *k, int32_t tree, int32_t n, int32_t at, int32_t exit)
{
    int32_t begin = 0, size = 0;
    for (int32_t i = 1; i <= n && k->a->status == LX_OK; i++) {
        int32_t first = k->out->n_nodes;
        at = make(k, tree, at);
        if (exit >= 0)
            at = add_branch(k, at, exit);
        if (i == k->reach + 1) {
            begin = first;
            size = k->out->n_nodes - first;
        }
        for (int32_t j = 0; i > k->reach + 1 && j < size && k->a->status == LX_OK; j++)
            k->out->alike[first + j] = k->out->alike[begin + j];
    }
    return at;
}

static int32_t make_repeat(maker *k, const lx_ast_tree *t, int32_t next)
{
    int32_t tree = t->first, least = t->least, most = t->most;
    int32_t at = next;
    if (most < 0) {
        at = add_branch(k, next, next);
        int32_t body = make(k, tree, at);
        if (k->a->status == LX_OK)
            k->out->nodes[at].next = body;
    } else {
        at = make_copies(k, tree, most - least, next, next);
    }
    return make_copies(k, tree, least, at, -1);
}

static int32_t size_of_rule(maker *k, int32_t rule, int32_t depth);

static int32_t size_of(maker *k, int32_t tree, int32_t depth)
{
    const lx_ast_tree *t = tree_at(k, tree);
    int32_t n = 1;
    if (depth > LX_AST_MOST_NESTED)
        return NEVER;
    if (t->kind == LX_AST_SET || t->kind == LX_AST_TEXT)
        return t->n;
    if (t->kind == LX_AST_CALL)
        return size_of_rule(k, t->first, depth + 1);
    if (t->kind == LX_AST_REPEAT) {
        int32_t one = size_of(k, t->first, depth + 1);
        return t->most < 0 || t->most > MOST_INLINE || one > MOST_INLINE ? NEVER : one * t->most;
    }
    for (int32_t i = 0; (t->kind == LX_AST_CAT || t->kind == LX_AST_ALT) && i < t->n; i++) {
        n += size_of(k, list_of(k, t)[i], depth + 1);
        if (n > MOST_INLINE)
            return NEVER;
    }
    return n;
}

static int32_t size_of_rule(maker *k, int32_t rule, int32_t depth)
{
    if (k->size[rule] == BUSY || depth > LX_AST_MOST_NESTED)
        return NEVER;
    if (k->size[rule] == UNKNOWN) {
        k->size[rule] = BUSY;
        int32_t size = size_of(k, rule_tree(k, rule), depth);
        k->size[rule] = size > MOST_INLINE ? NEVER : size;
    }
    return k->size[rule];
}

static int32_t make_call(maker *k, int32_t rule, int32_t next)
{
    if (k->inlined < MOST_INLINE_DEPTH && size_of_rule(k, rule, 0) < NEVER) {
        k->inlined++;
        int32_t first = make(k, rule_tree(k, rule), next);
        k->inlined--;
        return first;
    }
    return add_node(k, (lx_node){LX_NODE_CALL, 0, 0, next, rule}); /* see link_calls */
}

static int32_t make(maker *k, int32_t tree, int32_t next)
{
    const lx_ast_tree t = *tree_at(k, tree);
    int32_t at = next;
    if (k->a->status != LX_OK)
        return 0;
    switch (t.kind) {
    case LX_AST_EMPTY:
        return next;
    case LX_AST_SET:
        return make_set(k, &t, next);
    case LX_AST_TEXT:
        for (int32_t i = t.n - 1; i >= 0; i--) {
            uint8_t byte = ((const uint8_t *)k->a->texts.data)[t.first + i];
            at = add_node(k, (lx_node){LX_NODE_BYTE, byte, byte, at, 0});
        }
        return at;
    case LX_AST_CAT:
        for (int32_t i = t.n - 1; i >= 0; i--)
            at = make(k, list_of(k, &t)[i], at);
        return at;
    case LX_AST_ALT:
        at = t.n > 0 ? make(k, list_of(k, &t)[t.n - 1], next)
                     : add_branch(k, k->out->n_nodes, k->out->n_nodes);
        for (int32_t i = t.n - 2; i >= 0; i--)
            at = add_branch(k, make(k, list_of(k, &t)[i], next), at);
        return at;
    case LX_AST_REPEAT:
        return make_repeat(k, &t, next);
    case LX_AST_CALL:
        break;
    }
    return make_call(k, t.first, next);
}

/* --- checks --- */

/* How many calls must be open to come from the node to its rule's end, and whether that needs no
   byte, both by the nodes after it. Whether one of them changed. */
static bool improve(maker *k, int32_t i)
{
    lx_automaton *m = k->out;
    const lx_node *n = &m->nodes[i];
    int32_t calls = m->calls[n->next];
    bool empty = n->kind != LX_NODE_BYTE && k->empty[n->next];
    if (n->kind == LX_NODE_BRANCH) {
        calls = m->calls[n->other] < calls ? m->calls[n->other] : calls;
        empty |= k->empty[n->other];
    } else if (n->kind == LX_NODE_CALL) {
        bool last =
            m->nodes[n->next].kind == LX_NODE_END; /* the call needs no place to return to */
        int32_t inside = m->calls[n->other] + !last;
        calls = inside > calls ? inside : calls;
        empty &= k->empty[n->other];
    }
    bool better = calls < m->calls[i] || empty != k->empty[i];
    m->calls[i] = calls < m->calls[i] ? calls : m->calls[i];
    k->empty[i] |= empty;
    return better;
}

/* In the order of making, a node comes before the nodes that lead to it. */
static int32_t improve_rule(maker *k, int32_t made)
{
    int32_t changed = 0;
    int32_t end = made + 1 < k->n_made ? k->begins[made + 1] : k->out->n_nodes;
    for (int32_t i = k->begins[made]; i < end; i++)
        changed |= improve(k, i);
    return changed;
}

static lx_status measure(maker *k)
{
    lx_automaton *m = k->out;
    m->calls = malloc((size_t)m->n_nodes * sizeof *m->calls);
    k->empty = calloc((size_t)m->n_nodes, sizeof *k->empty);
    if (m->calls == NULL || k->empty == NULL)
        return lx_fail(k->a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
    for (int32_t i = 0; i < m->n_nodes; i++)
        m->calls[i] = NEVER;
    m->calls[0] = 0;
    k->empty[0] = true;
    for (int32_t round = 0, changed = 1; changed != 0 && round < MOST_ROUNDS; round++) {
        changed = 0;
        for (int32_t rule = k->n_made - 1; rule >= 0; rule--)
            changed |= improve_rule(k, rule);
        for (int32_t rule = 0; rule < k->n_made; rule++)
            changed |= improve_rule(k, rule);
    }
    if (m->calls[m->first] > LX_AUTOMATON_MOST_DEPTH)
        (void)lx_ast_fail(k->a, "the grammar has no text: nothing ends it within %d nested rules",
                          LX_AUTOMATON_MOST_DEPTH);
    return k->a->status;
}

/* A depth-first search for a rule that reaches itself without a byte. */
typedef struct search {
    maker *k;
    int32_t *rule_at; /* [n_nodes] the rule that begins there, or -1 */
    uint8_t *seen;    /* [rules] 1: on the way, 2: done */
    int32_t *stamp;   /* [n_nodes] the rule that looked at the node last */
    int32_t *stack;   /* [n_nodes] nodes of all rules on the way */
    int32_t n;
} search;

static bool is_left_recursive(search *s, int32_t rule);

/* Takes the nodes above `base` from the stack. */
static bool look_at_nodes(search *s, int32_t rule, int32_t base)
{
    const lx_automaton *m = s->k->out;
    while (s->n > base) {
        int32_t i = s->stack[--s->n];
        const lx_node *n = &m->nodes[i];
        if (s->stamp[i] == rule || n->kind == LX_NODE_END || n->kind == LX_NODE_BYTE)
            continue;
        s->stamp[i] = rule;
        bool call = n->kind == LX_NODE_CALL;
        if (call && is_left_recursive(s, s->rule_at[n->other]))
            return true;
        if (!call)
            s->stack[s->n++] = n->other;
        if (!call || s->k->empty[n->other])
            s->stack[s->n++] = n->next;
    }
    return false;
}

static bool is_left_recursive(search *s, int32_t rule)
{
    if (rule < 0 || s->seen[rule] != 0)
        return rule >= 0 && s->seen[rule] == 1;
    s->seen[rule] = 1;
    int32_t base = s->n;
    s->stack[s->n++] = s->k->entry[rule];
    bool found = look_at_nodes(s, rule, base);
    s->seen[rule] = 2;
    return found;
}

static lx_status check_left(maker *k)
{
    int32_t n = k->out->n_nodes, n_rules = k->a->rules.n;
    search s = {.k = k,
                .rule_at = malloc((size_t)n * sizeof(int32_t)),
                .seen = calloc((size_t)n_rules, 1),
                .stamp = malloc((size_t)n * sizeof(int32_t)),
                .stack = malloc((2 * (size_t)n + (size_t)n_rules) * sizeof(int32_t))};
    lx_status st = LX_OK;
    if (s.rule_at == NULL || s.seen == NULL || s.stamp == NULL || s.stack == NULL)
        st = lx_fail(k->a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
    for (int32_t i = 0; i < n && st == LX_OK; i++)
        s.rule_at[i] = s.stamp[i] = -1;
    for (int32_t i = 0; i < n_rules && st == LX_OK; i++)
        if (k->entry[i] > 0)
            s.rule_at[k->entry[i]] = i;
    for (int32_t i = 0; i < n_rules && st == LX_OK; i++) {
        if (k->entry[i] > 0 && is_left_recursive(&s, i)) {
            (void)lx_ast_fail(k->a, "the grammar is recursive to the left: a rule begins with "
                                    "itself; let it end with itself");
            st = k->a->status;
        }
    }
    free(s.rule_at);
    free(s.seen);
    free(s.stamp);
    free(s.stack);
    return st;
}

/* --- the whole --- */

/* A rule needs an entry of its own, so that no two of them begin at one node. */
static void make_rule(maker *k, int32_t rule)
{
    k->begins[k->n_made++] = k->out->n_nodes;
    int32_t first = make(k, rule_tree(k, rule), 0);
    k->entry[rule] = add_branch(k, first, first);
}

/* Makes the rules that calls name, until there are no more, and points the calls at them. */
static void make_rules(maker *k)
{
    (void)add_node(k, (lx_node){LX_NODE_END, 0, 0, 0, 0});
    make_rule(k, 0);
    for (int32_t i = 1; i < k->out->n_nodes && k->a->status == LX_OK; i++) {
        int32_t rule = k->out->nodes[i].other;
        if (k->out->nodes[i].kind != LX_NODE_CALL)
            continue;
        if (k->entry[rule] < 0)
            make_rule(k, rule);
        k->out->nodes[i].other = k->entry[rule];
    }
    k->out->first = k->a->status == LX_OK ? k->entry[0] : 0;
}

static void make_classes(lx_automaton *m)
{
    bool begins[257] = {true};
    for (int32_t i = 0; i < m->n_nodes; i++) {
        if (m->nodes[i].kind == LX_NODE_BYTE)
            begins[m->nodes[i].low] = begins[m->nodes[i].high + 1] = true;
    }
    for (int32_t byte = 0; byte < 256; byte++) {
        if (begins[byte])
            m->byte_of[m->n_classes++] = (uint8_t)byte;
        m->class_of[byte] = (uint8_t)(m->n_classes - 1);
    }
}

lx_status lx_automaton_make(lx_automaton *out, lx_ast *a, int32_t reach)
{
    *out = (lx_automaton){0};
    if (a->status != LX_OK)
        return a->status;
    size_t n_rules = (size_t)a->rules.n;
    maker k = {.a = a,
               .out = out,
               .reach = reach,
               .entry = calloc(n_rules, sizeof(int32_t)),
               .size = malloc(n_rules * sizeof(int32_t)),
               .begins = malloc(n_rules * sizeof(int32_t))};
    lx_status st = k.entry != NULL && k.size != NULL && k.begins != NULL
                       ? LX_OK
                       : lx_fail(a->err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
    for (size_t i = 0; i < n_rules && st == LX_OK; i++)
        k.entry[i] = k.size[i] = UNKNOWN;
    if (st == LX_OK) {
        make_rules(&k);
        st = a->status;
    }
    if (st == LX_OK)
        st = measure(&k);
    if (st == LX_OK)
        st = check_left(&k);
    if (st == LX_OK)
        make_classes(out);
    free(k.entry);
    free(k.size);
    free(k.begins);
    free(k.empty);
    return st;
}

void lx_automaton_fini(lx_automaton *m)
{
    free(m->nodes);
    free(m->alike);
    free(m->calls);
    *m = (lx_automaton){0};
}
