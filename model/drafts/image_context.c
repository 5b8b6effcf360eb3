/*
 * Guesses a value of a picture from the values around it and from the number that draws it.
 * Surroundings repeat all the time in drawings: nothing around means nothing here, full ink around
 * means full ink. At an edge, where either may be, a small number chooses nothing and a large one
 * ink, whatever their probabilities are exactly.
 *
 * The values that pictures have most often are classes of a classifier, all others together its
 * last one, which is never guessed: of a hundred greys none is likely enough.
 */
#include <math.h>

#include "model/drafts/classifier.h"
#include "model/drafts/draft.h"
#include "model/tasks/image.h"

enum { FREQUENT = LX_CLASSIFIER_CLASSES - 1, VALUES = 256, CHANNELS = 3 };
enum { LEFT = 0, ABOVE = 3, NEAR = 12 };
enum { NEARLY_FULL = 250 };
enum { HALVE_AT = 1 << 15, MORE_OFTEN = 8 }; /* counts */

/* Where the values lie that a guess looks at: rows up, columns to the right. */
static const struct {
    int8_t dy, dx;
} near[NEAR] = {{0, -1},  {0, -2}, {0, -3}, {-1, 0},  {-1, -1}, {-1, 1},
                {-1, -2}, {-1, 2}, {-2, 0}, {-2, -1}, {-2, 1},  {-1, 3}};

/* The classifier's inputs: of each near value its size, whether it exists and whether it is nearly
 * full. Of two of them the class. The place, the channel, the channels before, the draw.
 */
enum {
    OF_CLASSES = 3 * NEAR,
    OF_PLACE = OF_CLASSES + 2 * LX_CLASSIFIER_CLASSES,
    OF_CHANNEL = OF_PLACE + 3,
    OF_DRAW = OF_CHANNEL + 2 * (CHANNELS - 1),
    INPUTS = OF_DRAW + 2 * LX_DRAW_ORDERS - 1
};
_Static_assert((int)INPUTS <= (int)LX_CLASSIFIER_INPUTS, "a classifier has room for these values");

typedef struct memory {
    lx_classifier classifier;
    int32_t n_frequent, frequent[FREQUENT]; /* tokens, by class */
    uint32_t counts[VALUES];                /* of each token */
} memory;

static int32_t class_of(const memory *m, int32_t token)
{
    int32_t k = 0;
    while (k < m->n_frequent && m->frequent[k] != token)
        k++;
    return k < m->n_frequent ? k : FREQUENT;
}

/* --- the inputs of a guess --- */

/* A place of the raster. */
typedef struct place {
    int32_t y, x, channel;
} place;

static place place_of(const lx_guess_context *c)
{
    const lx_image_config *image = lx_image_of(&c->plan->model->config);
    int32_t t = lx_image_given(c->plan) + c->n, pixel = t / image->n_channels;
    return (place){pixel / image->width, pixel % image->width, t % image->n_channels};
}

/* The value there; 0 outside the picture. */
static uint8_t value_at(const lx_guess_context *c, place p)
{
    const lx_image_config *image = lx_image_of(&c->plan->model->config);
    uint8_t value = 0;
    if (p.y < 0 || p.x < 0 || p.x >= image->width)
        return 0;
    int32_t at = (p.y * image->width + p.x) * image->n_channels + p.channel;
    lx_image_values(c->plan, c->tokens, at, at + 1, &value);
    return value;
}

static void describe_value(const memory *m, const lx_guess_context *c, place p, int32_t i, float *x)
{
    uint8_t v = value_at(c, (place){p.y + near[i].dy, p.x + near[i].dx, p.channel});
    x[3 * i] = (float)v / 255;
    x[3 * i + 1] = v > 0;
    x[3 * i + 2] = v >= NEARLY_FULL;
    if (i == LEFT || i == ABOVE) {
        int32_t class = class_of(m, lx_image_level(&c->plan->model->config, v));
        x[OF_CLASSES + (i == ABOVE ? LX_CLASSIFIER_CLASSES : 0) + class] = 1;
    }
}

/* A draw that sees probabilities knows u; as the classes' scores add up, its log-odds say most. */
static void describe_draw(lx_draw d, float *x)
{
    x[d.order] = 1;
    if (d.order != LX_DRAW_LIKELIEST)
        x[LX_DRAW_ORDERS - 1 + d.order] = logf((d.u + 1e-6f) / (1 - d.u + 1e-6f)) / 4;
}

static void describe(const memory *m, const lx_guess_context *c, float *x)
{
    const lx_image_config *image = lx_image_of(&c->plan->model->config);
    place p = place_of(c);
    for (int32_t i = 0; i < NEAR; i++)
        describe_value(m, c, p, i, x);
    x[OF_PLACE] = 1;
    x[OF_PLACE + 1] = (float)p.y / (float)image->height;
    x[OF_PLACE + 2] = (float)p.x / (float)image->width;
    if (p.channel > 0)
        x[OF_CHANNEL + p.channel - 1] = 1;
    for (int32_t k = 0; k < p.channel; k++)
        x[OF_CHANNEL + CHANNELS - 1 + k] = (float)value_at(c, (place){p.y, p.x, k}) / 255;
    describe_draw(c->draw, x + OF_DRAW);
}

/* --- the guesser --- */

static lx_guess guess(const void *memory_, const lx_guess_context *c)
{
    const memory *m = memory_;
    float x[LX_CLASSIFIER_INPUTS] = {0}, p[LX_CLASSIFIER_CLASSES];
    int32_t best = 0;
    if (m->n_frequent == 0)
        return (lx_guess){0, 0};
    describe(m, c, x);
    lx_classifier_odds(&m->classifier, x, p);
    for (int32_t k = 1; k < m->n_frequent; k++)
        best = p[k] > p[best] ? k : best;
    return (lx_guess){m->frequent[best], p[best]};
}

static int32_t rarest(const memory *m)
{
    int32_t least = 0;
    for (int32_t k = 1; k < FREQUENT; k++)
        least = m->counts[m->frequent[k]] < m->counts[m->frequent[least]] ? k : least;
    return least;
}

/* A token that came; one that comes much more often than a frequent one takes its class. */
static void count(memory *m, int32_t token)
{
    bool many = ++m->counts[token] == HALVE_AT;
    for (int32_t v = 0; many && v < VALUES; v++)
        m->counts[v] -= m->counts[v] / 2;
    if (class_of(m, token) < FREQUENT)
        return;
    if (m->n_frequent < FREQUENT) {
        m->frequent[m->n_frequent++] = token;
        return;
    }
    int32_t least = rarest(m);
    if (m->counts[token] > 2 * m->counts[m->frequent[least]] + MORE_OFTEN) {
        m->frequent[least] = token;
        lx_classifier_forget(&m->classifier, least);
    }
}

static void learn(void *memory_, const lx_guess_context *c, int32_t token)
{
    memory *m = memory_;
    float x[LX_CLASSIFIER_INPUTS] = {0};
    if (token >= VALUES)
        return;
    count(m, token);
    describe(m, c, x);
    lx_classifier_learn(&m->classifier, x, class_of(m, token));
}

const lx_guesser lx_guesser_image_context = {
    .name = "image_context", .memory_bytes = sizeof(memory), .guess = guess, .learn = learn};
