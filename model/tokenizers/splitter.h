/*
 * Pre-tokenizers: a text is cut into pieces, stage by stage; the last stage's pieces are encoded
 * one by one, and no token crosses the border of two pieces.
 */
#ifndef LINNET_MODEL_TOKENIZERS_SPLITTER_H
#define LINNET_MODEL_TOKENIZERS_SPLITTER_H

#include "common/buffer.h"
#include "model/tokenizers/regex.h"

/* What becomes of the matches of an expression, which lie between pieces of text. */
typedef enum lx_split_behavior {
    LX_SPLIT_REMOVED,
    LX_SPLIT_ISOLATED,             /* a piece each */
    LX_SPLIT_MERGED_WITH_PREVIOUS, /* the end of the piece before */
    LX_SPLIT_MERGED_WITH_NEXT,
    LX_SPLIT_CONTIGUOUS, /* matches that touch are one piece */
} lx_split_behavior;

typedef enum lx_prepend_scheme {
    LX_PREPEND_NEVER,
    LX_PREPEND_FIRST, /* at the beginning of the whole text only */
    LX_PREPEND_ALWAYS
} lx_prepend_scheme;

/* In this order: bytes become letters, blanks are replaced, `mark` is put before, the piece is cut.
 */
typedef struct lx_split_stage {
    bool writes_letters; /* letters.h */
    char mark[5]; /* one character; "" for none. Not put before a piece that begins with it */
    bool replaces_blanks;
    lx_prepend_scheme prepend;
    lx_regex *regex; /* owned; NULL: the piece stays whole */
    lx_split_behavior behavior;
    bool invert; /* the text between the matches counts as match */
} lx_split_stage;

enum { LX_SPLIT_MAX_STAGES = 8 };

typedef struct lx_splitter {
    lx_split_stage stages[LX_SPLIT_MAX_STAGES];
    int n_stages;
    bool gives_letters; /* a stage writes letters, so the pieces are letters */
} lx_splitter;

void lx_splitter_fini(lx_splitter *s);

/* The receiver of pieces, and the memory of a run. One thread. */
typedef struct lx_split_run {
    const lx_splitter *splitter;
    lx_regex_run *regex_run;
    lx_buffer texts[LX_SPLIT_MAX_STAGES]; /* pieces that a stage rewrites */
    lx_status (*piece)(void *to, const char *text, size_t n, lx_error *err);
    void *to;
    lx_error *err;
} lx_split_run;

/* Cuts text[n]. `at_start`: the text begins here. Ends with the first error of piece(). */
lx_status lx_split(lx_split_run *run, const char *text, size_t n, bool at_start) LX_MUST_USE;

#endif
