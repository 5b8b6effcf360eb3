/*
 * Scoring: the log-probability of given tokens under a model, from the same forward pass and the
 * same sampler that generate them (every output row is sampled with its token forced).
 */
#ifndef LINNET_MODEL_SCORE_H
#define LINNET_MODEL_SCORE_H

#include "model/tasks/task.h"
#include "model/transformer.h"

typedef struct lx_scorer lx_scorer;

/* One sequence to score: plan->n_new target tokens; logprobs[n_new] receives the result. */
typedef struct lx_score_item {
    const lx_plan *plan;
    const int32_t *targets;
    float *logprobs;
} lx_score_item;

/* Works in steps of at most max_tokens rows (which the transformer must allow, as output rows too)
   and on n_slots sequences at a time. The transformer must outlive the scorer. */
lx_status lx_scorer_new(lx_transformer *t, int32_t max_tokens, int32_t n_slots, lx_scorer **out,
                        lx_error *err) LX_MUST_USE;
void lx_scorer_free(lx_scorer *s); /* NULL is allowed */

/* Scores n items; any n. A sequence longer than max_tokens is split, to the same bits. */
lx_status lx_scorer_run(lx_scorer *s, const lx_score_item *items, int32_t n,
                        lx_error *err) LX_MUST_USE;

#endif
