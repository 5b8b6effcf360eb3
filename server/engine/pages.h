/*
 * The pool of pages that growing states take: which are free, and which belong together. An index
 * alone; what is in a page is the back end's.
 *
 * A page knows the one before it, so a chain of pages is named by its last one, and chains that
 * begin alike have the pages of their beginning in common: full ones, which are only read. A page
 * is free again when the last chain that has it is dropped.
 *
 * A job's length is known before it begins, so its pages are counted then: `left` goes down with
 * lx_pages_reserve, and a run that has reserved pages may take as many. A page of several runs is
 * reserved once. What is kept for later prompts reserves nothing and gives way: so what is reserved
 * always fits.
 *
 * Thread: one at a time, but `left` may be read by any.
 */
#ifndef LINNET_SERVER_ENGINE_PAGES_H
#define LINNET_SERVER_ENGINE_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Whose a chain is. */
typedef enum lx_page_user { LX_PAGES_RUN, LX_PAGES_KEPT, LX_PAGE_USERS } lx_page_user;

typedef struct lx_pages {
    int32_t n;            /* in the pool; 0: no state grows */
    _Atomic int32_t left; /* not reserved */
    int32_t n_free;
    int32_t first_free;            /* -1: none */
    int32_t *before;               /* [n] -1: none; of a free page the next free one; owned */
    int32_t n_used[LX_PAGE_USERS]; /* pages that chains of this user have */
    /* [n] such chains that end with the page, and pages of them behind it; owned */
    int32_t *uses[LX_PAGE_USERS];
} lx_pages;

/* All are free. False without memory. */
bool lx_pages_init(lx_pages *p, int32_t n);
void lx_pages_fini(lx_pages *p);

/* Negative: gives back. The caller has seen that there are so many left. */
void lx_pages_reserve(lx_pages *p, int32_t n);

/* One more chain of the user with the same pages. Returns how many of them none of its had. */
int32_t lx_pages_share(lx_pages *p, lx_page_user user, int32_t chain);
/* Takes n pages, which are free, for the end of the user's chain; -1 is one without pages. Returns
   the longer chain in its place. */
int32_t lx_pages_extend(lx_pages *p, lx_page_user user, int32_t chain, int32_t n);
/* Ends a chain of the user. Returns how many pages none of its has any more. */
int32_t lx_pages_drop(lx_pages *p, lx_page_user user, int32_t chain);
/* The chain without its last n pages, of which it has so many. */
int32_t lx_pages_before(const lx_pages *p, int32_t chain, int32_t n);
/* Names the pages of a chain of n in list[n]. */
void lx_pages_list(const lx_pages *p, int32_t chain, int32_t n, int32_t *list);

#endif
