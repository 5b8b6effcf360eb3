/*
 * The places in a grammar's texts, and the tokens that may follow each.
 *
 * A place is a set of stacks of the automaton; equal places have one number. A walk over the
 * vocabulary's tree finds the mask of a place. The walk first takes the top of a stack alone: this
 * mask is called near. Tokens that stay within the top's rule are allowed whatever rule called it.
 * Only for tokens that leave the rule does a second walk look at the caller. So the inside of a
 * string has one near mask, wherever in a text the string stands.
 *
 * All memory is fixed at the beginning. When it is full, lx_places_clear forgets everything, all
 * numbers become invalid, and a text is followed again from its begin or from a saved place. So no
 * result depends on earlier calls. Thread: one at a time.
 */
#ifndef LINNET_MODEL_GRAMMAR_PLACES_H
#define LINNET_MODEL_GRAMMAR_PLACES_H

#include "model/grammar/automaton.h"
#include "model/grammar/words.h"

typedef struct lx_places lx_places;

enum {
    LX_PLACE_DEAD = 0,      /* no text of the grammar begins so */
    LX_PLACES_FULL = -1,    /* clear and begin again */
    LX_PLACES_TOO_MUCH = -2 /* the grammar is too ambiguous to be followed */
};

/* Both are borrowed. */
lx_status lx_places_new(const lx_automaton *m, const lx_words *w, lx_places **out,
                        lx_error *err) LX_MUST_USE;
void lx_places_free(lx_places *p); /* NULL is allowed */
void lx_places_clear(lx_places *p);
/* Bytes that one grammar's places may need in memory. */
int64_t lx_places_bytes(const lx_words *w);

/* Numbers of places, or an error below 0. */
int32_t lx_places_first(lx_places *p);
int32_t lx_places_step(lx_places *p, int32_t place, uint8_t byte);
/* After the bytes of a token; DEAD for a token without bytes. */
int32_t lx_places_step_token(lx_places *p, int32_t place, int32_t id);
/* Whether a text may end there. */
bool lx_places_may_end(const lx_places *p, int32_t place);
/* The one byte that may follow, -1: none or several may, or the text may end. */
int32_t lx_places_forced_byte(lx_places *p, int32_t place);

/* Writes a place that lx_places_restore finds again after lx_places_clear. Returns the number of
   words; -1: there is not so much room. */
int32_t lx_places_save(const lx_places *p, int32_t place, int32_t *to, int32_t room);
int32_t lx_places_restore(lx_places *p, const int32_t *from);
int32_t lx_places_saved_words(const int32_t *from);

/* Sets the bits of the ids that may be drawn next: bits[(n_ids + 31) / 32]. Returns their number,
   LX_MASK_MANY for more, and, where it is 1, *only; or an error below 0. */
enum { LX_MASK_MANY = 64 };
int32_t lx_places_mask(lx_places *p, int32_t place, uint32_t *bits, int32_t *only);

#endif
