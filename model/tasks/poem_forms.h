/*
 * Forms of Chinese poems. A form says how long each line is, which mark follows it, and which lines
 * rhyme with each other. A form of regulated verse (格律诗) also says the tone of each place. Pure
 * functions over constant tables. Thread: any.
 *
 * Regulated verse has four kinds of lines, which take turns. A pattern is named after the tone of
 * the second character of the poem: level (平起) or oblique (仄起). The first line of a poem with 7
 * characters per line rhymes, and that of a poem with 5 does not. Places 1, 3 and 5
 * are free, as usual. They are not free where a line could get a lone level character (孤平) or
 * three equal tones at its end.
 *
 * The tunes (词牌) are the common patterns of the lyrics of the Song. Their lines have no tones
 * here but those of the rhymes.
 */
#ifndef LINNET_MODEL_TASKS_POEM_FORMS_H
#define LINNET_MODEL_TASKS_POEM_FORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/tones.h"

enum { LX_POEM_MAX_LINES = 20, LX_POEM_MAX_PLACES = 120, LX_POEM_MAX_ACROSTIC = 8 };

typedef enum lx_poem_pattern {
    LX_PATTERN_NONE,
    LX_PATTERN_LEVEL,
    LX_PATTERN_OBLIQUE,
    LX_PATTERNS
} lx_poem_pattern;

typedef struct lx_poem_line {
    int32_t begin, chars; /* its first place in the poem; its mark is at begin + chars */
    bool stops;           /* 。 follows the line, otherwise ， */
    bool repeats;         /* the line is the line before it, again */
    int32_t rhyme;        /* lines with the same number rhyme; 0: the line does not rhyme */
    lx_tone rhyme_tone;   /* LX_TONE_UNKNOWN: of any tone */
    const char
        *tones; /* a letter per character: p level (平), z oblique (仄), . free; NULL: free */
} lx_poem_line;

typedef struct lx_poem_form {
    const char *name;
    int32_t index; /* in the table of forms */
    int32_t n_lines, n_places;
    bool is_tune, has_repeats;
    lx_poem_line lines[LX_POEM_MAX_LINES];
} lx_poem_form;

/* Form i of the table with this pattern, which a tune does not have; false: there is no such form.
 */
bool lx_poem_form_make(int32_t i, lx_poem_pattern pattern, lx_poem_form *out);
/* The form of this name, -1: there is none. */
int32_t lx_poem_form_find(const char *name);
/* Whether this is the name of a tune. */
bool lx_poem_form_is_tune(const char *name);
/* All names, and those of the forms that are no tunes, with ", " between them: for messages. */
const char *lx_poem_form_names(void);
const char *lx_poem_verse_names(void);

/* The line of a place. */
const lx_poem_line *lx_poem_line_at(const lx_poem_form *form, int32_t place);
/* The tone that the form asks of a place; LX_TONE_UNKNOWN: any, or the place has a mark. */
lx_tone lx_poem_tone_at(const lx_poem_form *form, int32_t place);

#endif
