/*
 * Penalties on what an answer has already: before token t of a sample is drawn, the logit of id i
 * is, as OpenAI defines it,
 *   b[i] - frequency * c[i] - presence * (c[i] > 0)
 * with b the logits with the request's own biases and c[i] how often i is among tokens 0 .. t - 1
 * of the answer, its history included; the prompt does not count. The sum is a list of biases for
 * every sample (kernels/ops/sample/op.h), in f32, kept within LX_MAX_BIAS. Its room is taken at
 * once, so that counting allocates nothing. Thread: one at a time.
 */
#ifndef LINNET_SERVER_ENGINE_PENALTIES_H
#define LINNET_SERVER_ENGINE_PENALTIES_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

typedef struct lx_penalties lx_penalties;

/* For n samples of at most max_new tokens, whose biases are n_biases, ids ascending. NULL without
   memory. */
lx_penalties *lx_penalties_new(int32_t n, int32_t max_new, float frequency, float presence,
                               const lx_bias *biases, int32_t n_biases);
void lx_penalties_free(lx_penalties *p); /* NULL is allowed */
/* What lx_penalties_new allocates. */
int64_t lx_penalties_bytes(int32_t n, int32_t max_new, int32_t n_biases);

/* Sample i has one more of this token, which is at most its max_new-th. */
void lx_penalties_count(lx_penalties *p, int32_t i, int32_t token);
/* The list of sample i, *n of them, ids ascending; it is as it is until the next count. */
const lx_bias *lx_penalties_biases(const lx_penalties *p, int32_t i, int32_t *n);

#endif
