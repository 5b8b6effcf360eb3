/* Chains of free and of taken pages through one array (see pages.h). */
#include "server/engine/pages.h"

#include <assert.h>
#include <stdlib.h>

bool lx_pages_init(lx_pages *p, int32_t n)
{
    *p = (lx_pages){.n = n, .first_free = -1};
    atomic_init(&p->left, n);
    if (n == 0)
        return true;
    p->next = calloc((size_t)n, sizeof *p->next);
    if (p->next == NULL)
        return false;
    for (int32_t i = n - 1; i >= 0; i--) {
        p->next[i] = p->first_free;
        p->first_free = i;
    }
    return true;
}

void lx_pages_fini(lx_pages *p)
{
    free(p->next);
}

void lx_pages_reserve(lx_pages *p, int32_t n)
{
    int32_t left = atomic_fetch_sub(&p->left, n) - n;
    assert(left >= 0 && left <= p->n);
    (void)left;
}

int32_t lx_pages_take(lx_pages *p, int32_t n, int32_t *list)
{
    int32_t chain = p->first_free, last = -1;
    for (int32_t i = 0; i < n; i++) {
        assert(p->first_free >= 0);
        last = list[i] = p->first_free;
        p->first_free = p->next[last];
    }
    if (last < 0)
        return -1;
    p->next[last] = -1;
    return chain;
}

int32_t lx_pages_free_chain(lx_pages *p, int32_t chain)
{
    int32_t n = 0;
    for (int32_t next; chain >= 0; chain = next, n++) {
        next = p->next[chain];
        p->next[chain] = p->first_free;
        p->first_free = chain;
    }
    return n;
}
