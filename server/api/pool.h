/*
 * Pools: a request for couplets or poems gets more samples than answers, and the task chooses among
 * them (lx_task_pool), unless the request sets how its samples are drawn. The best samples get a
 * review before the choice (review.h). See docs/http-api.md. Thread: any.
 */
#ifndef LINNET_SERVER_API_POOL_H
#define LINNET_SERVER_API_POOL_H

#include "server/api/generation.h"

/* Whether the request's answers are chosen from a pool. */
bool lx_pool_is_drawn(const lx_served_model *served, const lx_completion_params *p);

/* Gives the request the samples and temperatures of a pool: the usual number, or half of it until
   the pool fits, and at least the answers. A smaller pool is noted. `tokens`: new tokens of one
   sample of each prompt. */
void lx_pool_set_size(const lx_api *api, const lx_served_model *served, const lx_request *rq,
                      int64_t tokens, lx_completion_params *p);

/* How many samples of each prompt's pool get a review at most. */
int32_t lx_pool_reviews(const lx_model *model, const lx_completion_params *p);

/* Of finished work with a pool: the numbers of the k best samples, best first. */
lx_status lx_pool_choose(const lx_work *w, int32_t k, int32_t *chosen, lx_error *err) LX_MUST_USE;

#endif
