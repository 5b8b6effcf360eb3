/*
 * Choosing among the samples of a pool (lx_task_pool): how good a line is next to its likelihood,
 * and which of the good lines differ from each other. All functions are pure. Their weights stand
 * in one table, in nats per token, as the mean log-probability does. tests/quality/ measures them.
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

/* The part of the score for the answer's tones and words: 0 or less. */
double lx_judge_line(const lx_line_pair *pair);

/* What repeated and unsimplified characters add to a poem's score: 0 or less. */
double lx_judge_poem(const uint32_t *text, int32_t n);

/* Chooses k of n samples in turn. Each time it takes the best by its score, less for a beginning
 * like a chosen sample's and for each token shared with a chosen sample. Equal scores keep their
 * order. */
void lx_choose_diverse(lx_pool_sample *samples, int32_t n, int32_t k, int32_t *chosen);

#endif
