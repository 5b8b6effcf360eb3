/*
 * Choosing among the samples of a pool (lx_task_pool): how good a line is next to its likelihood,
 * and which of the good lines differ from each other. All functions are pure. Their weights stand
 * in one table, in nats per token, as the mean log-probability does; the weight of a review stands
 * in the task's pool. tests/quality/ measures them.
 */
#ifndef LINNET_MODEL_TASKS_CHOOSE_H
#define LINNET_MODEL_TASKS_CHOOSE_H

#include "model/tasks/task.h"

enum { LX_MOST_PAIRED = LX_MAX_BANNED / 2 };

/* A line of a couplet and its answer, as code points. */
typedef struct lx_line_pair {
    int32_t n; /* characters of each */
    uint32_t given[LX_MOST_PAIRED], answer[LX_MOST_PAIRED];
} lx_line_pair;

/* How much the answer's tones and words add to its score: 0 or less. */
double lx_judge_line(const lx_line_pair *pair);

/* How much repeated and unsimplified characters and missed rhymes add to a poem's score: 0 or less.
   `unrhymed` is the share of the form's rhymes that the poem misses, 0 to 1. */
double lx_judge_poem(const uint32_t *text, int32_t n, double unrhymed);

/* Lists the k best samples by score, best first, without the repetitions of equal ones. Returns how
   many there are. */
int32_t lx_choose_distinct(const lx_pool_sample *samples, int32_t n, int32_t k, int32_t *chosen);

/* Adds the weighted reviews to the scores. A sample without one gets the worst addition of all
   reviewed samples, so that no sample gains by having none. */
void lx_judge_reviews(lx_pool_sample *samples, int32_t n, double weight);

/* Chooses k of n samples in turn, k <= n: the best by its score, less for beginning like a
   chosen sample and for each token that it shares with one. Equal scores keep their order. */
void lx_choose_diverse(lx_pool_sample *samples, int32_t n, int32_t k, int32_t *chosen);

#endif
