/* Shared by the tests of `sample` and `sample_mixture`. */
#ifndef LINNET_TESTS_CONFORMANCE_SAMPLING_H
#define LINNET_TESTS_CONFORMANCE_SAMPLING_H

#include "conformance.h"

/* Samples every row of logits [rows, n_ids]. */
bool sample_logits(device *d, const float *logits, int32_t rows, int32_t n_ids,
                   const lx_sampling *how, lx_sample *out);

/* One row's parameters of a mixture of logistics. */
typedef struct mixture {
    int32_t k, levels;
    float *p; /* [3 k]: logits, means, log scales */
} mixture;

typedef enum shape { FLAT, NARROW, OUTSIDE, EXTREME, SHAPES } shape;

/* One of n values. */
float any_of(rng *r, const float *values, uint32_t n);
mixture random_mixture(rng *r, int32_t k, int32_t levels, shape s);

/* A batch of one sequence, all of whose n rows are outputs. */
lx_batch *one_sequence(int32_t n);

/* Runs a step with `in` as parameters. out [n + 2]: the results, between two that stay. */
bool run_mixtures(device *d, const lx_array *in, int32_t k, int32_t levels, lx_batch *batch,
                  const lx_sampling *how, lx_sample *out);
/* Rows of parameters p [rows, 3 k]; also sees that the device leaves them alone. */
bool sample_mixtures(device *d, const float *p, int32_t k, int32_t levels, lx_batch *batch,
                     const lx_sampling *how, lx_sample *out);
bool sample_one_mixture(device *d, const mixture *x, lx_sampling how, lx_sample *out);
/* The same parameters in every row; from the arena. */
float *repeat_mixture(const mixture *x, int32_t rows);

/* p[levels]: the probabilities as docs/numerics.md has them, in long double. */
void text_probabilities(const mixture *x, float temperature, double *p);

#endif
