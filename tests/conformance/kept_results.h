/*
 * Results of the oracle that are kept for the rest of the run: each back end under test gets the
 * same cases, whose results in double take longer than its own.
 */
#ifndef LINNET_TESTS_CONFORMANCE_KEPT_RESULTS_H
#define LINNET_TESTS_CONFORMANCE_KEPT_RESULTS_H

#include "conformance.h"

/* Continues the hash with n floats; several times as fast as hash_bytes. */
uint64_t hash_floats(uint64_t hash, const float *x, int64_t n);

/* The results of a case: the oracle's rows and states, and the sizes by which errors of them are
   measured. Cases of which `key`, a hash of all inputs, is equal have equal results. */
typedef struct results {
    double *y_scale, *state_scale;
    float *y, *state;
    size_t n_bytes; /* of all four, which lie together */
    uint64_t key;
    bool known; /* else the test computes them, and calls keep_results */
} results;

results results_of(uint64_t key, int64_t n_y, int64_t n_state);
void keep_results(const results *r);

#endif
