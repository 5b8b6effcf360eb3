/* Readers of grammars: each builds a tree (ast.h) whose rule 0 is the whole answer. */
#ifndef LINNET_MODEL_GRAMMAR_READERS_H
#define LINNET_MODEL_GRAMMAR_READERS_H

#include "model/grammar/ast.h"

/* llama.cpp's GBNF: rules NAME ::= ..., of which `root` is the answer. */
void lx_grammar_read_gbnf(lx_ast *a, const char *text, size_t bytes);

/* A character of the set as an answer spells it. */
typedef int32_t (*lx_spell_set)(lx_ast *a, const lx_charset *s);
int32_t lx_spell_plain(lx_ast *a, const lx_charset *s);

/* How a regular expression is used. */
typedef struct lx_regex_use {
    lx_spell_set spell;
    bool search;         /* the texts that have a match in them, not those that match as a whole */
    int32_t least, most; /* characters of a text; most < 0: without a bound */
} lx_regex_use;

/*
 * A regular expression of the part that Python's `re` and ECMAScript read alike: classes, groups,
 * alternatives, repeats, \d \w \s, and ^ and $ at the ends. The ends are those of the expression or
 * of its outermost alternatives. Returns the tree of the texts. \d, \w and \s are ASCII. \D, \W and
 * \S leave out characters about which the two languages differ. To keep the bounds of a text's
 * length, repeats are narrowed all alike, so some texts within the bounds may be missing.
 */
int32_t lx_grammar_read_regex(lx_ast *a, const char *text, size_t bytes, const lx_regex_use *use);

/* The values of a JSON Schema, or any JSON object where the text is empty. */
int32_t lx_grammar_schema_tree(lx_ast *a, const char *text, size_t bytes);
/* A JSON list of the texts of which the answer is one. */
void lx_grammar_read_choice(lx_ast *a, const char *text, size_t bytes);
/* Answers with calls of tools, from the source that lx_calls_source makes. */
void lx_grammar_read_calls(lx_ast *a, const char *text, size_t bytes);

#endif
