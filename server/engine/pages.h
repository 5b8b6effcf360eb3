/*
 * The pool of pages that growing states take: which are free, and which belong together. An index
 * alone; what is in a page is the back end's.
 *
 * A job's length is known before it begins, so its pages are counted then: `left` goes down with
 * lx_pages_reserve, and a run that has reserved pages may take as many. What is reserved always
 * fits.
 *
 * Thread: one at a time, but `left` may be read by any.
 */
#ifndef LINNET_SERVER_ENGINE_PAGES_H
#define LINNET_SERVER_ENGINE_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct lx_pages {
    int32_t n;            /* in the pool; 0: no state grows */
    _Atomic int32_t left; /* not reserved */
    int32_t first_free;   /* -1: none */
    int32_t *next;        /* [n] the page behind it in its chain, -1 at the end; owned */
} lx_pages;

/* All are free. False without memory. */
bool lx_pages_init(lx_pages *p, int32_t n);
void lx_pages_fini(lx_pages *p);

/* Negative: gives back. The caller has seen that there are so many left. */
void lx_pages_reserve(lx_pages *p, int32_t n);
/* Takes n that were reserved, names them in list[n] and returns their chain, -1 for n = 0. */
int32_t lx_pages_take(lx_pages *p, int32_t n, int32_t *list);
/* Makes a chain's pages free; they stay reserved. Returns how many they are. */
int32_t lx_pages_free_chain(lx_pages *p, int32_t chain);

#endif
