/* Chains that share their beginnings, counted (see pages.h). */
#include "server/engine/pages.h"

#include <assert.h>
#include <stdlib.h>

static void make_free(lx_pages *p, int32_t page)
{
    p->before[page] = p->first_free;
    p->first_free = page;
}

bool lx_pages_init(lx_pages *p, int32_t n)
{
    *p = (lx_pages){.n = n, .first_free = -1};
    atomic_init(&p->left, n);
    if (n == 0)
        return true;
    p->before = calloc((size_t)n, sizeof *p->before);
    p->uses = calloc((size_t)n, sizeof *p->uses);
    if (p->before == NULL || p->uses == NULL)
        return false;
    for (int32_t i = n - 1; i >= 0; i--)
        make_free(p, i);
    return true;
}

void lx_pages_fini(lx_pages *p)
{
    free(p->before);
    free(p->uses);
}

void lx_pages_reserve(lx_pages *p, int32_t n)
{
    int32_t left = atomic_fetch_sub(&p->left, n) - n;
    assert(left >= 0 && left <= p->n);
    (void)left;
}

int32_t lx_pages_take(lx_pages *p, int32_t base, int32_t n)
{
    int32_t last = base;
    if (base >= 0)
        p->uses[base]++;
    for (int32_t i = 0; i < n; i++) {
        int32_t page = p->first_free;
        assert(page >= 0);
        p->first_free = p->before[page];
        p->before[page] = last;
        p->uses[page] = 1; /* the next one's, or the chain's */
        last = page;
    }
    return last;
}

void lx_pages_drop(lx_pages *p, int32_t chain)
{
    int32_t n = 0;
    for (int32_t before; chain >= 0 && --p->uses[chain] == 0; chain = before, n++) {
        before = p->before[chain];
        make_free(p, chain);
    }
    lx_pages_reserve(p, -n);
}

int32_t lx_pages_before(const lx_pages *p, int32_t chain, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        chain = p->before[chain];
    return chain;
}

void lx_pages_list(const lx_pages *p, int32_t chain, int32_t n, int32_t *list)
{
    for (int32_t i = n - 1; i >= 0; i--, chain = p->before[chain])
        list[i] = chain;
}
