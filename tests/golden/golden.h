/* What the parts of the golden test share: each task compares a model with its fixture. */
#ifndef LINNET_TESTS_GOLDEN_GOLDEN_H
#define LINNET_TESTS_GOLDEN_GOLDEN_H

#include "model/transformer.h"

enum { GOLDEN_ROWS = 128 }; /* rows, and output rows, that the transformer allows a step */

/* Counts one comparison and says what failed. */
void golden_count(bool ok, const char *fmt, ...) LX_PRINTF(2, 3);

/* How many of n lines, images or an image's values to compare: the first quarter by the slow ones,
   the reference back end and plain C, which the others are tested against elsewhere. */
int32_t golden_part(int32_t n);

/* Compare the transformer's results with the fixture in `dir`; `what` names the back end. */
void golden_lines(lx_transformer *t, const char *dir, const char *what);
void golden_images(lx_transformer *t, const char *dir, const char *what);
/* The same of a model of speech; a back end without its kind must say so. */
void golden_sounds(const lx_model *model, lx_backend *be, const char *dir, const char *what);

#endif
