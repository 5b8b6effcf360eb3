/*
 * Byte pair encoding: of all neighbours in a word that a merge joins, the one of the lowest rank is
 * joined, the leftmost first, until none is left. A heap holds the candidates, so a word of n
 * symbols takes O(n log n). Where a candidate has gone stale (a neighbour was joined meanwhile) it
 * is dropped when it comes up.
 *
 * Source: Sennrich et al. 2016, arXiv 1508.07909; the order of ties is that of the `tokenizers`
 * library. Thread: an lx_bpe never changes after loading, an lx_word is one thread's.
 */
#ifndef LINNET_MODEL_TOKENIZERS_BPE_H
#define LINNET_MODEL_TOKENIZERS_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

typedef struct lx_merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX for an empty slot */
    int32_t rank, id;
} lx_merge;

typedef struct lx_bpe {
    lx_merge *table; /* [mask + 1] */
    uint32_t mask;
} lx_bpe;

lx_status lx_bpe_init(lx_bpe *b, size_t n_merges, lx_error *err) LX_MUST_USE;
void lx_bpe_fini(lx_bpe *b); /* a zeroed one is allowed */
/* left + right -> id. A pair that was there takes the new rank. */
void lx_bpe_add(lx_bpe *b, int32_t left, int32_t right, int32_t rank, int32_t id);

/* A word while it is joined. */
typedef struct lx_symbol {
    int32_t id; /* -1: joined to the one before it */
    int32_t before, after;
} lx_symbol;

typedef struct lx_word {
    lx_symbol *symbols;
    uint64_t *heap; /* rank << 32 | position of the left one: the smallest is the next */
    size_t n, capacity, n_heap, heap_capacity;
    lx_status status; /* sticky: NO_MEMORY */
} lx_word;

void lx_word_fini(lx_word *w); /* a zeroed one is allowed */
static inline void lx_word_begin(lx_word *w)
{
    w->n = 0;
}
void lx_word_grow(lx_word *w);
static inline void lx_word_add(lx_word *w, int32_t id)
{
    if (w->n == w->capacity)
        lx_word_grow(w);
    if (w->status == LX_OK)
        w->symbols[w->n++].id = id;
}
/* Joins all pairs that merges join. The symbols that remain have ids other than -1. Takes 16 bytes
   of heap a symbol. */
void lx_bpe_apply(const lx_bpe *b, lx_word *w);

#endif
