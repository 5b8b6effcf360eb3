/*
 * Whole models worked out in double, every token from all tokens before it, for the tests of kinds
 * of attention with equations of their own. A test adds the branches of the layers to the residual
 * streams; embeddings, final norm and head are shared.
 */
#ifndef LINNET_TESTS_SUPPORT_WHOLE_MODEL_H
#define LINNET_TESTS_SUPPORT_WHOLE_MODEL_H

#include "model/model.h"

enum { HEADS = 2, D = 12, FF = 20, ROWS = 40, V = 70, INPUTS = 4, WIDEST = 100 };

/* Residual streams, or products of them: one row per token. */
typedef double rows[ROWS][WIDEST];

/* Element i of NAME.SUFFIX of a layer; of the whole model where that is -1. A tensor that is not
   there fails the test. */
double whole_at(const lx_model *m, int32_t layer, const char *name, const char *suffix, int64_t i);
/* y = W x + b */
void whole_multiply(const lx_model *m, int32_t layer, const char *name, const double *x, double *y);
/* y = LayerNorm(x) of D numbers */
void whole_normalise(const lx_model *m, int32_t layer, const char *name, const double *x,
                     double *y);
double whole_dot(const double *a, const double *b, int32_t n);
/* Adds the feed-forward net of a layer to x. */
void whole_add_mlp(const lx_model *m, int32_t layer, rows x);

/* Compares logits of a model, with this text as `attention` in config.json, on the reference and
   on the cpu back end, with those of `add`, which adds all branches of its layers to x. */
void whole_check(const char *attention, int32_t n_layers, void (*add)(const lx_model *m, rows x));

#endif
