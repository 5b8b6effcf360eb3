/*
 * The words of a model of poems: which tokens are one Chinese character, in which tone, and how
 * they rhyme; and the masks that leave only some of them. Immutable once made; any thread may ask.
 *
 * There are two tables of rhymes. The table of the model's folder (rhymes.txt) may be missing. The
 * table of modern Mandarin has the 14 groups of 中华新韵, each once for level and once for oblique
 * tones.
 */
#ifndef LINNET_MODEL_TASKS_POEM_WORDS_H
#define LINNET_MODEL_TASKS_POEM_WORDS_H

#include "model/model.h"
#include "model/rhymes.h"
#include "model/tones.h"

typedef enum lx_rhyme_table { LX_RHYME_BOOK, LX_RHYME_MODERN, LX_RHYME_TABLES } lx_rhyme_table;

typedef struct lx_poem_words lx_poem_words;

/* `book` becomes a part of *out, also after a failure; NULL: the folder has no table. */
lx_status lx_poem_words_new(const lx_model *model, lx_rhymes *book, lx_poem_words **out,
                            lx_error *err) LX_MUST_USE;
void lx_poem_words_free(lx_poem_words *w); /* NULL is allowed */

/* Whether there are words, and each group of the folder's table has enough for a poem. */
lx_status lx_poem_words_check(const lx_poem_words *w, lx_error *err) LX_MUST_USE;

const lx_rhymes *lx_poem_words_table(const lx_poem_words *w, lx_rhyme_table table);

/* How many words rhyme in this group, group -1: in any large group of the table; in this tone, or
   in any (LX_TONE_UNKNOWN). A word with readings in both tones counts for both. */
int32_t lx_poem_words_count(const lx_poem_words *w, lx_rhyme_table table, int32_t group,
                            lx_tone tone);

/* Masks. The first leaves all text, and the others leave words: of one tone, or with a rhyme, by
   table, group and tone as above. */
enum { LX_MASK_TEXT, LX_MASK_WORDS };
int32_t lx_poem_words_masks(const lx_poem_words *w);
int32_t lx_poem_words_mask(lx_tone tone);
int32_t lx_poem_words_rhyme_mask(const lx_poem_words *w, lx_rhyme_table table, int32_t group,
                                 lx_tone tone);
/* For all masks but that of text. */
void lx_poem_words_fill(const lx_poem_words *w, int32_t mask, uint8_t *banned);
/* Bans characters in an old form where the vocabulary has the usual one. */
void lx_poem_words_ban_variants(const lx_poem_words *w, uint8_t *banned);

/* The token that is this text and nothing else, -1: there is none. */
int32_t lx_poem_token_of(const lx_model *model, const char *text, size_t bytes);
/* Whether a place of this tone may have the character. LX_TONE_UNKNOWN: any character. */
bool lx_poem_tone_fits(uint32_t codepoint, lx_tone tone);

#endif
