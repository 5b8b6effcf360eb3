/*
 * The tree of a grammar, which the readers (GBNF, regular expressions, JSON Schema) build and which
 * automaton.c turns into an automaton. A tree is a number; number 0 is the empty text.
 *
 * Errors are sticky as in lx_buffer: after the first one every call returns 0 and changes nothing.
 */
#ifndef LINNET_MODEL_GRAMMAR_AST_H
#define LINNET_MODEL_GRAMMAR_AST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum {
    LX_AST_MOST = 1 << 18,        /* trees, ranges or bytes of texts of a grammar */
    LX_AST_MOST_RULES = 1 << 13,  /* rules of a grammar */
    LX_AST_MOST_NESTED = 100,     /* how deep groups nest in a source */
    LX_AST_MOST_REPEATS = 100000, /* the largest bound of a repetition */
    LX_MAX_CODEPOINT = 0x10ffff,
};

typedef enum lx_ast_kind {
    LX_AST_EMPTY,
    LX_AST_SET,    /* one character of ranges first .. first + n - 1 */
    LX_AST_TEXT,   /* bytes first .. first + n - 1 of the texts */
    LX_AST_CAT,    /* a sequence: trees first .. first + n - 1 of the lists */
    LX_AST_ALT,    /* one of these trees */
    LX_AST_REPEAT, /* tree `first`, least to most times; most < 0: without a bound */
    LX_AST_CALL    /* rule `first` */
} lx_ast_kind;

typedef struct lx_ast_tree {
    lx_ast_kind kind;
    int32_t first, n, least, most;
} lx_ast_tree;

/* Code points from low to high. */
typedef struct lx_range {
    int32_t low, high;
} lx_range;

/* A growing array. */
typedef struct lx_ast_array {
    void *data;
    int32_t n, room;
} lx_ast_array;

typedef struct lx_ast {
    lx_ast_array trees;  /* lx_ast_tree */
    lx_ast_array ranges; /* lx_range */
    lx_ast_array lists;  /* int32_t */
    lx_ast_array texts;  /* char */
    lx_ast_array rules;  /* int32_t: the tree of each; rule 0 is the root */
    lx_status status;
    lx_error *err;     /* of the caller */
    const char *field; /* of the request: errors name it */
} lx_ast;

void lx_ast_init(lx_ast *a, const char *field, lx_error *err);
void lx_ast_fini(lx_ast *a);
/* Notes an error of the source in the words of a format, unless there is one already; returns 0. */
int32_t lx_ast_fail(lx_ast *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

int32_t lx_ast_set(lx_ast *a, const lx_range *ranges, int32_t n);
int32_t lx_ast_text(lx_ast *a, const char *text, size_t bytes);
int32_t lx_ast_word(lx_ast *a, const char *text); /* NUL-terminated */
/* The trees in sequence (CAT), or one of them (ALT). */
int32_t lx_ast_list(lx_ast *a, lx_ast_kind kind, const int32_t *trees, int32_t n);
int32_t lx_ast_pair(lx_ast *a, lx_ast_kind kind, int32_t one, int32_t other);
int32_t lx_ast_repeat(lx_ast *a, int32_t tree, int32_t least, int32_t most);
int32_t lx_ast_optional(lx_ast *a, int32_t tree);
int32_t lx_ast_call(lx_ast *a, int32_t rule);
/* A new rule, whose tree is the empty text until lx_ast_define. */
int32_t lx_ast_rule(lx_ast *a);
void lx_ast_define(lx_ast *a, int32_t rule, int32_t tree);

/* A list of trees that a reader collects. */
typedef struct lx_ast_trees {
    int32_t *at, n, room;
} lx_ast_trees;
void lx_ast_collect(lx_ast *a, lx_ast_trees *list, int32_t tree);
/* The list as one tree; the list is empty afterwards. */
int32_t lx_ast_take(lx_ast *a, lx_ast_kind kind, lx_ast_trees *list);

/* The number that so many hexadecimal digits (at most 8) at text[*at] write, and *at after them;
   where it is above U+10FFFF, some number above that. */
enum { LX_HEX_MISSING = -1 };
int32_t lx_ast_hex(const char *text, size_t n, size_t *at, int32_t digits);

/* Sets of characters: sorted ranges that do not touch. */
typedef struct lx_charset {
    lx_range at[256];
    int32_t n;
} lx_charset;
void lx_charset_add(lx_ast *a, lx_charset *s, int32_t low, int32_t high);
void lx_charset_join(lx_ast *a, lx_charset *s, const lx_charset *other);
/* All characters that `s` does not have. */
void lx_charset_invert(lx_ast *a, lx_charset *s);
/* Removes low .. high. */
void lx_charset_cut(lx_ast *a, lx_charset *s, int32_t low, int32_t high);
/* Whether the set has the character. */
bool lx_charset_has(const lx_charset *s, int32_t c);

#endif
