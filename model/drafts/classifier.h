/*
 * A classifier of two layers that learns while it is asked: h = max(W1 x, 0), p = softmax(W2 h +
 * b), by the gradient of -log p of what came, an example at a time (Adagrad; Duchi et al. 2011). It
 * learns from a few thousand examples; a table of all its inputs would need millions. Its memory
 * fits a processor's cache.
 */
#ifndef LINNET_MODEL_DRAFTS_CLASSIFIER_H
#define LINNET_MODEL_DRAFTS_CLASSIFIER_H

#include <stdbool.h>
#include <stdint.h>

enum { LX_CLASSIFIER_INPUTS = 64, LX_CLASSIFIER_HIDDEN = 16, LX_CLASSIFIER_CLASSES = 7 };

/* Numbers with the sums of their squared gradients; all zero: nothing was learnt. */
typedef struct lx_classifier {
    float in[LX_CLASSIFIER_INPUTS][LX_CLASSIFIER_HIDDEN];
    float in_squares[LX_CLASSIFIER_INPUTS][LX_CLASSIFIER_HIDDEN];
    float out[LX_CLASSIFIER_CLASSES][LX_CLASSIFIER_HIDDEN];
    float out_squares[LX_CLASSIFIER_CLASSES][LX_CLASSIFIER_HIDDEN];
    float bias[LX_CLASSIFIER_CLASSES], bias_squares[LX_CLASSIFIER_CLASSES];
    bool begun;
} lx_classifier;

/* Fills p[LX_CLASSIFIER_CLASSES] with the classes' probabilities given x[LX_CLASSIFIER_INPUTS],
   most of which may be 0; before anything was learnt all are alike. */
void lx_classifier_odds(const lx_classifier *c, const float *x, float *p);

/* Given x, the class was `class`. */
void lx_classifier_learn(lx_classifier *c, const float *x, int32_t class);

/* The class gets a new meaning: the classifier forgets its weights. */
void lx_classifier_forget(lx_classifier *c, int32_t class);

#endif
