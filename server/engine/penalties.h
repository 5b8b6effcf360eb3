/*
 * Penalties on tokens that prompt and answer have already. Before token t of a sample is drawn, the
 * logit of id i is r(l[i]) + a[i] - frequency * c[i] - presence * (c[i] > 0), where
 *   - l are the logits and a the request's own biases
 *   - c[i] counts i among tokens 0 .. t - 1 of the answer and its history, without the prompt, as
 *     OpenAI defines it
 *   - r is Hugging Face's repetition penalty. For ids of prompt and answer, r(l) = l / repetition
 * if l > 0, else l * repetition. For other ids, r(l) = l.
 *
 * The penalties are a list of biases per sample (kernels/ops/sample/op.h), in f32, within
 * LX_MAX_BIAS. Counting allocates nothing. Thread: one at a time.
 */
#ifndef LINNET_SERVER_ENGINE_PENALTIES_H
#define LINNET_SERVER_ENGINE_PENALTIES_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

typedef struct lx_penalties lx_penalties;

typedef struct lx_penalties_params {
    int32_t n, max_new; /* samples, tokens of each at most */
    float frequency, presence;
    float repetition; /* 1: none; else a divisor as lx_bias has */
    const lx_bias *biases;
    int32_t n_biases;      /* ids ascending */
    const int32_t *prompt; /* [n_prompt] tokens, in any order; read with a repetition only */
    int32_t n_prompt;
} lx_penalties_params;

/* NULL without memory. */
lx_penalties *lx_penalties_new(const lx_penalties_params *params);
void lx_penalties_free(lx_penalties *p); /* NULL is allowed */
/* What lx_penalties_new allocates, at most. */
int64_t lx_penalties_bytes(const lx_penalties_params *params);

/* Sample i has one more of this token, which is at most its max_new-th. */
void lx_penalties_count(lx_penalties *p, int32_t i, int32_t token);
/* The list of sample i, *n of them, ids ascending; it is as it is until the next count. */
const lx_bias *lx_penalties_biases(const lx_penalties *p, int32_t i, int32_t *n);

#endif
