/*
 * Unigram (Kudo 2018, arXiv 1804.10959): every piece of the vocabulary has a score, the logarithm
 * of its probability. A word becomes the pieces whose scores have the largest sum. Of equal sums
 * the one is taken whose last piece begins first, as in the `tokenizers` library.
 *
 * A lattice has a node for each byte after which a piece may end. The node knows the best sum of
 * pieces up to there, so a word of n bytes takes O(n times the longest piece) time.
 *
 * Thread: an lx_unigram never changes after loading, an lx_lattice is one thread's.
 */
#ifndef LINNET_MODEL_TOKENIZERS_UNIGRAM_H
#define LINNET_MODEL_TOKENIZERS_UNIGRAM_H

#include "model/tokenizers/trie.h"

typedef struct lx_unigram {
    lx_trie trie;   /* of all pieces; the values are their ids */
    double *scores; /* by id */
    double unknown; /* the score of a character that is no piece */
} lx_unigram;

/* For n pieces of n_bytes bytes together. */
lx_status lx_unigram_init(lx_unigram *u, int32_t n, size_t n_bytes, lx_error *err) LX_MUST_USE;
void lx_unigram_fini(lx_unigram *u); /* a zeroed one is allowed */
/* Piece `id`. An empty piece is never found. The result is the id of the same piece, which stays,
   or -1. */
int32_t lx_unigram_add(lx_unigram *u, int32_t id, const char *text, size_t n, double score);

typedef struct lx_lattice_node {
    double score;
    int32_t id;
    int32_t link; /* within the best path the node of the next piece's end, -1 after the last */
} lx_lattice_node;

typedef struct lx_lattice {
    lx_lattice_node *nodes; /* [n + 1] for a word of n bytes */
    size_t capacity;
    int32_t first; /* the end of the first piece of the best path */
} lx_lattice;

void lx_lattice_fini(lx_lattice *l); /* a zeroed one is allowed */

/* Finds the best path through text[n], UTF-8, n > 0. Special tokens are never pieces of it.
   `unknown` is the id of a character that is no piece; with -1 such a character is LX_ERR_INVALID.
   LX_ERR_NO_MEMORY. */
lx_status lx_unigram_apply(const lx_unigram *u, const uint8_t *specials, int32_t unknown,
                           const char *text, size_t n, lx_lattice *l, lx_error *err) LX_MUST_USE;

#endif
