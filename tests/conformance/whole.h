/*
 * Shared by the tests of operations that read whole sequences: a comparison with the oracle, and
 * the law that neighbours do not matter. y is NaN before the operation writes it.
 */
#ifndef LINNET_TESTS_CONFORMANCE_WHOLE_H
#define LINNET_TESTS_CONFORMANCE_WHOLE_H

#include "conformance.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

typedef struct whole {
    const void *c; /* the case: sizes */
    int64_t x_width, y_width;
    /* Fills rows of x. */
    void (*fill)(rng *r, const void *c, pattern p, float *x, int32_t rows);
    /* Queues the operation between begin and end. x: [rows, x_width], y: [rows, y_width]. */
    void (*queue)(device *d, const void *c, const lx_array *x, lx_array *y, int32_t rows);
    /* For a sequence: the size that the error of every element of y is measured by. */
    void (*scales)(const void *c, const float *x, int32_t rows, double *scale);
    double bound; /* of an error by that */
} whole;

/* A step of these sequences; y: [their rows, y_width]. */
bool whole_run(device *d, const whole *op, int32_t n_seqs, const int32_t *length, const float *x,
               float *y);

/* Compares sequences of many lengths, in every pattern, with the oracle's. */
bool whole_matches_oracle(device *dut, device *oracle, const whole *op, rng *r);
/* Each of them alone: the same bytes; they go into *hash. */
bool whole_is_equal_alone(device *dut, const whole *op, rng *r, uint64_t *hash);
/* A step of one sequence of so many rows is refused, with this word in the error. */
bool whole_is_refused(device *dut, int32_t rows, const char *word, const void *args,
                      void (*queue)(device *d, const void *args));

#endif
