/*
 * Added tokens: texts that are found before all other steps: the leftmost first, and of several at
 * one place the longest. The rest of the text lies between them. Some are looked for in the text as
 * it came, some in the normalized text, so there are two of these.
 */
#ifndef LINNET_MODEL_TOKENIZERS_ADDED_H
#define LINNET_MODEL_TOKENIZERS_ADDED_H

#include <stdbool.h>

#include "model/tokenizers/trie.h"

enum { LX_ADDED_MAX = 1 << 16 };

typedef struct lx_added_token {
    int32_t id;
    bool special;
    bool single_word;    /* not inside a word */
    bool lstrip, rstrip; /* takes the white space before, after it */
} lx_added_token;

typedef struct lx_added {
    lx_trie trie; /* the values are places in `tokens` */
    lx_added_token *tokens;
    int32_t n;
} lx_added;

/* A find: text between tokens (id -1) or a token. */
typedef struct lx_added_span {
    int32_t id;
    size_t start, end;
} lx_added_span;

/* A walk over a text; zeroed but for text, marks and n. */
typedef struct lx_added_walk {
    const char *text;
    const char *marks; /* [n]: a special token has no byte with a mark of 1; NULL: no marks */
    size_t n;
    bool plain_specials; /* names of special tokens are text */
    size_t at, done;     /* where the search continues, the end of the returned text */
    lx_added_span later; /* a token found after text that is returned first */
    bool has_later;
} lx_added_walk;

void lx_added_fini(lx_added *a); /* a zeroed one is allowed */

/* The next span, false at the end. Empty text is not given. */
bool lx_added_next(const lx_added *a, lx_added_walk *w, lx_added_span *out);

#endif
