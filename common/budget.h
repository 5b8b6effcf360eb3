/*
 * A limit on bytes that many reserve before they take them, so that their sum has a maximum.
 *
 * A reservation is counted before the memory is allocated and given back after it is freed, so the
 * bytes in use never pass the limit. Thread: any; a budget is made before the server runs and then
 * shared by pointer.
 */
#ifndef LINNET_COMMON_BUDGET_H
#define LINNET_COMMON_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

typedef struct lx_budget {
    const char *flag; /* the option that sets the limit, for error texts; static */
    _Atomic int64_t limit;
    _Atomic int64_t used;
    _Atomic uint64_t refused; /* reservations that did not fit, then or ever */
} lx_budget;

void lx_budget_init(lx_budget *b, const char *flag, int64_t limit);
/* False, and counted as refused, when so many more bytes do not fit now. bytes >= 0. */
bool lx_budget_try(lx_budget *b, int64_t bytes);
void lx_budget_release(lx_budget *b, int64_t bytes);

/* A reservation that several hold; the last one to let go gives the bytes back. */
typedef struct lx_reserve lx_reserve;

/*
 * Reserves, for a request whose field `param` makes it so large.
 *   LX_ERR_INVALID  it would not fit an empty budget: the text says how much it needs and may have
 *   LX_ERR_BUSY     too few bytes are left at the moment
 *   LX_ERR_NO_MEMORY
 * The caller owns one reference.
 */
lx_status lx_reserve_new(lx_budget *b, int64_t bytes, const char *param, lx_reserve **out,
                         lx_error *err) LX_MUST_USE;
lx_reserve *lx_reserve_ref(lx_reserve *r); /* r; NULL is allowed */
void lx_reserve_unref(lx_reserve *r);      /* NULL is allowed */

#endif
