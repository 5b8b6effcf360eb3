/*
 * Grammars of answers: which bytes an answer may have, and so which tokens may come next. A grammar
 * comes from a JSON Schema, a regular expression, GBNF or a list of texts; all become one automaton
 * (automaton.h), whose places are followed token by token (places.h).
 *
 * The place of an answer is a function of its tokens, so a state that is kept needs only the
 * grammar's source. The engine's thread of a model is the only one that follows grammars.
 */
#ifndef LINNET_MODEL_GRAMMAR_GRAMMAR_H
#define LINNET_MODEL_GRAMMAR_GRAMMAR_H

#include "common/status.h"
#include "model/grammar/words.h"

typedef enum lx_shape_kind {
    LX_SHAPE_NONE,
    LX_SHAPE_SCHEMA, /* JSON Schema; an empty text: any JSON object */
    LX_SHAPE_REGEX,
    LX_SHAPE_GBNF,
    LX_SHAPE_CHOICE, /* a JSON list of texts */
    LX_SHAPE_CALLS,  /* calls of tools (calls.h) */
    LX_SHAPE_KINDS
} lx_shape_kind;

enum { LX_SHAPE_MOST_BYTES = 128 << 10 };

/* The source of a grammar. */
typedef struct lx_shape {
    lx_shape_kind kind;
    const char *text;
    size_t bytes;
    const char *field; /* of the request: errors name it */
    const void *owner; /* whose requests share the grammar: compared, never looked into */
} lx_shape;

/* The grammars of one model, with its vocabulary as words. Grammars that no request uses any more
   are kept until they have too many bytes. Thread: any. */
typedef struct lx_grammars lx_grammars;
typedef struct lx_grammar lx_grammar;

/* Of `words` the members from n_ids on are set; its tree is made at the first grammar. */
lx_status lx_grammars_new(const lx_words *words, lx_grammars **out, lx_error *err) LX_MUST_USE;
void lx_grammars_free(lx_grammars *g); /* NULL is allowed; no grammar is in use any more */

/* LX_ERR_INVALID with the shape's field: the source is wrong, unsupported or too large. The caller
   gives the grammar back. */
lx_status lx_grammars_get(lx_grammars *g, const lx_shape *shape, lx_grammar **out,
                          lx_error *err) LX_MUST_USE;
void lx_grammar_give_back(lx_grammar *g);
/* The source, which lives as long as the grammar. */
const lx_shape *lx_grammar_shape(const lx_grammar *g);

/* The answers of one request, which are followed next to each other. */
typedef struct lx_follower lx_follower;

/* Takes the grammar, also when it fails. The grammar begins with token n_before of the lists. */
lx_status lx_follower_new(lx_grammar *g, int32_t n_answers, int32_t n_before, lx_follower **out,
                          lx_error *err) LX_MUST_USE;
void lx_follower_free(lx_follower *f); /* NULL is allowed */
const lx_grammar *lx_follower_grammar(const lx_follower *f);
int64_t lx_follower_bytes(const lx_follower *f); /* with those of the grammar */

/*
 * Sets the bits of the ids that may be token `step`, after tokens[0 .. step - 1]. Between two calls
 * with one list at most its last 32 tokens change. Returns their number, 64 for more, and *only
 * where it is 1. After a token that ends an answer the grammar begins again. 0: no token can
 * follow.
 */
int32_t lx_follower_mask(lx_follower *f, int32_t step, const int32_t *tokens, uint32_t *bits,
                         int32_t *only);
/* Why a mask was empty; NULL: none was. */
const char *lx_follower_failure(const lx_follower *f);

#endif
