/*
 * Drafts: guesses at the tokens that an answer goes on with, so that a step can compute several of
 * them at once (server/engine/drafts.c). No answer depends on a guess: a row is kept only where the
 * token before it is the one that was guessed.
 *
 * A guesser learns from every token that the model draws, and says how likely it takes its guess
 * to be. The random number u of a draw is known before its probabilities: a guesser that knows u
 * guesses the draw itself, not only a likely token. A new guesser is a file here and a line in
 * draft.c.
 *
 * Lessons belong to an owner, since the number of right guesses of an answer reveals them. A
 * drafter keeps the lessons of LX_MOST_OWNERS owners and forgets the owner unused for longest.
 */
#ifndef LINNET_MODEL_DRAFTS_DRAFT_H
#define LINNET_MODEL_DRAFTS_DRAFT_H

#include "model/tasks/task.h"

typedef struct lx_guess {
    int32_t token;
    float sure; /* how likely it is the one, 0 to 1; 0: there is no guess */
} lx_guess;

/* How the ids stand when a token is drawn (lx_sampling). */
typedef enum lx_draw_order {
    LX_DRAW_LIKELIEST, /* nothing is random: the largest logit */
    LX_DRAW_BY_ID,
    LX_DRAW_BY_LOGIT, /* the largest first */
    LX_DRAW_ORDERS
} lx_draw_order;

/* The first id in this order whose cumulative probability exceeds u is drawn, 0 <= u < 1. */
typedef struct lx_draw {
    lx_draw_order order;
    float u;
} lx_draw;

/* That of a row, for the head that the model has. */
lx_draw lx_draw_of(const lx_model *model, const lx_sampling *s);

/* `plan` and the answer's tokens so far, some of which may be guesses themselves; `draw` is that of
   token n. */
typedef struct lx_guess_context {
    const lx_plan *plan;
    const int32_t *tokens; /* [n] */
    int32_t n;
    lx_draw draw;
    const void *owner; /* whose lessons: compared, never looked into; may be NULL */
} lx_guess_context;

typedef struct lx_guesser {
    const char *name;
    size_t memory_bytes; /* of its lessons, zeroed at first */
    lx_guess (*guess)(const void *memory, const lx_guess_context *c);
    /* Token number c->n has been drawn. */
    void (*learn)(void *memory, const lx_guess_context *c, int32_t token);
} lx_guesser;

extern const lx_guesser lx_guesser_image_context, lx_guesser_lookup;

/* How often something happened that could have, of late. */
typedef struct lx_odds {
    uint16_t hits, tries;
} lx_odds;

void lx_odds_count(lx_odds *o, bool hit);
/* Before anything is known the odds are one to two against. */
float lx_odds_of(const lx_odds *o);

enum { LX_MOST_OWNERS = 64 };

/* A guesser with its memory, for one model. Thread: one at a time. */
typedef struct lx_drafter lx_drafter;

/* guesser NULL: the guesser for the model's task. */
lx_status lx_drafter_new(const lx_model *model, const lx_guesser *guesser, lx_drafter **out,
                         lx_error *err) LX_MUST_USE;
void lx_drafter_free(lx_drafter *d); /* NULL is allowed */
const char *lx_drafter_name(const lx_drafter *d);

/* Token number c->n, for which `rule` holds: one that it forces is sure, one that it bans or that
   would end the answer is never guessed. */
lx_guess lx_drafter_guess(lx_drafter *d, const lx_guess_context *c, const lx_constraint *rule);
void lx_drafter_learn(lx_drafter *d, const lx_guess_context *c, int32_t token);

#endif
