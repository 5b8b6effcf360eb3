/*
 * Stop strings: where a text ends because one of them stands in it. A stop string is never part of
 * the answer; one that can never come is allowed.
 */
#ifndef LINNET_SERVER_ENGINE_STOPS_H
#define LINNET_SERVER_ENGINE_STOPS_H

#include <stddef.h>
#include <stdint.h>

enum { LX_MAX_STOPS = 4, LX_MAX_STOP_BYTES = 256 };

typedef struct lx_stops {
    int32_t n; /* 0: none */
    struct lx_stop {
        size_t bytes; /* 1 .. LX_MAX_STOP_BYTES */
        char text[LX_MAX_STOP_BYTES];
    } stop[LX_MAX_STOPS];
} lx_stops;

/* Where the first stop string begins, or `bytes` when there is none. */
size_t lx_stops_find(const lx_stops *s, const char *text, size_t bytes);

/* How much of a text without stop strings is settled: what follows may be the beginning of one. */
size_t lx_stops_settled(const lx_stops *s, const char *text, size_t bytes);

/* The longest of them, 0 when there are none. */
size_t lx_stops_longest(const lx_stops *s);

#endif
