/* Shared by the parts of the golden test. Each task compares a model with its fixture. */
#ifndef LINNET_TESTS_GOLDEN_GOLDEN_H
#define LINNET_TESTS_GOLDEN_GOLDEN_H

#include "model/transformer.h"

enum { GOLDEN_ROWS = 128 }; /* rows, and output rows, that the transformer allows a step */

/* Counts one comparison and prints a failure. */
void golden_count(bool ok, const char *fmt, ...) LX_PRINTF(2, 3);

/* How many of n lines, images or values of an image to compare. The slow back ends (reference and
   plain C) compare the first quarter, because other tests compare them with the fast ones. */
int32_t golden_part(int32_t n);

/* Compare the transformer's results with the fixture in `dir`; `what` names the back end. */
void golden_lines(lx_transformer *t, const char *dir, const char *what);
void golden_images(lx_transformer *t, const char *dir, const char *what);
/* Compares a speech model with its fixture; a back end without its kind must return an error. */
void golden_sounds(const lx_model *model, lx_backend *be, const char *dir, const char *what);

#endif
