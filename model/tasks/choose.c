/* Choosing among the samples of a pool (see choose.h). */
#include "model/tasks/choose.h"

#include <string.h>

#include "model/characters.h"
#include "model/tones.h"
#include "model/utf8.h"

static const struct weights {
    double end;          /* the last characters of both lines have one tone */
    double contrast;     /* every second character has the tone of its partner: if all of them do */
    double stock;        /* each stock phrase */
    double distaste;     /* each word that readers do not want to see, unless they wrote it */
    double opening;      /* the first token is that of a chosen sample */
    double shared;       /* all tokens are those of a chosen sample; half of them cost a quarter */
    double equal;        /* the sample is a chosen one again */
    double repeated;     /* of a poem: all characters stood there before */
    double unsimplified; /* of a poem: each character in a form that is not simplified */
    double unrhymed;     /* of a poem: no line rhymes where its form has a rhyme */
} weights = {.end = 0.6,
             .contrast = 0.3,
             .stock = 0.2,
             .distaste = 1.5,
             .opening = 1.0,
             .shared = 1.6,
             .equal = 1e6,
             .repeated = 2,
             .unsimplified = 0.3,
             .unrhymed = 0.15};

/* Phrases of two to four characters that lines for any occasion are filled up with. */
static const char *const stock[] = {
    "福满门",   "福满堂",   "万象新",   "万事兴",   "满乾坤",   "万年春", "春满园",
    "万里春",   "万户欢",   "展宏图",   "报佳音",   "谱新篇",   "换新颜", "步步高",
    "万事如意", "国泰民安", "政通人和", "与时俱进", "和谐社会", "中国梦", "党恩",
    "小康",     "三农",     "党领航",   "反腐倡廉", "展新猷"};

/* Morbid and vulgar words. */
static const char *const distasteful[] = {"尸", "屎", "尿", "屁", "坟", "棺", "娼", "妓",
                                          "奸", "淫", "嫖", "丧", "死", "鬼", "贼", "葬",
                                          "殉", "骷", "裸", "乳", "奴", "狗", "屠", "绿帽"};

/* Whether the word stands in the text from place `at` on. */
static bool stands_at(const char *word, const uint32_t *text, int32_t n, int32_t at)
{
    size_t bytes = strlen(word);
    for (size_t from = 0; from < bytes; at++) {
        int32_t c = lx_utf8_next(word, bytes, &from);
        if (at >= n || text[at] != (uint32_t)c)
            return false;
    }
    return true;
}

static bool contains(const char *word, const uint32_t *text, int32_t n)
{
    for (int32_t at = 0; at < n; at++) {
        if (stands_at(word, text, n, at))
            return true;
    }
    return false;
}

/* How many of the words the answer has and the line before it has not. */
static int32_t count_words(const char *const *words, size_t n_words, const lx_line_pair *pair)
{
    int32_t n = 0;
    for (size_t i = 0; i < n_words; i++)
        n += contains(words[i], pair->answer, pair->n) && !contains(words[i], pair->given, pair->n);
    return n;
}

/* Whether both are level or both are oblique. */
static bool same_tone(uint32_t a, uint32_t b)
{
    lx_tone x = lx_tone_of(a), y = lx_tone_of(b);
    return x == y && (x == LX_TONE_LEVEL || x == LX_TONE_OBLIQUE);
}

/* The share of places 2, 4, 6 ... of each part between marks, but for its last place, where the
   tones do not contrast. */
static double flat_share(const lx_line_pair *pair)
{
    int32_t places = 0, flat = 0;
    for (int32_t i = 0, in_part = 0; i < pair->n; i++) {
        bool mark = lx_char_is_punctuation(pair->given[i]);
        in_part = mark ? 0 : in_part + 1;
        bool last = i + 1 == pair->n || lx_char_is_punctuation(pair->given[i + 1]);
        if (mark || last || in_part % 2 != 0)
            continue;
        places++;
        flat += same_tone(pair->given[i], pair->answer[i]);
    }
    return places > 0 ? (double)flat / places : 0;
}

double lx_judge_line(const lx_line_pair *pair)
{
    int32_t last = pair->n - 1;
    while (last > 0 && lx_char_is_punctuation(pair->given[last]))
        last--;
    bool flat_end = last >= 0 && same_tone(pair->given[last], pair->answer[last]);
    return -(flat_end ? weights.end : 0) - weights.contrast * flat_share(pair) -
           weights.stock * count_words(stock, sizeof stock / sizeof *stock, pair) -
           weights.distaste *
               count_words(distasteful, sizeof distasteful / sizeof *distasteful, pair);
}

double lx_judge_poem(const uint32_t *text, int32_t n, double unrhymed)
{
    int32_t n_words = 0, n_repeated = 0, n_unsimplified = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!lx_char_is_han(text[i]))
            continue;
        int32_t first = 0;
        while (text[first] != text[i])
            first++;
        n_words++;
        n_repeated += first < i;
        n_unsimplified += lx_simplified(text[i]) != text[i];
    }
    double share = n_words > 0 ? (double)n_repeated / n_words : 0;
    return -weights.repeated * share - weights.unsimplified * n_unsimplified -
           weights.unrhymed * unrhymed;
}

static bool are_equal(const lx_pool_sample *a, const lx_pool_sample *b)
{
    return a->n_tokens == b->n_tokens &&
           (a->n_tokens == 0 ||
            memcmp(a->tokens, b->tokens, (size_t)a->n_tokens * sizeof *a->tokens) == 0);
}

/* How much two samples are one. */
static double likeness(const lx_pool_sample *a, const lx_pool_sample *b)
{
    int32_t n = a->n_tokens < b->n_tokens ? a->n_tokens : b->n_tokens, shared = 0;
    if (are_equal(a, b))
        return weights.equal;
    for (int32_t i = 0; i < n; i++)
        shared += a->tokens[i] == b->tokens[i];
    bool opening = n > 0 && a->tokens[0] == b->tokens[0];
    double share = n > 0 ? (double)shared / n : 0;
    return (opening ? weights.opening : 0) + weights.shared * share * share;
}

/* The best sample by score after the first n_chosen, which is equal to none of these; -1: none. */
static int32_t next_distinct(const lx_pool_sample *samples, int32_t n, const int32_t *chosen,
                             int32_t n_chosen)
{
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++) {
        bool better = best < 0 || samples[i].score > samples[best].score;
        for (int32_t k = 0; k < n_chosen && better; k++)
            better = !are_equal(&samples[i], &samples[chosen[k]]);
        best = better ? i : best;
    }
    return best;
}

int32_t lx_choose_distinct(const lx_pool_sample *samples, int32_t n, int32_t k, int32_t *chosen)
{
    int32_t n_chosen = 0;
    while (n_chosen < k) {
        int32_t next = next_distinct(samples, n, chosen, n_chosen);
        if (next < 0)
            break;
        chosen[n_chosen++] = next;
    }
    return n_chosen;
}

void lx_judge_reviews(lx_pool_sample *samples, int32_t n, double weight)
{
    double least = 0;
    bool any = false;
    for (int32_t i = 0; i < n; i++) {
        double added = weight * samples[i].review;
        if (samples[i].reviewed && (!any || added < least))
            least = added;
        any = any || samples[i].reviewed;
    }
    for (int32_t i = 0; i < n; i++)
        samples[i].score += samples[i].reviewed ? weight * samples[i].review : least;
}

void lx_choose_diverse(lx_pool_sample *samples, int32_t n, int32_t k, int32_t *chosen)
{
    for (int32_t n_chosen = 0; n_chosen < k; n_chosen++) {
        int32_t best = -1;
        for (int32_t i = 0; i < n; i++) {
            const lx_pool_sample *s = &samples[i];
            bool better = best < 0 || s->score - s->like > samples[best].score - samples[best].like;
            if (!s->chosen && better)
                best = i;
        }
        samples[best].chosen = true;
        chosen[n_chosen] = best;
        for (int32_t i = 0; i < n; i++) {
            double like = likeness(&samples[i], &samples[best]);
            samples[i].like = like > samples[i].like ? like : samples[i].like;
        }
    }
}
