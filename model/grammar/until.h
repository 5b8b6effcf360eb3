/* Texts that go on until a mark. */
#ifndef LINNET_MODEL_GRAMMAR_UNTIL_H
#define LINNET_MODEL_GRAMMAR_UNTIL_H

#include "model/grammar/ast.h"

typedef struct lx_passage {
    const char *mark; /* ASCII, or one byte that no UTF-8 text has */
    bool first;       /* the mark counts at the text's begin only, after line feeds */
    int32_t then;     /* the tree after the mark; LX_UNTIL_NEVER: the text has no such mark */
} lx_passage;

enum { LX_UNTIL_MOST = 24 /* bytes of a mark */, LX_UNTIL_NEVER = -1 };

/* Any text without the marks, then one of the marks and its tree; with `may_end` the whole may end
   before a mark. One passage or two. The trees stand at many places, so a large one is a call of a
   rule. */
int32_t lx_text_until(lx_ast *a, const lx_passage *ways, int32_t n, bool may_end);

#endif
