/*
 * The tokens of a vocabulary as a tree of bytes, in the order in which a walk meets its nodes. A
 * walk that finds a node without a way on leaps over all longer tokens at once.
 */
#ifndef LINNET_MODEL_GRAMMAR_WORDS_H
#define LINNET_MODEL_GRAMMAR_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

typedef struct lx_words_node {
    int32_t after; /* the next node that is no longer version of this one */
    int32_t token; /* the first of its tokens in `tokens`; they end where those of node + 1 begin */
    uint16_t depth; /* bytes before its own */
    uint8_t byte;
} lx_words_node;

typedef struct lx_words {
    lx_words_node *nodes;               /* [n_nodes + 1]; the last one only ends the tokens */
    int32_t *tokens;                    /* [n_tokens] ids, sorted by their bytes */
    int32_t n_nodes, n_tokens, deepest; /* deepest: the most bytes of a token */
    int32_t n_ids;                      /* ids of the model, with or without a text */
    /* Tokens that end an answer, and their number; borrowed. Loading a chat may add ends later. */
    const int32_t *ends, *n_ends;
    /* The bytes of a token; NULL: the token has none that an answer can show. */
    const char *(*bytes_of)(const void *context, int32_t id, size_t *n);
    const void *context;
} lx_words;

/* Fills the tree; the members from n_ids on are the caller's and set before. */
lx_status lx_words_make(lx_words *w, lx_error *err) LX_MUST_USE;
void lx_words_fini(lx_words *w);

#endif
