/*
 * Where stop strings may come to an end: of every sample's text the end in which one may have
 * begun. All room is taken at once, so that following a text allocates nothing. Thread: one at a
 * time.
 */
#ifndef LINNET_SERVER_ENGINE_STOP_TAILS_H
#define LINNET_SERVER_ENGINE_STOP_TAILS_H

#include "model/tasks/task.h"
#include "server/engine/stops.h"

typedef struct lx_stop_tails lx_stop_tails;

/* For n samples of the plan; stops, at least one, are borrowed. NULL without memory. */
lx_stop_tails *lx_stop_tails_new(const lx_plan *plan, int32_t n, const lx_stops *stops);
void lx_stop_tails_free(lx_stop_tails *t); /* NULL is allowed */
/* What lx_stop_tails_new allocates. */
int64_t lx_stop_tails_bytes(const lx_plan *plan, int32_t n, const lx_stops *stops);

/* Follows sample i by its token `step`: whether that completes a stop string. */
bool lx_stop_tails_follow(lx_stop_tails *t, int32_t i, int32_t step, const int32_t *tokens);
/* Whether no stop string has begun at the end of sample i. */
bool lx_stop_tails_settled(const lx_stop_tails *t, int32_t i);

#endif
