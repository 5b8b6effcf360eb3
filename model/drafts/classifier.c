#include "model/drafts/classifier.h"

#include <math.h>
#include <string.h>

#include "kernels/philox.h"

enum { INPUTS = LX_CLASSIFIER_INPUTS, HIDDEN = LX_CLASSIFIER_HIDDEN };
enum { CLASSES = LX_CLASSIFIER_CLASSES };

#define RATE 0.08f   /* of six tried on pictures of digits, 0.04 to 0.15 are alike */
#define SMALL 0.001f /* added to the root of a sum of squares */
#define FADE 0.9999f /* the share of that sum that each example keeps: old examples count less */
#define SURE 0.999f  /* an example that was predicted almost surely teaches nothing */
#define SPREAD_IN 0.6f
#define SPREAD_OUT 0.4f

static void hidden_of(const lx_classifier *c, const float *x, float *h)
{
    float sums[HIDDEN] = {0};
    for (int32_t i = 0; i < INPUTS; i++) {
        if (x[i] == 0) /* most are, where nothing is drawn */
            continue;
        for (int32_t j = 0; j < HIDDEN; j++)
            sums[j] += x[i] * c->in[i][j];
    }
    for (int32_t j = 0; j < HIDDEN; j++)
        h[j] = sums[j] > 0 ? sums[j] : 0;
}

static void softmax(const lx_classifier *c, const float *h, float *p)
{
    float most = -INFINITY, sum = 0;
    for (int32_t k = 0; k < CLASSES; k++) {
        p[k] = c->bias[k];
        for (int32_t j = 0; j < HIDDEN; j++)
            p[k] += c->out[k][j] * h[j];
        most = p[k] > most ? p[k] : most;
    }
    for (int32_t k = 0; k < CLASSES; k++)
        sum += p[k] = expf(p[k] - most);
    for (int32_t k = 0; k < CLASSES; k++)
        p[k] /= sum;
}

void lx_classifier_odds(const lx_classifier *c, const float *x, float *p)
{
    float h[HIDDEN];
    hidden_of(c, x, h);
    softmax(c, h, p);
}

/* Small numbers, none like another: units that begin alike would stay so. */
static void begin(lx_classifier *c)
{
    for (uint32_t i = 0; i < INPUTS; i++) {
        for (uint32_t j = 0; j < HIDDEN; j++)
            c->in[i][j] = SPREAD_IN * (lx_uniform(0, i, j, 0) - 0.5f);
    }
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t j = 0; j < HIDDEN; j++)
            c->out[k][j] = SPREAD_OUT * (lx_uniform(1, k, j, 0) - 0.5f);
    }
    c->begun = true;
}

static void move(float *w, float *squares, const float *gradient, int32_t n)
{
    for (int32_t j = 0; j < n; j++) {
        squares[j] = squares[j] * FADE + gradient[j] * gradient[j];
        w[j] -= RATE * gradient[j] / (sqrtf(squares[j]) + SMALL);
    }
}

void lx_classifier_learn(lx_classifier *c, const float *x, int32_t class)
{
    float h[HIDDEN], p[CLASSES], back[HIDDEN] = {0}, gradient[HIDDEN];
    if (!c->begun)
        begin(c);
    hidden_of(c, x, h);
    softmax(c, h, p);
    if (p[class] > SURE)
        return;
    p[class] -= 1; /* now the gradient of the classes' scores */
    for (int32_t k = 0; k < CLASSES; k++) {
        for (int32_t j = 0; j < HIDDEN; j++) {
            back[j] += h[j] > 0 ? p[k] * c->out[k][j] : 0;
            gradient[j] = p[k] * h[j];
        }
        move(c->out[k], c->out_squares[k], gradient, HIDDEN);
    }
    move(c->bias, c->bias_squares, p, CLASSES);
    for (int32_t i = 0; i < INPUTS; i++) {
        if (x[i] == 0)
            continue;
        for (int32_t j = 0; j < HIDDEN; j++)
            gradient[j] = x[i] * back[j];
        move(c->in[i], c->in_squares[i], gradient, HIDDEN);
    }
}

void lx_classifier_forget(lx_classifier *c, int32_t class)
{
    memset(c->out[class], 0, sizeof c->out[class]);
    memset(c->out_squares[class], 0, sizeof c->out_squares[class]);
    c->bias[class] = c->bias_squares[class] = 0;
}
