/* Lists of texts of which an answer is one: enum values and choices. */
#ifndef LINNET_MODEL_GRAMMAR_TEXTS_H
#define LINNET_MODEL_GRAMMAR_TEXTS_H

#include "model/grammar/ast.h"

typedef struct lx_grammar_text {
    char *bytes; /* owned */
    size_t n;
} lx_grammar_text;

typedef struct lx_grammar_texts {
    lx_grammar_text *at;
    int32_t n, room;
} lx_grammar_texts;

/* Adds a copy of the text. After an error of the tree it does nothing. */
void lx_grammar_texts_add(lx_ast *a, lx_grammar_texts *list, const char *text, size_t n);
/* The list as a tree, in which texts that begin alike share their beginning. So a place in an
   answer has at most 256 ways to go on, however many texts there are. The list is empty
   afterwards. */
int32_t lx_grammar_texts_take(lx_ast *a, lx_grammar_texts *list);

#endif
