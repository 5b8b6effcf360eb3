/* Stop strings: where a text ends because it contains one of them. */
#ifndef LINNET_SERVER_ENGINE_STOPS_H
#define LINNET_SERVER_ENGINE_STOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/tasks/task.h"

/* A client may send LX_MAX_STOPS; a chat's template adds others after them. */
enum { LX_MAX_STOPS = 4, LX_MAX_ALL_STOPS = 9, LX_MAX_STOP_BYTES = 256 };

typedef struct lx_stops {
    int32_t n;      /* 0: none */
    int32_t n_kept; /* the first of them are a part of the answer that they end */
    struct lx_stop {
        size_t bytes; /* 1 .. LX_MAX_STOP_BYTES */
        char text[LX_MAX_STOP_BYTES];
    } stop[LX_MAX_ALL_STOPS];
} lx_stops;

/* Where the first stop string begins, or `bytes` when there is none. */
size_t lx_stops_find(const lx_stops *s, const char *text, size_t bytes);

/* The number of the first stop string in the text, -1: there is none. The answer ends before that
   string, or after it if it is kept. */
int32_t lx_stops_cut(const lx_stops *s, const char *text, size_t bytes, size_t *end);

/* Bytes of a text without stop strings that are settled: the rest may begin a stop string. */
size_t lx_stops_settled(const lx_stops *s, const char *text, size_t bytes);

/* The longest of them, 0 when there are none. */
size_t lx_stops_longest(const lx_stops *s);

/* The ends of the samples' texts, in which a stop string may have begun. Following a text allocates
   nothing. Thread: one at a time. */
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
