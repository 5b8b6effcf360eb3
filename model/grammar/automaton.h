/*
 * A grammar as an automaton over bytes that calls its rules, as a program calls functions.
 *
 * A node reads one byte of a range, branches, calls a rule, or ends a rule (node 0). A place in a
 * text is a set of stacks: each has a node on top and, below, the nodes to which calls return. So
 * an ambiguous grammar is followed in all its readings at once.
 */
#ifndef LINNET_MODEL_GRAMMAR_AUTOMATON_H
#define LINNET_MODEL_GRAMMAR_AUTOMATON_H

#include "model/grammar/ast.h"

enum {
    LX_AUTOMATON_MOST_NODES = 1 << 18,
    LX_AUTOMATON_MOST_DEPTH = 200, /* calls that are open at once; deeper texts are not drawn */
};

typedef enum lx_node_kind { LX_NODE_END, LX_NODE_BYTE, LX_NODE_BRANCH, LX_NODE_CALL } lx_node_kind;

typedef struct lx_node {
    uint8_t kind, low, high; /* BYTE: the range */
    int32_t next;            /* BRANCH: one way, CALL: where the call returns to */
    int32_t other;           /* BRANCH: the other way, CALL: the rule's first node */
} lx_node;

typedef struct lx_automaton {
    lx_node *nodes; /* [n_nodes] */
    int32_t n_nodes, first;
    /* [n_nodes] A node from which texts of at most `reach` bytes continue as from this node. So all
       copies of a part that repeats often share the masks of one copy. */
    int32_t *alike;
    int32_t *calls; /* [n_nodes] calls that must be open at once to reach the end of the rule */
    uint8_t class_of[256]; /* bytes between which the grammar does not tell have one class */
    uint8_t byte_of[256];  /* [n_classes] a byte of each class */
    int32_t n_classes;
} lx_automaton;

/* `reach` is the most bytes of a token. LX_ERR_INVALID with the tree's field: the grammar is too
   large, recursive to the left, or has no text at all. */
lx_status lx_automaton_make(lx_automaton *out, lx_ast *a, int32_t reach) LX_MUST_USE;
void lx_automaton_fini(lx_automaton *m);

#endif
