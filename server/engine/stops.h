/*
 * Stop strings: where a text ends because one of them stands in it. One that can never come is
 * allowed.
 */
#ifndef LINNET_SERVER_ENGINE_STOPS_H
#define LINNET_SERVER_ENGINE_STOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Where the answer ends: before the first stop string, or after it if that is kept. False when
   there is none. */
bool lx_stops_cut(const lx_stops *s, const char *text, size_t bytes, size_t *end);

/* How much of a text without stop strings is settled: what follows may be the beginning of one. */
size_t lx_stops_settled(const lx_stops *s, const char *text, size_t bytes);

/* The longest of them, 0 when there are none. */
size_t lx_stops_longest(const lx_stops *s);

#endif
