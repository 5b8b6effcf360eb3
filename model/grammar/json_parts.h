/* Parts of JSON texts as trees, which schemas put together; numbers within bounds: json_numbers.h.
 */
#ifndef LINNET_MODEL_GRAMMAR_JSON_PARTS_H
#define LINNET_MODEL_GRAMMAR_JSON_PARTS_H

#include "model/grammar/ast.h"

/* Rules that are made when they are first called; 0: not made yet. */
typedef struct lx_json_rules {
    int32_t space, string, number, value, object, array;
    bool python; /* its words stand for JSON's */
} lx_json_rules;

/* White space where JSON allows it: none, one blank, or a line end and an indent. */
int32_t lx_json_space(lx_ast *a, lx_json_rules *r);
int32_t lx_json_string(lx_ast *a, lx_json_rules *r);
int32_t lx_json_number(lx_ast *a, lx_json_rules *r);
int32_t lx_json_boolean(lx_ast *a, const lx_json_rules *r);
int32_t lx_json_null(lx_ast *a, const lx_json_rules *r);
int32_t lx_json_any_value(lx_ast *a, lx_json_rules *r);
int32_t lx_json_any_object(lx_ast *a, lx_json_rules *r);
int32_t lx_json_any_array(lx_ast *a, lx_json_rules *r);

/* A character of the set inside a string, with an escape where JSON needs one (lx_spell_set). */
int32_t lx_json_spell(lx_ast *a, const lx_charset *s);
/* least to most characters in quotes; most < 0: without a bound. */
int32_t lx_json_string_of(lx_ast *a, int32_t least, int32_t most);
int32_t lx_json_quoted(lx_ast *a, int32_t inside);
/* open, least to most items with commas between them, close; most < 0: without a bound. */
int32_t lx_json_items(lx_ast *a, lx_json_rules *r, int32_t item, int32_t least, int32_t most);
/* A comma, white space and the tree. */
int32_t lx_json_next(lx_ast *a, lx_json_rules *r, int32_t tree);

enum { LX_JSON_MOST_DIGITS = 15 /* of a number */ };

#endif
