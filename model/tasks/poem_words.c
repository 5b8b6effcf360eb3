/* The words of a model of poems (see poem_words.h). */
#include "model/tasks/poem_words.h"

#include <stdlib.h>
#include <string.h>

#include "model/characters.h"
#include "model/utf8.h"

enum { MAX_CHARACTER = 4 };                /* bytes */
enum { LEAST_WORDS = 4, LARGE_GROUP = 8 }; /* rhymes of one group in a verse, and in a tune */
enum { ANY, LEVEL, OBLIQUE, N_TONES };

typedef struct rhyme_words {
    lx_rhymes *rhymes; /* NULL: none */
    int32_t n_groups;
    bool pure; /* all words of each group have one tone in common */
    int32_t counts[LX_MAX_RHYME_GROUPS + 1][N_TONES]; /* [n_groups], after that of all groups */
} rhyme_words;

typedef struct word {
    uint32_t codepoint; /* 0: the token is no word */
    bool variant;       /* an old form, and the vocabulary has the usual one */
} word;

struct lx_poem_words {
    rhyme_words tables[LX_RHYME_TABLES];
    int32_t n_words, n;
    word words[]; /* [n] tokens */
};

int32_t lx_poem_token_of(const lx_model *model, const char *text, size_t bytes)
{
    lx_token_list list;
    lx_error err = {0};
    lx_token_list_init(&list, MAX_CHARACTER);
    lx_status st = lx_tokenizer_encode(model->tokenizer, text, bytes, 0, &list, &err);
    int32_t id = st == LX_OK && list.status == LX_OK && list.n == 1 ? list.ids[0] : -1;
    lx_token_list_fini(&list);
    size_t n = 0;
    const char *token = id >= 0 ? lx_tokenizer_token(model->tokenizer, id, &n) : NULL;
    return token != NULL && n == bytes && memcmp(token, text, n) == 0 ? id : -1;
}

bool lx_poem_tone_fits(uint32_t codepoint, lx_tone tone)
{
    lx_tone own = lx_tone_of(codepoint);
    return tone == LX_TONE_UNKNOWN || own == tone || own == LX_TONE_BOTH;
}

static word word_of(const lx_model *model, int32_t id)
{
    size_t n = 0, at = 0;
    const char *text = lx_tokenizer_token(model->tokenizer, id, &n);
    if (text == NULL || n == 0 || lx_tokenizer_is_special(model->tokenizer, id))
        return (word){0};
    int32_t c = lx_utf8_next(text, n, &at);
    if (c < 0 || at != n || !lx_char_is_han((uint32_t)c))
        return (word){0};
    char simple[MAX_CHARACTER];
    uint32_t s = lx_simplified((uint32_t)c);
    bool variant = s != (uint32_t)c && lx_poem_token_of(model, simple, lx_utf8_put(s, simple)) >= 0;
    return (word){(uint32_t)c, variant};
}

static lx_tone tone_at(int32_t i)
{
    static const lx_tone tones[N_TONES] = {LX_TONE_UNKNOWN, LX_TONE_LEVEL, LX_TONE_OBLIQUE};
    return tones[i];
}

static int32_t index_of(lx_tone tone)
{
    return tone == LX_TONE_LEVEL ? LEVEL : tone == LX_TONE_OBLIQUE ? OBLIQUE : ANY;
}

/* Whether the token is a word that a poem may end a line with: in this tone. */
static bool fits(const lx_poem_words *w, int32_t id, int32_t tone)
{
    const word *one = &w->words[id];
    return one->codepoint != 0 && !one->variant && lx_poem_tone_fits(one->codepoint, tone_at(tone));
}

/* Whether the group has enough words to begin a poem's rhymes with. */
static bool is_large(const rhyme_words *t, int32_t group, int32_t tone)
{
    return t->counts[1 + group][tone] >= (tone == ANY ? LEAST_WORDS : LARGE_GROUP);
}

/* Most words of a group have one tone in common. The group does not rhyme in the other tone. */
static void count_rhymes(const lx_poem_words *w, rhyme_words *t)
{
    t->n_groups = lx_rhymes_groups(t->rhymes);
    t->pure = true;
    for (int32_t id = 0; id < w->n; id++) {
        int32_t group = lx_rhymes_group(t->rhymes, id);
        for (int32_t tone = 0; group >= 0 && tone < N_TONES; tone++)
            t->counts[1 + group][tone] += fits(w, id, tone);
    }
    for (int32_t group = 0; group < t->n_groups; group++) {
        int32_t *counts = t->counts[1 + group];
        counts[counts[LEVEL] >= counts[OBLIQUE] ? OBLIQUE : LEVEL] = 0;
        t->pure = t->pure && counts[LEVEL] + counts[OBLIQUE] == counts[ANY];
        for (int32_t tone = 0; tone < N_TONES; tone++)
            t->counts[0][tone] += is_large(t, group, tone) ? counts[tone] : 0;
    }
}

lx_status lx_poem_words_new(const lx_model *model, lx_rhymes *book, lx_poem_words **out,
                            lx_error *err)
{
    int32_t n = lx_tokenizer_size(model->tokenizer);
    lx_poem_words *w = calloc(1, sizeof *w + (size_t)n * sizeof *w->words);
    if (w == NULL) {
        lx_rhymes_free(book);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the words of poems");
    }
    w->tables[LX_RHYME_BOOK].rhymes = book;
    w->n = n;
    for (int32_t id = 0; id < n; id++) {
        w->words[id] = word_of(model, id);
        w->n_words += w->words[id].codepoint != 0;
    }
    lx_status st = lx_rhymes_modern(model->tokenizer, &w->tables[LX_RHYME_MODERN].rhymes, err);
    for (int32_t i = 0; st == LX_OK && i < LX_RHYME_TABLES; i++)
        count_rhymes(w, &w->tables[i]);
    if (st != LX_OK)
        lx_poem_words_free(w);
    else
        *out = w;
    return st;
}

void lx_poem_words_free(lx_poem_words *w)
{
    for (int32_t i = 0; w != NULL && i < LX_RHYME_TABLES; i++)
        lx_rhymes_free(w->tables[i].rhymes);
    free(w);
}

lx_status lx_poem_words_check(const lx_poem_words *w, lx_error *err)
{
    const rhyme_words *t = &w->tables[LX_RHYME_BOOK];
    if (w->n_words == 0)
        return lx_fail(err, LX_ERR_FORMAT, "tokenizer",
                       "the tokenizer of a model of poems has Chinese characters as tokens");
    for (int32_t i = 0; i < t->n_groups; i++) {
        if (t->counts[1 + i][ANY] < LEAST_WORDS)
            return lx_fail(err, LX_ERR_FORMAT, NULL,
                           "rhymes.txt, group %d: the vocabulary has %d of its characters, and a "
                           "poem needs %d",
                           i + 1, t->counts[1 + i][ANY], LEAST_WORDS);
    }
    return LX_OK;
}

const lx_rhymes *lx_poem_words_table(const lx_poem_words *w, lx_rhyme_table table)
{
    return w->tables[table].rhymes;
}

int32_t lx_poem_words_count(const lx_poem_words *w, lx_rhyme_table table, int32_t group,
                            lx_tone tone)
{
    return w->tables[table].counts[1 + group][index_of(tone)];
}

/* --- masks ---
 *
 * The first masks are for text and for words by tone. Then each table of rhymes has masks for its
 * large groups together, by tone, and for each group. A table that is not pure has more masks: for
 * each group in its tone.
 */

static int32_t masks_of(const rhyme_words *t)
{
    return t->rhymes != NULL ? N_TONES + t->n_groups * (t->pure ? 1 : 2) : 0;
}

int32_t lx_poem_words_masks(const lx_poem_words *w)
{
    return LX_MASK_WORDS + N_TONES + masks_of(&w->tables[LX_RHYME_BOOK]) +
           masks_of(&w->tables[LX_RHYME_MODERN]);
}

int32_t lx_poem_words_mask(lx_tone tone)
{
    return LX_MASK_WORDS + index_of(tone);
}

int32_t lx_poem_words_rhyme_mask(const lx_poem_words *w, lx_rhyme_table table, int32_t group,
                                 lx_tone tone)
{
    const rhyme_words *t = &w->tables[table];
    int32_t first = lx_poem_words_mask(LX_TONE_UNKNOWN) + N_TONES +
                    (table == LX_RHYME_MODERN ? masks_of(&w->tables[LX_RHYME_BOOK]) : 0);
    bool toned = tone != LX_TONE_UNKNOWN && !t->pure;
    return first + (group < 0 ? index_of(tone) : N_TONES + group + (toned ? t->n_groups : 0));
}

/* Bans words without a rhyme of this mask, the masks counted from the table's first. */
static void ban_rhymes(const lx_poem_words *w, const rhyme_words *t, int32_t mask, uint8_t *banned)
{
    int32_t wanted = (mask - N_TONES) % (t->n_groups > 0 ? t->n_groups : 1);
    bool together = mask < N_TONES, toned = mask >= N_TONES + t->n_groups;
    int32_t own = toned ? (t->counts[1 + wanted][LEVEL] > 0 ? LEVEL : OBLIQUE) : ANY;
    for (int32_t id = 0; id < w->n; id++) {
        int32_t group = lx_rhymes_group(t->rhymes, id);
        bool stays = group >= 0 && (together ? is_large(t, group, mask) && fits(w, id, mask)
                                             : group == wanted && fits(w, id, own));
        banned[id] = !stays;
    }
}

void lx_poem_words_fill(const lx_poem_words *w, int32_t mask, uint8_t *banned)
{
    int32_t tone = mask - LX_MASK_WORDS, rhyme = tone - N_TONES;
    int32_t n_book = masks_of(&w->tables[LX_RHYME_BOOK]);
    if (rhyme >= n_book)
        ban_rhymes(w, &w->tables[LX_RHYME_MODERN], rhyme - n_book, banned);
    else if (rhyme >= 0)
        ban_rhymes(w, &w->tables[LX_RHYME_BOOK], rhyme, banned);
    for (int32_t id = 0; rhyme < 0 && id < w->n; id++)
        banned[id] = !fits(w, id, tone);
}

void lx_poem_words_ban_variants(const lx_poem_words *w, uint8_t *banned)
{
    for (int32_t id = 0; id < w->n; id++)
        banned[id] = banned[id] || w->words[id].variant;
}
