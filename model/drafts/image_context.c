/*
 * Guesses a value of a picture from those around it and from the number that draws it: what most
 * often came last in the same surroundings, told apart to a few levels, by a number as large.
 * Surroundings repeat all the time in drawings: nothing around means nothing here, full ink around
 * means full ink. At an edge, where either may be, a small number chooses nothing and a large one
 * ink, whatever their probabilities are exactly.
 *
 * Of each surroundings one value is kept with a count of votes (Boyer and Moore's majority vote):
 * it gains one when it comes again and loses one when another does, and without any left it makes
 * place. The odds are those of the value that was there.
 */
#include "model/drafts/draft.h"
#include "model/tasks/image.h"

/* Levels of the values to the left, above, above right, above left, and two to the left. */
enum { FINE = 8, COARSE = 4, CHANNELS = 4 };
enum { CONTEXTS = FINE * FINE * FINE * COARSE * 2 * CHANNELS };
enum { PARTS = 16, DRAWS = LX_DRAW_ORDERS * PARTS };
enum { MOST_VOTES = 32 };

typedef struct entry {
    lx_odds odds;
    uint8_t value;
    int8_t votes;
} entry;

/* Where the parts of 0 to 1 begin that numbers are told apart by: what is rare is drawn by those
   near the ends. */
static const float parts[PARTS] = {0,    0.01f, 0.04f, 0.1f, 0.2f,  0.3f,  0.4f,  0.5f,
                                   0.6f, 0.7f,  0.8f,  0.9f, 0.96f, 0.98f, 0.99f, 0.996f};

static int32_t draw_of(lx_draw d)
{
    int32_t part = PARTS - 1;
    if (d.order == LX_DRAW_LIKELIEST)
        return 0;
    while (d.u < parts[part])
        part--;
    return (int32_t)d.order * PARTS + part;
}

/* None and full are levels of their own, for most of a drawing is one of them. */
static int32_t level(uint8_t value, int32_t levels)
{
    if (value == 0 || value >= 252)
        return value == 0 ? 0 : levels - 1;
    return 1 + value * (levels - 2) / 252;
}

/* The value at dy, dx of value t in its channel; 0 outside the picture. */
static uint8_t around(const lx_guess_context *c, int32_t t, int32_t dy, int32_t dx)
{
    const lx_config *image = &c->plan->model->config;
    int32_t channels = image->n_channels, pixel = t / channels;
    int32_t y = pixel / image->width + dy, x = pixel % image->width + dx;
    uint8_t value = 0;
    if (y < 0 || x < 0 || x >= image->width)
        return 0;
    int32_t at = (y * image->width + x) * channels + t % channels;
    lx_image_values(c->plan, c->tokens, at, at + 1, &value);
    return value;
}

static int32_t context_of(const lx_guess_context *c)
{
    int32_t t = lx_image_given(c->plan) + c->n;
    int32_t at = t % c->plan->model->config.n_channels % CHANNELS;
    at = at * FINE + level(around(c, t, 0, -1), FINE);
    at = at * FINE + level(around(c, t, -1, 0), FINE);
    at = at * FINE + level(around(c, t, -1, 1), FINE);
    at = at * COARSE + level(around(c, t, -1, -1), COARSE);
    at = at * 2 + (around(c, t, 0, -2) > 0);
    return at * DRAWS + draw_of(c->draw);
}

static lx_guess guess(const void *memory, const lx_guess_context *c)
{
    const entry *e = (const entry *)memory + context_of(c);
    return (lx_guess){e->value, e->odds.tries > 0 ? lx_odds_of(&e->odds) : 0};
}

static void learn(void *memory, const lx_guess_context *c, int32_t token)
{
    entry *e = (entry *)memory + context_of(c);
    bool same = e->value == token && e->odds.tries > 0;
    if (!same && e->votes == 0) {
        *e = (entry){.odds = {1, 3}, .value = (uint8_t)token, .votes = 1};
        return;
    }
    lx_odds_count(&e->odds, same);
    if (same)
        e->votes = (int8_t)(e->votes < MOST_VOTES ? e->votes + 1 : MOST_VOTES);
    else
        e->votes--;
}

const lx_guesser lx_guesser_image_context = {.name = "image_context",
                                             .memory_bytes = CONTEXTS * DRAWS * sizeof(entry),
                                             .guess = guess,
                                             .learn = learn};
