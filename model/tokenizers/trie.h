/*
 * A trie over bytes: RWKV's vocabulary, pieces of Unigram, added tokens. Edges lie in one hash
 * table keyed by (node, byte); the root's are an array, so that a byte no text begins with costs
 * one load.
 */
#ifndef LINNET_MODEL_TOKENIZERS_TRIE_H
#define LINNET_MODEL_TOKENIZERS_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

typedef struct lx_trie_edge {
    uint32_t key; /* node * 256 + byte; 0 for an empty slot, since no edge of the root is here */
    uint32_t node;
} lx_trie_edge;

typedef struct lx_trie {
    uint32_t root[256];  /* the child, 0 for none */
    lx_trie_edge *edges; /* [mask + 1] */
    uint32_t mask;
    int32_t *values; /* [n_nodes] what ends in the node, -1 for nothing */
    uint32_t n_nodes, max_nodes;
} lx_trie;

/* For texts of n_bytes bytes together, at most 2^24 - 2. */
lx_status lx_trie_init(lx_trie *t, size_t n_bytes, lx_error *err) LX_MUST_USE;
void lx_trie_fini(lx_trie *t); /* a zeroed one is allowed */

/* Adds text[n], n > 0. Is the value that stood there before, which is kept, or -1. */
int32_t lx_trie_add(lx_trie *t, const char *text, size_t n, int32_t value);

/* The node after `node` and one more byte, 0 for none; node 0 is the root. */
uint32_t lx_trie_next(const lx_trie *t, uint32_t node, unsigned char byte);

/* The value of the longest text that text[n] begins with and its length; -1 when none does. */
int32_t lx_trie_longest(const lx_trie *t, const char *text, size_t n, size_t *length);

#endif
