/* Reserved bytes (see budget.h). */
#include "common/budget.h"

#include <stdlib.h>

struct lx_reserve {
    lx_budget *budget;
    int64_t bytes;
    _Atomic int32_t refs;
};

void lx_budget_init(lx_budget *b, const char *flag, int64_t limit)
{
    b->flag = flag;
    atomic_init(&b->limit, limit);
    atomic_init(&b->used, 0);
    atomic_init(&b->refused, 0);
}

bool lx_budget_try(lx_budget *b, int64_t bytes)
{
    int64_t used = atomic_load(&b->used);
    do {
        if (bytes > atomic_load(&b->limit) - used) {
            atomic_fetch_add(&b->refused, 1);
            return false;
        }
    } while (!atomic_compare_exchange_weak(&b->used, &used, used + bytes));
    return true;
}

void lx_budget_release(lx_budget *b, int64_t bytes)
{
    atomic_fetch_sub(&b->used, bytes);
}

lx_status lx_reserve_new(lx_budget *b, int64_t bytes, const char *param, lx_reserve **out,
                         lx_error *err)
{
    lx_reserve *r = malloc(sizeof *r);
    if (r == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a request");
    if (!lx_budget_try(b, bytes)) {
        int64_t limit = atomic_load(&b->limit);
        free(r);
        if (bytes > limit)
            return lx_fail(err, LX_ERR_INVALID, param,
                           "%s: the request may need %lld bytes, but all requests together may "
                           "have %lld (--%s)",
                           param, (long long)bytes, (long long)limit, b->flag);
        return lx_fail(err, LX_ERR_BUSY, param,
                       "%s: the request may need %lld bytes, more than is free of the %lld bytes "
                       "for all requests (--%s)",
                       param, (long long)bytes, (long long)limit, b->flag);
    }
    r->budget = b;
    r->bytes = bytes;
    atomic_init(&r->refs, 1);
    *out = r;
    return LX_OK;
}

lx_reserve *lx_reserve_ref(lx_reserve *r)
{
    if (r != NULL)
        atomic_fetch_add(&r->refs, 1);
    return r;
}

void lx_reserve_unref(lx_reserve *r)
{
    if (r == NULL || atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    lx_budget_release(r->budget, r->bytes);
    free(r);
}
