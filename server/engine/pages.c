/* Chains that share their beginnings, counted (see pages.h). */
#include "server/engine/pages.h"

#include <assert.h>
#include <stdlib.h>

static void make_free(lx_pages *p, int32_t page)
{
    p->before[page] = p->first_free;
    p->first_free = page;
    p->n_free++;
}

bool lx_pages_init(lx_pages *p, int32_t n)
{
    *p = (lx_pages){.n = n, .first_free = -1};
    atomic_init(&p->left, n);
    if (n == 0)
        return true;
    p->before = calloc((size_t)n * (1 + LX_PAGE_USERS), sizeof *p->before);
    if (p->before == NULL)
        return false;
    for (int user = 0; user < LX_PAGE_USERS; user++)
        p->uses[user] = p->before + (size_t)n * (size_t)(user + 1);
    for (int32_t i = n - 1; i >= 0; i--)
        make_free(p, i);
    return true;
}

void lx_pages_fini(lx_pages *p)
{
    free(p->before);
}

void lx_pages_reserve(lx_pages *p, int32_t n)
{
    int32_t left = atomic_fetch_sub(&p->left, n) - n;
    assert(left >= 0 && left <= p->n);
    (void)left;
}

int32_t lx_pages_share(lx_pages *p, lx_page_user user, int32_t chain)
{
    int32_t n = 0;
    for (; chain >= 0 && p->uses[user][chain]++ == 0; chain = p->before[chain])
        n++;
    p->n_used[user] += n;
    return n;
}

int32_t lx_pages_extend(lx_pages *p, lx_page_user user, int32_t chain, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t page = p->first_free;
        assert(page >= 0);
        p->first_free = p->before[page];
        p->before[page] = chain;
        p->uses[user][page] = 1; /* the chain's, or that of the page after it */
        chain = page;
    }
    p->n_free -= n;
    p->n_used[user] += n;
    return chain;
}

int32_t lx_pages_drop(lx_pages *p, lx_page_user user, int32_t chain)
{
    int32_t n = 0;
    for (int32_t before; chain >= 0 && --p->uses[user][chain] == 0; chain = before, n++) {
        bool used = false;
        before = p->before[chain];
        for (int other = 0; other < LX_PAGE_USERS; other++)
            used = used || p->uses[other][chain] > 0;
        if (!used)
            make_free(p, chain);
    }
    p->n_used[user] -= n;
    return n;
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
