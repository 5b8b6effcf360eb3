/*
 * Numbers of JSON texts within bounds, as trees. They have at most 15 digits: decimals of so many
 * digits keep their order when they are read as doubles, so the bounds are exact.
 */
#ifndef LINNET_MODEL_GRAMMAR_JSON_NUMBERS_H
#define LINNET_MODEL_GRAMMAR_JSON_NUMBERS_H

#include "model/grammar/json_parts.h"

/* whole.fraction, whose digits end with none that is 0. */
typedef struct lx_decimal {
    bool negative;
    int64_t whole;
    char fraction[LX_JSON_MOST_DIGITS + 1];
} lx_decimal;

/* False: the number has more digits. */
bool lx_decimal_of(double x, lx_decimal *out);

/* The range of a number. A bound that is not set is as far away as the numbers' digits reach. */
typedef struct lx_json_bounds {
    lx_decimal low, high;
    bool has_low, has_high, above_low, below_high; /* above, below: the bound itself is left out */
} lx_json_bounds;

enum { LX_JSON_MOST_STEP = 100 };

/* Whole numbers that `step` divides: at most LX_JSON_MOST_STEP, not counting zeros at its end. The
   bounds have no fraction. */
int32_t lx_json_multiples(lx_ast *a, const lx_json_bounds *b, int64_t step);
/* Numbers with a fraction or without. */
int32_t lx_json_real(lx_ast *a, const lx_json_bounds *b);

#endif
