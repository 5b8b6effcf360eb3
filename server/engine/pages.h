/*
 * The pool of pages of growing states: which pages are free, and which form chains. Their contents
 * are the back end's.
 *
 * A page knows the page before it, so a chain is named by its last page. Chains that begin alike
 * share their first pages. At most one chain gets tokens in a page, and those of the others come
 * first. A page is free again when the last chain with it is dropped.
 *
 * A job's length is known at its start, and lx_pages_reserve counts its pages off `left` then. A
 * page of several runs is reserved once. Kept states reserve nothing and give way, so reserved
 * pages are always there to be taken.
 *
 * Thread: one at a time, but `left` may be read by any.
 */
#ifndef LINNET_SERVER_ENGINE_PAGES_H
#define LINNET_SERVER_ENGINE_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Who has a chain: a run or a kept state. */
typedef enum lx_page_user { LX_PAGES_RUN, LX_PAGES_KEPT, LX_PAGE_USERS } lx_page_user;

typedef struct lx_pages {
    int32_t n;            /* in the pool; 0: no state grows */
    _Atomic int32_t left; /* not reserved */
    int32_t n_free;
    int32_t first_free;            /* -1: none */
    int32_t *before;               /* [n] -1: none; of a free page the next free one */
    int32_t n_used[LX_PAGE_USERS]; /* pages that chains of this user have */
    /* [n] chains of the user that end with the page, and pages of the user after it */
    int32_t *uses[LX_PAGE_USERS];
} lx_pages;

/* All are free. False without memory. */
bool lx_pages_init(lx_pages *p, int32_t n);
void lx_pages_fini(lx_pages *p);

/* n < 0 gives back. The caller has seen that so many are left. */
void lx_pages_reserve(lx_pages *p, int32_t n);

/* One more chain of the user with the same pages. Returns how many of these it had not used. */
int32_t lx_pages_share(lx_pages *p, lx_page_user user, int32_t chain);
/* Adds n free pages to the end of the user's chain (-1: an empty one) and returns the new chain. */
int32_t lx_pages_extend(lx_pages *p, lx_page_user user, int32_t chain, int32_t n);
/* Ends a chain of the user. Returns how many pages it does not use any more. */
int32_t lx_pages_drop(lx_pages *p, lx_page_user user, int32_t chain);
/* The chain without its last n pages. */
int32_t lx_pages_before(const lx_pages *p, int32_t chain, int32_t n);
/* Writes the pages of a chain of n to list[n]. */
void lx_pages_list(const lx_pages *p, int32_t chain, int32_t n, int32_t *list);

#endif
